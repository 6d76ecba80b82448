// Reads constraints, and checks them against each other and against the specs of their row.
#include "quantizers/json/patterns.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/rules/annotation_rule.h"
#include "core/ops/op_schema.h"
#include "quantizers/json/specs.h"

namespace octet {

namespace {

// clang-format off
constexpr const char* kTensorKeys[] = {
    "dtype", "rank", "min_rank", "max_rank", "one_user", "is_constant", "quantized_dtype",
    "quant_min_lower_bound", "quant_max_upper_bound", "scale_min_lower_bound",
    "scale_max_upper_bound", "scale_exact_match", "zero_point_exact_match"};
// clang-format on
constexpr std::array<const char*, 1> kOpKeys = {"groups"};
constexpr const char* kOutputKey = "output";
constexpr const char* kOpKey = "op";
constexpr int kMaxRank = 64;

// Reads a value or a non-empty list of values.
template <typename T, typename Read>
std::vector<T> one_or_list(const Place& place, const char* wanted, const Read& read) {
  if (!place.value.is_array()) return {read(place)};
  if (place.value.empty()) place.want(wanted);
  std::vector<T> values;
  for (size_t i = 0; i < place.value.size(); ++i) values.push_back(read(place.at(i)));
  return values;
}

std::optional<int> rank_at(const Place& place, const char* key) {
  return place.has(key) ? std::optional(static_cast<int>(int_in(place.at(key), 0, kMaxRank)))
                        : std::nullopt;
}

void read_ranks(const Place& place, TensorConstraint& constraint) {
  constraint.min_rank = rank_at(place, "min_rank");
  constraint.max_rank = rank_at(place, "max_rank");
  if (!place.has("rank")) {
    if (constraint.min_rank && constraint.max_rank && *constraint.min_rank > *constraint.max_rank)
      place.refuse(
          fmt::format("min_rank {} lies above max_rank {}, want a range that some rank meets",
                      *constraint.min_rank, *constraint.max_rank));
    return;
  }
  if (constraint.min_rank || constraint.max_rank)
    place.refuse("has both rank and min_rank or max_rank, want one or the other");
  constraint.min_rank = constraint.max_rank = rank_at(place, "rank");
}

template <typename T>
void require_order(const Place& place, const char* low_key, const std::optional<T>& low,
                   const char* high_key, const std::optional<T>& high) {
  if (low && high && *low > *high)
    place.refuse(fmt::format("{} {:g} lies above {} {:g}, want a range that some value meets",
                             low_key, static_cast<double>(*low), high_key,
                             static_cast<double>(*high)));
}

QuantLimits limits_at(const Place& place) {
  QuantLimits limits;
  limits.place = place.text();
  const auto read_int = [&](const char* key) {
    return place.has(key) ? std::optional(int_at(place.at(key))) : std::nullopt;
  };
  const auto read_scale = [&](const char* key) {
    return place.has(key) ? std::optional(positive_at(place.at(key))) : std::nullopt;
  };
  if (place.has("quantized_dtype"))
    limits.quantized_dtypes = one_or_list<DType>(place.at("quantized_dtype"),
                                                 "a dtype, or a list of them", quantized_dtype_at);
  limits.quant_min_lower_bound = read_int("quant_min_lower_bound");
  limits.quant_max_upper_bound = read_int("quant_max_upper_bound");
  limits.scale_min_lower_bound = read_scale("scale_min_lower_bound");
  limits.scale_max_upper_bound = read_scale("scale_max_upper_bound");
  limits.scale_exact_match = read_scale("scale_exact_match");
  limits.zero_point_exact_match = read_int("zero_point_exact_match");
  require_order(place, "quant_min_lower_bound", limits.quant_min_lower_bound,
                "quant_max_upper_bound", limits.quant_max_upper_bound);
  require_order(place, "scale_min_lower_bound", limits.scale_min_lower_bound,
                "scale_max_upper_bound", limits.scale_max_upper_bound);
  require_order(place, "scale_min_lower_bound", limits.scale_min_lower_bound, "scale_exact_match",
                limits.scale_exact_match);
  require_order(place, "scale_exact_match", limits.scale_exact_match, "scale_max_upper_bound",
                limits.scale_max_upper_bound);
  return limits;
}

// The spec that a cell defines by itself; a shared spec is only known in the graph.
SpecVariant spec_of(const SlotSpec& cell) {
  if (const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&cell)) return *spec;
  if (const FixedQParamsQuantizationSpec* spec = std::get_if<FixedQParamsQuantizationSpec>(&cell))
    return *spec;
  if (const DerivedFrom* derived = std::get_if<DerivedFrom>(&cell)) return derived->spec;
  if (const AllSame* same = std::get_if<AllSame>(&cell); same && same->spec) return *same->spec;
  if (const LikeProducer* like = std::get_if<LikeProducer>(&cell); like && like->spec)
    return *like->spec;
  return SharedQuantizationSpec{};
}

TensorConstraint tensor_at(const Place& place, const SlotSpec& cell) {
  check_keys(place, kTensorKeys);
  TensorConstraint constraint;
  if (place.has("dtype"))
    constraint.dtypes =
        one_or_list<DType>(place.at("dtype"), "a dtype, or a list of them", dtype_at);
  read_ranks(place, constraint);
  if (place.has("one_user")) constraint.one_user = bool_at(place.at("one_user"));
  if (place.has("is_constant")) constraint.is_constant = bool_at(place.at("is_constant"));
  constraint.limits = limits_at(place);
  const bool is_float = std::holds_alternative<LeaveFloat>(cell);
  const auto has_float32 = [&] {
    return std::ranges::find(constraint.dtypes, DType::kFloat32) != constraint.dtypes.end();
  };
  if (!is_float && !constraint.dtypes.empty() && !has_float32())
    place.at("dtype").refuse(
        "what has a spec is float32, and this leaves float32 out; want float32, or no spec for the "
        "slot");
  if (is_float && !constraint.limits.empty())
    place.refuse(
        "limits a spec, and the row has none there; give the slot one, or drop the limits");
  if (const std::string reason = objection(constraint.limits, spec_of(cell)); !reason.empty())
    place.refuse(
        fmt::format("the row's own spec can never meet it: {}; change one of the two", reason));
  return constraint;
}

bool has_groups(const std::string& op) {
  const std::string name =
      std::ranges::count(op, '.') == 2 || !op.starts_with("aten.") ? op : overloads_of(op).front();
  const OpSchema* schema = find_op_schema(name);
  return schema == nullptr || schema->find("groups") != nullptr;  // a custom op may have it
}

bool has_groups(const PatternTerm& term) {
  return std::ranges::any_of(term.ops, [](const std::string& op) { return has_groups(op); }) ||
         std::ranges::any_of(term.parameters,
                             [](const PatternTerm& inner) { return has_groups(inner); });
}

std::vector<int64_t> groups_at(const Place& op, const Pattern& pattern) {
  check_keys(op, kOpKeys);
  if (!op.has("groups")) return {};
  const Place place = op.at("groups");
  if (!has_groups(pattern.variants.front().root))
    place.refuse(fmt::format("no op of {} has groups; leave it out", pattern.text));
  return one_or_list<int64_t>(place, "an int, or a list of ints",
                              [](const Place& one) { return int_in(one, 1, INT32_MAX); });
}

}  // namespace

RuleConstraints constraints_at(const Place& place, const Pattern& pattern,
                               const AnnotationRule& row) {
  if (!place.value.is_object()) place.want("an object of slots, \"output\" and \"op\"");
  RuleConstraints constraints;
  for (const auto& [key, value] : place.value.items()) {
    const Place child = place.at(key);
    const bool is_slot = is_slot_of(pattern, key);
    if ((key == kOutputKey || key == kOpKey) && is_slot)
      child.refuse(fmt::format(
          "the pattern has a slot of this name too, want another name for the slot in {}",
          pattern.text));
    if (key == kOutputKey) {
      constraints.output = tensor_at(child, row.outputs.empty() ? row.output : row.outputs.front());
    } else if (key == kOpKey) {
      constraints.groups = groups_at(child, pattern);
    } else if (is_slot) {
      const auto find = [&](const std::string& name) {
        return std::ranges::find_if(row.inputs,
                                    [&](const auto& input) { return input.first == name; });
      };
      const std::optional<SlotElement> element = parse_slot_element(key);
      auto cell = find(key);
      if (cell == row.inputs.end() && element) cell = find(element->slot);
      constraints.slots.emplace_back(
          key, tensor_at(child, cell == row.inputs.end() ? SlotSpec(LeaveFloat{}) : cell->second));
    } else {
      std::vector<std::string> known;
      for (const PatternVariable& variable : pattern.variables) known.push_back(variable.name);
      known.insert(known.end(), {kOutputKey, kOpKey});
      child.refuse(fmt::format("\"{}\" is not a slot of {}, want one of {}", key, pattern.text,
                               fmt::join(known, ", ")));
    }
  }
  return constraints;
}

}  // namespace octet
