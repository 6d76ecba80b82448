// Shows the tests of a backend's developer: annotations of a graph given as text, the numbers of
// the observer, the kernel of the op, the faults of the device, tiles, and the path from a float
// program to every backend of this Octet.
#define CATCH_CONFIG_RUNNER
#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

#include "acme_backend.h"
#include "acme_device.h"
#include "acme_quantizer.h"
#include "backends/conformance/conformance.h"
#include "backends/conformance/program_builder.h"
#include "octet/octet.hpp"
#include "tools/cli/conformance/quantizer_cells.h"

using namespace octet;

namespace {

const char* const kModel = R"(
  graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3], %b = param "conv.bias": f32[4],
        %v = param "head.weight": f32[5,64], %c = param "head.bias": f32[5]):
    %conv: f32[1,4,8,8] = aten.conv2d.default(%x, %w, %b, [1, 1], [1, 1])
    %relu: f32[1,4,8,8] = aten.relu.default(%conv)
    %pool: f32[1,4,4,4] = aten.max_pool2d.default(%relu, [2, 2], [2, 2])
    %swish: f32[1,4,4,4] = acme.swish.default(%pool, 1.5)
    %flat: f32[1,64] = aten.flatten.using_ints(%swish, 1)
    %head: f32[1,5] = aten.linear.default(%flat, %v, %c)
    %prob: f32[1,5] = aten.sigmoid.default(%head)
    return (%prob))";

// Parses a graph and gives it weights in [-1, 1].
Graph model(const char* text) {
  Graph graph = parse_graph(text);
  at::manual_seed(0);
  for (auto& [name, constant] : graph.constants) to_aten(constant.tensor).uniform_(-1, 1);
  return graph;
}

std::vector<c10::IValue> random_input() { return {at::randn({1, 3, 8, 8})}; }

// Quantizes a float program to a q/dq program.
Graph to_qdq(Graph graph) {
  Report report;
  const std::unique_ptr<Quantizer> quantizer = acme::make_quantizer({});
  ObservedGraph observed = prepare_pt2e(std::move(graph), *quantizer, report);
  calibrate(observed, {random_input(), random_input(), random_input()});
  return convert_pt2e(std::move(observed), {}, report);
}

at::Tensor interpreted(const Graph& graph, const std::vector<c10::IValue>& inputs) {
  return Interpreter(graph).run(inputs).at(0).toTensor();
}

at::Tensor lowered(const Graph& graph, const std::string& backend,
                   const std::vector<c10::IValue>& inputs) {
  Report report;
  Session session(lower(graph, *make_support(backend), {}, report));
  return to_aten(session.run({from_aten(inputs.at(0).toTensor())}).at(0));
}

double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return at::max(at::abs(a - b)).item<double>();
}

}  // namespace

TEST_CASE("each kind of spec is where the NPU wants it") {
  Graph graph = model(kModel);
  Annotations annotations;
  Report report;
  acme::make_quantizer({})->annotate(graph, annotations, report);
  const std::string act = "int8 -127..127 per_tensor_symmetric acme_power_of_two";
  const std::string weight = "int8 -127..127 per_tensor_symmetric min_max";
  CHECK(to_text(graph, annotations) ==
        "%conv [conv_relu]: %x: " + act + ", %w: " + weight +
            ", %b: derived (acme_accumulator) from %x -> %conv, %w -> %conv\n" +
            "%relu [conv_relu]: => " + act + "\n" + "%pool [max_pool]: %relu: " + act +
            " => same as %relu -> %pool\n" + "%swish [swish]: %pool: " + act + " => " + act + "\n" +
            "%flat [flatten]: %swish: " + act + " => same as %swish -> %flat\n" +
            "%head [linear]: %flat: " + act + ", %v: " + weight +
            ", %c: derived (acme_accumulator) from %flat -> %head, %v -> %head => " + act + "\n" +
            "%prob [sigmoid]: %head: " + act + " => fixed 0.0078125, 0 int8\n");
}

TEST_CASE("an addition and the relu after it are one op, of which only the result is quantized") {
  Graph graph = parse_graph(
      "graph(%a: f32[4], %b: f32[4]): %s: f32[4] = aten.add.Tensor(%a, %b) %r: f32[4] = "
      "aten.relu.default(%s) return (%r)");
  Annotations annotations;
  Report report;
  acme::make_quantizer({})->annotate(graph, annotations, report);
  const std::string act = "int8 -127..127 per_tensor_symmetric acme_power_of_two";
  CHECK(to_text(graph, annotations) ==
        "%s [add_relu]: %a: " + act + ", %b: " + act + "\n%r [add_relu]: => " + act + "\n");
}

TEST_CASE("an op that the NPU lacks stays float, and the report says so") {
  Graph graph = model("graph(%x: f32[1,4]): %y: f32[1,4] = aten.softmax.int(%x, 1) return (%y)");
  Annotations annotations;
  Report report;
  acme::make_quantizer({})->annotate(graph, annotations, report);
  CHECK(annotations.size() == 0);
  REQUIRE(report.entries().size() == 1);
  CHECK(report.entries()[0].reason == "no rule of acme matches aten.softmax.int");
}

TEST_CASE("scales of activations are powers of two that cover the largest value") {
  const QuantizationSpec spec = {.dtype = DType::kInt8,
                                 .observer_or_fake_quant_ctr = {.name = "acme_power_of_two"},
                                 .quant_min = -127,
                                 .quant_max = 127,
                                 .qscheme = QScheme::kPerTensorSymmetric};
  const std::shared_ptr<Observer> observer = make_observer(observer_args(spec));
  CHECK_FALSE(observer->has_data());
  observer->observe(at::tensor({0.5f, -3.0f}));
  observer->observe(at::tensor({1.0f}));
  // 3 / 127 is between 1/64 and 1/32
  CHECK(observer->calculate_qparams().scale == std::vector<float>{1.0f / 32});
  CHECK(observer->calculate_qparams().zero_point == std::vector<int64_t>{0});
}

TEST_CASE("biases have the step of the sums: scale(x) * scale(w)") {
  const QuantizationSpec spec = {.dtype = DType::kInt8,
                                 .observer_or_fake_quant_ctr = {.name = "min_max"},
                                 .qscheme = QScheme::kPerTensorSymmetric};
  std::vector<std::shared_ptr<Observer>> sources;
  for (float largest : {0.5f, 3.0f}) {
    sources.push_back(make_observer(observer_args(spec)));
    sources.back()->observe(at::tensor({largest, -largest}));
  }
  const DerivedQParams bias = find_derive_fn("acme_accumulator")(sources);
  CHECK(bias.scale == std::vector<float>{sources[0]->calculate_qparams().scale[0] *
                                         sources[1]->calculate_qparams().scale[0]});
  CHECK(bias.zero_point == std::vector<int64_t>{0});
}

TEST_CASE("the kernel computes what the op computes") {
  const Graph graph =
      model("graph(%x: f32[1,3,8,8]): %y: f32[1,3,8,8] = acme.swish.default(%x, 0.7) return (%y)");
  const std::vector<c10::IValue> inputs = random_input();
  CHECK(greatest_difference(interpreted(graph, inputs), lowered(graph, "reference", inputs)) <
        1e-6);
}

TEST_CASE("every backend stays within two steps of the interpreted program") {
  const Graph graph = to_qdq(model(kModel));
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    const std::vector<c10::IValue> inputs = random_input();
    CHECK(greatest_difference(interpreted(graph, inputs), lowered(graph, backend, inputs)) <=
          2.001 / 128);
  }
}

TEST_CASE("the NPU runs what it accepts, the reference the rest, each with a reason") {
  Report report;
  const std::unique_ptr<BackendSupport> npu = make_support("acme");
  const Program program = lower(to_qdq(model(kModel)), *npu, {}, report);
  size_t accepted = 0;
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      INFO(op.name);
      const Verdict verdict = npu->accepts(program, op);
      CHECK(segment.backend == (verdict ? "acme" : "reference"));
      if (!verdict) CHECK_FALSE(verdict.reason().empty());
      if (verdict) ++accepted;
    }
  CHECK(accepted > 0);
  CHECK(program.versions.at("acme_driver") == "2.0");
}

TEST_CASE("the device stops where the chip would") {
  const auto fault = [](const acme::Command& command) -> std::string {
    std::vector<int8_t> memory(64, 127);
    const acme::Buffer buffer{reinterpret_cast<std::byte*>(memory.data()), 64};
    acme::Device device;
    const acme::Command load = acme::Load{{0, 0, 0, 1, 64, 0}};
    try {
      device.run(std::vector{load, command}, std::span(&buffer, 1));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const int64_t end = acme::kSramBytes;
  CHECK(fault(acme::LookUp{0, 256, 512, 16}).empty());
  CHECK(fault(acme::LookUp{8, 256, 512, 16}) == "the NPU stopped: address 8 is not aligned");
  CHECK(fault(acme::LookUp{end - 16, 256, 512, 17}) ==
        "the NPU stopped: 17 bytes at 262128 end after the SRAM");
  CHECK(fault(acme::Store{{0, 32, 0, 1, 33, 0}}) ==
        "the NPU stopped: a transfer ends after the buffer");
  CHECK(fault(acme::Load{{1, 0, 0, 1, 1, 0}}) == "the NPU stopped: no such buffer");
  // 32 products of 127 and 127 have 20 bits; 33 may not be asked for
  const acme::Windows point{1, 1, 1, 1, 1, 1, 0, 0, 1, 1};
  CHECK(fault(acme::Multiply{0, 0, 1024, point, 1, 32, 0, 32}).empty());
  CHECK(fault(acme::Multiply{0, 0, 1024, point, 1, 33, 0, 33}) ==
        "the NPU stopped: the array adds 32 products at most");
}

namespace {

// A convolution of 3x3 with as many channels before and after.
Program convolution(int64_t channels, int64_t height, int64_t width) {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {1, channels, height, width};
  const int x = b.input("x", DType::kInt8, shape, quantized(0.05f, 0));
  const int w =
      b.constant("w", random_integers(DType::kInt8, {channels, channels, 3, 3}, 1, -127, 127),
                 quantized(0.002f, 0));
  b.output(b.op("conv", {x, w, -1}, "y", DType::kInt8, shape, quantized(0.4f, 0),
                {{"padding", ints({1, 1})}}));
  return b.finish();
}

}  // namespace

TEST_CASE("an op that the SRAM does not hold is cut into tiles") {
  for (const auto& [channels, height, width] :
       {std::array{64, 40, 24}, std::array{256, 7, 7}, std::array{2, 300, 200}}) {
    const Program program = convolution(channels, height, width);
    const Tensor x = random_integers(DType::kInt8, {1, channels, height, width}, 2);
    CHECK(check_against_reference(program, "acme", {x}) <= 1);
  }
}

TEST_CASE("an op of which the SRAM does not hold a row is refused with the bytes") {
  CHECK(refusal(convolution(4, 8, 20000), "acme") ==
        "y: its smallest tile has 340064 bytes, the SRAM 262144");
}

TEST_CASE("the queue of each op is reported") {
  const Program program = with_one_segment(convolution(8, 6, 6), "acme");
  const std::unique_ptr<CompiledSegment> compiled =
      make_backend("acme")->compile(program, program.segments[0], 1);
  REQUIRE(compiled->kernels().size() == 1);
  // weights, bias, rows, sums, three products of depth 72, the results, out
  CHECK(compiled->kernels()[0].what == "9 commands");
  CHECK(compiled->kernels()[0].kernel == "acme_array");
}

TEST_CASE("the NPU computes what the reference does, op by op") {
  const conformance::ConformanceOptions options{.backend = "acme"};
  const std::vector<conformance::CellResult> results = run_conformance(options);
  INFO(to_text(results, options));
  CHECK(std::all_of(results.begin(), results.end(), [](const auto& r) { return r.passed(); }));
  const auto runs = [](const auto& r) { return r.outcome != conformance::Outcome::kRefused; };
  CHECK(std::count_if(results.begin(), results.end(), runs) > 150);
}

TEST_CASE("the quantizer annotates what the NPU runs as annotated") {
  const conformance::ConformanceOptions options{
      .backend = "acme,xnnpack", .quantizer = "acme", .is_quick = true};
  const std::vector<conformance::CellResult> results =
      run_quantizer_conformance({.make = [] { return acme::make_quantizer({}); }}, options);
  INFO(to_text(results, options));
  CHECK(std::all_of(results.begin(), results.end(), [](const auto& r) { return r.passed(); }));
}

int main(int count, char** arguments) {
  acme::register_all();
  register_backend(
      "acme", [] { return std::make_unique<acme::NpuBackend>(); },
      [] { return std::make_unique<acme::NpuSupport>(); });
  return Catch::Session().run(count, arguments);
}
