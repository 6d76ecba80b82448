// Which configuration of the X86 quantizer goes with which op; dynamic and float16 configurations.
#include <catch2/catch.hpp>

#include "quantizers/annotate_text.h"
#include "quantizers/x86/quantizer.h"

namespace octet::test_x86_config {
namespace {

using test::annotate_text;
using test::reason_for;

QuantizationConfig static_config() { return get_default_x86_inductor_quantization_config(); }
QuantizationConfig dynamic_config() {
  return get_default_x86_inductor_quantization_config({.is_dynamic = true});
}

const std::string kTwoOps =
    R"(graph(%x: f32[1,4,8,8], %w = param "conv.weight": f32[4,4,1,1], %v = param "block.fc.weight": f32[8,8]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %l: f32[1,4,8,8] = aten.linear.default(%c, %v)
    return (%l))";
const test::ModuleStacks kStacks = {
    {"c", "0,,M;1,conv,torch.nn.modules.conv.Conv2d"},
    {"l", "0,,M;1,block,my.Block;2,block.fc,torch.nn.modules.linear.Linear"},
};
const std::string kConv = "%c [conv]: %x: ACT8U, %w: WEIGHT8\n";
const std::string kLinear = "%l [linear]: %c: ACT8U, %v: WEIGHT8\n";

}  // namespace

TEST_CASE("x86: nothing is quantized without a configuration", "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  const test::Annotated result = annotate_text(kTwoOps, quantizer, kStacks);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "c") == "no configuration covers it and there is no global one");
}

TEST_CASE("x86: null leaves a module, a type or an op float, with the reason",
          "[quantizers][x86]") {
  X86InductorQuantizer by_name, by_type, by_op;
  by_name.set_global(static_config()).set_module_name_qconfig("block", std::nullopt);
  by_type.set_global(static_config()).set_module_type_qconfig("torch.nn.Linear", std::nullopt);
  by_op.set_global(static_config())
      .set_function_type_qconfig("torch.nn.functional.linear", std::nullopt);
  const std::vector<std::pair<X86InductorQuantizer*, std::string>> cases = {
      {&by_name, "excluded by module_name \"block\""},
      {&by_type, "excluded by module_type \"torch.nn.Linear\""},
      {&by_op, "excluded by op_type \"aten.linear\""},
  };
  for (const auto& [quantizer, reason] : cases) {
    const test::Annotated result = annotate_text(kTwoOps, *quantizer, kStacks);
    CHECK(result.text == kConv);
    CHECK(reason_for(result.report, "l") == reason);
  }
}

TEST_CASE("x86: a configuration of one module, type or op leaves the rest float",
          "[quantizers][x86]") {
  X86InductorQuantizer by_name, by_type, by_op;
  by_name.set_module_name_qconfig("block", static_config());
  by_type.set_module_type_qconfig("torch.nn.modules.linear.Linear", static_config());
  by_op.set_function_type_qconfig("torch.nn.functional.linear", static_config());
  for (X86InductorQuantizer* quantizer : {&by_name, &by_type, &by_op})
    CHECK(annotate_text(kTwoOps, *quantizer, kStacks).text == kLinear);
}

TEST_CASE("x86: names with underscores are names of modules", "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_module_name_qconfig("my_block.sub_1", static_config());
  const test::ModuleStacks stacks = {
      {"c",
       "0,,M;1,L['self'].my_block,my.Block;2,L['self'].my_block.sub_1,torch.nn.modules.conv."
       "Conv2d"},
      {"l", "0,,M;1,my_block_sub_1,torch.nn.modules.linear.Linear"}};
  CHECK(annotate_text(kTwoOps, quantizer, stacks).text == kConv);
}

TEST_CASE("x86: a module's configuration reaches the matrix products within it",
          "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_module_name_qconfig("attention", static_config());
  const test::Annotated result =
      annotate_text(R"(graph(%x: f32[2,4,4]):
    %m: f32[2,4,4] = aten.matmul.default(%x, %x) %n: f32[2,4,4] = aten.matmul.default(%m, %x) return (%n))",
                    quantizer, {{"m", "0,,M;1,attention,my.Attention"}, {"n", "0,,M"}});
  CHECK(result.text == "%m [matmul]: %x: ACT8U\n");
}

TEST_CASE("x86: an exception within a module wins over the module, in any order",
          "[quantizers][x86]") {
  X86InductorQuantizer first, second;
  first.set_module_name_qconfig("block", static_config())
      .set_module_name_qconfig("block.fc", std::nullopt);
  second.set_module_name_qconfig("block.fc", std::nullopt)
      .set_module_name_qconfig("block", static_config());
  CHECK(annotate_text(kTwoOps, first, kStacks).text.empty());
  CHECK(annotate_text(kTwoOps, second, kStacks).text.empty());
}

TEST_CASE("x86: a configuration that mixes dynamic and static is skipped, and the report says so",
          "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(static_config())
      .set_function_type_qconfig("torch.nn.functional.linear", dynamic_config());
  const test::Annotated result = annotate_text(kTwoOps, quantizer, kStacks);
  CHECK(result.text == kConv + kLinear);
  REQUIRE(result.report.notes().size() == 1);
  CHECK(result.report.notes()[0] ==
        "x86: op_type \"torch.nn.functional.linear\" is skipped: mixed dynamic and static "
        "configurations are not supported");
}

TEST_CASE(
    "x86: a configuration may replace its own row whatever that was; compat: the first one stays",
    "[quantizers][x86]") {
  X86InductorQuantizer own, compat(Compat::kTorchao);
  own.set_global(static_config()).set_global(dynamic_config());
  compat.set_global(static_config()).set_global(dynamic_config());
  CHECK(annotate_text(kTwoOps, own, kStacks).text ==
        "%l [linear]: %c: uint8 0..255 per_tensor_affine dynamic placeholder, %v: WEIGHT8\n");
  CHECK(annotate_text(kTwoOps, compat, kStacks).report.notes().back() ==
        "x86: the global configuration is skipped: mixed dynamic and static configurations are not "
        "supported");
}

TEST_CASE("x86: dynamic quantization takes linear ops; a convolution stays float, with the reason",
          "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(dynamic_config());
  const test::Annotated result = annotate_text(kTwoOps, quantizer, kStacks);
  CHECK(result.text ==
        "%l [linear]: %c: uint8 0..255 per_tensor_affine dynamic placeholder, %v: WEIGHT8\n");
  CHECK(reason_for(result.report, "c") ==
        "its configuration is dynamic or of float16 weights, which applies to linear ops only");
}

TEST_CASE("x86: float16 weights are for linear ops; activations stay float", "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_x86_inductor_linear_dynamic_fp16_config());
  CHECK(annotate_text(kTwoOps, quantizer, kStacks).text ==
        "%l [linear]: %v: float16 placeholder\n");
}

TEST_CASE("x86: a reduced range has activations of seven bits", "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config({.reduce_range = true}));
  CHECK(annotate_text(kTwoOps, quantizer, kStacks)
            .text.starts_with(
                "%c [conv]: %x: uint8 0..127 per_tensor_affine histogram, %w: WEIGHT8\n"));
}

TEST_CASE("x86: an empty name is an error", "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  CHECK_THROWS_WITH(quantizer.set_module_name_qconfig("", static_config()),
                    "quantizer: module_name: the name is empty, want e.g. \"block.conv\"; use "
                    "global for the whole model");
}

// ---- compat

namespace {

std::string annotate_compat(const std::string& graph, const test::ModuleStacks& stacks,
                            const test::Sources& sources = {}) {
  X86InductorQuantizer quantizer(Compat::kTorchao);
  quantizer.set_global(static_config());
  return annotate_text(graph, quantizer, stacks, sources).text;
}

}  // namespace

TEST_CASE("x86 compat: a functional relu belongs to its convolution in strict exports only",
          "[quantizers][x86][compat]") {
  const std::string graph = R"(graph(%x: f32[1,4,8,8], %w = param "conv.weight": f32[4,4,1,1]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %r: f32[1,4,8,8] = aten.relu.default(%c)
    %p: f32[1,4,4,4] = aten.max_pool2d.default(%r, [2, 2])
    return (%p))";
  const test::ModuleStacks stacks = {{"c", "0,,M;1,conv,torch.nn.modules.conv.Conv2d"},
                                     {"r", "0,,M"}};
  CHECK(annotate_compat(graph, stacks) == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
  CHECK(annotate_compat(graph, stacks,
                        {{"c", "conv2d,torch.nn.modules.conv.Conv2d"},
                         {"r", "relu,torch.nn.functional.relu"}}) ==
        "%c [conv_relu]: %x: ACT8U, %w: WEIGHT8\n%r [conv_relu]:\n%p [share]: %r: ACT8U => same as "
        "%r -> %p\n");
}

TEST_CASE("x86 compat: a module type stands for its op everywhere", "[quantizers][x86][compat]") {
  X86InductorQuantizer quantizer(Compat::kTorchao);
  quantizer.set_global(static_config()).set_module_type_qconfig("torch.nn.Linear", std::nullopt);
  const test::Annotated result = annotate_text(kTwoOps, quantizer, kStacks);
  CHECK(result.text == kConv + "%l [op_type \"aten.linear.default\"]:\n");
  CHECK(reason_for(result.report, "l") == "excluded by op_type \"aten.linear.default\"");
}

TEST_CASE("x86 compat: what torchao cannot configure is skipped, and the report says so",
          "[quantizers][x86][compat]") {
  X86InductorQuantizer quantizer(Compat::kTorchao);
  quantizer.set_function_type_qconfig("torch.nn.functional.gelu", static_config());
  CHECK(annotate_text(kTwoOps, quantizer, kStacks).report.notes()[0] ==
        "x86: op_type \"torch.nn.functional.gelu\" is skipped: torchao cannot configure it");
}

TEST_CASE(
    "x86 compat: in training a batch norm belongs to its convolution, and the last op's output is "
    "observed",
    "[quantizers][x86][compat]") {
  X86InductorQuantizer quantizer(Compat::kTorchao);
  quantizer.set_global(get_default_x86_inductor_quantization_config({.is_qat = true}));
  const std::string text =
      annotate_text(
          R"(graph(%x: f32[1,4,8,8], %w = param "conv.weight": f32[4,4,1,1], %m = buffer "bn.mean": f32[4]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %n: f32[1,4,8,8] = aten.batch_norm.default(%c, None, None, %m, %m, True, 0.1, 1e-05, False)
    %r: f32[1,4,8,8] = aten.relu.default(%n)
    return (%r))",
          quantizer,
          {{"c", "0,,M;1,conv,torch.nn.modules.conv.Conv2d"},
           {"n", "0,,M;1,bn,torch.nn.modules.batchnorm.BatchNorm2d"},
           {"r", "0,,M;1,relu,torch.nn.modules.activation.ReLU"}})
          .text;
  const std::string activation =
      "uint8 0..255 per_tensor_affine fused_moving_avg_obs_fake_quantize";
  CHECK(
      text ==
      "%c [conv_bn_relu]: %x: " + activation +
          ", %w: int8 -128..127 per_channel_symmetric axis 0 fused_moving_avg_obs_fake_quantize\n" +
          "%n [conv_bn_relu]:\n%r [conv_bn_relu]: => " + activation + "\n");
}

}  // namespace octet::test_x86_config
