// Matches the values of one program with those of another made from the same model: by the handles
// that passes carry along (core/graph/origin.h), else by name and op.
#pragma once

#include "core/graph/graph.h"
#include "core/graph/origin.h"

namespace octet {

// A value of the subject and the value of the reference that corresponds to it: subject = reference
// / factors.
struct Twin {
  const Value* reference = nullptr;
  const Value* subject = nullptr;
  ChannelFactors factors = {};  // empty shape: none
  // the reference's nodes that the subject's producer replaces, in order; empty for inputs
  std::vector<std::string> members = {};
};

struct Twins {
  std::vector<Twin> pairs;  // in the subject's order, user inputs first; tensors of any dtype
  // Compute ops of the subject without a twin, in its order. Quantize and dequantize ops and those
  // that choose their parameters do not count.
  std::vector<const Node*> lonely;

  const Twin* find(const Value* subject) const;  // null: no twin

 private:
  friend Twins find_twins(const Graph& reference, const Graph& subject);
  std::unordered_map<const Value*, size_t> by_subject_;
};

// The user outputs that are float tensors, in order.
std::vector<const Value*> float_outputs(const Graph& graph);

// A body of control flow counts as one op. Throws Error("compare", ...) when the programs take
// different inputs, or when more than half of the compute ops have no twin; it names the first of
// them.
Twins find_twins(const Graph& reference, const Graph& subject);

}  // namespace octet
