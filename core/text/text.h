// A Graph as text and back. Weights are not in the text: the names, shapes and dtypes of constants
// are.
//
//   graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3], %n = buffer "bn.mean": f32[4]):
//     %y: f32[1,4,6,6] = aten.conv2d.default(%x, %w, None, [1, 1])
//     %v: f32[1,4,6], %i: i64[1,4,6] = aten.max.dim(%y, 3)
//     [%a: f32[1,2,6], %b: f32[1,2,6]] = aten.split.Tensor(%v, 2, 1)
//     return (%a, mutate "bn.mean" = %n)
//
// An argument is written without its name while it is the next one in the op's schema, else as
// `name=value`. White space and line ends have no meaning to the parser; `#` starts a comment.
//   types      f32[2,3]. A symbolic size is {"expression": value seen at export}. What is unusual
//              follows: {1,2} strides, @4 storage offset, on "cuda:0", layout.mkldnn, grad / nograd
//              (parameters have grad by default, others not). Of symbols: int, float, bool;
//              int{"Symbol('s0')": 2} with expression and hint. Of others: object "class", token,
//              none.
//   inputs     %x: type; %x = param|buffer|local_buffer|tensor|object "fqn": type; %x = const
//              VALUE; %x = input VALUE (a user input that is a literal)
//   outputs    %x, a literal, mutate "fqn" = %x (buffers), mutate_param "fqn" = %x, mutate_input
//              "name" = %x, loss %x, token %x, grad_param "fqn" = %x, grad_input "name" = %x
//   results    %a, %b = several; [%a, %b] a list; optional[%a, None] a list with gaps;
//              literal(VALUE). A node is named like its only result, else like its op, unless `as
//              name` follows the call.
//   literals   None 1 1.5 inf nan True "text" f32 (a dtype) [1, 2] [%a, None] [[1], [2]]
//              complex(1.0, 2.0) sym(1) memory_format.channels_last layout.strided device("cpu")
//              op("aten.add.Tensor") optional(%x) {"key": value} and a subgraph: graph "name"
//              (...): ... return (...). A list that looks like another kind has its kind in front:
//              floats[] strings[] bools[] values[] optionals[%a] sym_ints[1] sym_floats[..]
//              sym_bools[..] int_lists[] float_lists[..] nested[..].
#pragma once

#include "core/graph/graph.h"

namespace octet {

struct TextOptions {
  // false: omit the types of results and inputs, for short expectations in tests
  bool types = true;
};

// Printing, parsing and printing again gives the same text. Metadata of nodes and data of constants
// are not included.
std::string to_text(const Graph& graph, const TextOptions& options = {});

// One node as in the text of its graph, without indentation.
std::string to_text(const Node& node);

// Parameters, buffers and tensor constants get zero-filled tensors of their type. A result without
// a type has no meta. An op may omit its overload: "default" is used when the arguments fit it,
// else the only one that they fit. Throws Error("text", "line 3", ...).
Graph parse_graph(std::string_view text);

}  // namespace octet
