#include "tests/tools/conformance/annotation_changes.h"

#include <utility>

#include "annotate/annotation/observer_choices.h"
#include "annotate/observers/observer.h"

namespace octet::test {
namespace {

void change_spec(SpecVariant* spec, const SpecChange& change) {
  if (auto* own = spec == nullptr ? nullptr : std::get_if<QuantizationSpec>(spec)) change(*own);
}

Change each_operand(const char* name, SpecChange change) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    const WeightedOp* op = find_weighted_op(node);
    if (op == nullptr) return;
    const Value* operand = node.find_input(std::string_view(name) == "weight" ? op->weight : op->x);
    for (auto& [value, spec] : annotation.input_qspec_map)
      if (value == operand) change_spec(&spec, change);
  });
}

}  // namespace

Change each(NodeChange change) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes())
      if (QuantizationAnnotation* annotation = annotations.find(node)) change(*node, *annotation);
  };
}

Change each(const char* op, NodeChange change) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    if (node.is(op)) change(node, annotation);
  });
}

bool is_conv_or_linear(const Node& node) { return find_conv_or_linear(node) != nullptr; }

Change each_weight(SpecChange change) { return each_operand("weight", std::move(change)); }
Change each_input(SpecChange change) { return each_operand("x", std::move(change)); }
Change each_result(SpecChange change) {
  return each([=](Node&, QuantizationAnnotation& annotation) {
    if (annotation.output_qspec) change_spec(&*annotation.output_qspec, change);
  });
}
Change each_spec(SpecChange change) {
  return each([=](Node&, QuantizationAnnotation& annotation) {
    for (auto& [value, spec] : annotation.input_qspec_map) change_spec(&spec, change);
    if (annotation.output_qspec) change_spec(&*annotation.output_qspec, change);
  });
}

SpecChange of_dtype(DType dtype) {
  return [=](QuantizationSpec& spec) {
    spec.dtype = dtype;
    spec.quant_min = spec.quant_max = std::nullopt;
  };
}
SpecChange in_range(std::optional<int64_t> low, std::optional<int64_t> high) {
  return [=](QuantizationSpec& spec) { spec.quant_min = low, spec.quant_max = high; };
}
SpecChange on_axis(int axis) {
  return [=](QuantizationSpec& spec) { spec.ch_axis = axis; };
}
SpecChange per_channel(int axis) {
  return [=](QuantizationSpec& spec) {
    spec.qscheme = QScheme::kPerChannelAffine;
    spec.ch_axis = axis;
    spec.observer_or_fake_quant_ctr = per_channel_min_max();
  };
}
SpecChange observed_by(ObserverChoice choice) {
  return [=](QuantizationSpec& spec) { spec.observer_or_fake_quant_ctr = choice; };
}

Change result_of(const char* op, std::function<SpecVariant(Node&)> spec) {
  return each(op, [=](Node& node, QuantizationAnnotation& annotation) {
    annotation.output_qspec = spec(node);
  });
}
Change result_of(const char* op, SpecVariant spec) {
  return result_of(op, [=](Node&) { return spec; });
}
FixedQParamsQuantizationSpec fixed(double scale, int64_t zero_point) {
  return {.dtype = DType::kInt8,
          .scale = scale,
          .zero_point = zero_point,
          .quant_min = -128,
          .quant_max = 127,
          .qscheme = QScheme::kPerTensorAffine};
}

// Annotates ops that the base leaves float.
Change annotates(const char* op, bool has_result) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes_of(op)) {
      QuantizationAnnotation& annotation = annotations[node];
      for (Value* value : node->inputs())
        if (graph.find_constant(value) == nullptr) annotation.set_input(value, kPlain);
      if (has_result) annotation.output_qspec = kPlain;
    }
  };
}

// Gives the bias of each layer a derived spec.
Change bias(std::function<DerivedQuantizationSpec(Node&, const WeightedOp&)> make) {
  return each([=](Node& node, QuantizationAnnotation& annotation) {
    const WeightedOp* op = find_conv_or_linear(node);
    Value* value = op == nullptr ? nullptr : node.find_input(op->bias);
    if (value != nullptr) annotation.set_input(value, make(node, *op));
  });
}
DerivedQuantizationSpec derived(std::vector<EdgeOrNode> from, DeriveQParamsFn derive) {
  return {.derived_from = std::move(from),
          .derive_name = derive ? "strange" : "product_of_scales",
          .derive_qparams_fn = derive ? derive : find_derive_fn("product_of_scales"),
          .dtype = DType::kInt32,
          .quant_min = {},
          .quant_max = {},
          .qscheme = QScheme::kPerChannelSymmetric,
          .ch_axis = 0};
}
Edge edge(Node& node, std::string_view name) { return {node.find_input(name), &node}; }
DerivedQuantizationSpec from_product(Node& node, const WeightedOp& op, DeriveQParamsFn derive) {
  return derived({edge(node, op.x), edge(node, op.weight)}, std::move(derive));
}
DeriveQParamsFn scales(float first, size_t count) {
  return [=](const std::vector<std::shared_ptr<Observer>>& sources) {
    const size_t size = count == 0 ? sources[1]->calculate_qparams().scale.size() : count;
    return DerivedQParams{std::vector<float>(size, first), std::vector<int64_t>(size, 0)};
  };
}

void forget(Annotations& annotations, Node* node) {
  if (annotations.find(node) != nullptr) annotations.erase(node);
}
Change forgets(std::function<bool(Node&)> is_forgotten) {
  return [=](Graph& graph, Annotations& annotations) {
    for (Node* node : graph.nodes())
      if (is_forgotten(*node)) forget(annotations, node);
  };
}
Change forgets_output(const char* op) {
  return each(op, [](Node&, QuantizationAnnotation& annotation) {
    annotation.output_qspec = std::nullopt;
  });
}
Change forgets_input(const char* op, size_t index) {
  return each(op, [=](Node&, QuantizationAnnotation& annotation) {
    if (index < annotation.input_qspec_map.size())
      annotation.input_qspec_map.erase(annotation.input_qspec_map.begin() +
                                       static_cast<std::ptrdiff_t>(index));
  });
}

}  // namespace octet::test
