// A quantizer of one's own, as a backend developer writes it: linear layers in int8, the output of sigmoid fixed, the rest float.
#include <cstdio>

#include "annotate/annotation_rule.h"
#include "annotate/quantizer.h"
#include "core/text.h"

namespace {

using namespace octet;

const QuantizationSpec kActivation = {
    .dtype = DType::kInt8,
    .observer_or_fake_quant_ctr = {.name = "histogram", .eps = kBackendEps},
    .quant_min = -128,
    .quant_max = 127,
    .qscheme = QScheme::kPerTensorAffine,
    .ch_axis = {                   }
};
const QuantizationSpec kWeights = {
    .dtype = DType::kInt8,
    .observer_or_fake_quant_ctr = {.name = "per_channel_min_max", .eps = kBackendEps},
    .quant_min = -127,
    .quant_max = 127,
    .qscheme = QScheme::kPerChannelSymmetric,
    .ch_axis = 0
};

const std::vector<AnnotationRule> kRules = {
  // name         pattern                   inputs                                output                     checks  owned marked owner
    {"linear_relu",         "relu(linear(x, w, b?))",              {{"x", kActivation}, {"w", kWeights}}, kActivation, {}, {}, {},      nullptr},
    {         "linear",   "linear(x, w, b?)", {{"x", kActivation}, {"w", kWeights}},                           kActivation,          {}, {}, {}, nullptr       },
    { "sigmoid", "sigmoid(x)",                       {{"x", kActivation}},                                 fixed(1.0 / 256,          -128), {}, {}, {},        nullptr},
};

class ToyQuantizer : public Quantizer {
 public:
  std::string name() const override { return "toy"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    const QuantizationConfig config;
    RuleState state;
    annotate_by_rules(
        graph, kRules,
        [&](const AnnotationRule&, const Match&) {
          return ConfigChoice{&config, ""};
        },
        annotations, state);
  }
};

}  // namespace

int main() {
  Graph graph = parse_graph(
      "graph(%x: f32[2,8], %w = param \"w\": f32[4,8]): %y: f32[2,4] = aten.linear.default(%x, %w) "
      "%z: f32[2,4] = aten.sigmoid.default(%y) return (%z)");
  Annotations annotations;
  Report report;
  ToyQuantizer().annotate(graph, annotations, report);
  std::printf("annotated %zu\n", annotations.size());
}
