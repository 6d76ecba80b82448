#include "annotate/prepare/opaque_prepare.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

class BorderReader {
 public:
  BorderReader(const OpaquePart& part, const Island& island) : part_(part), island_(island) {}

  std::vector<std::pair<EdgeOrNode, SpecVariant>> read() {
    for (const auto& [index, spec] : part_.quantized_inputs) {
      const std::vector<Edge> edges = edges_of(value_at("input", island_.inputs, index));
      specs_.emplace_back(edges.front(), spec_of(spec));
      for (size_t i = 1; i < edges.size(); ++i)
        specs_.emplace_back(edges[i], SharedQuantizationSpec{edges.front()});
    }
    for (const auto& [index, spec] : part_.quantized_outputs) {
      Value* value = value_at("output", island_.outputs, index);
      if (value->producer()->output_or_null() == nullptr)
        refuse(fmt::format(
            "output {} %{} is one of several results of {}, want an output of an op with one",
            index, value->name(), value->producer()->target()));
      specs_.emplace_back(value, spec_of(spec));
    }
    return std::move(specs_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw Error("quantizer", island_.name, message);
  }

  Value* value_at(const char* side, const std::vector<Value*>& values, size_t index) const {
    if (index >= values.size()) {
      std::vector<std::string> names;
      for (size_t i = 0; i < values.size(); ++i)
        names.push_back(fmt::format("{} %{}", i, values[i]->name()));
      refuse(
          fmt::format("has no {} {}, want {}", side, index,
                      names.empty() ? "none" : fmt::format("one of {}", fmt::join(names, ", "))));
    }
    Value* value = values[index];
    if (value->meta && value->meta->dtype != DType::kFloat32)
      refuse(fmt::format("{} {} %{} is {}, want float32; leave it out", side, index, value->name(),
                         name_of(value->meta->dtype)));
    return value;
  }

  std::vector<Edge> edges_of(Value* value) const {
    std::vector<Edge> edges;
    for (Node* node : island_.nodes) {
      const std::vector<Value*> inputs = node->inputs();
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end())
        edges.push_back({value, node});
    }
    OCTET_ASSERT(!edges.empty(), value->name());
    return edges;
  }

  SpecVariant spec_of(const BorderSpec& spec) const {
    if (const QuantizationSpec* own = std::get_if<QuantizationSpec>(&spec)) return *own;
    if (const FixedQParamsQuantizationSpec* fixed =
            std::get_if<FixedQParamsQuantizationSpec>(&spec))
      return *fixed;
    const size_t index = std::get<SameAsInput>(spec).index;
    if (!part_.quantized_inputs.contains(index))
      refuse(fmt::format(
          "shares the observer of input {}, which has no spec; give it one in quantized_inputs",
          index));
    return SharedQuantizationSpec{edges_of(value_at("input", island_.inputs, index)).front()};
  }

  const OpaquePart& part_;
  const Island& island_;
  std::vector<std::pair<EdgeOrNode, SpecVariant>> specs_;
};

}  // namespace

std::vector<std::pair<EdgeOrNode, SpecVariant>> border_specs(const OpaquePart& part,
                                                             const Island& island) {
  return BorderReader(part, island).read();
}

void place_border_specs(const std::vector<std::pair<EdgeOrNode, SpecVariant>>& specs,
                        Annotations& annotations) {
  for (const auto& [key, spec] : specs) {
    if (const Edge* edge = std::get_if<Edge>(&key))
      annotations[edge->user].set_input(edge->value, spec);
    else
      annotations[std::get<Value*>(key)->producer()].set_output(std::get<Value*>(key), spec);
  }
}

}  // namespace octet
