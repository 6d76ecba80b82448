// Checks the constraints of a rule against a match, and binds its list slots (x[0], x[1], x...).
#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/rules/annotation_rule.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

std::string dtype_objection(const std::vector<DType>& wanted, const Value& value) {
  if (wanted.empty()) return {};
  if (value.meta && std::ranges::find(wanted, value.meta->dtype) != wanted.end()) return {};
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
    if (std::ranges::find(wanted, groups) == wanted.end())
      return fmt::format("%{} has groups={}, want {}", node->name(), groups,
                         fmt::join(wanted, " or "));
  }
  return {};
}

constexpr size_t kMostDigits = 3;

// All slots that the rule names anywhere.
std::vector<std::string> named_slots(const AnnotationRule& rule) {
  std::vector<std::string> slots;
  const auto add_sources = [&](const SlotSpec& cell) {
    if (const DerivedFrom* derived = std::get_if<DerivedFrom>(&cell))
      slots.insert(slots.end(), derived->slots.begin(), derived->slots.end());
    if (const SameAs* same = std::get_if<SameAs>(&cell)) slots.push_back(same->slot);
  };
  for (const auto& [slot, cell] : rule.inputs) {
    slots.push_back(slot);
    add_sources(cell);
  }
  add_sources(rule.output);
  std::ranges::for_each(rule.outputs, add_sources);
  for (const auto& [slot, constraint] : rule.constraints.slots) slots.push_back(slot);
  slots.insert(slots.end(), rule.owned.begin(), rule.owned.end());
  slots.insert(slots.end(), rule.marked.begin(), rule.marked.end());
  return slots;
}

}  // namespace

const TensorConstraint* RuleConstraints::find(std::string_view slot) const {
  const auto found =
      std::ranges::find_if(slots, [&](const auto& entry) { return entry.first == slot; });
  return found == slots.end() ? nullptr : &found->second;
}

std::string objection(const RuleConstraints& constraints, ConstantValues& constants,
                      const Match& match) {
  for (const auto& [slot, constraint] : constraints.slots)
    for (const Value* value : match.find_all(slot))
      if (const std::string reason = tensor_objection(constraint, constants, *value);
          !reason.empty())
        return fmt::format("input %{} {} (constraint of slot {})", value->name(), reason, slot);
  if (constraints.output)
    for (const Value* output : match.root->outputs())
      if (const std::string reason = tensor_objection(*constraints.output, constants, *output);
          !reason.empty())
        return fmt::format("output %{} {} (constraint of the output)", output->name(), reason);
  return groups_objection(constraints.groups, match);
}

std::optional<SlotElement> parse_slot_element(std::string_view text) {
  const size_t open = text.find('[');
  if (open == 0 || open == std::string_view::npos || !text.ends_with(']')) return std::nullopt;
  const std::string_view digits = text.substr(open + 1, text.size() - open - 2);
  const bool is_plain = !digits.empty() && digits.size() <= kMostDigits &&
                        (digits == "0" || digits.front() != '0') &&
                        digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_plain) return std::nullopt;
  SlotElement result{std::string(text.substr(0, open))};
  std::from_chars(digits.data(), digits.data() + digits.size(), result.element);
  return result;
}

bool is_slot_of(const Pattern& pattern, std::string_view slot) {
  if (pattern.find_variable(slot) != nullptr) return true;
  const std::optional<SlotElement> element = parse_slot_element(slot);
  const PatternVariable* list = element ? pattern.find_variable(element->slot) : nullptr;
  return list != nullptr && list->is_list;
}

std::string bind_elements(const AnnotationRule& rule, Match& match) {
  for (const std::string& name : named_slots(rule)) {
    const std::optional<SlotElement> element = parse_slot_element(name);
    if (!element) continue;
    const std::vector<Value*>& values = match.find_all(element->slot);
    if (element->element >= values.size())
      return fmt::format("row {} names {}, and {} has {} element{}", rule.name, name, element->slot,
                         values.size(), values.size() == 1 ? "" : "s");
    Value* value = values[element->element];
    // an edge is a value and its user: the same value cannot have two specs
    if (std::ranges::count(values, value) > 1)
      return fmt::format("row {} names {}, whose value %{} is in the list twice", rule.name, name,
                         value->name());
    match.bindings[name] = {value};
    match.consumers[name] = match.consumer(element->slot);
  }
  return {};
}

std::vector<Value*> rest_of(const AnnotationRule& rule, const std::string& slot,
                            const Match& match) {
  const std::vector<Value*>& all = match.find_all(slot);
  std::vector<Value*> rest;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string own = fmt::format("{}[{}]", slot, i);
    const bool has_own =
        std::ranges::any_of(rule.inputs, [&](const auto& cell) { return cell.first == own; });
    if (!has_own) rest.push_back(all[i]);
  }
  return rest;
}

}  // namespace octet
