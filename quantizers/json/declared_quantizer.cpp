// Applies the filters to the matches of the rows.
#include "quantizers/json/declared_quantizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/annotation/granularity.h"
#include "annotate/observed/check_limits.h"
#include "core/base/error.h"
#include "quantizers/common/checks.h"
#include "quantizers/json/place.h"
#include "quantizers/xnnpack/checks.h"

namespace octet {

namespace {

// Slots without a spec may hold anything (the indices of an embedding).
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

// The spec with an observer that a cell holds; null when it holds none.
const QuantizationSpec* find_own_spec(const SlotSpec& cell) {
  if (const QuantizationSpec* spec = std::get_if<QuantizationSpec>(&cell)) return spec;
  if (const AllSame* same = std::get_if<AllSame>(&cell)) return same->spec ? &*same->spec : nullptr;
  if (const LikeProducer* like = std::get_if<LikeProducer>(&cell))
    return like->spec ? &*like->spec : nullptr;
  return nullptr;
}

// Scales along a dimension that the tensor lacks, or groups that do not divide it.
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
    return without_stage(error);
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

}  // namespace

DeclaredQuantizer::DeclaredQuantizer(DeclaredBackend backend, Compat compat)
    : ConfigurableQuantizer(backend.name, {QuantizationConfig()}, compat),
      backend_(std::move(backend)) {
  if (is_compat()) return;
  for (AnnotationRule& rule : backend_.rules) rule.checks.push_back(constants_are_observable);
}

void DeclaredQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  const auto choose = [&](const AnnotationRule& rule, const Match& match) -> ConfigChoice {
    const ConfigChoice choice = config_of(match);
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
  report_float_ops(graph, annotations, state, report, backend_.sharing_ops);
}

void DeclaredQuantizer::validate(const Graph& graph, const Annotations& annotations) {
  check_shared_specs(graph, annotations, [&](const QuantizationAnnotation& annotation) {
    return place_of(annotation.rule);
  });
  check_spec_limits(graph, annotations);
}

// A composition puts the quantizer's name before the row's.
std::string DeclaredQuantizer::place_of(const std::string& rule) const {
  for (size_t i = 0; i < backend_.rules.size(); ++i) {
    const std::string& name = backend_.rules[i].name;
    if (rule == name || rule == fmt::format("{}: {}", backend_.name, name))
      return i < backend_.places.size() ? backend_.places[i]
                                        : fmt::format("{}: row {}", backend_.name, name);
  }
  return {};
}

}  // namespace octet
