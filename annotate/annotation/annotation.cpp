#include "annotate/annotation/annotation.h"

namespace octet {

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

}  // namespace octet
