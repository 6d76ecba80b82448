// The table of the integer reference representation (representation.h): patterns of dequantize - op
// - quantize and the integer ops that replace them. Products are rounded to int32 like in the q/dq
// graph; torchao's arithmetic, for the patterns that it knows, truncates them.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "core/graph/graph.h"
#include "core/pattern/pattern.h"

namespace octet {

struct ReferenceRule {
  std::string_view name;
  // in the notation of core/pattern/pattern.h; "" for rows that match single q and dq ops
  std::string_view pattern;
  bool in_torchao = false;  // false: not applied with Compat::kTorchao
  // Returns the value that replaces the result of the match's root; null, with nothing added, when
  // the row does not apply after all.
  Value* (*build)(Graph& graph, const Match& match, Compat compat);
};

// In the order of application: larger patterns first.
std::span<const ReferenceRule> compute_reference_rules();
// A linear of torchao's affine ops: int8 activations quantized per token at run time, int4 weights
// in groups.
Value* build_reference_int4_linear(Graph& graph, const Match& match, Compat compat);
// A linear with such activations and int8 weights per tensor or per channel.
Value* build_reference_token_linear(Graph& graph, const Match& match, Compat compat);
// Whether the value is a constant of integers that are all 0.
bool is_all_zero(const Graph& graph, const Value* value);
// The integer form of a quantize or dequantize; null when its dtype has none.
Value* build_reference_quantize(Graph& graph, Node& quantize, Compat compat);
Value* build_reference_dequantize(Graph& graph, Node& dequantize, Compat compat);

// Adds ops before a node and computes the types of their results.

class Emitter {
 public:
  // New nodes are inserted before `before`, with the module and stack trace of `source`.
  Emitter(Graph& graph, Node& before, const Node& source)
      : graph_(graph), before_(before), source_(source) {}

  Value* call(const std::string& target, std::vector<NamedArgument> arguments,
              std::optional<TensorMeta> meta);
  // out_dtype(op, int32, operands...): the op computes in a sufficiently wide type and its result
  // is truncated to int32.
  Value* call_int32(const std::string& op, std::vector<Argument> operands,
                    std::optional<TensorMeta> meta);

  Value* cast(Value* value, DType dtype);
  Value* clamp(Value* value, int64_t min, int64_t max);
  Value* round(Value* value);
  Value* unsqueeze_last(Value* value);
  Value* transpose(Value* value, int64_t first, int64_t second);
  // op: "add", "sub", "mul" or "div". At least one side is a Value; the other may be a number.
  Value* binary(const std::string& op, Argument left, Argument right);
  // binary() on scales, where two numbers give their float32 result without an op.
  Argument scale(const std::string& op, const Argument& left, const Argument& right);

 private:
  Graph& graph_;
  Node& before_;
  const Node& source_;
};

}  // namespace octet
