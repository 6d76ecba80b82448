// Affine specs, their observers and convert. check_affine.py compares them with torchao.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observed/observer_state.h"
#include "annotate/observers/affine.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/graph_matchers.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_affine {
namespace {

using Kind = Granularity::Kind;

Granularity per_group(int64_t size) {
  return {.kind = Kind::kPerGroup, .group_size = size, .block_size = {}};
}
Granularity per_token() { return {.kind = Kind::kPerToken, .block_size = {}}; }
Granularity per_axis(int axis) { return {.kind = Kind::kPerAxis, .axis = axis, .block_size = {}}; }
Granularity per_block(std::vector<int64_t> size) {
  return {.kind = Kind::kPerBlock, .block_size = std::move(size)};
}

QuantizationSpec affine_spec(const std::string& observer, Granularity granularity,
                             MappingType mapping = MappingType::kSymmetric) {
  QuantizationSpec spec;
  spec.observer_or_fake_quant_ctr.name = observer;
  AffineOptions& options = spec.observer_or_fake_quant_ctr.affine.emplace();
  options.granularity = std::move(granularity);
  options.mapping_type = mapping;
  spec.is_dynamic = observer == "affine_placeholder";
  return spec;
}

std::shared_ptr<Observer> observer_of(const QuantizationSpec& spec) {
  return make_observer(observer_args(spec));
}

std::vector<int64_t> blocks(const Granularity& granularity, std::vector<int64_t> shape) {
  return block_size_of(granularity, shape, "%x");
}

std::string spec_error(const QuantizationSpec& spec) {
  try {
    check_spec(spec, "%x -> %linear");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// A linear layer with the specs `act` and `weight`, if any.
ObservedGraph observe_linear(const std::optional<QuantizationSpec>& act,
                             const std::optional<QuantizationSpec>& weight,
                             const std::string& x = "f32[2,4]") {
  Graph graph = parse_graph("graph(%x: " + x + R"(, %w = param "w": f32[3,4]):
    %linear: f32[2,3] = aten.linear.default(%x, %w)
    return (%linear))");
  graph.constants.at("w").tensor = from_aten(at::arange(12).to(at::kFloat).reshape({3, 4}) - 6.0);
  Annotations annotations;
  Node* linear = graph.find_node("linear");
  QuantizationAnnotation annotation;
  if (act) annotation.set_input(graph.find_value("x"), *act);
  if (weight) annotation.set_input(graph.find_value("w"), *weight);
  annotations[linear] = std::move(annotation);
  Report report;
  return insert_observers(std::move(graph), std::move(annotations), report);
}

Graph convert(ObservedGraph observed) {
  observe_constants(observed);
  Report report;
  return convert_pt2e(std::move(observed), {}, report);
}

}  // namespace

TEST_CASE("granularities give torchao's block sizes", "[annotate][affine]") {
  CHECK(blocks({.kind = Kind::kPerTensor, .block_size = {}}, {8, 16}) ==
        std::vector<int64_t>{8, 16});
  CHECK(blocks(per_axis(0), {8, 4, 3}) == std::vector<int64_t>{1, 4, 3});
  CHECK(blocks(per_axis(-1), {8, 4, 3}) == std::vector<int64_t>{8, 4, 1});
  CHECK(blocks(per_group(4), {8, 16}) == std::vector<int64_t>{1, 4});
  CHECK(blocks(per_token(), {2, 3, 16}) == std::vector<int64_t>{1, 1, 16});
  CHECK(blocks({.kind = Kind::kPerRow, .axis = -1, .block_size = {}}, {8, 16}) ==
        std::vector<int64_t>{1, 16});
  CHECK(blocks(per_block({3, 3}), {8, 6, 9}) == std::vector<int64_t>{1, 3, 3});
}

TEST_CASE("a group size that does not divide the last dimension is an error",
          "[annotate][affine][error]") {
  CHECK_THROWS_WITH(blocks(per_group(3), {8, 16}),
                    "annotate: %x: blocks of 3 do not divide the 16 elements of dimension 1; "
                    "choose a group or block size that does");
  CHECK_THROWS_WITH(blocks(per_block({1, 2, 2}), {8, 16}),
                    "annotate: %x: a block of 3 dimensions for a tensor of rank 2, got [1, 2, 2]; "
                    "want at most as many");
  CHECK_THROWS_WITH(blocks(per_axis(2), {8, 16}),
                    "annotate: %x: a granularity along dimension 2 of a tensor of rank 2; want a "
                    "dimension that it has");
}

TEST_CASE("a size that is known at run time only can be a token's place, not its length",
          "[annotate][affine][error]") {
  CHECK(blocks(per_token(), {-1, -1, 16}) == std::vector<int64_t>{1, 1, 16});
  CHECK_THROWS_WITH(
      blocks(per_axis(0), {8, -1}),
      "annotate: %x: per_axis needs the size of dimension 1, which is known at run time only; "
      "choose per_token, or export with a fixed size");
}

TEST_CASE("specs with affine options are checked", "[annotate][affine][error]") {
  const std::string place = "annotate: %x -> %linear: ";
  CHECK(spec_error(affine_spec("affine_min_max", per_group(32))).empty());
  CHECK(spec_error(affine_spec("affine_min_max", per_group(0))) ==
        place + "a granularity per group wants a group size of 1 or more, got 0");
  CHECK(spec_error(affine_spec("affine_min_max", per_block({1, 0}))) ==
        place + "a granularity per block wants sizes of 1 or more, got [1, 0]");
  CHECK(spec_error(affine_spec("min_max", per_token())) ==
        place + "observer min_max takes no affine options; use affine_min_max");
  QuantizationSpec spec = affine_spec("affine_min_max", per_token());
  spec.qscheme = QScheme::kPerTensorAffine;
  CHECK(spec_error(spec) ==
        place +
            "affine options replace the qscheme, got per_tensor_affine too; leave the qscheme out");
  spec.qscheme.reset();
  spec.observer_or_fake_quant_ctr.affine->zero_point_domain = ZeroPointDomain::kFloat;
  CHECK(spec_error(spec) ==
        place +
            "torchao.quantize_affine takes only integer zero points that keep 0 exact; leave "
            "zero_point_domain and preserve_zero at their defaults");
  spec.observer_or_fake_quant_ctr.affine.reset();
  CHECK(spec_error(spec) ==
        place +
            "observer affine_min_max has no affine options; give a granularity and a mapping type");
}

TEST_CASE("a float8 range stays within its finite values", "[annotate][float8][error]") {
  QuantizationSpec spec;
  spec.dtype = DType::kFloat8E4M3FN;
  spec.quant_min = -448;
  spec.quant_max = 449;
  CHECK(spec_error(spec) ==
        "annotate: %x -> %linear: the quant range leaves float8_e4m3fn, got 449, want [-448, 448]");
}

TEST_CASE("float8 wants a quant range, unless its scales are affine", "[annotate][float8][error]") {
  QuantizationSpec spec;
  spec.dtype = DType::kFloat8E5M2;
  CHECK_THROWS_WITH(
      observer_of(spec),
      "prepare: min_max: float8_e5m2 has no default quant range; give quant_min and quant_max");
  spec = affine_spec("affine_min_max", per_axis(0));
  spec.dtype = DType::kFloat8E5M2;
  CHECK(observer_of(spec)->quant_max() == 57344);
}

TEST_CASE("affine observers refuse what their ops lack", "[annotate][affine][error]") {
  QuantizationSpec spec = affine_spec("affine_min_max", per_token());
  spec.dtype = DType::kUInt16;
  CHECK_THROWS_WITH(observer_of(spec),
                    "prepare: affine_min_max: the affine ops do not quantize to uint16, want "
                    "uint8, int8, int16, int32, "
                    "float8_e4m3fn or float8_e5m2");
  spec = affine_spec("affine_min_max", per_token(), MappingType::kAsymmetric);
  spec.dtype = DType::kFloat8E4M3FN;
  CHECK_THROWS_WITH(observer_of(spec),
                    "prepare: affine_min_max: float8_e4m3fn takes symmetric scales only, got "
                    "ASYMMETRIC; choose SYMMETRIC");
  spec = affine_spec("affine_min_max", per_token());
  spec.is_dynamic = true;
  CHECK_THROWS_WITH(observer_of(spec),
                    "prepare: affine_min_max: this observer cannot serve dynamic quantization; use "
                    "affine_placeholder");
  spec.observer_or_fake_quant_ctr.name = "affine_placeholder";
  spec.is_dynamic = false;
  CHECK_THROWS_WITH(observer_of(spec),
                    "prepare: affine_placeholder: a placeholder has no scale; set "
                    "is_dynamic, or use affine_min_max");
}

TEST_CASE("an affine observer keeps a range for each block", "[annotate][affine]") {
  const std::shared_ptr<Observer> observer =
      observer_of(affine_spec("affine_min_max", per_group(2), MappingType::kAsymmetric));
  observer->observe(at::tensor({-1.0F, 1.0F, 0.0F, 4.0F}).reshape({1, 4}));
  observer->observe(at::tensor({-3.0F, 0.5F, 0.0F, 2.0F}).reshape({1, 4}));
  CHECK(observer->state().min == std::vector<float>{-3, 0});
  CHECK(observer->state().max == std::vector<float>{1, 4});
  const QParams qparams = observer->calculate_qparams();
  CHECK(qparams.scale == std::vector<float>{4.0F / 255, 4.0F / 255});
  CHECK(qparams.block_size == std::vector<int64_t>{1, 2});
}

TEST_CASE(
    "affine_mse: a group's error is the least of a finer grid, within 2 percent, and at most that "
    "of its whole range",
    "[annotate][affine]") {
  for (const MappingType mapping :
       {MappingType::kSymmetric, MappingType::kSymmetricNoClippingErr}) {
    QuantizationSpec spec = affine_spec("affine_mse", per_group(64), mapping);
    spec.quant_min = -8;
    spec.quant_max = 7;
    const at::Tensor x = at::randn({4, 128}, at::detail::createCPUGenerator(3)).mul_(0.05);
    const auto scales_of = [&](const char* name) {
      spec.observer_or_fake_quant_ctr.name = name;
      const std::shared_ptr<Observer> observer = observer_of(spec);
      observer->observe(x);
      return observer->calculate_qparams().scale;
    };
    const auto error_of = [&](int64_t group, double scale) {
      const at::Tensor row = x.reshape({8, 64}).select(0, group);
      return (row - (row / scale).round().clamp(-8, 7) * scale).pow(2).sum().item<double>();
    };
    const std::vector<float> searched = scales_of("affine_mse");
    const std::vector<float> whole = scales_of("affine_min_max");
    REQUIRE(searched.size() == 8);
    for (int64_t group = 0; group < 8; ++group) {
      const double error = error_of(group, searched[static_cast<size_t>(group)]);
      CHECK(error <= error_of(group, whole[static_cast<size_t>(group)]) * (1 + 1e-5));
      for (int step = 0; step <= 500; ++step)
        CHECK(error <=
              1.02 * error_of(group, whole[static_cast<size_t>(group)] * (1 - 0.001 * step)));
    }
  }
}

TEST_CASE("affine_mse takes one constant tensor, symmetric and of integers",
          "[annotate][affine][error]") {
  const QuantizationSpec spec = affine_spec("affine_mse", per_group(2));
  const std::shared_ptr<Observer> observer = observer_of(spec);
  observer->observe(at::full({2, 4}, 1.0F));
  observer->observe(at::full({2, 4}, 1.0F));
  CHECK_THROWS_WITH(
      observer->observe(at::full({2, 4}, 2.0F)),
      "calibrate: affine_mse looks at one constant tensor, got a second one; use affine_min_max");
  const std::shared_ptr<Observer> other = observer_of(spec);
  other->observe(at::full({2, 4}, 2.0F));
  CHECK_THROWS_WITH(observer->merge(*other),
                    "state: observer \"affine_mse\": the two saw different tensors, want the same "
                    "weights; calibrate the same model");
  CHECK_THROWS_WITH(observer_of(affine_spec("affine_mse", per_group(2), MappingType::kAsymmetric)),
                    "prepare: affine_mse: this observer searches symmetric scales of integers, got "
                    "ASYMMETRIC and int8; use affine_min_max");
}

TEST_CASE("an affine observer refuses another number of blocks", "[annotate][affine][error]") {
  const std::shared_ptr<Observer> observer =
      observer_of(affine_spec("affine_min_max", per_token()));
  observer->observe(at::full({2, 4}, 1.0));
  CHECK_THROWS_WITH(observer->observe(at::full({3, 4}, 1.0)),
                    "calibrate: the number of blocks with a scale changed, got 3, want 2; static "
                    "scales per_token want tensors of one shape");
}

TEST_CASE("affine observers refuse NaN and infinities", "[annotate][affine][error]") {
  const std::shared_ptr<Observer> observer =
      observer_of(affine_spec("affine_min_max", per_token()));
  const at::Tensor x = at::full({2, 2}, 1.0);
  x.index_put_({at::tensor({1}), at::tensor({0})}, at::tensor({INFINITY}));
  CHECK_THROWS_WITH(observer->observe(x),
                    "calibrate: the observed values hold NaN or infinities, which give no scale");
}

TEST_CASE("affine min-max observers of two shards merge into that of both",
          "[annotate][affine][merge]") {
  const QuantizationSpec spec =
      affine_spec("affine_min_max", per_axis(0), MappingType::kAsymmetric);
  const at::Tensor first = at::randn({3, 8});
  const at::Tensor second = at::randn({3, 8}) * 2;
  const std::shared_ptr<Observer> a = observer_of(spec), b = observer_of(spec),
                                  both = observer_of(spec), loaded = observer_of(spec);
  a->observe(first);
  b->observe(second);
  both->observe(first);
  both->observe(second);
  loaded->set_state(b->state());
  a->merge(*loaded);
  CHECK(a->state() == both->state());
  CHECK(a->calculate_qparams().scale == both->calculate_qparams().scale);
}

TEST_CASE("an affine moving average takes in another's batches as if they came next",
          "[annotate][affine][merge]") {
  QuantizationSpec spec = affine_spec("affine_moving_average_min_max", per_axis(0));
  spec.observer_or_fake_quant_ctr.averaging_constant = 0.25;
  const std::shared_ptr<Observer> a = observer_of(spec), b = observer_of(spec),
                                  both = observer_of(spec), loaded = observer_of(spec);
  for (int i = 0; i < 6; ++i) {
    const at::Tensor x = at::randn({3, 8});
    (i < 2 ? a : b)->observe(x);
    both->observe(x);
  }
  loaded->set_state(b->state());
  a->merge(*loaded);
  for (size_t i = 0; i < 3; ++i)
    CHECK(a->state().max[i] == Approx(both->state().max[i]).epsilon(1e-6));
}

TEST_CASE(
    "convert: a group-wise weight is stored quantized, with scales and zero points as buffers",
    "[annotate][affine][convert]") {
  QuantizationSpec weight = affine_spec("affine_min_max", per_group(2));
  weight.quant_min = -8;
  weight.quant_max = 7;
  weight.observer_or_fake_quant_ctr.affine->zero_point_dtype = DType::kInt32;
  const Graph graph = convert(observe_linear(std::nullopt, weight));
  CHECK_THAT(graph, test::PrintsAs(R"(
graph(%b__scale0 = buffer "_scale0": f32[3,2], %b__zero_point0 = buffer "_zero_point0": i32[3,2], %b__frozen_param0 = buffer "_frozen_param0": i8[3,4], %x: f32[2,4]):
  %dequantize_affine: f32[3,4] = torchao.dequantize_affine.default(%b__frozen_param0, [1, 2], %b__scale0, %b__zero_point0, i8, -8, 7, output_dtype=f32)
  %linear: f32[2,3] = aten.linear.default(%x, %dequantize_affine)
  return (%linear))"));
}

TEST_CASE("convert: a dynamic scale per token is chosen at run time",
          "[annotate][affine][convert]") {
  const Graph graph = convert(observe_linear(
      affine_spec("affine_placeholder", per_token(), MappingType::kAsymmetric), std::nullopt));
  CHECK_THAT(graph, test::PrintsAs(R"(
graph(%x: f32[2,4], %w = param "w": f32[3,4]):
  %getitem: f32[2], %getitem_1: i32[2] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1, 4], i8, None, None, None, None, None)
  %quantize_affine: i8[2,4] = torchao.quantize_affine.default(%x, [1, 4], %getitem, %getitem_1, i8, None, None)
  %dequantize_affine: f32[2,4] = torchao.dequantize_affine.default(%quantize_affine, [1, 4], %getitem, %getitem_1, i8, None, None, output_dtype=f32)
  %linear: f32[2,3] = aten.linear.default(%dequantize_affine, %w)
  return (%linear))"));
}

TEST_CASE("convert: the state of an affine observer, saved and loaded, gives the same program",
          "[annotate][affine][state]") {
  const auto prepare = [] {
    return observe_linear(affine_spec("affine_min_max", per_token(), MappingType::kAsymmetric),
                          std::nullopt);
  };
  ObservedGraph first = prepare();
  calibrate(first, {{at::randn({2, 4})}});
  ObservedGraph second = prepare();
  observer_state_from_json(second, observer_state_to_json(first), "s.json");
  Report report;
  const Graph a = convert_pt2e(std::move(first), {}, report);
  const Graph b = convert_pt2e(std::move(second), {}, report);
  CHECK(to_text(a) == to_text(b));
  CHECK(at::equal(to_aten(a.constants.at("_scale0").tensor),
                  to_aten(b.constants.at("_scale0").tensor)));
}

TEST_CASE("convert: a sequence of any length has a scale per token chosen at run time",
          "[annotate][affine][convert]") {
  ObservedGraph observed = observe_linear(
      affine_spec("affine_placeholder", per_token(), MappingType::kAsymmetric), std::nullopt);
  Dim& rows = observed.graph.find_value("x")->meta->sizes[0];
  rows.expr = "Symbol('s0', positive=True, integer=True)";
  for (Node* node : observed.graph.nodes()) node->output()->meta->sizes[0] = rows;
  const Graph graph = convert(std::move(observed));
  CHECK(graph.find_value("getitem")->meta->sizes[0].is_symbolic());
  CHECK(graph.find_node("quantize_affine")->ints_or("block_size", {}) ==
        std::vector<int64_t>{1, 4});
}

TEST_CASE("convert: static scales without data are an error", "[annotate][affine][error]") {
  CHECK_THROWS_WITH(
      convert(observe_linear(affine_spec("affine_min_max", per_token()), std::nullopt)),
      "convert: %x: the observer saw no data, got 0 samples, want at least 1; calibrate before "
      "converting");
}

TEST_CASE(
    "one tensor with a scale per token for one user and per tensor for another has two observers",
    "[annotate][affine][sharing]") {
  Graph graph = parse_graph(R"(graph(%x: f32[2,4], %w = param "w": f32[4,4]):
    %a: f32[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.linear.default(%x, %w)
    return (%a, %b))");
  Annotations annotations;
  annotations[graph.find_node("a")].set_input(graph.find_value("x"),
                                              affine_spec("affine_placeholder", per_token()));
  annotations[graph.find_node("b")].set_input(
      graph.find_value("x"), affine_spec("affine_placeholder", {.block_size = {}}));
  Report report;
  const ObservedGraph observed = insert_observers(std::move(graph), std::move(annotations), report);
  CHECK(observer_nodes(observed.graph).size() == 2);
}

}  // namespace octet::test_affine
