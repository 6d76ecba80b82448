// Defines the quantizer: int8 with one scale per tensor and zero point 0 everywhere; activations
// with a power of two as scale, int32 biases with the step of the sums. acme_quantizer.json and
// acme_quantizer.py define the same one.
#include "acme_quantizer.h"

#include "acme_kernels.h"
#include "acme_observer.h"
#include "acme_plain_quantizer.h"
#include "annotate/observers/observer.h"
#include "quantizers/compose/declared_quantizer.h"

namespace acme {

using namespace octet;

// clang-format off
const QuantizationSpec kAct = {.dtype = DType::kInt8, .observer_or_fake_quant_ctr = {.name = "acme_power_of_two"},
                               .quant_min = -127, .quant_max = 127, .qscheme = QScheme::kPerTensorSymmetric};
const QuantizationSpec kWeight = {.dtype = DType::kInt8, .observer_or_fake_quant_ctr = {.name = "min_max"},
                                  .quant_min = -127, .quant_max = 127, .qscheme = QScheme::kPerTensorSymmetric};

std::unique_ptr<Quantizer> make_quantizer(const QuantizerOptions& options) {
  const DerivedFrom bias = {{"x", "w"}, derived_by("acme_accumulator", DType::kInt32, std::nullopt)};
  // the first match takes the op, so longer patterns come first
  const std::vector<AnnotationRule> rules = {
      // name          pattern                     inputs                                            output
      {"conv_relu",    "relu(conv2d(x, w, b?))",   {{"x", kAct}, {"w", kWeight}, {"b", bias}},       kAct},
      {"conv",         "conv2d(x, w, b?)",         {{"x", kAct}, {"w", kWeight}, {"b", bias}},       kAct},
      {"linear_relu",  "relu(linear(x, w, b?))",   {{"x", kAct}, {"w", kWeight}, {"b", bias}},       kAct},
      {"linear",       "linear(x, w, b?)",         {{"x", kAct}, {"w", kWeight}, {"b", bias}},       kAct},
      {"add_relu",     "relu(add(a, b))",          {{"a", kAct}, {"b", kAct}},                       kAct},
      {"add",          "add(a, b)",                {{"a", kAct}, {"b", kAct}},                       kAct},
      {"max_pool",     "max_pool2d(x)",            {{"x", kAct}},                                    same_as("x")},
      {"flatten",      "flatten(x)",               {{"x", kAct}},                                    same_as("x")},
      {"sigmoid",      "sigmoid(x)",               {{"x", kAct}},                                    fixed(1.0 / 128, 0)},
      {"swish",        "acme.swish.default(x)",    {{"x", kAct}},                                    kAct},
  };
  return std::make_unique<DeclaredQuantizer>(DeclaredBackend{"acme", rules}, options.compat);
}
// clang-format on

namespace {

// The step of the sums: scale(x) * scale(w).
DerivedQParams accumulator_step(const std::vector<std::shared_ptr<Observer>>& sources) {
  const float x = sources[0]->calculate_qparams().scale[0];
  const float w = sources[1]->calculate_qparams().scale[0];
  return {.scale = {x * w}, .zero_point = {0}};
}

}  // namespace

void register_all() {
  register_observer("acme_power_of_two", ObserverScope::kTensor, [](const ObserverArgs& args) {
    return std::make_shared<PowerOfTwoObserver>(args);
  });
  register_derive_fn("acme_accumulator", accumulator_step);
  register_custom_kernel("acme.swish.default", run_swish);
  register_quantizer("acme", make_quantizer);
  register_plain_quantizer();
}

}  // namespace acme
