// Conditions of a row said as data: what its tensors and its op must be for the row to take a
// match, and what it asks of the result.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation/quant_limits.h"
#include "core/pattern/pattern.h"

namespace octet {

class ConstantValues;  // annotate/graph/constant_subgraph.h

// Of each value that a slot binds, or of the pattern's result; empty fields ask nothing.
struct TensorConstraint {
  std::vector<DType> dtypes = {};  // in the float graph
  std::optional<int> min_rank = {};
  std::optional<int> max_rank = {};
  bool one_user = false;     // no other op reads it, and it is no output of the graph
  bool is_constant = false;  // a parameter, buffer or constant, or computed from those alone
  QuantLimits limits = {};   // of its spec and scale: decide nothing here, see check_limits.h
};

struct RuleConstraints {
  // absent optional slots meet everything
  std::vector<std::pair<std::string, TensorConstraint>> slots = {};
  std::optional<TensorConstraint> output = {};
  // of each matched op that has the argument: one of these; empty: any
  std::vector<int64_t> groups = {};

  const TensorConstraint* find(std::string_view slot) const;
};

// Why the row does not take the match, in words that complete "stayed float: ..."; empty: it does.
// What is not known (the rank of a value without meta) does not meet a constraint. `constants`: of
// the graph that the match is in.
std::string objection(const RuleConstraints& constraints, ConstantValues& constants,
                      const Match& match);

}  // namespace octet
