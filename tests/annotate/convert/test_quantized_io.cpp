// Integer tensors as inputs and outputs of a program: which qualify, and why others do not.
#include "annotate/convert/quantized_io.h"

#include "annotate/flow_helpers.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/pt2/archive.h"
#include "core/text/text.h"
#include "support/graph_matchers.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_quantized_io {
namespace {

using Catch::Matchers::Equals;
using test::PrintsAs;

// "%q = quantize(%x)" and "%q = dequantize(%x)" with a scale, of four elements.
std::string q(const std::string& name, const std::string& input, const std::string& scale = "0.1") {
  return "%" + name + ": i8[4] = quantized_decomposed.quantize_per_tensor.default(%" + input +
         ", " + scale + ", 3, -128, 127, i8)\n";
}
std::string dq(const std::string& name, const std::string& input,
               const std::string& scale = "0.1") {
  return "%" + name + ": f32[4] = quantized_decomposed.dequantize_per_tensor.default(%" + input +
         ", " + scale + ", 3, -128, 127, i8)\n";
}

std::string relu_text() {
  return "graph(%x: f32[4]):\n" + q("a", "x") + dq("b", "a") +
         "%r: f32[4] = aten.relu.default(%b)\n" + q("c", "r", "0.2") + dq("d", "c", "0.2") +
         "return (%d)";
}

struct Result {
  Graph graph;
  QuantizedIo io;
  std::vector<std::string> notes;
};

Result run(const std::string& text, const QuantizedIoOptions& options = {}) {
  Result result{parse_graph(text), {}, {}};
  Report report;
  result.io = quantize_io(result.graph, options, report);
  verify(result.graph);
  result.notes = report.notes();
  return result;
}

std::string error_of(const std::string& text, const QuantizedIoOptions& options) {
  Graph graph = parse_graph(text);
  Report report;
  std::string message;
  try {
    quantize_io(graph, options, report);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(to_text(graph) == to_text(parse_graph(text)));
  return message;
}

}  // namespace

TEST_CASE("quantized io: restore_float_io undoes quantize_io", "[annotate][quantized_io]") {
  Result result = run(relu_text());
  restore_float_io(result.graph, result.io);
  verify(result.graph);
  const std::vector<c10::IValue> inputs = {at::tensor({-3.0F, 0.04F, 1.0F, 60.0F})};
  Graph original = parse_graph(relu_text());
  CHECK(Interpreter(result.graph)
            .run(inputs)
            .at(0)
            .toTensor()
            .equal(Interpreter(original).run(inputs).at(0).toTensor()));
  Report report;
  CHECK(quantize_io(result.graph, {}, report).inputs.size() == 1);
}

TEST_CASE("quantized io: an integer that goes through is a float again",
          "[annotate][quantized_io]") {
  Result result = run("graph(%x: f32[4]):\n" + q("a", "x") + dq("b", "a") + "return (%b)");
  REQUIRE(result.io.outputs.size() == 1);
  restore_float_io(result.graph, result.io);
  verify(result.graph);
  const at::Tensor y =
      Interpreter(result.graph).run({at::tensor({0.04F, 0.11F, 1.0F, 60.0F})}).at(0).toTensor();
  CHECK(y.allclose(at::tensor({0.0F, 0.1F, 1.0F, 12.4F})));
}

TEST_CASE(
    "quantized io: removes the quantize op after an input and the dequantize op before an output",
    "[annotate][quantized_io]") {
  const Result result = run(relu_text());
  CHECK_THAT(result.graph,
             PrintsAs("graph(%x: i8[4]):\n" + dq("b", "x") +
                      "%r: f32[4] = aten.relu.default(%b)\n" + q("c", "r", "0.2") + "return (%c)"));
  REQUIRE(result.io.inputs.size() == 1);
  CHECK((result.io.inputs.front() == QuantizedIoTensor{0, "x", 0.1, 3, -128, 127, DType::kInt8}));
  REQUIRE(result.io.outputs.size() == 1);
  CHECK((result.io.outputs.front() == QuantizedIoTensor{0, "c", 0.2, 3, -128, 127, DType::kInt8}));
  CHECK(result.notes.empty());
}

TEST_CASE("quantized io: the result equals quantizing by hand around the program",
          "[annotate][quantized_io]") {
  const Graph before = parse_graph(relu_text());
  const Result result = run(relu_text());
  const at::Tensor x = test::random_inputs(before).at(0).toTensor();
  const auto quantized = [](const at::Tensor& real, double scale) {
    return real.mul(1 / scale).round().add(3).clamp(-128, 127).to(at::kChar);
  };
  const at::Tensor want = quantized(Interpreter(before).run({x}).at(0).toTensor(), 0.2);
  const at::Tensor got = Interpreter(result.graph).run({quantized(x, 0.1)}).at(0).toTensor();
  CHECK(got.scalar_type() == at::kChar);
  CHECK(got.equal(want));
}

TEST_CASE(
    "quantized io: several quantize ops with equal numbers become one input, sizes are still read",
    "[annotate][quantized_io]") {
  const Result result = run(
      "graph(%x: f32[4]):\n" + q("a", "x") + dq("b", "a") + q("c", "x") + dq("d", "c") +
      "%n: int = aten.sym_size.int(%x, 0) %s: f32[4] = aten.add.Tensor(%b, %d) return (%s, %n)");
  CHECK_THAT(result.graph, PrintsAs("graph(%x: i8[4]):\n" + dq("b", "x") + dq("d", "x") +
                                    "%n: int = aten.sym_size.int(%x, 0) %s: f32[4] = "
                                    "aten.add.Tensor(%b, %d) return (%s, %n)"));
  CHECK(result.notes ==
        std::vector<std::string>{
            "quantized-io: output 0 (%s) stays float: %s (aten.add.Tensor) computes it in float"});
}

TEST_CASE("quantized io: an input that comes back through one pair is returned unchanged",
          "[annotate][quantized_io]") {
  const Result result =
      run("graph(%x: f32[4]):\n" + q("a", "x") + dq("b", "a") + "return (%b, %b)");
  CHECK_THAT(result.graph, PrintsAs("graph(%x: i8[4]): return (%x, %x)"));
  CHECK(result.io.outputs.size() == 2);
  CHECK(result.io.outputs.at(1).name == "x");
}

TEST_CASE("quantized io: each float tensor at the border has its reason",
          "[annotate][quantized_io]") {
  const auto check_note = [](const std::string& text, const std::string& note) {
    CHECK_THAT(run(text).notes, Catch::Matchers::VectorContains("quantized-io: " + note));
  };
  const std::string pair = "graph(%x: f32[4]):\n" + q("a", "x") + dq("b", "a");
  check_note(
      pair + "%r: f32[4] = aten.relu.default(%x) %s: f32[4] = aten.add.Tensor(%r, %b) return (%s)",
      "input 0 (%x) stays float: %r (aten.relu.default) reads it in float");
  check_note(pair + q("c", "x", "0.3") + dq("d", "c", "0.3") +
                 "%s: f32[4] = aten.add.Tensor(%b, %d) return (%s)",
             "input 0 (%x) stays float: %a (quantized_decomposed.quantize_per_tensor.default) and "
             "%c (quantized_decomposed.quantize_per_tensor.default) quantize it with different "
             "parameters");
  check_note("graph(%x: f32[4], %y: f32[4]): %r: f32[4] = aten.relu.default(%y) return (%r)",
             "input 0 (%x) stays float: nothing reads it");
  check_note("graph(%x: f32[4]): return (%x)",
             "input 0 (%x) stays float: it is returned unchanged");
  check_note(
      "graph(%x: f32[4]): %r: f32[4] = aten.relu.default(%x) return (mutate_input \"x\" = %r)",
      "input 0 (%x) stays float: the program updates it");
  check_note(
      R"(graph(%x: f32[4]): %s: f64[1], %z: i64[1] = quantized_decomposed.choose_qparams.tensor(%x, -128, 127, 1e-05, i8)
    %a: i8[4] = quantized_decomposed.quantize_per_tensor.tensor(%x, %s, %z, -128, 127, i8)
    %b: f32[4] = quantized_decomposed.dequantize_per_tensor.tensor(%a, %s, %z, -128, 127, i8) return (%b))",
      "output 0 (%b) stays float: the scale of %b "
      "(quantized_decomposed.dequantize_per_tensor.tensor) is computed at run time");
}

TEST_CASE("quantized io: outputs that update a buffer or are written in place stay float",
          "[annotate][quantized_io]") {
  const std::string updated = "graph(%s = buffer \"s\": f32[4], %x: f32[4]):\n" + q("a", "s") +
                              dq("b", "a") + "return (mutate \"s\" = %b, %b)";
  CHECK_THAT(run(updated).graph, PrintsAs(updated));
  CHECK_THAT(run(updated).notes,
             Catch::Matchers::VectorContains(
                 std::string("quantized-io: output 0 (%b) stays float: \"s\" is updated with it")));
  const std::string written = "graph(%x: f32[4]): %n: f32[4] = aten.neg.default(%x)\n" +
                              q("a", "n") + dq("b", "a") +
                              "%r: f32[4] = aten.relu_.default(%b) return (%b)";
  CHECK_THAT(run(written).graph, PrintsAs(written));
  CHECK_THAT(
      run(written).notes,
      Catch::Matchers::VectorContains(std::string(
          "quantized-io: output 0 (%b) stays float: %r (aten.relu_.default) writes into it")));
}

TEST_CASE("quantized io: indices choose inputs and outputs", "[annotate][quantized_io]") {
  const std::string text = "graph(%x: f32[4], %y: f32[4]):\n" + q("a", "x") + dq("b", "a") +
                           q("c", "y") + dq("d", "c") + "%s: f32[4] = aten.add.Tensor(%b, %d)\n" +
                           q("e", "s") + dq("f", "e") + "return (%f)";
  const Result result = run(text, {.inputs = {{1}}, .outputs = {{}}});
  CHECK_THAT(result.graph, PrintsAs("graph(%x: f32[4], %y: i8[4]):\n" + q("a", "x") + dq("b", "a") +
                                    dq("d", "y") + "%s: f32[4] = aten.add.Tensor(%b, %d)\n" +
                                    q("e", "s") + dq("f", "e") + "return (%f)"));
  CHECK(result.io.inputs.at(0).index == 1);
  CHECK(result.notes.empty());
}

TEST_CASE("quantized io: a listed index that cannot be is an error and leaves the graph alone",
          "[annotate][quantized_io]") {
  const std::string text = "graph(%x: f32[4], %i: i64[4]):\n" + q("a", "x") + dq("b", "a") +
                           "%r: f32[4] = aten.relu.default(%b) return (%r)";
  CHECK_THAT(error_of(text, {.inputs = {{2}}, .outputs = {}}),
             Equals("quantized-io: input 2: there is none, got index 2, want less than 2"));
  CHECK_THAT(
      error_of(text, {.inputs = {{1}}, .outputs = {}}),
      Equals("quantized-io: input 1 (%i): is not a float tensor, want one; leave its index out"));
  CHECK_THAT(error_of(text, {.inputs = {{0}}, .outputs = {{0}}}),
             Equals("quantized-io: output 0 (%r): cannot be an integer: %r (aten.relu.default) "
                    "computes it in float; leave its index out"));
}

TEST_CASE("quantized io: the parameters are in the archive as an extra file",
          "[annotate][quantized_io]") {
  Result result = run(relu_text(), {.inputs = {}, .outputs = {{}}});
  CHECK(stored_quantized_io(result.graph) == std::nullopt);
  result.graph.extras = std::make_shared<ArchiveExtras>();
  result.graph.extras->records = {{"data/sample_inputs/model.pt", "floats"},
                                  {"extra/notes.txt", "kept"}};
  const std::shared_ptr<ArchiveExtras> before = result.graph.extras;
  store_quantized_io(result.graph, result.io);
  store_quantized_io(result.graph, result.io);
  CHECK(before->records.size() == 2);
  REQUIRE(result.graph.extras->records.size() == 2);
  CHECK(result.graph.extras->records.at(0).second == "kept");
  CHECK(nlohmann::json::parse(stored_quantized_io(result.graph).value_or("")) ==
        nlohmann::json::parse(R"({"inputs": [{"index": 0, "name": "x",
    "scale": 0.1, "zero_point": 3, "quant_min": -128, "quant_max": 127, "dtype": "int8"}], "outputs": []})"));
}

}  // namespace octet::test_quantized_io
