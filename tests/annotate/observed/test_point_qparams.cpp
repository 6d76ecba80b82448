// Scales and zero points from user-defined observers and derive functions are checked before the
// program uses them.
#include "annotate/observed/observed_graph.h"

#include <limits>

#include <ATen/ops/randn.h>

#include "annotate/annotation/quantizer.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_point_qparams {
namespace {

using test::error_message;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

QParams g_given;  // by the observer "given"

class GivenObserver : public Observer {
 public:
  explicit GivenObserver(const ObserverArgs& args) : Observer(args) {}
  void observe(const at::Tensor&) override {}
  bool has_data() const override { return true; }
  bool keeps_state() const override { return false; }
  QParams calculate_qparams() const override {
    QParams result = g_given;
    result.axis = is_per_channel(args_.qscheme) ? args_.ch_axis.value_or(0) : -1;
    return result;
  }
};

void register_given() {
  static const bool is_done = [] {
    register_observer("given", ObserverScope::kEither, [](const ObserverArgs& args) {
      return std::make_shared<GivenObserver>(args);
    });
    return true;
  }();
  CHECK(is_done);
}

QuantizationSpec spec_of(const char* observer) {
  QuantizationSpec spec;
  spec.observer_or_fake_quant_ctr.name = observer;
  return spec;
}

QuantizationSpec per_channel(QuantizationSpec spec) {
  spec.qscheme = QScheme::kPerChannelSymmetric;
  spec.ch_axis = 0;
  return spec;
}

// Gives every linear these specs.
class LinearQuantizer : public Quantizer {
 public:
  QuantizationSpec input = spec_of("min_max");
  QuantizationSpec weight = per_channel(spec_of("per_channel_min_max"));
  std::optional<SpecVariant> bias;

  std::string name() const override { return "linears"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    for (Node* node : graph.nodes_of("aten.linear")) {
      Value *x = node->find_input("input"), *w = node->find_input("weight"),
            *b = node->find_input("bias");
      annotations[node].set_input(x, input);
      annotations[node].set_input(w, weight);
      if (!bias) continue;
      if (DerivedQuantizationSpec* derived = std::get_if<DerivedQuantizationSpec>(&*bias))
        derived->derived_from = {Edge{x, node}, Edge{w, node}};
      annotations[node].set_input(b, *bias);
    }
  }
};

std::string message_of(LinearQuantizer quantizer) {
  return error_message([&] {
    Report report;
    ObservedGraph observed = prepare_pt2e(
        parse_graph(R"(graph(%w = param "w": f32[4,3], %b = param "b": f32[4], %x: f32[2,3]):
          %y: f32[2,4] = aten.linear.default(%x, %w, %b) return (%y))"),
        quantizer, report);
    calibrate(observed, {{at::randn({2, 3})}});
    convert_pt2e(std::move(observed), {}, report);
  });
}

std::string with_given(std::vector<float> scale, std::vector<int64_t> zero_point,
                       bool is_weight = false) {
  register_given();
  g_given.scale = std::move(scale);
  g_given.zero_point = std::move(zero_point);
  LinearQuantizer quantizer;
  (is_weight ? quantizer.weight : quantizer.input).observer_or_fake_quant_ctr.name = "given";
  return message_of(quantizer);
}

DerivedQuantizationSpec derived(std::vector<float> scale, std::vector<int64_t> zero_point) {
  DerivedQuantizationSpec spec;
  spec.derive_name = "mine";
  spec.derive_qparams_fn = [=](const auto&) { return DerivedQParams{scale, zero_point}; };
  spec.qscheme = QScheme::kPerChannelSymmetric;
  spec.ch_axis = 0;
  return spec;
}

std::string with_derived(std::vector<float> scale, std::vector<int64_t> zero_point) {
  LinearQuantizer quantizer;
  quantizer.bias = derived(std::move(scale), std::move(zero_point));
  return message_of(quantizer);
}

std::string with_fixed(double scale, int64_t zero_point) {
  LinearQuantizer quantizer;
  FixedQParamsQuantizationSpec spec;
  spec.dtype = DType::kInt8;
  spec.scale = scale;
  spec.zero_point = zero_point;
  quantizer.bias = spec;
  return message_of(quantizer);
}

}  // namespace

TEST_CASE("what an observer computes is checked, and the error names it and the edge",
          "[annotate][qparams]") {
  const std::string at_x =
      R"(convert: %x -> %y (observer group 0): the observer "given" returned )";
  const std::string scale = " at index 0, want a finite number above 0; correct it";
  CHECK(with_given({0.5f}, {0}) == "no error");
  CHECK(with_given({kNan}, {0}) == at_x + "the scale nan" + scale);
  CHECK(with_given({kInfinity}, {0}) == at_x + "the scale inf" + scale);
  CHECK(with_given({0.0f}, {0}) == at_x + "the scale 0" + scale);
  CHECK(with_given({-0.5f}, {0}) == at_x + "the scale -0.5" + scale);
  CHECK(with_given({0.5f}, {int64_t{1} << 40}) ==
        at_x + "the zero point 1099511627776 at index 0, want one within -128 to 127; correct it");
  CHECK(with_given({0.5f}, {}) ==
        at_x + "1 scales and 0 zero points, want one of each per tensor or channel; correct it");
  CHECK(with_given({}, {}) ==
        at_x + "0 scales and 0 zero points, want one of each per tensor or channel; correct it");
  CHECK(with_given({0.5f, 0.5f}, {0, 0}) ==
        at_x + "2 scales for the whole tensor, want 1; set the qscheme and the axis of channels");
}

TEST_CASE("an observer of channels gives a scale for each", "[annotate][qparams]") {
  const std::string at_w =
      R"(convert: %w -> %y (observer group 1): the observer "given" returned )";
  CHECK(with_given({1, 1, 1, 1}, {0, 0, 0, 0}, true) == "no error");
  CHECK(with_given({1, 1}, {0, 0}, true) ==
        at_w + "2 scales for the 4 channels along dimension 0; want one each");
  CHECK(with_given({1, 1, kNan, 1}, {0, 0, 0, 0}, true) ==
        at_w + "the scale nan at index 2, want a finite number above 0; correct it");
  g_given.scale = {1, 1, 1, 1};
  LinearQuantizer quantizer;
  quantizer.weight.ch_axis = 2;
  quantizer.weight.observer_or_fake_quant_ctr.name = "given";
  CHECK(message_of(quantizer) ==
        "convert: %w -> %y (observer group 1): its channels are along dimension 2, but it has 2; "
        "correct ch_axis");
}

TEST_CASE("what a derive function computes is checked, and the error names it and the edge",
          "[annotate][qparams]") {
  const std::string mine =
      R"(convert: %b -> %y (observer group 2): the derive function "mine" returned )";
  CHECK(with_derived({1, 1, 1, 1}, {0, 0, 0, 0}) == "no error");
  CHECK(with_derived({1, 0, 1, 1}, {0, 0, 0, 0}) ==
        mine + "the scale 0 at index 1, want a finite number above 0; correct it");
  CHECK(with_derived({1, 1, 1, 1}, {0, 0, 0, int64_t{1} << 31}) ==
        mine +
            "the zero point 2147483648 at index 3, want one within -2147483648 to 2147483647; "
            "correct it");
  CHECK(with_derived({1, 1, 1, 1}, {0}) ==
        mine + "4 scales and 1 zero points, want one of each per tensor or channel; correct it");
  CHECK(with_derived({1, 1}, {0, 0}) ==
        mine + "2 scales for the 4 channels along dimension 0; want one each");
}

TEST_CASE("a fixed scale is a float32 above 0, a zero point within the range",
          "[annotate][qparams]") {
  CHECK(with_fixed(0.5, 3) == "no error");
  CHECK(with_fixed(1e-60, 0) ==
        "annotate: %b -> %y: a fixed scale must be a positive and finite float32, got 1e-60");
  CHECK(with_fixed(1e60, 0) ==
        "annotate: %b -> %y: a fixed scale must be a positive and finite float32, got 1e+60");
  CHECK(with_fixed(0.5, 200) ==
        "annotate: %b -> %y: a fixed zero point lies outside of the quant range, got 200, want "
        "[-128, 127]");
}

TEST_CASE("a least scale is a float32 above 0", "[annotate][qparams]") {
  for (const double eps : {0.0, -1.0, 1e-60, std::numeric_limits<double>::infinity()}) {
    LinearQuantizer quantizer;
    quantizer.input.observer_or_fake_quant_ctr.eps = eps;
    CHECK(message_of(quantizer).find("annotate: %x -> %y: eps, the least scale") == 0);
  }
}

TEST_CASE("a fake-quant checks what the observer in it computes", "[annotate][qparams]") {
  register_given();
  g_given.scale = {kNan};
  g_given.zero_point = {0};
  LinearQuantizer quantizer;
  quantizer.input.observer_or_fake_quant_ctr.name = "fake_quantize(given)";
  CHECK(message_of(quantizer).find(R"(the observer "given" returned the scale nan)") !=
        std::string::npos);
}

TEST_CASE("symmetric zero points lie within narrow ranges", "[annotate][qparams]") {
  QuantizationSpec spec = spec_of("min_max");
  spec.dtype = DType::kUInt8;
  spec.qscheme = QScheme::kPerTensorSymmetric;
  spec.observer_or_fake_quant_ctr.reduce_range = true;
  const std::shared_ptr<Observer> observer = make_observer(observer_args(spec));
  observer->observe(at::randn({8}));
  CHECK(observer->calculate_qparams().zero_point == std::vector<int64_t>{63});
}

TEST_CASE("scales of blocks that their dtype cannot hold are refused", "[annotate][qparams]") {
  LinearQuantizer quantizer;
  AffineOptions options;
  options.granularity.kind = Granularity::Kind::kPerAxis;
  options.mapping_type = MappingType::kSymmetric;
  options.scale_dtype = DType::kFloat16;
  quantizer.weight = spec_of("affine_min_max");
  quantizer.weight.observer_or_fake_quant_ctr.eps = 1e-12;
  quantizer.weight.observer_or_fake_quant_ctr.affine = options;
  CHECK(
      message_of(quantizer) ==
      R"(convert: %w: the observer "affine_min_max" returned the scale 0 at index 0, want a finite )"
      "number above 0; correct it");
}

}  // namespace octet::test_point_qparams
