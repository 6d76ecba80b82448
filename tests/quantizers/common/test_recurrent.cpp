// Recurrent layers and cells in Octet's default mode: what is annotated, and the remaining
// accuracy.
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/x86/quantizer.h"
#include "quantizers/xnnpack/quantizer.h"
#include "support/golden.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_recurrent {
namespace {

using test::annotate_text;
using test::reason_for;

constexpr const char* kLstm = R"(
graph(%wi = param "r.weight_ih": f32[8,3], %wh = param "r.weight_hh": f32[8,2], %bi = param "r.bias_ih": f32[8], %bh = param "r.bias_hh": f32[8],
      %x: f32[1,4,3], %h: f32[1,1,2], %c: f32[1,1,2]):
  %y: f32[1,4,2], %hn: f32[1,1,2], %cn: f32[1,1,2] =
    aten.lstm.input(%x, [%h, %c], [%wi, %wh, %bi, %bh], True, 1, 0.0, False, False, True) as lstm
  return (%y))";

constexpr const char* kGru = R"(
graph(%wi = param "r.weight_ih": f32[6,3], %wh = param "r.weight_hh": f32[6,2], %bi = param "r.bias_ih": f32[6], %bh = param "r.bias_hh": f32[6],
      %x: f32[1,4,3], %h: f32[1,1,2]):
  %y: f32[1,4,2], %hn: f32[1,1,2] = aten.gru.input(%x, %h, [%wi, %wh, %bi, %bh], True, 1, 0.0, False, False, True) as gru
  return (%y))";

QuantizationConfig config(bool is_dynamic, bool is_weight_only = false) {
  SymmetricOptions options;
  options.is_per_channel = true;
  options.is_dynamic = is_dynamic;
  QuantizationConfig result = get_symmetric_quantization_config(options);
  if (is_weight_only) result.input_activation = result.output_activation = std::nullopt;
  return result;
}

// With seeded weights in place of the text's zeros.
Graph graph_of(const char* text) {
  Graph graph = parse_graph(text);
  at::manual_seed(0);
  for (auto& [fqn, constant] : graph.constants)
    constant.tensor = from_aten(at::randn(constant.tensor.shape()).mul(0.5));
  return graph;
}

std::vector<c10::IValue> batch_for(const Graph& graph) {
  std::vector<c10::IValue> batch;
  for (const Value* input : graph.user_inputs())
    batch.emplace_back(at::randn(input->meta->shape()));
  return batch;
}

double sqnr(const at::Tensor& want, const at::Tensor& got) {
  const at::Tensor reference = want.to(at::kDouble);
  return 10 * std::log10(reference.square().sum().item<double>() /
                         got.to(at::kDouble).sub(reference).square().sum().item<double>());
}

Graph quantize(Graph graph, Quantizer& quantizer,
               const std::vector<std::vector<c10::IValue>>& batches) {
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  calibrate(observed, batches);
  return convert_pt2e(std::move(observed), {}, report);
}

std::string constants_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& [fqn, constant] : graph.constants) lines.push_back(describe(constant.tensor));
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, " "));
}

}  // namespace

TEST_CASE("an lstm gets an input spec and one for each weight matrix in its list of parameters",
          "[quantizers][recurrent]") {
  CHECK(annotate_text(kLstm).text == "%lstm [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n");
}

TEST_CASE("gru, rnn_tanh and rnn_relu are annotated like lstm", "[quantizers][recurrent]") {
  for (const std::string op : {"gru", "rnn_tanh", "rnn_relu"}) {
    CAPTURE(op);
    std::string text = kGru;
    text.replace(text.find("aten.gru"), 8, "aten." + op);
    CHECK(annotate_text(text).text == "%gru [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n");
  }
}

TEST_CASE("cells are annotated, their hidden state stays float", "[quantizers][recurrent]") {
  for (const std::string op : {"gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}) {
    CAPTURE(op);
    const std::string text = fmt::format(R"(
      graph(%wi = param "wi": f32[6,3], %wh = param "wh": f32[6,2], %x: f32[1,3], %h: f32[1,2]):
        %y: f32[1,2] = aten.{}.default(%x, %h, %wi, %wh) as cell
        return (%y))",
                                         op);
    CHECK(annotate_text(text).text == "%cell [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n");
  }
  CHECK(annotate_text(R"(
      graph(%wi = param "wi": f32[8,3], %wh = param "wh": f32[8,2], %x: f32[1,3], %h: f32[1,2], %c: f32[1,2]):
        %y: f32[1,2], %d: f32[1,2] = aten.lstm_cell.default(%x, [%h, %c], %wi, %wh) as cell
        return (%y))")
            .text == "%cell [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n");
}

TEST_CASE("cells of the same weights are steps of one layer: their inputs share a scale",
          "[quantizers][recurrent]") {
  const char* const text = R"(
      graph(%wi = param "wi": f32[6,3], %wh = param "wh": f32[6,2], %vi = param "vi": f32[6,3], %x: f32[1,3], %y: f32[1,3],
            %h: f32[1,2]):
        %a: f32[1,2] = aten.gru_cell.default(%x, %h, %wi, %wh)
        %b: f32[1,2] = aten.gru_cell.default(%y, %a, %wi, %wh)
        %c: f32[1,2] = aten.gru_cell.default(%y, %b, %vi, %wh)
        return (%c))";
  CHECK(annotate_text(text).text ==
        "%a [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n"
        "%b [recurrent]: %y: same as %x -> %a, %wi: WEIGHT, %wh: WEIGHT\n"
        "%c [recurrent]: %y: ACT, %vi: WEIGHT, %wh: WEIGHT\n");
  XNNPACKQuantizer dynamic;
  dynamic.set_global(config(true));
  const std::string at_run_time = annotate_text(text, dynamic).text;
  CHECK(at_run_time.find("same as") == std::string::npos);
}

TEST_CASE("compat: recurrent layers stay float", "[quantizers][recurrent]") {
  CHECK(annotate_text(kLstm, Compat::kTorchao).text.empty());
}

TEST_CASE(
    "a recurrent layer whose weights are not constants, or of another type, stays float with the "
    "reason",
    "[quantizers][recurrent]") {
  std::string computed = kGru;
  computed.replace(computed.find("%wi = param \"r.weight_ih\": f32[6,3]"), 35, "%wi: f32[6,3]");
  CHECK(reason_for(annotate_text(computed).report, "gru") ==
        "weight %wi is computed at run time, want a constant");
  std::string wide = kGru;
  for (size_t at = wide.find("f32"); at != std::string::npos; at = wide.find("f32"))
    wide.replace(at, 3, "f64");
  CHECK(reason_for(annotate_text(wide).report, "gru") == "input %x is not float32");
}

TEST_CASE("the filter and the settings of a quantizer cover recurrent layers",
          "[quantizers][recurrent]") {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config(false)).set_operator_type("aten.lstm", std::nullopt);
  CHECK(annotate_text(kLstm, quantizer).text.empty());
  CHECK(annotate_text(kGru, quantizer).text ==
        "%gru [recurrent]: %x: ACT, %wi: WEIGHT, %wh: WEIGHT\n");
}

TEST_CASE("the float matrices of a recurrent layer are gone after convert, the biases are not",
          "[quantizers][recurrent]") {
  for (const char* text : {kLstm, kGru}) {
    CAPTURE(text);
    const Graph graph = graph_of(text);
    XNNPACKQuantizer quantizer;
    quantizer.set_global(config(false));
    const std::vector<c10::IValue> batch = batch_for(graph);
    const Graph quantized = quantize(graph_of(text), quantizer, {batch});
    const std::string rows = text == kLstm ? "8" : "6";
    CHECK(constants_of(quantized) ==
          fmt::format("f32[{0}] f32[{0}] f32[{0}] f32[{0}] i64[{0}] i64[{0}] i8[{0}, 2] i8[{0}, 3]",
                      rows));
    CHECK(sqnr(Interpreter(graph).run(batch).at(0).toTensor(),
               Interpreter(quantized).run(batch).at(0).toTensor()) > 30);
  }
}

TEST_CASE("with float or dynamic activations a recurrent layer needs no data",
          "[quantizers][recurrent]") {
  for (const bool is_weight_only : {false, true}) {
    CAPTURE(is_weight_only);
    XNNPACKQuantizer quantizer;
    quantizer.set_global(config(true, is_weight_only));
    Report report;
    ObservedGraph observed = prepare_pt2e(graph_of(kLstm), quantizer, report);
    observe_constants(observed);
    CHECK_FALSE(needs_calibration(observed));
    const Graph quantized = convert_pt2e(std::move(observed), {}, report);
    CHECK(quantized.nodes_of("quantized_decomposed.choose_qparams.tensor").size() ==
          (is_weight_only ? 0 : 1));
    const Graph graph = graph_of(kLstm);
    const std::vector<c10::IValue> batch = batch_for(graph);
    CHECK(sqnr(Interpreter(graph).run(batch).at(0).toTensor(),
               Interpreter(quantized).run(batch).at(0).toTensor()) > 30);
  }
}

TEST_CASE(
    "a recurrent layer with quantized input and weights and a hidden state of zeros does not count "
    "as float",
    "[quantizers][recurrent]") {
  std::string text = kGru;
  text.replace(text.find(", %h: f32[1,1,2]"), 16, "");
  text.insert(text.find("  %y"), "  %h: f32[1,1,2] = aten.zeros.default([1, 1, 2])\n");
  Graph graph = graph_of(text.c_str());
  const std::vector<c10::IValue> batch = batch_for(graph);
  XNNPACKQuantizer quantizer;
  quantizer.set_global(config(false));
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  calibrate(observed, {batch});
  convert_pt2e(std::move(observed), {}, report);
  CHECK(report.entries().empty());
}

TEST_CASE("weights of recurrent layers may be 4 bits wide in groups that divide their rows",
          "[quantizers][recurrent]") {
  SymmetricOptions options;
  options.is_per_channel = true;
  options.own.is_weight_only = true;
  options.own.weight_bits = 4;
  options.own.group_size = 2;
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config(options));
  CHECK(reason_for(annotate_text(kGru, quantizer).report, "gru") ==
        "weight %wi has rows of 3, want a multiple of the group size 2");
  std::string text = kGru;
  text.replace(text.find("f32[6,3]"), 8, "f32[6,4]");
  text.replace(text.find("f32[1,4,3]"), 10, "f32[1,4,4]");
  const Graph graph = graph_of(text.c_str());
  const std::vector<c10::IValue> batch = batch_for(graph);
  const Graph quantized = quantize(graph_of(text.c_str()), quantizer, {batch});
  CHECK(sqnr(Interpreter(graph).run(batch).at(0).toTensor(),
             Interpreter(quantized).run(batch).at(0).toTensor()) > 15);
}

TEST_CASE("x86 takes recurrent layers too", "[quantizers][recurrent]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  const Graph graph = graph_of(kGru);
  const std::vector<c10::IValue> batch = batch_for(graph);
  const Graph quantized = quantize(graph_of(kGru), quantizer, {batch});
  CHECK(sqnr(Interpreter(graph).run(batch).at(0).toTensor(),
             Interpreter(quantized).run(batch).at(0).toTensor()) > 30);
  CHECK(constants_of(quantized) == "f32[6] f32[6] f32[6] f32[6] i64[6] i64[6] i8[6, 2] i8[6, 3]");
}

TEST_CASE("golden: an LSTM classifier with int8 recurrent weights stays close to float",
          "[quantizers][recurrent][golden][long]") {
  for (const test::GoldenCase& golden : test::golden_cases("real_lstm_classifier")) {
    const at::Tensor want =
        Interpreter(read_pt2(golden.folder / "model.pt2")).run(golden.example()).at(0).toTensor();
    const auto measure = [&](const QuantizationConfig& settings) {
      XNNPACKQuantizer quantizer;
      quantizer.set_global(settings);
      const Graph quantized =
          quantize(read_pt2(golden.folder / "model.pt2"), quantizer, golden.calibration());
      int64_t bytes = 0;
      for (const auto& [fqn, constant] : quantized.constants)
        bytes += static_cast<int64_t>(constant.tensor.nbytes());
      return std::pair(sqnr(want, Interpreter(quantized).run(golden.example()).at(0).toTensor()),
                       bytes);
    };
    const auto [fixed, fixed_bytes] = measure(config(false));
    const auto [dynamic, dynamic_bytes] = measure(config(true));
    const auto [weights, weights_bytes] = measure(config(false, true));
    WARN(
        fmt::format("LSTM classifier: static {:.1f} dB, dynamic {:.1f} dB, weight-only {:.1f} dB; "
                    "constants {}, {}, {} bytes",
                    fixed, dynamic, weights, fixed_bytes, dynamic_bytes, weights_bytes));
    CHECK(fixed > 45);
    CHECK(dynamic > 50);
    CHECK(weights > 50);
    CHECK(fixed_bytes < 80000);
  }
}

}  // namespace octet::test_recurrent
