// Looks up schemas of ops by target: argument names, types and defaults, and overloads. They come
// from the LibTorch dispatcher, but this header needs no torch.
#pragma once

#include "core/graph/graph.h"

namespace octet {

struct SchemaArgument {
  std::string name;
  // as the schema writes it: "Tensor", "Tensor?", "int[2]", "SymInt[]", "ScalarType?", "Scalar",
  // ...
  std::string type;
  bool kwarg_only = false;
  bool is_write = false;  // the op writes into it: self of an in-place op, out
  bool has_default = false;
  // None without a default; numbers stay ints and floats, ScalarType and the like are c10's ints
  Argument default_value;
};

struct OpSchema {
  std::string name;      // "aten::conv2d"
  std::string overload;  // "" for "default"
  std::vector<SchemaArgument> arguments;
  std::vector<std::string> returns;  // types

  const SchemaArgument* find(std::string_view argument_name) const;
  bool is_mutable() const;  // writes into one of its arguments
};

// "aten.conv2d.default", "quantized_decomposed.quantize_per_tensor.tensor", ... Null when no loaded
// library registers the op, and for targets that are not dispatcher ops ("_operator.add",
// "higher_order.cond"). The pointer stays valid; thread-safe.
const OpSchema* find_op_schema(std::string_view target);

// All overloads of "aten.max" in the dispatcher, sorted: {"aten.max.default", "aten.max.dim", ...}.
std::vector<std::string> overloads_of(std::string_view op);

// Chooses the overload of an op written without one: ".default" when that fits, else the only
// overload that the arguments fit (positional ones have an empty name), else ".default" when
// nothing fits. Returns "" when it is ambiguous, with the candidates in `candidates`.
std::string choose_overload(std::string_view op, const std::vector<NamedArgument>& arguments,
                            std::vector<std::string>* candidates);

}  // namespace octet
