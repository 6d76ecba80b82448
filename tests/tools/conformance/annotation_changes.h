// Changes of annotations, from which the wrong quantizers of quantizer_mutants.cpp are made.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "core/ops/weighted_ops.h"

namespace octet::test {

using Change = std::function<void(Graph&, Annotations&)>;
using NodeChange = std::function<void(Node&, QuantizationAnnotation&)>;
using SpecChange = std::function<void(QuantizationSpec&)>;

// Which annotations change: those of each annotated node, or of each one with this op.
Change each(NodeChange change);
Change each(const char* op, NodeChange change);
bool is_conv_or_linear(const Node& node);

// The observed specs of weights, of inputs that meet weights, of results, and all.
Change each_weight(SpecChange change);
Change each_input(SpecChange change);
Change each_result(SpecChange change);
Change each_spec(SpecChange change);
SpecChange of_dtype(DType dtype);
SpecChange in_range(std::optional<int64_t> low, std::optional<int64_t> high);
SpecChange on_axis(int axis);
SpecChange per_channel(int axis);
SpecChange observed_by(ObserverChoice choice);

// Another spec for the result of each annotated `op`.
Change result_of(const char* op, std::function<SpecVariant(Node&)> spec);
Change result_of(const char* op, SpecVariant spec);
FixedQParamsQuantizationSpec fixed(double scale, int64_t zero_point);
inline const QuantizationSpec kPlain = {.dtype = DType::kInt8,
                                        .observer_or_fake_quant_ctr = {},
                                        .quant_min = {},
                                        .quant_max = {},
                                        .qscheme = QScheme::kPerTensorAffine,
                                        .ch_axis = {}};

// Annotates each `op`, which the base leaves float.
Change annotates(const char* op, bool has_result = true);

// Gives the bias of each layer a derived spec. Without a function, the product of the scales.
Change bias(std::function<DerivedQuantizationSpec(Node&, const WeightedOp&)> make);
DerivedQuantizationSpec derived(std::vector<EdgeOrNode> from, DeriveQParamsFn derive = {});
Edge edge(Node& node, std::string_view name);  // from the argument of this name
DerivedQuantizationSpec from_product(Node& node, const WeightedOp& op, DeriveQParamsFn derive);
DeriveQParamsFn scales(float all, size_t count = 0);  // 0: as many as the weight has

void forget(Annotations& annotations, Node* node);
Change forgets(std::function<bool(Node&)> is_forgotten);
Change forgets_output(const char* op);
Change forgets_input(const char* op, size_t index);

}  // namespace octet::test
