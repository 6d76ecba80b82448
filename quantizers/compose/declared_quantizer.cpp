#include "quantizers/compose/declared_quantizer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/quant_spec.h"
#include "annotate/graph/control_flow.h"
#include "annotate/observed/check_limits.h"
#include "core/base/error.h"
#include "core/pattern/pattern.h"
#include "quantizers/common/checks.h"
#include "quantizers/xnnpack/rules.h"

namespace octet {

namespace {

// Slots without a spec may have any dtype (the indices of an embedding).
std::string objection_to_dtype(const AnnotationRule& rule, const Match& match) {
  for (const auto& [slot, cell] : rule.inputs) {
    if (std::holds_alternative<LeaveFloat>(cell)) continue;
    for (const Value* value : match.find_all(slot))
      if (!value->meta || value->meta->dtype != DType::kFloat32)
        return fmt::format("input %{} is {}, want float32", value->name(),
                           value->meta ? name_of(value->meta->dtype) : "of unknown dtype");
  }
  return {};
}

// The spec with an observer that a cell holds, or null.
const QuantizationSpec* find_own_spec(const SlotSpec& cell) {
  if (const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&cell)) return spec;
  if (const AllSame* same = std::get_if<AllSame>(&cell)) return same->spec ? &*same->spec : nullptr;
  if (const LikeProducer* like = std::get_if<LikeProducer>(&cell))
    return like->spec ? &*like->spec : nullptr;
  return nullptr;
}

// Why the spec does not fit: its channel axis does not exist, or its groups do not divide the
// tensor.
std::string objection_to_shape(const QuantizationSpec& spec, const Value& value) {
  if (!value.meta) return {};
  const std::vector<int64_t> shape = value.meta->shape();
  if (spec.qscheme && is_per_channel(*spec.qscheme) && spec.ch_axis &&
      static_cast<size_t>(*spec.ch_axis) >= shape.size())
    return fmt::format("input %{} has rank {}, and its spec has a scale per index of dimension {}",
                       value.name(), shape.size(), *spec.ch_axis);
  const std::optional<AffineOptions>& affine = spec.observer_or_fake_quant_ctr.affine;
  if (!affine) return {};
  try {
    block_size_of(affine->granularity, shape, "%" + value.name());
  } catch (const Error& error) {
    return error.without_stage();
  }
  return {};
}

std::string objection_to_shapes(const AnnotationRule& rule, const Match& match) {
  for (const auto& [slot, cell] : rule.inputs)
    if (const QuantizationSpec* spec = find_own_spec(cell))
      for (const Value* value : match.find_all(slot))
        if (const std::string reason = objection_to_shape(*spec, *value); !reason.empty())
          return reason;
  return {};
}

void ignore_rest(PatternTerm& term) {
  term.ignores_rest = true;
  std::ranges::for_each(term.parameters, ignore_rest);
}

// "%conv2d has a bias": the first tensor argument of a matched node that the pattern does not name.
std::string unnamed_argument(const Match& match) {
  std::set<const Value*> named;
  for (const auto& [slot, values] : match.bindings) named.insert(values.begin(), values.end());
  for (const Node* node : match.nodes)
    for (const Value* output : node->outputs()) named.insert(output);
  for (const Node* node : match.nodes)
    for (const TensorArgument& argument : tensor_arguments(*node))
      if (!argument.values.empty() && !named.contains(argument.values.front()))
        return fmt::format("%{} has the argument \"{}\"", node->name(), argument.name);
  return {};
}

// Gives ops that a row would match if it named all their tensors a reason that says so.
void hint_at_arguments(const AnnotationRule& rule, const Graph& graph,
                       const Annotations& annotations, RuleState& state) {
  const Pattern strict = parse_pattern(rule.pattern);
  Pattern pattern = strict;
  for (PatternVariant& variant : pattern.variants) ignore_rest(variant.root);
  for (Node* node : graph.nodes()) {
    const std::optional<Match> found = match(pattern, *node);
    if (!found || match(strict, *node) || annotations.is_annotated(found->nodes.back())) continue;
    if (const std::string argument = unnamed_argument(*found); !argument.empty())
      state.refusals.try_emplace(
          found->nodes.back(),
          fmt::format("row {} does not match, as {}; add it to the pattern {}, as b? if it may be "
                      "absent",
                      rule.name, argument, rule.pattern));
  }
}

// What settings choose from: the defaults of all rows, or the variants of one name.
std::vector<QuantizationConfig> configs_of(const DeclaredBackend& backend) {
  std::vector<QuantizationConfig> configs = {QuantizationConfig()};
  for (const DtypeVariant& variant : backend.variants) {
    const auto same = [&](const QuantizationConfig& known) {
      return known.dtype_config == variant.name;
    };
    if (std::ranges::none_of(configs, same)) configs.emplace_back().dtype_config = variant.name;
  }
  return configs;
}

}  // namespace

DeclaredQuantizer::DeclaredQuantizer(DeclaredBackend backend, Compat compat)
    : ConfigurableQuantizer(backend.name, configs_of(backend), compat),
      backend_(std::move(backend)) {
  if (is_compat()) return;
  for (AnnotationRule& rule : backend_.rules) rule.checks.push_back(constants_are_observable);
}

DtypeVariant DeclaredQuantizer::variant_of(size_t rule) const {
  return rule < backend_.variants.size() ? backend_.variants[rule] : DtypeVariant();
}

std::vector<std::string> DeclaredQuantizer::names_in_row(size_t rule) const {
  while (!variant_of(rule).is_default) --rule;
  std::vector<std::string> names;
  do {
    if (const std::string name = variant_of(rule).name; !name.empty()) names.push_back(name);
  } while (!variant_of(++rule).is_default);
  return names;
}

ConfigChoice DeclaredQuantizer::choose_variant(const AnnotationRule& rule,
                                               const ConfigChoice& choice) const {
  const std::string& wanted = choice.config->dtype_config;
  const size_t index = static_cast<size_t>(&rule - backend_.rules.data());
  const DtypeVariant variant = variant_of(index);
  if (wanted.empty() ? variant.is_default : variant.name == wanted) return choice;
  const std::vector<std::string> names = names_in_row(index);
  if (wanted.empty() || std::ranges::find(names, wanted) != names.end()) return {};
  return {nullptr, fmt::format("row {} has no dtype_config \"{}\", {}", rule.name, wanted,
                               names.empty() ? "it lists none"
                                             : fmt::format("only {}", fmt::join(names, ", ")))};
}

void DeclaredQuantizer::check_model(const Graph& model) const {
  ConfigurableQuantizer::check_model(model);
  for (const auto& [row, config] : rows().all())
    if (*config && !(*config)->dtype_config.empty()) check_dtype_config(row, **config, model);
}

void DeclaredQuantizer::check_dtype_config(const RowKey& row, const QuantizationConfig& config,
                                           const Graph& model) const {
  std::vector<Node*> nodes = model.nodes();
  for (const Body& body : bodies_within(model)) {
    const std::vector<Node*> inner = body.graph->nodes();
    nodes.insert(nodes.end(), inner.begin(), inner.end());
  }
  bool is_matched = false;
  std::set<std::string> names;
  for (size_t i = 0; i < backend_.rules.size(); ++i) {
    const Pattern pattern = parse_pattern(backend_.rules[i].pattern);
    const bool has_match = std::ranges::any_of(nodes, [&](Node* node) {
      const std::optional<Match> found = match(pattern, *node);
      return found && config_of(*found).config == &config;
    });
    if (!has_match) continue;
    is_matched = true;
    if (const std::string name = variant_of(i).name; !name.empty()) names.insert(name);
  }
  if (!is_matched || names.contains(config.dtype_config)) return;
  const std::string place = rows().place_of(row);
  throw Error("quantizer", place.empty() ? name() : place,
              fmt::format("{}: no row that matches there has the dtype_config \"{}\", {}",
                          describe(row), config.dtype_config,
                          names.empty() ? "they list none; leave it out"
                                        : fmt::format("want one of {}", fmt::join(names, ", "))));
}

void DeclaredQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  const auto choose = [&](const AnnotationRule& rule, const Match& match) -> ConfigChoice {
    ConfigChoice choice = config_of(match);
    if (choice.config) choice = choose_variant(rule, choice);
    if (!choice.config || is_compat()) return choice;
    if (const std::string reason = objection_to_dtype(rule, match); !reason.empty())
      return {nullptr, reason};
    if (const std::string reason = objection_to_shapes(rule, match); !reason.empty())
      return {nullptr, reason};
    return choice;
  };
  annotate_by_rules(graph, backend_.rules, choose, annotations, state);
  const auto shares = [&](const Node& node) {
    return shares_scale(node) && config_of(node).config;
  };
  propagate_sharing(graph, backend_.sharing_ops, shares, annotations);
  for (const AnnotationRule& rule : backend_.rules)
    hint_at_arguments(rule, graph, annotations, state);
  report_float_ops(graph, annotations, state, report, backend_.sharing_ops);
}

void DeclaredQuantizer::validate(const Graph& graph, const Annotations& annotations) {
  check_shared_specs(graph, annotations, [&](const QuantizationAnnotation& annotation) {
    return place_of(annotation.rule);
  });
  check_spec_limits(graph, annotations);
}

// In a composition, the quantizer's name precedes the row's.
std::string DeclaredQuantizer::place_of(const std::string& rule) const {
  for (size_t i = 0; i < backend_.rules.size(); ++i)
    for (const PatternVariant& variant : parse_pattern(backend_.rules[i].pattern).variants) {
      const std::string name = name_of(backend_.rules[i], variant.has_op);
      if (rule == name || rule == fmt::format("{}: {}", backend_.name, name))
        return i < backend_.places.size() ? backend_.places[i]
                                          : fmt::format("{}: row {}", backend_.name, name);
    }
  return {};
}

}  // namespace octet
