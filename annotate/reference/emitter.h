// Adds the ops of the integer reference representation in front of a node, with the types of their
// results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

class Emitter {
 public:
  // New nodes stand before `before` and carry the module and stack trace of `source`.
  Emitter(Graph& graph, Node& before, const Node& source)
      : graph_(graph), before_(before), source_(source) {}

  Value* call(const std::string& target, std::vector<NamedArgument> arguments,
              std::optional<TensorMeta> meta);
  // out_dtype(op, int32, operands...): the op computes in a type wide enough for int32 and its
  // result is cut off to int32.
  Value* call_int32(const std::string& op, std::vector<Argument> operands,
                    std::optional<TensorMeta> meta);

  Value* cast(Value* value, DType dtype);
  Value* clamp(Value* value, int64_t min, int64_t max);
  Value* round(Value* value);
  Value* unsqueeze_last(Value* value);
  Value* transpose(Value* value, int64_t first, int64_t second);
  // op is "add", "sub", "mul" or "div". A Value or a number on either side, a Value on one at
  // least.
  Value* binary(const std::string& op, Argument left, Argument right);
  // The same on scales: two numbers give their float32 result without an op.
  Argument scale(const std::string& op, const Argument& left, const Argument& right);

 private:
  Graph& graph_;
  Node& before_;
  const Node& source_;
};

}  // namespace octet
