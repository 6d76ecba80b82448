// Recurrent layers and cells: a linear op for the inputs of all steps, one op for what depends on
// the hidden state.
#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <catch2/catch.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "lowering/lower.h"
#include "quantizers/registry.h"
#include "tests/lowering/lowering_helpers.h"
#include "tests/support/golden.h"

namespace octet::test_recurrent {
namespace {

const std::string kGru =
    R"(graph(%wi = param "wi": f32[12,3], %wh = param "wh": f32[12,4], %bi = param "bi": f32[12], %bh = param "bh": f32[12],
        %x: f32[5,2,3], %h: f32[1,2,4]):
      %y: f32[5,2,4], %hn: f32[1,2,4] = aten.gru.input(%x, %h, [%wi, %wh, %bi, %bh], True, 1, 0.0, False, False, False)
      return (%y, %hn))";

// Two layers, both directions, batch first.
std::string deep_lstm() {
  std::string parameters, names;
  for (int layer = 0; layer < 2; ++layer)
    for (const char* direction : {"", "r"}) {
      const std::string suffix = std::to_string(layer) + direction, width = layer == 0 ? "3" : "8";
      parameters += "%wi" + suffix + " = param \"wi" + suffix + "\": f32[16," + width + "], %wh" +
                    suffix + " = param \"wh" + suffix + "\": f32[16,4], ";
      parameters += "%bi" + suffix + " = param \"bi" + suffix + "\": f32[16], %bh" + suffix +
                    " = param \"bh" + suffix + "\": f32[16], ";
      for (const char* name : {"wi", "wh", "bi", "bh"})
        names += (names.empty() ? "%" : ", %") + std::string(name) + suffix;
    }
  return "graph(" + parameters + R"(%x: f32[2,5,3], %h: f32[4,2,4], %c: f32[4,2,4]):
      %y: f32[2,5,8], %hn: f32[4,2,4], %cn: f32[4,2,4] = aten.lstm.input(%x, [%h, %c], [)" +
         names + R"(], True, 2, 0.0, False, True, True)
      return (%y, %hn, %cn))";
}

Graph quantized(const test::GoldenCase& golden) {
  Report report;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), *make_quantizer("xnnpack"), report);
  calibrate(observed, golden.calibration());
  return convert_pt2e(std::move(observed), {}, report);
}

// The greatest difference between the interpreted graph and the lowered one, as a share of the
// greatest element.
double share_off(const Graph& graph, const std::vector<c10::IValue>& inputs,
                 const std::string& backend) {
  const at::Tensor want =
      Interpreter(graph).run(inputs).front().toTensor().to(at::kDouble).contiguous();
  std::vector<Tensor> tensors;
  for (const c10::IValue& input : inputs)
    tensors.push_back(from_aten(input.toTensor().contiguous()));
  Report report;
  const Tensor result =
      Session(lower(graph, *make_support(backend), {}, report)).run(tensors).front();
  const at::Tensor got = to_aten(result).to(at::kDouble).contiguous();
  double off = 0, greatest = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    off = std::max(off, std::abs(want.data_ptr<double>()[i] - got.data_ptr<double>()[i]));
    greatest = std::max(greatest, std::abs(want.data_ptr<double>()[i]));
  }
  return off / greatest;
}

}  // namespace

TEST_CASE("golden: recurrent models run on every backend, float and quantized",
          "[lowering][recurrent][golden]") {
  for (const char* name : {"xnn_lstm", "real_lstm_classifier", "xnn_lstm_manual", "xnn_gru_manual"})
    for (const test::GoldenCase& golden : test::golden_cases(name))
      for (const std::string& backend : backend_names()) {
        if (golden.name() != name) continue;
        CAPTURE(name, backend);
        CHECK_FALSE(share_off(read_pt2(golden.folder / "model.pt2"), golden.example(), backend) >
                    1e-4);
        CHECK_FALSE(share_off(quantized(golden), golden.example(), backend) > 0.02);
      }
}

TEST_CASE("an lstm of two layers in both directions gives what the interpreter gives",
          "[lowering][recurrent][tanh]") {
  CHECK(compare_with_interpreter(make_graph(deep_lstm())).greatest < 1e-5);
}

// One layer of both directions, the hidden state projected from 4 to 2.
const char* const kProjected =
    R"(graph(%wi = param "wi": f32[16,3], %wh = param "wh": f32[16,2], %bi = param "bi": f32[16], %bh = param "bh": f32[16],
        %wr = param "wr": f32[2,4], %vi = param "vi": f32[16,3], %vh = param "vh": f32[16,2], %vr = param "vr": f32[2,4],
        %x: f32[5,3,3], %h: f32[2,3,2], %c: f32[2,3,4]):
      %y: f32[5,3,4], %hn: f32[2,3,2], %cn: f32[2,3,4] = aten.lstm.input(%x, [%h, %c], [%wi, %wh, %bi, %bh, %wr, %vi, %vh, %bi, %bh, %vr], True, 1, 0.0, False, True, False)
      return (%y, %hn, %cn))";

TEST_CASE("an lstm with projections gives what the interpreter gives",
          "[lowering][recurrent][tanh]") {
  const Graph graph = make_graph(kProjected);
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const std::vector<c10::IValue> inputs = {to_aten(random_floats({5, 3, 3})),
                                             to_aten(random_floats({2, 3, 2})),
                                             to_aten(random_floats({2, 3, 4}))};
    CHECK_FALSE(share_off(graph, inputs, backend) > 1e-4);
  }
}

TEST_CASE("gru and plain recurrent layers give what the interpreter gives",
          "[lowering][recurrent]") {
  CHECK(compare_with_interpreter(make_graph(kGru)).greatest < 1e-5);
  for (const char* op : {"rnn_tanh", "rnn_relu"}) {
    CAPTURE(op);
    CHECK(
        compare_with_interpreter(
            make_graph(
                std::string(
                    R"(graph(%wi = param "wi": f32[4,3], %wh = param "wh": f32[4,4], %x: f32[5,2,3], %h: f32[1,2,4]):
      %y: f32[5,2,4], %hn: f32[1,2,4] = aten.)") +
                op +
                R"(.input(%x, %h, [%wi, %wh], False, 1, 0.0, False, False, False)
      return (%y, %hn))"))
            .greatest < 1e-5);
  }
}

TEST_CASE("recurrent cells give what the interpreter gives", "[lowering][recurrent]") {
  CHECK(
      compare_with_interpreter(
          make_graph(
              R"(graph(%wi = param "wi": f32[16,3], %wh = param "wh": f32[16,4], %b = param "b": f32[16], %x: f32[2,3],
        %h: f32[2,4], %c: f32[2,4]):
      %y: f32[2,4], %d: f32[2,4] = aten.lstm_cell.default(%x, [%h, %c], %wi, %wh, %b, %b)
      return (%y, %d))"))
          .greatest < 1e-5);
  CHECK(
      compare_with_interpreter(
          make_graph(
              R"(graph(%wi = param "wi": f32[12,3], %wh = param "wh": f32[12,4], %b = param "b": f32[12], %x: f32[2,3],
        %h: f32[2,4]):
      %y: f32[2,4] = aten.gru_cell.default(%x, %h, %wi, %wh, %b)
      return (%y))"))
          .greatest < 1e-5);
}

TEST_CASE("a recurrent layer becomes a linear op and one for the hidden state",
          "[lowering][recurrent]") {
  CHECK(
      lowered(make_graph(
          R"(graph(%wi = param "wi": f32[8,3], %wh = param "wh": f32[8,2], %x: f32[5,1,3], %h: f32[1,1,2], %c: f32[1,1,2]):
      %y: f32[5,1,2], %hn: f32[1,1,2], %cn: f32[1,1,2] = aten.lstm.input(%x, [%h, %c], [%wi, %wh], False, 1, 0.0, False, False, False) as lstm
      return (%y))")) == R"(lstm_reshape: f32[1,2] = reshape(h f32[1,1,2])
lstm_reshape_1: f32[1,2] = reshape(c f32[1,1,2])
lstm_linear: f32[5,1,8] = linear(x f32[5,1,3], wi f32[8,3], none)
lstm_recurrent: f32[5,1,2], lstm_cell_state: f32[1,2] = recurrent(lstm_linear f32[5,1,8], wh f32[8,2], none, lstm_reshape f32[1,2], lstm_reshape_1 f32[1,2]) cell=lstm reverse=false
return lstm_recurrent
)");
}

TEST_CASE(
    "int8 weights of a recurrent layer stay integers in the file, and its quantized input makes "
    "the linear op integer",
    "[lowering][recurrent][tanh]") {
  const Graph graph = make_graph(
      R"(graph(%wi = param "wi": i8[8,3], %wh = param "wh": i8[8,2], %si = buffer "scale_i": f32[8], %sh = buffer "scale_h": f32[8],
        %z = buffer "z": i64[8], %x: f32[5,1,3], %h: f32[1,1,2], %c: f32[1,1,2]):
      %xq: i8[5,1,3] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 3, -128, 127, i8)
      %xd: f32[5,1,3] = quantized_decomposed.dequantize_per_tensor.default(%xq, 0.01, 3, -128, 127, i8)
      %wid: f32[8,3] = quantized_decomposed.dequantize_per_channel.default(%wi, %si, %z, 0, -127, 127, i8)
      %whd: f32[8,2] = quantized_decomposed.dequantize_per_channel.default(%wh, %sh, %z, 0, -127, 127, i8)
      %y: f32[5,1,2], %hn: f32[1,1,2], %cn: f32[1,1,2] = aten.lstm.input(%xd, [%h, %c], [%wid, %whd], False, 1, 0.0, False, False, False) as lstm
      return (%y))");
  const std::string text = lowered(graph);
  CAPTURE(text);
  CHECK(text.find("linear(xq i8[5,1,3], wi i8[8,3] per-channel, none)") != std::string::npos);
  CHECK(text.find("whd_folded f32[8,2] stored as i8 in 8x1 blocks") != std::string::npos);
  CHECK(compare_with_interpreter(graph).greatest < 1e-4);
}

TEST_CASE("a recurrent layer runs on sequences and batches of other sizes than the exported ones",
          "[lowering][recurrent][open]") {
  const std::string steps = R"size({"Symbol('s0', positive=True, integer=True)": 5})size",
                    batch = R"size({"Symbol('s1', positive=True, integer=True)": 2})size";
  std::string text =
      R"(graph(%wi = param "wi": f32[12,3], %wh = param "wh": f32[12,4], %bi = param "bi": f32[12], %bh = param "bh": f32[12],
        %x: f32[<T>,<N>,3], %h: f32[1,<N>,4]):
      %y: f32[<T>,<N>,4], %hn: f32[1,<N>,4] = aten.gru.input(%x, %h, [%wi, %wh, %bi, %bh], True, 1, 0.0, False, False, False)
      return (%hn, %y))";
  for (const auto& [word, size] : {std::pair{"<T>", steps}, {"<N>", batch}})
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.replace(at, 3, size);
  Graph graph = make_graph(text);
  graph.range_constraints["s0"] = {1, 64};
  graph.range_constraints["s1"] = {1, 64};
  for (const std::string& backend : backend_names())
    for (const std::array<int64_t, 2>& sizes : {std::array<int64_t, 2>{5, 2}, {9, 1}, {1, 7}}) {
      CAPTURE(backend, sizes[0], sizes[1]);
      const std::vector<c10::IValue> inputs = {to_aten(random_floats({sizes[0], sizes[1], 3})),
                                               to_aten(random_floats({1, sizes[1], 4}))};
      CHECK_FALSE(share_off(graph, inputs, backend) > 1e-4);
    }
}

TEST_CASE("what a recurrent op cannot express is refused by name", "[lowering][recurrent]") {
  std::string training = kGru;
  training.replace(training.find("0.0, False"), 10, "0.5, True");
  CHECK(error_of(make_graph(training)).find("in training mode; export in eval mode") !=
        std::string::npos);
  CHECK(
      error_of(
          make_graph(
              R"(graph(%wi = param "wi": f32[16,3], %wh = param "wh": f32[16,4], %x: f32[5,1,3], %h: f32[1,1,4], %c: f32[1,1,4]):
      %y: f32[5,1,4], %hn: f32[1,1,4], %cn: f32[1,1,4] = aten.lstm.input(%x, [%h, %c], [%wi, %wh, %wh, %wh], False, 1, 0.0, False, False, False)
      return (%y))"))
          .find("with 4 parameters for 1 layers") != std::string::npos);
}

}  // namespace octet::test_recurrent
