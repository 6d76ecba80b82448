#include "annotate/annotation/annotation.h"

#include <fmt/format.h>

namespace octet {
namespace {

std::string range_text(const std::optional<int64_t>& min, const std::optional<int64_t>& max) {
  return min && max ? fmt::format(" {}..{}", *min, *max) : std::string();
}

// The name of a value or a node.
template <typename Named>
std::string name_text(const Named* named, const std::string& prefix) {
  return named == nullptr ? "%?" : fmt::format("%{}{}", prefix, named->name());
}

struct SpecPrinter {
  const std::string& prefix;

  std::string operator()(const QuantizationSpec& spec) const {
    std::string text(name_of(spec.dtype));
    text += range_text(spec.quant_min, spec.quant_max);
    if (spec.qscheme) text += fmt::format(" {}", name_of(*spec.qscheme));
    if (spec.ch_axis && spec.qscheme && is_per_channel(*spec.qscheme))
      text += fmt::format(" axis {}", *spec.ch_axis);
    if (spec.is_dynamic) text += " dynamic";
    if (const std::optional<AffineOptions>& affine = spec.observer_or_fake_quant_ctr.affine)
      text += fmt::format(" {} {}", name_of(affine->mapping_type), to_text(affine->granularity));
    return text + " " + spec.observer_or_fake_quant_ctr.name;
  }
  std::string operator()(const SharedQuantizationSpec& spec) const {
    return "same as " + to_text(spec.edge_or_node, prefix);
  }
  std::string operator()(const FixedQParamsQuantizationSpec& spec) const {
    return fmt::format("fixed {}, {} {}{}", spec.scale, spec.zero_point, name_of(spec.dtype),
                       range_text(spec.quant_min, spec.quant_max));
  }
  std::string operator()(const DerivedQuantizationSpec& spec) const {
    std::string text = fmt::format("derived ({}) from ", spec.derive_name);
    for (size_t i = 0; i < spec.derived_from.size(); ++i)
      text += (i ? ", " : "") + to_text(spec.derived_from[i], prefix);
    return text;
  }
};

}  // namespace

const SpecVariant* QuantizationAnnotation::find_input(const Value* value) const {
  for (const auto& [input, spec] : input_qspec_map)
    if (input == value) return &spec;
  return nullptr;
}

void QuantizationAnnotation::set_input(Value* value, SpecVariant spec) {
  for (auto& [input, old] : input_qspec_map)
    if (input == value) {
      old = std::move(spec);
      return;
    }
  input_qspec_map.emplace_back(value, std::move(spec));
}

const SpecVariant* QuantizationAnnotation::find_output(const Value* result) const {
  for (const auto& [output, spec] : output_qspec_map)
    if (output == result) return &spec;
  if (!output_qspec) return nullptr;
  const bool is_float = !result->meta || is_floating_point(result->meta->dtype);
  const bool is_only = result->producer()->output_or_null() == result;
  return is_only || (result->kind() == ValueKind::kTensor && is_float) ? &*output_qspec : nullptr;
}

void QuantizationAnnotation::set_output(Value* result, SpecVariant spec) {
  for (auto& [output, old] : output_qspec_map)
    if (output == result) {
      old = std::move(spec);
      return;
    }
  // null and graph inputs are refused later, with the node (find_sharing_groups)
  const Node* producer = result == nullptr ? nullptr : result->producer();
  if (producer != nullptr && producer->output_or_null() == result)
    output_qspec = std::move(spec);
  else
    output_qspec_map.emplace_back(result, std::move(spec));
}

const SpecVariant* Annotations::find_output(const Value* value) const {
  const QuantizationAnnotation* annotation =
      value->producer() == nullptr ? nullptr : find(value->producer());
  return annotation == nullptr ? nullptr : annotation->find_output(value);
}

QuantizationAnnotation* Annotations::find(const Node* node) {
  const auto it = map_.find(node);
  return it == map_.end() ? nullptr : &it->second;
}

const QuantizationAnnotation* Annotations::find(const Node* node) const {
  const auto it = map_.find(node);
  return it == map_.end() ? nullptr : &it->second;
}

bool Annotations::is_annotated(const Node* node) const {
  const QuantizationAnnotation* annotation = find(node);
  return annotation != nullptr && annotation->annotated;
}

std::string to_text(const EdgeOrNode& key, const std::string& prefix) {
  if (const Edge* edge = std::get_if<Edge>(&key))
    return name_text(edge->value, prefix) + " -> " + name_text(edge->user, prefix);
  return name_text(std::get<Value*>(key), prefix);
}

std::string to_text(const SpecVariant& spec, const std::string& prefix) {
  return std::visit(SpecPrinter{prefix}, spec);
}

std::string to_text(const Graph& graph, const Annotations& annotations) {
  std::string text;
  for (const Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (!annotation) continue;
    text += fmt::format("%{} [{}]:", node->name(), annotation->rule);
    const char* separator = " ";
    for (const auto& [value, spec] : annotation->input_qspec_map) {
      text += fmt::format("{}%{}: {}", separator, value->name(), to_text(spec));
      separator = ", ";
    }
    separator = " => ";
    for (const Value* output : node->outputs())
      if (const SpecVariant* spec = annotation->find_output(output)) {
        text += separator;
        if (node->output_or_null() == nullptr) text += fmt::format("%{}: ", output->name());
        text += to_text(*spec);
        separator = ", ";
      }
    text += "\n";
  }
  return text;
}

}  // namespace octet
