// Programs that write: in-place ops, and buffers that carry state from run to run.
#include "annotate/convert/convert_steps.h"
#include "annotate/flow_helpers.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"
#include "support/graph_matchers.h"
#include "support/rule_quantizer.h"
#include "support/tensor_matchers.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_mutable {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::count_of;

constexpr const char* kQuantize = "quantized_decomposed.quantize_per_tensor.default";

// The outputs of `runs` consecutive runs of one interpreter, on the inputs of calibration.
std::vector<at::Tensor> run_often(const Graph& graph, int runs) {
  Interpreter interpreter(graph);
  std::vector<at::Tensor> outputs;
  for (int i = 0; i < runs; ++i)
    outputs.push_back(interpreter.run(test::random_inputs(graph, 5 + static_cast<uint64_t>(i % 2)))
                          .at(0)
                          .toTensor()
                          .clone());
  return outputs;
}

void check_same_runs(const Graph& a, const Graph& b, double atol) {
  const std::vector<at::Tensor> want = run_often(a, 3);
  const std::vector<at::Tensor> got = run_often(b, 3);
  for (size_t i = 0; i < want.size(); ++i) CHECK_THAT(got[i], test::AllClose(want[i], atol));
}

// state + x, written back; all of it in steps of 0.1.
std::string state_text(const std::string& write_scale, const std::string& tail) {
  return R"(graph(%s = buffer "s": f32[2,2], %x: f32[2,2]):
  %sq: i8[2,2] = quantized_decomposed.quantize_per_tensor.default(%s, 0.1, 3, -128, 127, i8)
  %sd: f32[2,2] = quantized_decomposed.dequantize_per_tensor.default(%sq, 0.1, 3, -128, 127, i8)
  %y: f32[2,2] = aten.add.Tensor(%sd, %x)
  %yq: i8[2,2] = quantized_decomposed.quantize_per_tensor.default(%y, )" +
         write_scale + R"(, 3, -128, 127, i8)
  %yd: f32[2,2] = quantized_decomposed.dequantize_per_tensor.default(%yq, )" +
         write_scale + ", 3, -128, 127, i8)\n" + tail;
}
constexpr const char* kCopy = "  %c: f32[2,2] = aten.copy_.default(%s, %yd) return (%yd)";

}  // namespace

TEST_CASE("mutable: in-place ops are quantized like the others", "[annotate][mutable]") {
  const std::string text = R"(graph(%x: f32[2,4]):
    %n: f32[2,4] = aten.neg.default(%x) %a: f32[2,4] = aten.add_.Tensor(%n, %n) %r: f32[2,4] = aten.relu_.default(%a) return (%r))";
  const Graph graph =
      test::quantize(parse_graph(text), Json::array({{{"target", "aten.add_.Tensor"},
                                                      {"inputs", {{"0", act_spec()}}},
                                                      {"output", act_spec()}}}));
  CHECK(count_of(graph, kQuantize) == 2);
  check_same_runs(parse_graph(text), graph, 0.1);
}

TEST_CASE("mutable: a buffer that the program writes to is never computed ahead",
          "[annotate][mutable]") {
  const Json rules =
      Json::array({{{"target", "aten.mul.Tensor"}, {"inputs", {{"0", act_spec()}}}}});
  for (const char* write : {"%w = aten.index_put_.default(%s, [%i], %x)",
                            "%v = aten.select.int(%s, 0, 0) %w = aten.copy_.default(%v, %r)"}) {
    const std::string text =
        std::string(R"(graph(%s = buffer "s": f32[3,4], %i = buffer "i": i64[2], %x: f32[2,4]):
      %r: f32[4] = aten.select.int(%x, 0, 1) )") +
        write + " %y: f32[3,4] = aten.mul.Tensor(%s, 2.0) return (%y)";
    const Graph graph = test::quantize(parse_graph(text), rules);
    CHECK(count_of(graph, kQuantize) == 1);
    CHECK(graph.constants.at("s").tensor.dtype() == DType::kFloat32);
    check_same_runs(parse_graph(text), graph, 0.1);
  }
}

TEST_CASE(
    "mutable: a tensor changed through a view is observed where it is used; the peer observes what "
    "it was",
    "[annotate][mutable]") {
  const std::string text = R"(graph(%x: f32[2,4], %y: f32[4]):
    %n: f32[2,4] = aten.neg.default(%x)
    %a: f32[2,4] = aten.mul.Tensor(%n, %n)
    %v: f32[4] = aten.select.int(%n, 0, 1)
    %w: f32[4] = aten.copy_.default(%v, %y)
    %b: f32[2,4] = aten.mul.Tensor(%n, %n)
    return (%b, %a))";
  test::RuleQuantizer quantizer(
      Json::array({{{"target", "aten.mul.Tensor"}, {"inputs", {{"0", act_spec()}}}}}));
  Report report;
  const ObservedGraph own = prepare_pt2e(parse_graph(text), quantizer, report);
  CHECK(
      test::targets(own.graph) ==
      "neg.default observe.default mul.Tensor select.int copy_.default observe.default mul.Tensor");
  PrepareOptions compat;
  compat.compat = Compat::kTorchao;
  const ObservedGraph peer = prepare_pt2e(parse_graph(text), quantizer, report, compat);
  CHECK(test::targets(peer.graph) ==
        "neg.default observe.default mul.Tensor select.int copy_.default mul.Tensor");
}

TEST_CASE("mutable: a buffer that the program returns as changed is never computed ahead",
          "[annotate][mutable]") {
  const Graph graph = test::quantize(
      parse_graph(R"(graph(%s = buffer "s": f32[2,4], %x: f32[2,4]):
    %y: f32[2,4] = aten.mul.Tensor(%s, %x) %n: f32[2,4] = aten.add.Tensor(%s, %x) return (%y, mutate "s" = %n))"),
      Json::array({{{"target", "aten.mul.Tensor"}, {"inputs", {{"0", act_spec()}}}}}));
  CHECK(count_of(graph, kQuantize) == 1);
}

TEST_CASE("mutable: a state that is read and written with one scale is stored quantized on request",
          "[annotate][mutable]") {
  Graph graph = parse_graph(state_text("0.1", kCopy));
  const std::unique_ptr<Graph> before = clone(graph);
  Report report;
  CHECK(fold_quantize_into_mutable_buffers(graph, report) == 1);
  verify(graph);
  CHECK(fold_quantize_into_mutable_buffers(graph, report) == 0);
  CHECK(graph.constants.at("s").tensor.dtype() == DType::kInt8);
  CHECK(*graph.constants.at("s").tensor.data<int8_t>() == 3);
  CHECK_THAT(graph, test::PrintsAsUntyped(R"(graph(%s = buffer "s", %x):
    %sd = quantized_decomposed.dequantize_per_tensor.default(%s, 0.1, 3, -128, 127, i8)
    %y = aten.add.Tensor(%sd, %x)
    %yq = quantized_decomposed.quantize_per_tensor.default(%y, 0.1, 3, -128, 127, i8)
    %yd = quantized_decomposed.dequantize_per_tensor.default(%yq, 0.1, 3, -128, 127, i8)
    %c = aten.copy_.default(%s, %yq) return (%yd))"));
  check_same_runs(*before, graph, 0);
}

TEST_CASE("mutable: a mutation output is a write too, and reads may be several",
          "[annotate][mutable]") {
  Graph graph = parse_graph(state_text(
      "0.1",
      R"(%s2: i8[2,2] = quantized_decomposed.quantize_per_tensor.default(%s, 0.1, 3, -128, 127, i8)
    %sd2: f32[2,2] = quantized_decomposed.dequantize_per_tensor.default(%s2, 0.1, 3, -128, 127, i8)
    %z: f32[2,2] = aten.mul.Tensor(%sd2, %yd) return (%z, mutate "s" = %yd))"));
  Report report;
  CHECK(fold_quantize_into_mutable_buffers(graph, report) == 1);
  verify(graph);
  CHECK(count_of(graph, kQuantize) == 1);
  CHECK(graph.outputs().at(1).value.value_or_null()->name() == "yq");
}

TEST_CASE("mutable: an old state that is used after the write is copied first",
          "[annotate][mutable]") {
  Graph graph = parse_graph(R"(graph(%s = buffer "s": f32[2,2], %x: f32[2,2]):
    %sq: i8[2,2] = quantized_decomposed.quantize_per_tensor.default(%s, 0.1, 3, -128, 127, i8)
    %xq: i8[2,2] = quantized_decomposed.quantize_per_tensor.default(%x, 0.1, 3, -128, 127, i8)
    %xd: f32[2,2] = quantized_decomposed.dequantize_per_tensor.default(%xq, 0.1, 3, -128, 127, i8)
    %c: f32[2,2] = aten.copy_.default(%s, %xd)
    %sd: f32[2,2] = quantized_decomposed.dequantize_per_tensor.default(%sq, 0.1, 3, -128, 127, i8)
    return (%sd))");
  const std::unique_ptr<Graph> before = clone(graph);
  Report report;
  CHECK(fold_quantize_into_mutable_buffers(graph, report) == 1);
  CHECK(count_of(graph, "aten.clone.default") == 1);
  check_same_runs(*before, graph, 0);
}

TEST_CASE("mutable: states that cannot be stored quantized stay float with a reason",
          "[annotate][mutable]") {
  const auto note_of = [](const std::string& text) {
    Graph graph = parse_graph(text);
    Report report;
    CHECK(fold_quantize_into_mutable_buffers(graph, report) == 0);
    CHECK(graph.constants.at("s").tensor.dtype() == DType::kFloat32);
    return report.notes().empty() ? std::string() : report.notes().front();
  };
  CHECK(note_of(state_text("0.2", kCopy)) ==
        "convert: the buffer s stays float: sq reads it with another scale or zero point than it "
        "is written with");
  CHECK(note_of(state_text("0.1",
                           "%c: f32[2,2] = aten.copy_.default(%s, %yd) %v: f32[2] = "
                           "aten.select.int(%s, 0, 0) return (%v)")) ==
        "convert: the buffer s stays float: v (aten.select.int) reads or changes it unquantized");
  CHECK(note_of(state_text("0.1", "%c: f32[2,2] = aten.copy_.default(%s, %yd) return (%c)")) ==
        "convert: the buffer s stays float: %c is an alias of it");
  CHECK(note_of(state_text("0.1",
                           "%c: f32[2,2] = aten.copy_.default(%s, %yd) %d: f32[2,2] = "
                           "aten.copy_.default(%s, %y) return (%yd)")) ==
        "convert: the buffer s stays float: one of its writes is not quantized");
  CHECK(
      note_of(state_text("0.1", "%c: f32[2,2] = aten.add_.Tensor(%s, %yd) return (%yd)")).empty());
}

TEST_CASE("mutable: storing states quantized is off by default and needs folding",
          "[annotate][mutable]") {
  const std::string text = R"(graph(%s = buffer "s": f32[2,2], %x: f32[2,2]):
    %y: f32[2,2] = aten.maximum.default(%s, %x) %c: f32[2,2] = aten.copy_.default(%s, %y) return (%y))";
  const Json shared = {{"kind", "shared"}, {"node", {"$arg0", "$self"}}};
  const Json rules = Json::array({{{"target", "aten.maximum.default"},
                                   {"inputs", {{"0", act_spec()}, {"1", shared}}},
                                   {"output", shared}}});
  CHECK(test::quantize(parse_graph(text), rules).constants.at("s").tensor.dtype() ==
        DType::kFloat32);
  ConvertOptions options;
  options.fold_quantize_into_mutable_buffers = true;
  const Graph folded = test::quantize(parse_graph(text), rules, options);
  CHECK(folded.constants.at("s").tensor.dtype() == DType::kInt8);
  check_same_runs(test::quantize(parse_graph(text), rules), folded, 0);
  options.fold_quantize = false;
  const auto message = [&] {
    try {
      test::quantize(parse_graph(text), rules, options);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(message() ==
        "convert: options: fold_quantize_into_mutable_buffers needs fold_quantize, got it off; "
        "turn it on");
}

}  // namespace octet::test_mutable
