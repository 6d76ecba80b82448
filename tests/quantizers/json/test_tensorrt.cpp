// The declared backend quantizers/tensorrt.json: what it annotates, and the accuracy of a small
// network.
#include <ATen/Functions.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/registry.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_tensorrt {
namespace {

std::unique_ptr<Quantizer> tensorrt() {
  return make_quantizer(OCTET_TEST_DATA "/../quantizers/tensorrt.json");
}

std::string annotations_of(const std::string& graph) {
  const std::unique_ptr<Quantizer> quantizer = tensorrt();
  std::string text = test::annotate_text(graph, *quantizer).text;
  test::replace_all(text, "int8 -128..127 per_tensor_symmetric histogram", "SYM");
  return text;
}

// A convolution with ReLU, pooling, and a linear layer.
constexpr const char* kNet =
    R"(graph(%x: f32[1,3,8,8], %w = param "c.weight": f32[4,3,3,3], %b = param "c.bias": f32[4], %v = param "fc.weight": f32[5,36], %d = param "fc.bias": f32[5]):
    %c: f32[1,4,6,6] = aten.conv2d.default(%x, %w, %b)
    %r: f32[1,4,6,6] = aten.relu.default(%c)
    %p: f32[1,4,3,3] = aten.max_pool2d.default(%r, [2,2])
    %f: f32[1,36] = aten.flatten.using_ints(%p, 1)
    %y: f32[1,5] = aten.linear.default(%f, %v, %d)
    return (%y))";

}  // namespace

TEST_CASE("tensorrt: weighted ops have symmetric inputs, weights per channel and float biases",
          "[quantizers][json][tensorrt]") {
  CHECK(annotations_of(kNet) ==
        "%c [conv_relu]: %x: SYM, %w: WEIGHT\n"
        "%r [conv_relu]: => SYM\n"
        "%p [share]: %r: same as %r => same as %r\n"
        "%f [share]: %p: same as %p => same as %p\n"
        "%y [linear]: %f: SYM, %v: WEIGHT => SYM\n");
}

TEST_CASE("tensorrt: the weight of addmm has a scale per column", "[quantizers][json][tensorrt]") {
  CHECK(
      annotations_of(
          R"(graph(%x: f32[2,3], %w = param "w": f32[3,4], %b = param "b": f32[4]): %y: f32[2,4] = aten.addmm.default(%b, %x, %w) return (%y))") ==
      "%y [addmm]: %x: SYM, %w: WEIGHT1 => SYM\n");
}

TEST_CASE("tensorrt: two operands are observed each, those of cat together",
          "[quantizers][json][tensorrt]") {
  CHECK(annotations_of(
            R"(graph(%x: f32[2,2], %y: f32[2,2]):
            %a: f32[2,2] = aten.add.Tensor(%x, %y)
            %m: f32[2,2] = aten.matmul.default(%a, %y)
            %c: f32[4,2] = aten.cat.default([%a, %m]) return (%c))") ==
        "%a [add]: %x: SYM, %y: SYM => SYM\n"
        "%m [matmul]: %a: SYM, %y: SYM => SYM\n"
        "%c [cat]: %a: SYM, %m: same as %a -> %c => same as %a -> %c\n");
}

TEST_CASE("tensorrt: what it does not run in int8 stays float", "[quantizers][json][tensorrt]") {
  CHECK(annotations_of("graph(%x: f32[2,2]): %y: f32[2,2] = aten.sigmoid.default(%x) return (%y)")
            .empty());
  // a weight that is computed at run time
  CHECK(annotations_of(
            "graph(%x: f32[2,2], %w: f32[2,2]): %y: f32[2,2] = aten.linear.default(%x, %w) return "
            "(%y)")
            .empty());
}

TEST_CASE("tensorrt: a quantized network has zero points of 0 and is close to the float one",
          "[quantizers][json][tensorrt]") {
  Graph graph = parse_graph(kNet);
  at::manual_seed(0);
  for (auto& [name, constant] : graph.constants)
    constant.tensor = from_aten(at::randn(constant.tensor.shape()) * 0.3);
  const std::vector<c10::IValue> batch = {at::randn({1, 3, 8, 8})};
  const at::Tensor expected = Interpreter(graph).run(batch).at(0).toTensor();
  const std::unique_ptr<Quantizer> quantizer = tensorrt();
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), *quantizer, report);
  calibrate(observed, {batch});
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  int quantized = 0;
  for (const Node* node : converted.nodes()) {
    if (!node->is("quantized_decomposed.quantize_per_tensor")) continue;
    ++quantized;
    CHECK(node->int_or("zero_point", -1) == 0);
    CHECK(node->int_or("quant_min", 0) == -128);
    CHECK(node->int_or("quant_max", 0) == 127);
  }
  CHECK(quantized == 5);
  // two weights in int8, and no bias
  CHECK(converted.nodes_of("quantized_decomposed.dequantize_per_channel").size() == 2);
  const at::Tensor difference = Interpreter(converted).run(batch).at(0).toTensor() - expected;
  CHECK(difference.norm().item<float>() < 0.05F * expected.norm().item<float>());
}

}  // namespace octet::test_tensorrt
