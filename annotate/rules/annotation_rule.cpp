#include "annotate/rules/annotation_rule.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/observers/fake_quantize.h"
#include "core/base/error.h"

namespace octet {

SlotSpec weight_along(int ch_axis) { return ByRole{Role::kWeight, ch_axis}; }
SlotSpec weight_with_one_scale(int ch_axis) { return ByRole{Role::kWeight, ch_axis, true}; }
SlotSpec same_as(std::string slot) { return SameAs{std::move(slot), SameAs::Half::kEdge}; }
SlotSpec same_as_value(std::string slot) { return SameAs{std::move(slot), SameAs::Half::kValue}; }
SlotSpec all_same(Role role) { return AllSame{role}; }
SlotSpec fixed(double scale, int64_t zero_point, DType dtype) {
  FixedQParamsQuantizationSpec spec;
  spec.dtype = dtype;
  spec.scale = scale;
  spec.zero_point = zero_point;
  spec.qscheme = QScheme::kPerTensorAffine;
  return spec;
}

namespace {

const std::optional<QuantizationSpec>& spec_of(const QuantizationConfig& config, Role role) {
  switch (role) {
    case Role::kInput: return config.input_activation;
    case Role::kOutput: return config.output_activation;
    case Role::kWeight: return config.weight;
    case Role::kBias: return config.bias;
  }
  OCTET_ASSERT(false, "unknown role");
}

// The kind of observer that learns one scale where `name` learns one per channel; "" if there is
// none.
std::string find_kind_for_tensors(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"per_channel_min_max", "min_max"},
      {"moving_average_per_channel_min_max", "moving_average_min_max"},
      {"per_channel_percentile", "percentile"},
      {"per_channel_mse", "weight_mse"},
      // these follow the qscheme
      {"weight_mse", "weight_mse"},
      {"fused_moving_avg_obs_fake_quantize", "fused_moving_avg_obs_fake_quantize"},
      {"fake_quantize", "fake_quantize"},
      {"learnable_fake_quantize", "learnable_fake_quantize"},
      {"lsq_fake_quantize", "lsq_fake_quantize"},
  };
  const WrappedName split = split_observer_name(name);
  if (!split.inner.empty()) {
    const std::string inner = find_kind_for_tensors(split.inner);
    return inner.empty() ? "" : fmt::format("{}({})", split.outer, inner);
  }
  for (const auto& [of_channels, of_tensors] : kKinds)
    if (name == of_channels) return std::string(of_tensors);
  return "";
}

void take_one_scale(QuantizationSpec& spec) {
  if (spec.qscheme != QScheme::kPerChannelSymmetric && spec.qscheme != QScheme::kPerChannelAffine)
    return;
  std::string kind = find_kind_for_tensors(spec.observer_or_fake_quant_ctr.name);
  if (kind.empty()) return;
  spec.observer_or_fake_quant_ctr.name = std::move(kind);
  spec.qscheme = spec.qscheme == QScheme::kPerChannelSymmetric ? QScheme::kPerTensorSymmetric
                                                               : QScheme::kPerTensorAffine;
}

std::optional<SpecVariant> by_role(const QuantizationConfig& config, const ByRole& cell) {
  std::optional<QuantizationSpec> spec = spec_of(config, cell.role);
  if (!spec) return std::nullopt;
  if (cell.ch_axis) spec->ch_axis = cell.ch_axis;
  if (cell.has_one_scale) take_one_scale(*spec);
  return SpecVariant(*spec);
}

Edge edge_of(const RuleMatch& at, const std::string& slot) {
  Value* value = at.match.find(slot);
  OCTET_ASSERT(value != nullptr, fmt::format("slot \"{}\" is not bound", slot));
  return Edge{value, at.match.consumer(slot)};
}

// The spec of one edge (`value` given) or of the pattern's output (`value` null); nothing: stays
// float.
std::optional<SpecVariant> resolve(const SlotSpec& cell, const RuleMatch& at, Value* value) {
  if (const ByRole* role = std::get_if<ByRole>(&cell)) return by_role(at.config, *role);
  if (const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&cell))
    return SpecVariant(*spec);
  if (const FixedQParamsQuantizationSpec* spec = std::get_if<FixedQParamsQuantizationSpec>(&cell))
    return SpecVariant(*spec);
  if (const SameAs* same = std::get_if<SameAs>(&cell)) {
    if (!at.match.find(same->slot)) return std::nullopt;
    const Edge edge = edge_of(at, same->slot);
    if (same->half == SameAs::Half::kValue) return SpecVariant(SharedQuantizationSpec{edge.value});
    return SpecVariant(SharedQuantizationSpec{edge});
  }
  if (const LikeProducer* like = std::get_if<LikeProducer>(&cell)) {
    if (value && value->producer() && at.annotations.is_annotated(value->producer()) &&
        at.annotations.find_output(value))
      return SpecVariant(SharedQuantizationSpec{value});
    return like->spec ? SpecVariant(*like->spec)
                      : by_role(at.config, ByRole{like->otherwise, std::nullopt});
  }
  if (const DerivedFrom* derived = std::get_if<DerivedFrom>(&cell)) {
    if (!std::ranges::all_of(derived->slots,
                             [&](const std::string& slot) { return at.match.find(slot); }))
      return std::nullopt;
    DerivedQuantizationSpec spec = derived->spec;
    for (const std::string& slot : derived->slots) spec.derived_from.push_back(edge_of(at, slot));
    return SpecVariant(spec);
  }
  return std::nullopt;
}

// All values of a list slot share the observer of one of them; returns the owner's edge.
Edge annotate_all_same(const AnnotationRule& rule, const AllSame& cell, const std::string& slot,
                       const RuleMatch& at, QuantizationAnnotation& annotation) {
  const std::vector<Value*> values = rest_of(rule, slot, at.match);
  Value* owner = rule.choose_owner ? rule.choose_owner(at, values) : values.front();
  const Edge edge{owner, at.match.consumer(slot)};
  const std::optional<SpecVariant> spec =
      cell.spec ? SpecVariant(*cell.spec) : by_role(at.config, ByRole{cell.role, std::nullopt});
  if (!spec) return edge;
  annotation.set_input(owner, *spec);
  for (Value* value : values)
    if (!annotation.find_input(value)) annotation.set_input(value, SharedQuantizationSpec{edge});
  return edge;
}

// x + x where the second shares with the first: they are the same edge.
bool is_itself(const SpecVariant& spec, const Value* value, const Node* consumer) {
  const SharedQuantizationSpec* shared = std::get_if<SharedQuantizationSpec>(&spec);
  const Edge* edge = shared ? std::get_if<Edge>(&shared->edge_or_node) : nullptr;
  return edge && edge->value == value && edge->user == consumer;
}

bool is_taken(const Value* value, const Annotations& annotations, const RuleState& state) {
  if (value->producer()) return annotations.is_annotated(value->producer());
  return state.taken.contains(value);
}

void take(const Value* value, Annotations& annotations, RuleState& state) {
  if (value->producer())
    annotations[value->producer()].annotated = true;
  else
    state.taken[value] = true;
}

QuantLimits limits_of(const AnnotationRule& rule, const TensorConstraint& constraint) {
  QuantLimits limits = constraint.limits;
  if (limits.place.empty()) limits.place = rule.name;
  return limits;
}

// Copies the row's limits to the annotations.
void write_limits(const AnnotationRule& rule, const RuleMatch& at,
                  std::map<Node*, QuantizationAnnotation>& fresh) {
  for (const auto& [slot, constraint] : rule.constraints.slots) {
    if (constraint.limits.empty()) continue;
    for (Value* value : at.match.find_all(slot))
      fresh.at(at.match.consumer(slot))
          .input_limits.emplace_back(value, limits_of(rule, constraint));
  }
  const std::optional<TensorConstraint>& output = rule.constraints.output;
  if (output && !output->limits.empty())
    fresh.at(at.match.root).output_limits = limits_of(rule, *output);
}

void write_annotation(const AnnotationRule& rule, const std::string& name, const RuleMatch& at,
                      Annotations& annotations, RuleState& state) {
  std::map<Node*, QuantizationAnnotation> fresh;
  std::map<std::string, Edge> owners;
  for (Node* node : at.match.nodes) {
    fresh[node].rule = name;
    fresh[node].allow_implicit_sharing = rule.allow_implicit_sharing;
  }
  for (const auto& [slot, cell] : rule.inputs) {
    const std::vector<Value*> values = rest_of(rule, slot, at.match);
    if (values.empty()) continue;
    QuantizationAnnotation& annotation = fresh.at(at.match.consumer(slot));
    if (const AllSame* same = std::get_if<AllSame>(&cell)) {
      owners.emplace(slot, annotate_all_same(rule, *same, slot, at, annotation));
      continue;
    }
    const Node* consumer = at.match.consumer(slot);
    for (Value* value : values)
      if (const std::optional<SpecVariant> spec = resolve(cell, at, value);
          spec && !is_itself(*spec, value, consumer))
        annotation.set_input(value, *spec);
  }
  const auto output_of = [&](const SlotSpec& cell) {
    std::optional<SpecVariant> output = resolve(cell, at, nullptr);
    const SameAs* same = std::get_if<SameAs>(&cell);
    if (output && same && owners.contains(same->slot))
      output = SharedQuantizationSpec{owners.at(same->slot)};
    return output;
  };
  QuantizationAnnotation& root = fresh.at(at.match.root);
  root.output_qspec = output_of(rule.output);
  for (size_t i = 0; i < rule.outputs.size(); ++i)
    if (std::optional<SpecVariant> output = output_of(rule.outputs[i]))
      root.set_output(at.match.root->outputs().at(i), std::move(*output));
  write_limits(rule, at, fresh);
  for (auto& [node, annotation] : fresh) annotations[node] = std::move(annotation);
  for (const std::vector<std::string>* slots : {&rule.owned, &rule.marked})
    for (const std::string& slot : *slots)
      for (const Value* value : at.match.find_all(slot)) take(value, annotations, state);
}

// Why the match is not annotated; empty: it is.
std::string objection(const AnnotationRule& rule, const RuleMatch& at, const RuleState& state,
                      ConstantValues& constants) {
  if (const size_t results = at.match.root->outputs().size(); rule.outputs.size() > results)
    return fmt::format("the row has specs for {} results, %{} has {}", rule.outputs.size(),
                       at.match.root->name(), results);
  for (const std::string& slot : rule.owned)
    for (const Value* value : at.match.find_all(slot))
      if (is_taken(value, at.annotations, state))
        return fmt::format("%{} already belongs to another quantized op", value->name());
  for (RuleCheck check : rule.checks)
    if (const Verdict verdict = check(at); !verdict) return verdict.reason();
  return objection(rule.constraints, constants, at.match);
}

void check_slots(const AnnotationRule& rule, const Pattern& pattern) {
  const auto require = [&](const std::string& slot) {
    if (!is_slot_of(pattern, slot))
      throw Error(
          "annotate", rule.name,
          fmt::format("slot \"{}\" does not occur in its pattern, got {}", slot, rule.pattern));
  };
  const auto require_sources = [&](const SlotSpec& cell) {
    if (const DerivedFrom* derived = std::get_if<DerivedFrom>(&cell))
      std::ranges::for_each(derived->slots, require);
    if (const SameAs* same = std::get_if<SameAs>(&cell)) require(same->slot);
  };
  for (const auto& [slot, cell] : rule.inputs) {
    require(slot);
    require_sources(cell);
  }
  require_sources(rule.output);
  std::ranges::for_each(rule.outputs, require_sources);
  for (const auto& [slot, constraint] : rule.constraints.slots) require(slot);
  std::ranges::for_each(rule.owned, require);
  std::ranges::for_each(rule.marked, require);
}

bool is_free(const Node* node, const Annotations& annotations, const RuleState& state) {
  return !annotations.is_annotated(node) && !state.left_float.contains(node);
}

// Annotates a match by a row that is called `name` there. nullopt when it did; else the reason why
// not, which may be empty.
std::optional<std::string> annotate_match(const AnnotationRule& rule, const std::string& name,
                                          Match& found, Graph& graph, const ConfigOf& config_of,
                                          Annotations& annotations, RuleState& state,
                                          ConstantValues& constants) {
  if (!std::ranges::all_of(found.nodes,
                           [&](const Node* node) { return is_free(node, annotations, state); }))
    return "";
  if (std::string reason = bind_elements(rule, found); !reason.empty()) return reason;
  const ConfigChoice choice = config_of(rule, found);
  if (!choice.config) return choice.reason;
  if (!rule.stays_float.empty()) {
    state.left_float.insert(found.nodes.begin(), found.nodes.end());
    return rule.stays_float;
  }
  const RuleMatch at{found, graph, *choice.config, annotations};
  if (std::string reason = objection(rule, at, state, constants); !reason.empty()) return reason;
  write_annotation(rule, name, at, annotations, state);
  return std::nullopt;
}

}  // namespace

std::string name_of(const AnnotationRule& rule, const std::vector<bool>& has_op) {
  std::string name = rule.name;
  if (name == rule.pattern) return name;
  for (size_t i = has_op.size(); i-- > 0;) {
    const size_t open = name.find('['), close = name.find(']', open);
    if (close == std::string::npos) break;
    name.replace(open, close + 1 - open, has_op[i] ? name.substr(open + 1, close - open - 1) : "");
  }
  return name;
}

int annotate_by_rules(Graph& graph, std::span<const AnnotationRule> rules,
                      const ConfigOf& config_of, Annotations& annotations, RuleState& state) {
  const std::vector<Node*> nodes = graph.nodes();
  ConstantValues constants(graph);
  int count = 0;
  for (const AnnotationRule& rule : rules) {
    const Pattern pattern = parse_pattern(rule.pattern);
    check_slots(rule, pattern);
    for (const PatternVariant& variant : pattern.variants) {
      const std::string name = name_of(rule, variant.has_op);
      for (Node* node : nodes) {
        if (!is_free(node, annotations, state)) continue;
        std::optional<Match> found = match(variant, *node);
        if (!found) continue;
        std::optional<std::string> refusal =
            annotate_match(rule, name, *found, graph, config_of, annotations, state, constants);
        if (!refusal)
          ++count;
        else if (!refusal->empty())
          state.refusals[found->nodes.back()] = std::move(*refusal);
      }
    }
  }
  return count;
}

int propagate_sharing(Graph& graph, std::span<const std::string> ops,
                      const std::function<bool(const Node&)>& accepts, Annotations& annotations) {
  int count = 0;
  for (Node* node : graph.nodes()) {
    if (std::ranges::none_of(ops, [&](const std::string& op) { return node->is(op); })) continue;
    if (node->arguments().empty()) continue;
    Value* input = node->arguments().front().value.value_or_null();
    if (!input || annotations.is_annotated(node) || !annotations.find_output(input)) continue;
    if (accepts && !accepts(*node)) continue;
    QuantizationAnnotation annotation;
    annotation.rule = "share";
    annotation.set_input(input, SharedQuantizationSpec{input});
    annotation.output_qspec = SharedQuantizationSpec{input};
    annotations[node] = std::move(annotation);
    ++count;
  }
  return count;
}

}  // namespace octet
