// The rows of the integer reference representation: a pattern of dequantize - op - quantize and
// what it becomes. Products are rounded to int32, as the q/dq graph rounds. torchao's arithmetic,
// on the patterns that it knows, cuts them off.
#pragma once

#include <span>
#include <string_view>

#include "annotate/annotation/compat.h"
#include "core/graph/graph.h"
#include "core/pattern/pattern.h"

namespace octet {

struct ReferenceRule {
  std::string_view name;
  // `{q|dq}...` as core/pattern/pattern.h writes them; "" for the rows that match single q and dq
  // ops
  std::string_view pattern;
  bool in_torchao = false;  // false: not with Compat::kTorchao
  // The value that replaces the result of the match's root; null, with nothing added, when the row
  // does not apply after all.
  Value* (*build)(Graph& graph, const Match& match, Compat compat);
};

// In the order of application: larger patterns first.
std::span<const ReferenceRule> compute_reference_rules();
// linear over torchao's affine ops: per-token int8 activations chosen at run time, int4 weights in
// groups.
Value* build_reference_int4_linear(Graph& graph, const Match& match, Compat compat);
// The same activations, int8 weights per tensor or per channel.
Value* build_reference_token_linear(Graph& graph, const Match& match, Compat compat);
// Whether the constant holds integers that are all 0.
bool is_all_zero(const Graph& graph, const Value* value);
// The integer form of one quantize or dequantize; null when its dtype has none.
Value* build_reference_quantize(Graph& graph, Node& quantize, Compat compat);
Value* build_reference_dequantize(Graph& graph, Node& dequantize, Compat compat);

}  // namespace octet
