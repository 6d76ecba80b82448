// Two programs and the shadows of one of them as a single graph, so that one run gives both and
// compares each op while its tensors are alive:
//
//   reference   x -> conv2d -> relu -> conv2d_1 ...
//   subject     x -> q/dq -> conv2d' -> relu' -> q/dq -> conv2d_1' ...
//   shadows     conv2d'(x), q/dq(relu'(conv2d)), conv2d_1'(relu), ...: each op of the subject on
//               what the reference gives
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "annotate/compare/twins.h"
#include "core/graph/graph.h"

namespace octet {

// A node that hands its tensors to whoever runs the graph: (row, reference, subject, isolated,
// before), where the last two may be None. It gives nothing.
inline constexpr const char* kCompareTarget = "octet.compare";

// How a value is rounded right behind the op that makes it: per tensor, with literals.
struct OutputRounding {
  double scale = 1;
  int64_t zero_point = 0;
  int64_t quant_min = 0, quant_max = 0;
  DType dtype = DType::kInt8;

  double least() const { return (static_cast<double>(quant_min - zero_point)) * scale; }
  double greatest() const { return (static_cast<double>(quant_max - zero_point)) * scale; }
};

// What is compared: a float value of the subject, behind its quantize and dequantize where nobody
// reads it without.
struct ShadowRow {
  Twin twin = {};                   // of the two programs given
  const Value* compared = nullptr;  // of the subject: the twin's, or that value dequantized
  std::optional<OutputRounding> rounding = {};  // where it is dequantized
  bool has_shadow = false;
};

struct ShadowGraph {
  Graph graph;  // its user inputs are the programs'
  std::vector<ShadowRow> rows;
  // each value of the two programs in `graph`
  std::unordered_map<const Value*, Value*> copies;
};

struct ShadowOptions {
  bool shadows = true;  // false: the two programs alone
  // Later ops of the reference read a copy of what was compared, so that ops in place leave it and
  // gradients reach it; shadows read it without.
  bool gradients = false;
};

// Rows in the subject's order, views and copies without rounding left out. Both programs must
// outlive what is returned. Constants are shared with them. Throws what find_twins() throws.
ShadowGraph make_shadow_graph(const Graph& reference, const Graph& subject, const Twins& twins,
                              const ShadowOptions& options = {});

// The reference's float outputs and behind them the subject's become outputs of the common graph.
// Returns how many each has. Throws Error("compare", ...) when these are not as many.
size_t add_float_outputs(ShadowGraph& shadow, const Graph& reference, const Graph& subject);

}  // namespace octet
