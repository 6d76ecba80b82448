// The specs of quantizers in training: fake-quants, and batch norms as a part of their
// convolutions.
#include <catch2/catch.hpp>

#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_qat_specs {
namespace {

using Catch::Contains;
using test::annotate_text;

QuantizerOptions training() {
  QuantizerOptions options;
  options.is_qat = true;
  return options;
}

std::string annotated(const std::string& quantizer, const char* graph,
                      const QuantizerOptions& options = training()) {
  return annotate_text(graph, *make_quantizer(quantizer, options)).text;
}

std::string message_of(const std::string& json, const QuantizerOptions& options = training()) {
  return test::error_message([&] { parse_quantizer(json, "q.json", options); });
}

constexpr const char* kLinear = R"(graph(%x: f32[2,8], %w = param "w": f32[4,8]):
    %y: f32[2,4] = aten.linear.default(%x, %w)
    return (%y))";

constexpr const char* kConvBn =
    R"(graph(%x: f32[1,4,8,8], %w = param "w": f32[4,4,1,1], %m = buffer "m": f32[4]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %n: f32[1,4,8,8] = aten.batch_norm.default(%c, None, None, %m, %m, True, 0.1, 1e-05, False)
    %r: f32[1,4,8,8] = aten.relu6.default(%n)
    return (%r))";

const std::string kWeight =
    "int8 -127..127 per_channel_symmetric axis 0 fused_moving_avg_obs_fake_quantize";
const std::string kActivation =
    "int8 -128..127 per_tensor_affine fused_moving_avg_obs_fake_quantize";

}  // namespace

TEST_CASE("training: a batch norm and the clamp after it belong to their convolution",
          "[quantizers][qat]") {
  CHECK(annotated("xnnpack", kConvBn) ==
        "%c [conv_bn_clamp]: %x: " + kActivation + ", %w: " + kWeight +
            "\n%n [conv_bn_clamp]:\n%r [conv_bn_clamp]: => " + kActivation + "\n");
  CHECK_THAT(annotated("x86", kConvBn),
             Contains("%c [conv_bn_unary]: %x: uint8 0..255 per_tensor_affine "
                      "fused_moving_avg_obs_fake_quantize") &&
                 Contains("%r [conv_bn_unary]:"));
  // for calibration
  CHECK_THAT(annotated("xnnpack", kConvBn, {}), Contains("%c [conv]:") && !Contains("bn"));
}

TEST_CASE(
    "training: weights of 4 bits, dynamic activations, weights alone and chosen observers have "
    "fake-quants",
    "[quantizers][qat]") {
  QuantizerOptions options = training();
  options.weight_bits = 4;
  options.group_size = 0;
  CHECK_THAT(
      annotated("xnnpack", kLinear, options),
      Contains("%w: int8 -8..7 per_channel_symmetric axis 0 fused_moving_avg_obs_fake_quantize"));
  options.group_size = 4;
  CHECK_THAT(annotated("xnnpack", kLinear, options),
             Contains("per_group 4") && Contains("affine_fake_quantize"));
  options = training();
  options.is_dynamic = true;
  CHECK_THAT(annotated("xnnpack", kLinear, options), Contains("%x: int8 -128..127 dynamic") &&
                                                         Contains("per_token") &&
                                                         Contains("affine_fake_quantize"));
  options.compat = Compat::kTorchao;
  CHECK_THAT(annotated("xnnpack", kLinear, options),
             Contains("%x: int8 -128..127 per_tensor_affine dynamic fake_quantize"));
  options = training();
  options.reduce_range = true;
  CHECK_THAT(annotated("xnnpack", kLinear, options),
             Contains("%x: int8 -64..63 per_tensor_affine fused_moving_avg_obs_fake_quantize"));
  options = training();
  options.is_weight_only = true;
  const std::string alone = annotated("xnnpack", kLinear, options);
  CHECK_THAT(alone, Contains("fused_moving_avg_obs_fake_quantize") && !Contains("%x:"));
  const std::unique_ptr<Quantizer> chosen = parse_quantizer(
      R"({"base": "xnnpack", "global": {"act_observer": "histogram"}})", "q.json", training());
  CHECK_THAT(annotate_text(kLinear, *chosen).text,
             Contains("%x: int8 -128..127 per_tensor_affine fake_quantize(histogram)"));
}

TEST_CASE("training: a part that says so is observed only", "[quantizers][qat]") {
  const std::unique_ptr<Quantizer> mixed = parse_quantizer(
      R"({"base": "xnnpack", "global": {}, "op_type": {"aten.linear.default": {"is_qat": false}}})",
      "q.json", training());
  // WEIGHT_T: minimum and maximum, because the weight changes in training
  CHECK_THAT(annotate_text(kLinear, *mixed).text, Contains("%x: ACT, %w: WEIGHT_T => ACT"));
  CHECK_THAT(annotate_text(kConvBn, *mixed).text, Contains("fused_moving_avg_obs_fake_quantize"));
}

TEST_CASE("training: scales are learned where the options or an observer's name ask for it",
          "[quantizers][qat]") {
  QuantizerOptions options = training();
  options.learns_ranges = true;
  CHECK_THAT(annotated("x86", kLinear, options),
             Contains("%x: uint8 0..255 per_tensor_affine lsq_fake_quantize") &&
                 Contains("%w: int8 -128..127 per_channel_symmetric axis 0 lsq_fake_quantize"));
  options.is_dynamic = true;
  options.compat = Compat::kTorchao;
  CHECK_THAT(annotated("xnnpack", kLinear, options),
             Contains("dynamic fake_quantize") && Contains("axis 0 lsq_fake_quantize"));
  const std::unique_ptr<Quantizer> chosen = parse_quantizer(
      R"json({"base": "xnnpack", "global": {"weight_observer": "learnable_fake_quantize(min_max)"}})json",
      "q.json", training());
  CHECK_THAT(annotate_text(kLinear, *chosen).text,
             Contains("%w: int8 -127..127 per_tensor_symmetric learnable_fake_quantize(min_max)"));
}

TEST_CASE("training: a user-defined quantizer names fake-quants as observers, of groups too",
          "[quantizers][qat]") {
  const std::unique_ptr<Quantizer> own = parse_quantizer(R"json({"name": "own", "specs": {
      "act": {"dtype": "int8", "observer": "fake_quantize(histogram)"},
      "w": {"dtype": "int8", "quant_min": -8, "quant_max": 7, "observer": {"name": "affine_fake_quantize(affine_min_max)", "granularity": "per_group",
            "group_size": 4, "mapping_type": "symmetric"}}},
      "patterns": [{"pattern": "linear(x, w)", "inputs": {"x": "act", "w": "w"}, "output": null}]})json",
                                                         "q.json", training());
  Report report;
  const ObservedGraph observed = prepare_qat_pt2e(parse_graph(kLinear), *own, report);
  CHECK(observed.observers.size() == 2);
  CHECK_THAT(
      message_of(
          R"json({"name": "own", "specs": {"act": {"dtype": "int8", "observer": "min_max(histogram)"}}, "patterns": []})json"),
      Contains("observer \"min_max(histogram)\": unknown"));
}

TEST_CASE("training: is_qat is refused where nothing is trained", "[quantizers][qat]") {
  CHECK(message_of(R"({"base": "x86", "global": {"is_qat": true}})", {}) ==
        "quantizer: q.json: /global/is_qat: got true, want false: this command does not train; use "
        "octet qat");
}

TEST_CASE("training: a transposed convolution with scales per channel is prepared",
          "[quantizers][qat]") {
  const std::unique_ptr<Quantizer> quantizer = make_quantizer("xnnpack", training());
  Report report;
  const ObservedGraph observed =
      prepare_qat_pt2e(parse_graph(R"(graph(%x: f32[1,4,8,8], %w = param "w": f32[4,6,1,1]):
    %c: f32[1,6,8,8] = aten.conv_transpose2d.input(%x, %w)
    return (%c))"),
                       *quantizer, report);
  CHECK(observer_nodes(observed.graph).size() == 3);
}

}  // namespace octet::test_qat_specs
