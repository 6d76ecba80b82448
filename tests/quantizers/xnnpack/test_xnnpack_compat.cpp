// The choices of torchao that Octet repeats in compat mode alone. Each is compared with what Octet
// does by default.
#include <catch2/catch.hpp>

#include "quantizers/annotate_text.h"

namespace octet::test_xnnpack_compat {
namespace {

using test::annotate_text;
using test::reason_for;

std::string conv_then(const std::string& rest) {
  return R"(graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3]):
    %c: f32[1,4,6,6] = aten.conv2d.default(%x, %w)
    )" + rest;
}

QuantizationConfig per_tensor() { return get_symmetric_quantization_config(); }
constexpr const char* kConvStack = "L__self__,,Net;L__self__conv,conv,torch.nn.modules.conv.Conv2d";

}  // namespace

TEST_CASE("compat: hardtanh shares the observer of the tensor before the clamp",
          "[quantizers][compat]") {
  const std::string text =
      annotate_text(conv_then("%r: f32[1,4,6,6] = aten.hardtanh.default(%c, 0.0, 6.0) return (%r)"),
                    Compat::kTorchao)
          .text;
  CHECK(text ==
        "%c [conv]: %x: ACT, %w: WEIGHT => ACT\n%r [share]: %c: same as %c => same as %c\n");
}

TEST_CASE("compat: a module filter never takes convolutions", "[quantizers][compat]") {
  XNNPACKQuantizer quantizer(Compat::kTorchao);
  quantizer.set_global(per_tensor()).set_module_name("conv", per_tensor());
  const test::Annotated result =
      annotate_text(conv_then("return (%c)"), quantizer, {{"c", kConvStack}});
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "c") ==
        "the filter of module_name \"conv\" excludes its weight %w (compat torchao)");
}

TEST_CASE("compat: a weight belongs to the first convolution that uses it",
          "[quantizers][compat]") {
  const test::Annotated result =
      annotate_text(R"(graph(%x: f32[1,4,7,7], %w = param "a.weight": f32[4,4,3,3]):
    %c: f32[1,4,7,7] = aten.conv2d.default(%x, %w, None, [1, 1], [1, 1])
    %d: f32[1,4,7,7] = aten.conv2d.default(%c, %w, None, [1, 1], [1, 1])
    return (%d))",
                    Compat::kTorchao);
  CHECK(result.text == "%c [conv]: %x: ACT, %w: WEIGHT => ACT\n");
  CHECK(reason_for(result.report, "d") == "%w already belongs to another quantized op");
}

TEST_CASE("compat: a functional adaptive pool only shares, a module's pool is a pattern",
          "[quantizers][compat]") {
  const std::string graph =
      R"(graph(%x: f32[1,3,8,8]): %p: f32[1,3,1,1] = aten.adaptive_avg_pool2d.default(%x, [1, 1]) return (%p))";
  CHECK(annotate_text(graph, Compat::kTorchao).text.empty());
  const test::ModuleStacks module = {
      {"p", "L__self__,,Net;L__self__pool,pool,torch.nn.modules.pooling.AdaptiveAvgPool2d"}};
  CHECK(annotate_text(graph, Compat::kTorchao, module).text ==
        "%p [adaptive_avg_pool2d]: %x: ACT => same as %x -> %p\n");
  CHECK(annotate_text(graph).text == "%p [adaptive_avg_pool2d]: %x: ACT => same as %x -> %p\n");
}

TEST_CASE("compat: the scalar of an integer addition becomes a float constant",
          "[quantizers][compat]") {
  const test::Annotated result = annotate_text(
      "graph(%i: i64[2,3]): %s: i64[2,3] = aten.add.Tensor(%i, 1) return (%s)", Compat::kTorchao);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "s") == "input %i is int64, want float32");
}

TEST_CASE("compat: setting an op type for conv2d takes conv1d too", "[quantizers][compat]") {
  const std::string graph =
      R"(graph(%x: f32[1,3,8], %w = param "w": f32[4,3,3]): %c: f32[1,4,6] = aten.conv1d.default(%x, %w) return (%c))";
  XNNPACKQuantizer peer(Compat::kTorchao);
  peer.set_operator_type("aten.conv2d.default", per_tensor());
  CHECK(annotate_text(graph, peer).text == "%c [conv]: %x: ACT, %w: WEIGHT_T => ACT\n");
  XNNPACKQuantizer own;
  own.set_operator_type("aten.conv2d.default", per_tensor());
  CHECK(annotate_text(graph, own).text.empty());
}

}  // namespace octet::test_xnnpack_compat
