// Defines the quantizer: int8 activations with a power of two as scale, int8 weights per output
// channel, int32 biases with the step of the accumulator.
#include "acme_quantizer.h"

#include "acme_backend.h"
#include "acme_kernels.h"
#include "acme_observer.h"
#include "acme_plain_quantizer.h"
#include "annotate/observers/observer.h"
#include "quantizers/json/declared_quantizer.h"

namespace acme {

using namespace octet;

// clang-format off
const QuantizationSpec kAct = {.dtype = DType::kInt8, .observer_or_fake_quant_ctr = {.name = "acme_power_of_two"},
                               .quant_min = -127, .quant_max = 127, .qscheme = QScheme::kPerTensorSymmetric};
const QuantizationSpec kWeight = {.dtype = DType::kInt8, .observer_or_fake_quant_ctr = {.name = "per_channel_min_max"},
                                  .quant_min = -127, .quant_max = 127, .qscheme = QScheme::kPerChannelSymmetric, .ch_axis = 0};

std::unique_ptr<Quantizer> make_quantizer(const QuantizerOptions& options) {
  const DerivedFrom bias = {{"x", "w"}, derived_by("acme_accumulator")};
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
      {"sigmoid",      "sigmoid(x)",               {{"x", kAct}},                                    fixed(1.0 / 256, -128)},
      {"swish",        "acme.swish.default(x)",    {{"x", kAct}},                                    kAct},
  };
  return std::make_unique<DeclaredQuantizer>(DeclaredBackend{"acme", rules}, options.compat);
}
// clang-format on

namespace {

// The step of an accumulator: scale(x) * scale(w) of each channel.
DerivedQParams accumulator_step(const std::vector<std::shared_ptr<Observer>>& sources) {
  const float x = sources[0]->calculate_qparams().scale[0];
  DerivedQParams result;
  for (float w : sources[1]->calculate_qparams().scale) {
    result.scale.push_back(x * w);
    result.zero_point.push_back(0);
  }
  return result;
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
  register_npu();
}

}  // namespace acme
