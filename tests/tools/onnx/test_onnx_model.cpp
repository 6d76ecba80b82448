// Writes graphs as ONNX nodes.
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/text/text.h"
#include "tools/onnx/export.h"

namespace octet::test_onnx_model {
namespace {

// The nodes, without the lines of inputs and outputs.
std::string nodes_of(const Graph& graph, const OnnxOptions& options = {}) {
  const std::string text = to_text(to_onnx(graph, options));
  const size_t first = text.find('\n') + 1;
  return text.substr(first, text.find("  return (") - first);
}
std::string nodes_of(const char* graph, const OnnxOptions& options = {}) {
  return nodes_of(parse_graph(graph), options);
}

std::string error_of(const char* graph, const OnnxOptions& options = {}) {
  try {
    to_onnx(parse_graph(graph), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

template <typename T>
void fill(Graph& graph, const std::string& name, std::initializer_list<T> values) {
  std::copy(values.begin(), values.end(), graph.constants.at(name).tensor.data<T>());
}

// A quantized linear layer; %y: f32[2,3].
Graph linear(const std::string& end) {
  Graph graph = parse_graph(R"(graph(%w = buffer "w": i8[3,4], %ws = buffer "ws": f32[3],
      %wz = buffer "wz": i64[3], %b = param "b": f32[3], %x: f32[2,4]):
    %q: i8[2,4] = quantized_decomposed.quantize_per_tensor.default(%x, 0.5, -3, -128, 127, i8)
    %d: f32[2,4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.5, -3, -128, 127, i8)
    %v: f32[3,4] = quantized_decomposed.dequantize_per_channel.default(%w, %ws, %wz, 0, -127, 127,
        i8)
    %y: f32[2,3] = aten.linear.default(%d, %v, %b)
)" + end);
  fill<float>(graph, "ws", {0.25f, 0.5f, 1});
  fill<float>(graph, "b", {1, -1, 0.5});
  return graph;
}

}  // namespace

TEST_CASE("a linear layer with per-channel scales and an integer bias", "[onnx]") {
  CHECK(nodes_of(linear("return (%y)")) ==
        "  %q = QuantizeLinear(%x, f32 0.5, u8 125)\n"
        "  %d = DequantizeLinear(%q, f32 0.5, u8 125)\n"
        "  %v = DequantizeLinear(@w: i8[3, 4], f32[0.25, 0.5, 1], i8[0, 0, 0]) {axis=0}\n"
        "  %y_dequantizelinear = DequantizeLinear(i32[8, -4, 1], f32[0.125, 0.25, 0.5]) "
        "{axis=0}\n"
        "  %y = Gemm(%d, %v, %y_dequantizelinear) {transB=1}\n");
}

TEST_CASE("int8 that an op other than dequantize reads stays int8", "[onnx]") {
  const std::string nodes = nodes_of(linear("return (%y, %q)"));
  CHECK(nodes.find("%q = QuantizeLinear(%x, f32 0.5, i8 -3)") != std::string::npos);
}

TEST_CASE("a weight of a product with more dimensions is stored transposed", "[onnx]") {
  const OnnxModel model = to_onnx(parse_graph(R"(graph(%w = param "w": f32[3,4], %x: f32[2,5,4]):
    %y: f32[2,5,3] = aten.linear.default(%x, %w)
    return (%y))"));
  REQUIRE(model.initializers.size() == 1);
  CHECK(model.initializers[0].shape == std::vector<int64_t>{4, 3});
  CHECK(model.nodes[0].op == "MatMul");
}

TEST_CASE("a range narrower than the integers is a clip after the quantize", "[onnx]") {
  const std::string nodes = nodes_of(R"(graph(%x: f32[4]):
    %q: u8[4] = quantized_decomposed.quantize_per_tensor.default(%x, 0.5, 3, 0, 127, u8)
    %d: f32[4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.5, 3, 0, 127, u8)
    return (%d))");
  CHECK(nodes.find("= Clip(%q_quantizelinear, u8 0, u8 127)") != std::string::npos);
}

TEST_CASE("a relu6 goes where the integers end there anyway", "[onnx]") {
  const auto kept = [](const char* scale) {
    const std::string text = std::string(R"(graph(%x: f32[4]):
    %r: f32[4] = aten.relu6.default(%x)
    %q: u8[4] = quantized_decomposed.quantize_per_tensor.default(%r, SCALE, 0, 0, 255, u8)
    %d: f32[4] = quantized_decomposed.dequantize_per_tensor.default(%q, SCALE, 0, 0, 255, u8)
    return (%d))");
    std::string made = text;
    for (size_t at; (at = made.find("SCALE")) != std::string::npos;) made.replace(at, 5, scale);
    return nodes_of(made.c_str()).find("Clip(") != std::string::npos;
  };
  CHECK_FALSE(kept("0.0235294117"));  // 6 / 255
  CHECK_FALSE(kept("0.02"));
  CHECK(kept("0.03"));  // 6 is 200
}

TEST_CASE("open sizes have the names of their symbols", "[onnx]") {
  const OnnxModel model = to_onnx(parse_graph(R"TEXT(graph(%x: f32[{"Symbol('s0')": 3},4]):
    %y: f32[{"Mul(Integer(2), Symbol('s0'))": 6},2] = aten.reshape.default(%x, [-1, 2])
    return (%y))TEXT"));
  CHECK(model.inputs[0].dims[0].name == "s0");
  CHECK(model.outputs[0].dims[0].name == "2*s0");
  CHECK(model.outputs[0].dims[1].value == 2);
  const std::string flat = nodes_of(R"TEXT(graph(%x: f32[{"Symbol('s0')": 3},{"Symbol('s1')": 4}]):
    %y: f32[{"Mul(Symbol('s1'), Symbol('s0'))": 12}] = aten.reshape.default(%x, [-1])
    return (%y))TEXT");
  CHECK(flat == "  %y = Reshape(%x, i64[-1])\n");
}

TEST_CASE("the least opset that a program needs is taken", "[onnx]") {
  const auto opset_of = [](const char* dtype) {
    std::string text = R"(graph(%x: f32[4]):
    %q: T[4] = quantized_decomposed.quantize_per_tensor.default(%x, 0.5, 0, -100, 100, T)
    %d: f32[4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.5, 0, -100, 100, T)
    return (%d))";
    for (const char* place : {": T[", ", T)", ", T)"}) {
      const size_t at = text.find(place);
      text.replace(at + 2, 1, dtype);
    }
    return to_onnx(parse_graph(text)).opset;
  };
  CHECK(opset_of("i8") == 17);
  CHECK(opset_of("i16") == 21);
}

TEST_CASE("every op without a form is named once, with its count", "[onnx]") {
  const std::string error = error_of(R"(graph(%x: f32[4]):
    %a: f32[4] = aten.special_i0.default(%x)
    %b: f32[4] = aten.special_i0.default(%a)
    %c: f32[4] = aten.cumprod.default(%b, 0)
    %d: f32[4] = aten.relu.default(%c)
    return (%d))");
  CHECK(error ==
        "onnx: the program: 3 of 4 calls have no form in ONNX: aten.special_i0.default (2 of them, "
        "the first %a); aten.cumprod.default (%c); express them otherwise in the model");
}

TEST_CASE("opsets that are not known are refused", "[onnx]") {
  OnnxOptions options;
  options.opset = 16;
  CHECK(error_of("graph(%x: f32[4]): return (%x)", options) ==
        "onnx: --opset 16: is not known here, want 17 to 23");
}

TEST_CASE("outputs that are returned twice, or unchanged, have separate names", "[onnx]") {
  const OnnxModel model = to_onnx(parse_graph(R"(graph(%x: f32[4]):
    %y: f32[4] = aten.relu.default(%x)
    return (%x, %y, %y))"));
  REQUIRE(model.outputs.size() == 3);
  CHECK(model.outputs[1].name == "y");
  CHECK(model.outputs[0].name != model.outputs[2].name);
  CHECK(model.nodes.size() == 3);
}

TEST_CASE("constants that no node reads are not in the model", "[onnx]") {
  const OnnxModel model = to_onnx(parse_graph(R"(graph(%w = param "w": f32[4], %x: f32[4]):
    %s: f32[4] = aten.sigmoid.default(%x)
    %y: f32[4] = aten.relu.default(%x)
    return (%y))"));
  CHECK(model.initializers.empty());
  CHECK(model.nodes.size() == 1);
}

}  // namespace octet::test_onnx_model
