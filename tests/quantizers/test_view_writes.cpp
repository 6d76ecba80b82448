// Writes into views with quantize and dequantize ops around them: no write is lost with either
// quantizer, after calibration or in training.
#include <cmath>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/qat_model.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "quantizers/registry.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_view_writes {
namespace {

// A convolution gives %y; `body` writes to it; a convolution reads it and gives the result.
Graph with_writes(const std::string& body, const std::string& read = "%y") {
  Graph graph = parse_graph(
      R"(graph(%w = param "w": f32[8,3,3,3], %v = param "v": f32[8,8,1,1], %p = buffer "p": f32[2,8,4,4], %x: f32[2,3,6,6]):
    %y: f32[2,8,4,4] = aten.conv2d.default(%x, %w)
)" + body +
      "\n    %z: f32[2,8,4,4] = aten.conv2d.default(" + read + ", %v)\n    return (%z)");
  at::manual_seed(7);
  for (auto& [fqn, constant] : graph.constants)
    constant.tensor = from_aten(at::randn(constant.tensor.shape()));
  return graph;
}

std::vector<c10::IValue> batch(uint64_t seed) {
  at::manual_seed(seed);
  return {at::randn({2, 3, 6, 6})};
}

double sqnr(const Graph& program, const Graph& quantized) {
  const at::Tensor want = Interpreter(program).run(batch(9))[0].toTensor().to(at::kDouble);
  const at::Tensor got = Interpreter(quantized).run(batch(9))[0].toTensor().to(at::kDouble);
  return 10 * std::log10((want.square().sum() / (want - got).square().sum()).item<double>());
}

Graph calibrated(Graph graph, const std::string& quantizer, Compat compat = Compat::kNone) {
  Report report;
  QuantizerOptions options;
  options.compat = compat;
  PrepareOptions prepare;
  prepare.compat = compat;
  ObservedGraph observed =
      prepare_pt2e(std::move(graph), *make_quantizer(quantizer, options), report, prepare);
  calibrate(observed, {batch(1), batch(2), batch(9)});
  ConvertOptions convert;
  convert.compat = compat;
  return convert_pt2e(std::move(observed), convert, report);
}

// A moving average that sees a tensor before and after a write stays below the larger range.
Graph trained(Graph graph, const std::string& quantizer) {
  Report report;
  QuantizerOptions options;
  options.is_qat = true;
  QatModel model(prepare_qat_pt2e(std::move(graph), *make_quantizer(quantizer, options), report));
  const at::NoGradGuard no_grad;
  for (int step = 0; step < 3; ++step) model.forward(batch(9));
  return convert_pt2e(std::move(model).finish(), {}, report);
}

struct Case {
  const char* what;
  std::string body;
  std::string read = "%y";
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"y[:, :4] *= .25",
       R"(%s: f32[2,4,4,4] = aten.slice.Tensor(%y, 1, 0, 4)
    %m: f32[2,4,4,4] = aten.mul_.Tensor(%s, 0.25)
    %t: f32[2,4,4,4] = aten.slice.Tensor(%y, 1, 0, 4)
    %c: f32[2,4,4,4] = aten.copy_.default(%t, %m))"},
      {"y[:, 0] = 3",
       R"(%s: f32[2,4,4] = aten.select.int(%y, 1, 0)
    %c: f32[2,4,4] = aten.fill_.Scalar(%s, 3.0))"},
      {"a chain of views",
       R"(%f: f32[2,8,16] = aten.view.default(%y, [2,8,16])
    %s: f32[2,4,16] = aten.slice.Tensor(%f, 1, 2, 6)
    %t: f32[4,2,16] = aten.permute.default(%s, [1,0,2])
    %u: f32[2,16] = aten.select.int(%t, 0, 1)
    %c: f32[2,16] = aten.mul_.Tensor(%u, -2.0))"},
      {"parts of a split",
       R"([%a: f32[2,4,4,4], %b: f32[2,4,4,4]] = aten.chunk.default(%y, 2, 1)
    %d: f32[2,4,4,4] = aten.dropout.default(%b, 0.5, False)
    %r: f32[2,4,4,4] = aten.relu_.default(%a)
    %m: f32[2,4,4,4] = aten.add_.Tensor(%d, %r))"},
      {"a write after a reader",
       R"(%r: f32[2,8,4,4] = aten.conv2d.default(%y, %v)
    %s: f32[2,4,4,4] = aten.slice.Tensor(%y, 1, 4, 8)
    %c: f32[2,4,4,4] = aten.copy_.default(%s, 0.5)
    %q: f32[2,8,4,4] = aten.add.Tensor(%y, %r))",
       "%q"},
      {"a view that is read when its base is written",
       R"(%f: f32[2,8,16] = aten.view.default(%y, [2,8,16])
    %m: f32[2,8,4,4] = aten.mul_.Tensor(%y, 0.5)
    %q: f32[2,8,4,4] = aten.view.default(%f, [2,8,4,4]))",
       "%q"},
      {"the old name of what an op overwrote",
       R"(%r: f32[2,8,4,4] = aten.relu_.default(%y)
    %e: f32[2,8,4,4] = aten.conv2d.default(%r, %v)
    %q: f32[2,8,4,4] = aten.add.Tensor(%e, %y))",
       "%q"},
      {"boxes of a detector: x and y by a grid, width and height by anchors",
       R"(%g: f32[2,8,4,4] = aten.sigmoid.default(%y)
    %f: f32[2,2,4,4,4] = aten.view.default(%g, [2,2,4,4,4])
    %s: f32[2,2,4,4,4] = aten.permute.default(%f, [0,1,3,4,2])
    %a: f32[2,2,4,4,2] = aten.slice.Tensor(%s, -1, 0, 2)
    %b: f32[2,2,4,4,2] = aten.mul.Tensor(%a, 2.0)
    %d: f32[2,2,4,4,2] = aten.sub.Tensor(%b, 0.5)
    %e: f32[2,2,4,4,2] = aten.slice.Tensor(%s, -1, 0, 2)
    %h: f32[2,2,4,4,2] = aten.copy_.default(%e, %d)
    %i: f32[2,2,4,4,2] = aten.slice.Tensor(%s, -1, 2, 4)
    %j: f32[2,2,4,4,2] = aten.mul.Tensor(%i, 2.0)
    %k: f32[2,2,4,4,2] = aten.mul.Tensor(%j, %j)
    %l: f32[2,2,4,4,2] = aten.slice.Tensor(%s, -1, 2, 4)
    %m: f32[2,2,4,4,2] = aten.copy_.default(%l, %k)
    %n: f32[2,2,4,4,4] = aten.permute.default(%s, [0,1,4,2,3])
    %q: f32[2,8,4,4] = aten.reshape.default(%n, [2,8,4,4]))",
       "%q"},
  };
  return all;
}

int count_of(const Graph& graph, std::string_view op) {
  return static_cast<int>(graph.nodes_of(op).size());
}

}  // namespace

TEST_CASE("writes into views reach the readers of a quantized program",
          "[quantizers][view_writes]") {
  for (const char* quantizer : {"xnnpack", "x86"})
    for (const Case& c : cases()) {
      INFO(quantizer << ": " << c.what);
      const Graph quantized = calibrated(with_writes(c.body, c.read), quantizer);
      CHECK(sqnr(with_writes(c.body, c.read), quantized) > 25);
      CHECK(count_of(quantized, "aten.conv2d") ==
            count_of(with_writes(c.body, c.read), "aten.conv2d"));
      for (const Node* conv : quantized.nodes_of("aten.conv2d"))
        CHECK(conv->find_input("weight")->producer() != nullptr);  // dequantized
    }
}

TEST_CASE("writes into views reach the readers of a program that was trained",
          "[quantizers][view_writes][qat]") {
  for (const char* quantizer : {"xnnpack", "x86"})
    for (const Case& c : cases()) {
      INFO(quantizer << ": " << c.what);
      // A moving average follows what a write makes larger slowly, and clips it at first.
      CHECK(sqnr(with_writes(c.body, c.read), trained(with_writes(c.body, c.read), quantizer)) >
            15);
    }
}

TEST_CASE("the peer loses writes into views", "[quantizers][view_writes]") {
  const Case& first = cases().front();
  CHECK(sqnr(with_writes(first.body),
             calibrated(with_writes(first.body), "xnnpack", Compat::kTorchao)) < 15);
}

TEST_CASE("an in-place op whose old name nobody reads is quantized like others",
          "[quantizers][view_writes]") {
  const std::string body = R"(%a: f32[2,8,4,4] = aten.add_.Tensor(%y, %p)
    %r: f32[2,8,4,4] = aten.relu_.default(%a))";
  const Graph quantized = calibrated(with_writes(body, "%r"), "xnnpack");
  const Node& sum = *quantized.nodes_of("aten.add").at(0);
  for (const char* name : {"self", "other"})
    CHECK(sum.find_input(name)->producer()->is("quantized_decomposed.dequantize_per_tensor"));
}

TEST_CASE("what is not observed because of a write has an entry in the report",
          "[quantizers][view_writes]") {
  Report report;
  prepare_pt2e(with_writes(cases().front().body), *make_quantizer("xnnpack", {}), report);
  const auto found = std::find_if(report.entries().begin(), report.entries().end(),
                                  [](const ReportEntry& entry) { return entry.node == "s"; });
  REQUIRE(found != report.entries().end());
  CHECK(found->reason ==
        "%y is not observed: its memory is written later, and the write would miss the quantized "
        "copy or the original");
}

}  // namespace octet::test_view_writes
