// Which value of one program is which of another: by the handles that passes hand on
// (core/graph/origin.h), else by name and op.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/origin.h"

namespace octet {

// A value of the subject and the one of the reference that it stands for: subject = reference /
// factors.
struct Twin {
  const Value* reference = nullptr;
  const Value* subject = nullptr;
  ChannelFactors factors = {};  // empty shape: none
  // the reference's nodes that the subject's producer stands for, in its order; empty for inputs
  std::vector<std::string> members = {};
};

struct Twins {
  std::vector<Twin> pairs;  // in the subject's order, user inputs first; of tensors of any dtype
  // Ops of the subject that compute and have no twin, in its order; quantize and dequantize ops and
  // what chooses their parameters are not among them.
  std::vector<const Node*> lonely;

  const Twin* find(const Value* subject) const;  // null when it has none

 private:
  friend Twins find_twins(const Graph& reference, const Graph& subject);
  std::unordered_map<const Value*, size_t> by_subject_;
};

// The user outputs that are float tensors, in their order.
std::vector<const Value*> float_outputs(const Graph& graph);

// Bodies of control flow are one op each. Throws Error("compare", ...) when the programs take other
// inputs, or when more than half of the ops that compute have no twin: it names the first of them.
Twins find_twins(const Graph& reference, const Graph& subject);

}  // namespace octet
