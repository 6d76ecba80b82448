#include "annotate/rules/rule_constraints.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/constant_subgraph.h"
#include "core/ops/op_schema.h"

namespace octet {

namespace {

std::string dtype_objection(const std::vector<DType>& wanted, const Value& value) {
  if (wanted.empty()) return {};
  if (value.meta && std::find(wanted.begin(), wanted.end(), value.meta->dtype) != wanted.end())
    return {};
  std::vector<std::string_view> names;
  for (DType one : wanted) names.push_back(name_of(one));
  return fmt::format("is {}, want {}", value.meta ? name_of(value.meta->dtype) : "of unknown dtype",
                     fmt::join(names, " or "));
}

std::string rank_objection(const TensorConstraint& constraint, const Value& value) {
  if (!constraint.min_rank && !constraint.max_rank) return {};
  if (!value.meta) return "has an unknown rank";
  const int rank = static_cast<int>(value.meta->sizes.size());
  if (constraint.min_rank && rank < *constraint.min_rank)
    return fmt::format("has rank {}, want at least {}", rank, *constraint.min_rank);
  if (constraint.max_rank && rank > *constraint.max_rank)
    return fmt::format("has rank {}, want at most {}", rank, *constraint.max_rank);
  return {};
}

std::string tensor_objection(const TensorConstraint& constraint, ConstantValues& constants,
                             const Value& value) {
  if (const std::string reason = dtype_objection(constraint.dtypes, value); !reason.empty())
    return reason;
  if (const std::string reason = rank_objection(constraint, value); !reason.empty()) return reason;
  if (constraint.one_user && !value.has_one_user())
    return fmt::format("has {} users{}, want one", value.users().size(),
                       value.is_output() ? " and is an output" : "");
  if (constraint.is_constant && !constants.contains(&value))
    return "is computed at run time, want a constant";
  return {};
}

std::string groups_objection(const std::vector<int64_t>& wanted, const Match& match) {
  if (wanted.empty()) return {};
  for (const Node* node : match.nodes) {
    const OpSchema* schema = find_op_schema(node->target());
    if (node->find_argument("groups") == nullptr &&
        (schema == nullptr || schema->find("groups") == nullptr))
      continue;
    const int64_t groups = node->int_or("groups", 1);
    if (std::find(wanted.begin(), wanted.end(), groups) == wanted.end())
      return fmt::format("%{} has groups={}, want {}", node->name(), groups,
                         fmt::join(wanted, " or "));
  }
  return {};
}

}  // namespace

const TensorConstraint* RuleConstraints::find(std::string_view slot) const {
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const auto& entry) { return entry.first == slot; });
  return found == slots.end() ? nullptr : &found->second;
}

std::string objection(const RuleConstraints& constraints, ConstantValues& constants,
                      const Match& match) {
  for (const auto& [slot, constraint] : constraints.slots)
    for (const Value* value : match.find_all(slot))
      if (const std::string reason = tensor_objection(constraint, constants, *value);
          !reason.empty())
        return fmt::format("input %{} {} (constraint of slot {})", value->name(), reason, slot);
  const Value* output = match.root->output_or_null();
  if (constraints.output && output != nullptr)
    if (const std::string reason = tensor_objection(*constraints.output, constants, *output);
        !reason.empty())
      return fmt::format("output %{} {} (constraint of the output)", output->name(), reason);
  return groups_objection(constraints.groups, match);
}

}  // namespace octet
