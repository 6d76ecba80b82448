// The XNNPACK rows in Octet's default mode.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "quantizers/annotate_text.h"

namespace octet::test_xnnpack {
namespace {

using Catch::Matchers::Contains;
using test::annotate_text;
using test::reason_for;

// A convolution of %x, as %c, whose uses follow.
std::string conv_then(const std::string& rest) {
  return R"(graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3], %b = param "conv.bias": f32[4]):
    %c: f32[1,4,6,6] = aten.conv2d.default(%x, %w, %b)
    )" + rest;
}

QuantizationConfig per_tensor() { return get_symmetric_quantization_config(); }

}  // namespace

TEST_CASE("a convolution gets input, weight and output specs and a float bias",
          "[quantizers][xnnpack]") {
  CHECK(annotate_text(conv_then("return (%c)")).text == "%c [conv]: %x: ACT, %w: WEIGHT => ACT\n");
}

TEST_CASE(
    "a clamp after a convolution takes the output spec, so the range before it is not observed",
    "[quantizers][xnnpack]") {
  for (const std::string clamp :
       {"aten.relu.default(%c)", "aten.relu_.default(%c)", "aten.hardtanh.default(%c, 0.0, 6.0)",
        "aten.hardtanh_.default(%c, 0.0, 6.0)", "aten.relu6.default(%c)",
        "aten.clamp.default(%c, 0.0, 6.0)"}) {
    CAPTURE(clamp);
    const std::string text =
        annotate_text(conv_then("%r: f32[1,4,6,6] = " + clamp + " return (%r)")).text;
    CHECK(text == "%c [conv_clamp]: %x: ACT, %w: WEIGHT\n%r [conv_clamp]: => ACT\n");
  }
}

TEST_CASE("a clamp is not fused when others see the convolution's output",
          "[quantizers][xnnpack]") {
  const std::string text =
      annotate_text(conv_then("%r: f32[1,4,6,6] = aten.relu.default(%c) return (%c, %r)")).text;
  CHECK(text ==
        "%c [conv]: %x: ACT, %w: WEIGHT => ACT\n%r [share]: %c: same as %c => same as %c\n");
}

TEST_CASE("a convolution with padding=\"same\" is quantized", "[quantizers][xnnpack]") {
  const std::string text = annotate_text(R"(graph(%x: f32[1,3,8,8], %w = param "w": f32[4,3,3,3]):
    %c: f32[1,4,8,8] = aten.conv2d.padding(%x, %w, None, [1, 1], "same")
    return (%c))")
                               .text;
  CHECK(text == "%c [conv]: %x: ACT, %w: WEIGHT => ACT\n");
}

TEST_CASE("a transposed convolution has one weight scale, in compat one per channel along axis 1",
          "[quantizers][xnnpack]") {
  const std::string graph = R"(graph(%x: f32[1,3,8,8], %w = param "w": f32[3,4,2,2]):
    %c: f32[1,4,9,9] = aten.conv_transpose2d.input(%x, %w)
    %r: f32[1,4,9,9] = aten.relu.default(%c)
    return (%r))";
  CHECK(annotate_text(graph).text ==
        "%c [conv_transpose_clamp]: %x: ACT, %w: WEIGHT_T\n%r [conv_transpose_clamp]: => ACT\n");
  CHECK(annotate_text(graph, Compat::kTorchao).text ==
        "%c [conv_transpose_relu]: %x: ACT, %w: WEIGHT1\n%r [conv_transpose_relu]: => ACT\n");
}

TEST_CASE(
    "a transposed convolution in one and three dimensions has one weight scale, whatever the "
    "observer",
    "[quantizers][xnnpack]") {
  const auto annotated = [](const std::string& observer, bool is_qat) {
    XNNPACKQuantizer quantizer;
    SymmetricOptions options{.is_per_channel = true, .is_qat = is_qat};
    options.own.weight_observer.emplace().name = observer;
    quantizer.set_global(get_symmetric_quantization_config(options));
    return annotate_text(R"(graph(%x: f32[1,3,8], %w = param "w": f32[3,4,2],
                                  %u: f32[1,3,4,4,4], %v = param "v": f32[3,4,2,2,2]):
      %c: f32[1,4,9] = aten.conv_transpose1d.default(%x, %w)
      %d: f32[1,4,5,5,5] = aten.conv_transpose3d.input(%u, %v)
      return (%c, %d))",
                         quantizer)
        .text;
  };
  const auto line = [](const std::string& of, const std::string& weight) {
    return fmt::format("{}: int8 -127..127 per_tensor_symmetric {}", of, weight);
  };
  for (const auto& [given, made] :
       {std::pair<const char*, const char*>{"per_channel_min_max", "WEIGHT_T"},
        {"per_channel_percentile", "percentile"},
        {"moving_average_per_channel_min_max", "moving_average_min_max"},
        {"per_channel_mse", "weight_mse"}}) {
    const bool is_short = made == std::string("WEIGHT_T");
    const std::string text = annotated(given, false);
    CHECK_THAT(text, Contains(is_short ? "%w: WEIGHT_T" : line("%w", made)) &&
                         Contains(is_short ? "%v: WEIGHT_T" : line("%v", made)));
  }
  CHECK_THAT(annotated("per_channel_mse", true),
             Contains(line("%w", "fake_quantize(weight_mse)")) &&
                 Contains(line("%v", "fake_quantize(weight_mse)")));
}

TEST_CASE("a linear layer written as addmm or mm has its weight channels along axis 1",
          "[quantizers][xnnpack]") {
  const std::string inputs =
      R"(graph(%x: f32[2,8], %w = param "w": f32[8,4], %b = param "b": f32[4]):
    )";
  CHECK(annotate_text(inputs + "%l: f32[2,4] = aten.addmm.default(%b, %x, %w) return (%l)").text ==
        "%l [addmm]: %x: ACT, %w: WEIGHT1 => ACT\n");
  CHECK(
      annotate_text(
          inputs +
          "%l: f32[2,4] = aten.mm.default(%x, %w) %r: f32[2,4] = aten.relu.default(%l) return (%r)")
          .text == "%l [mm_clamp]: %x: ACT, %w: WEIGHT1\n%r [mm_clamp]: => ACT\n");
}

TEST_CASE("a product with a transposed parameter is quantized as the linear layer that it is",
          "[quantizers][xnnpack]") {
  const std::string text = R"(graph(%x: f32[1,2,8], %w = param "w": f32[4,8]):
    %t: f32[8,4] = aten.numpy_T.default(%w)
    %l: f32[1,2,4] = aten.matmul.default(%x, %t)
    return (%l))";
  CHECK(annotate_text(text).text == "%l [linear]: %x: ACT, %w: WEIGHT => ACT\n");
  CHECK(annotate_text(text, Compat::kTorchao).text.empty());
}

TEST_CASE("a product of two computed matrices stays float, with the reason",
          "[quantizers][xnnpack]") {
  const test::Annotated result = annotate_text(R"(graph(%x: f32[2,8], %y: f32[8,4]):
    %l: f32[2,4] = aten.mm.default(%x, %y)
    return (%l))");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "l") == "weight %y is computed at run time, want a constant");
}

TEST_CASE("a grouped transposed convolution stays float, with the reason",
          "[quantizers][xnnpack]") {
  const test::Annotated result =
      annotate_text(R"(graph(%x: f32[1,4,8,8], %w = param "w": f32[4,2,2,2]):
    %c: f32[1,4,9,9] = aten.conv_transpose2d.input(%x, %w, None, [1, 1], [0, 0], [0, 0], 2)
    return (%c))");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "c") == "conv_transpose2d with groups=2 is not supported");
}

TEST_CASE("a linear that is called twice is quantized both times", "[quantizers][xnnpack]") {
  const std::string text = annotate_text(R"(graph(%x: f32[2,4], %w = param "w": f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    %r: f32[2,4] = aten.relu.default(%l)
    %m: f32[2,4] = aten.linear.default(%r, %w)
    return (%m))")
                               .text;
  CHECK(text ==
        "%l [linear_clamp]: %x: ACT, %w: WEIGHT\n%r [linear_clamp]: => ACT\n%m [linear]: %r: ACT, "
        "%w: WEIGHT => ACT\n");
}

TEST_CASE("both inputs of an addition are observed, a clamp after it takes the output",
          "[quantizers][xnnpack]") {
  const std::string text = annotate_text(R"(graph(%x: f32[2,4], %y: f32[2,4]):
    %s: f32[2,4] = aten.add.Tensor(%x, %y)
    %r: f32[2,4] = aten.hardtanh.default(%s, 0.0, 6.0)
    %m: f32[2,4] = aten.mul.Tensor(%r, %r)
    return (%m))")
                               .text;
  CHECK(text ==
        "%s [add_clamp]: %x: ACT, %y: ACT\n%r [add_clamp]: => ACT\n%m [mul]: %r: ACT => ACT\n");
}

TEST_CASE("a scalar operand becomes a constant and is observed", "[quantizers][xnnpack]") {
  const std::string text =
      annotate_text("graph(%x: f32[2,4]): %s: f32[2,4] = aten.add.Tensor(%x, 1.5) return (%s)")
          .text;
  CHECK(text == "%s [add]: %x: ACT, %b__tensor_constant_0: ACT => ACT\n");
}

TEST_CASE("integer additions are left alone", "[quantizers][xnnpack]") {
  const test::Annotated result = annotate_text(R"(graph(%i: i64[2,3], %x: f32[2,3]):
    %s: i64[2,3] = aten.add.Tensor(%i, 1)
    return (%s))");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "s") == "input %i is int64, want float32");
}

TEST_CASE("cat shares one observer among its inputs and its output", "[quantizers][xnnpack]") {
  const std::string text = annotate_text(R"(graph(%x: f32[2,4], %y: f32[2,4]):
    %c: f32[4,4] = aten.cat.default([%x, %y])
    return (%c))")
                               .text;
  CHECK(text == "%c [cat]: %x: ACT, %y: same as %x -> %c => same as %x -> %c\n");
}

TEST_CASE("cat takes the observer of the first input that is quantized already",
          "[quantizers][xnnpack]") {
  const std::string text =
      annotate_text(conv_then("%d: f32[1,7,6,6] = aten.cat.default([%x, %c], 1) return (%d)")).text;
  CHECK_THAT(text, Catch::Matchers::EndsWith(
                       "%d [cat]: %c: ACT, %x: same as %c -> %d => same as %c -> %d\n"));
}

TEST_CASE("a functional pool after a convolution shares its observer", "[quantizers][xnnpack]") {
  const std::string text =
      annotate_text(
          conv_then("%p: f32[1,4,1,1] = aten.adaptive_avg_pool2d.default(%c, [1, 1]) return (%p)"))
          .text;
  CHECK_THAT(text, Catch::Matchers::EndsWith(
                       "%p [adaptive_avg_pool2d]: %c: same as %c => same as %c -> %p\n"));
}

TEST_CASE("ops that move values share along a chain", "[quantizers][xnnpack]") {
  const std::string text = annotate_text(conv_then(R"(
    %p: f32[1,4,3,3] = aten.max_pool2d.default(%c, [2, 2])
    %f: f32[1,36] = aten.flatten.using_ints(%p, 1)
    %u: f32[1,1,36] = aten.unsqueeze.default(%f, 1)
    return (%u))"))
                               .text;
  CHECK_THAT(
      text,
      Catch::Matchers::EndsWith(
          "%p [share]: %c: same as %c => same as %c\n%f [share]: %p: same as %p => same as %p\n"
          "%u [share]: %f: same as %f => same as %f\n"));
}

TEST_CASE("padding shares when it adds zeros", "[quantizers][xnnpack]") {
  CHECK_THAT(
      annotate_text(conv_then("%p: f32[1,4,7,7] = aten.pad.default(%c, [0, 1, 0, 1]) return (%p)"))
          .text,
      Catch::Matchers::EndsWith("%p [share]: %c: same as %c => same as %c\n"));
  CHECK_THAT(annotate_text(conv_then("%p: f32[1,4,7,7] = aten.pad.default(%c, [0, 1, 0, 1], "
                                     "\"constant\", 1.0) return (%p)"))
                 .text,
             !Catch::Matchers::Contains("%p"));
}

TEST_CASE("an op without a rule is reported", "[quantizers][xnnpack][report]") {
  const test::Annotated result =
      annotate_text("graph(%x: f32[2,4]): %s: f32[2,4] = aten.sigmoid.default(%x) return (%s)");
  CHECK(reason_for(result.report, "s") == "no rule of xnnpack matches aten.sigmoid.default");
}

TEST_CASE("a sharing op after a float op is reported", "[quantizers][xnnpack][report]") {
  const test::Annotated result = annotate_text(
      "graph(%x: f32[1,3,8,8]): %p: f32[1,3,4,4] = aten.max_pool2d.default(%x, [2, 2]) return "
      "(%p)");
  CHECK(reason_for(result.report, "p") ==
        "it shares the scale of its input, and %x is not quantized");
}

TEST_CASE("a weight that is computed at run time keeps the op float",
          "[quantizers][xnnpack][report]") {
  const test::Annotated result = annotate_text(
      "graph(%x: f32[2,4], %w: f32[3,4]): %l: f32[2,3] = aten.linear.default(%x, %w) return (%l)");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "l") == "weight %w is computed at run time, want a constant");
}

TEST_CASE("a weight that the program writes to keeps the op float",
          "[quantizers][xnnpack][report]") {
  const std::string head = R"(graph(%w = buffer "w": f32[3,4], %x: f32[2,4]): )";
  const std::string linear = "%l: f32[2,3] = aten.linear.default(%x, ";
  for (const std::string& text :
       {"%m: f32[3,4] = aten.mul_.Tensor(%w, 2.0) " + linear + "%m) return (%l)",
        linear + "%w) %r: f32[4] = aten.select.int(%w, 0, 0) "
                 "%m: f32[4] = aten.mul_.Tensor(%r, 2.0) return (%l)",
        "%c: f32[3,4] = aten.clone.default(%w) %r: f32[4] = aten.select.int(%c, 0, 0) "
        "%m: f32[4] = aten.mul_.Tensor(%r, 2.0) " +
            linear + "%c) return (%l)",
        linear + "%w) %m: f32[3,4] = aten.mul.Tensor(%w, 2.0) return (%l, mutate \"w\" = %m)"}) {
    CAPTURE(text);
    CHECK_THAT(reason_for(annotate_text(head + text).report, "l"),
               Catch::Matchers::EndsWith(" is computed at run time, want a constant"));
  }
}

TEST_CASE("half precision is unchanged", "[quantizers][xnnpack][report]") {
  const test::Annotated result = annotate_text(
      R"(graph(%x: bf16[2,4], %w = param "w": bf16[3,4]): %l: bf16[2,3] = aten.linear.default(%x, %w) return (%l))");
  CHECK(reason_for(result.report, "l") == "input %w is bfloat16, want float32");
}

TEST_CASE("a module name that is set to nothing stays float, the longest name wins",
          "[quantizers][xnnpack][config]") {
  const test::ModuleStacks stacks = {
      {"l",
       "L__self__,,Net;L__self__body,body,Body;L__self__body_a,body.a,torch.nn.modules.linear."
       "Linear"},
      {"m",
       "L__self__,,Net;L__self__body,body,Body;L__self__body_b,body.b,torch.nn.modules.linear."
       "Linear"}};
  const std::string graph =
      R"(graph(%x: f32[2,4], %w = param "w": f32[4,4], %v = param "v": f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    %m: f32[2,4] = aten.linear.default(%l, %v)
    return (%m))";
  XNNPACKQuantizer quantizer;
  quantizer.set_module_name("body", per_tensor())
      .set_module_name("body.b", std::nullopt)
      .set_module_name("boddy", per_tensor());
  const test::Annotated result = annotate_text(graph, quantizer, stacks);
  CHECK(result.text == "%l [linear]: %x: ACT, %w: WEIGHT_T => ACT\n");
  CHECK(reason_for(result.report, "m") == "excluded by module_name \"body.b\"");
  REQUIRE(result.report.notes().size() == 1);
  CHECK(result.report.notes().front() == "module_name \"boddy\" applies to no node");
}

TEST_CASE("a module type filter works for convolutions and with the short class name",
          "[quantizers][xnnpack][config]") {
  XNNPACKQuantizer quantizer;
  quantizer.set_module_type("torch.nn.Conv2d", per_tensor());
  const test::ModuleStacks stacks = {
      {"c", "L__self__,,Net;L__self__conv,conv,torch.nn.modules.conv.Conv2d"}};
  CHECK(annotate_text(conv_then("return (%c)"), quantizer, stacks).text ==
        "%c [conv]: %x: ACT, %w: WEIGHT_T => ACT\n");
}

TEST_CASE("an op type overrides the global config", "[quantizers][xnnpack][config]") {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(per_tensor()).set_operator_type("aten.conv2d", std::nullopt);
  const test::Annotated result = annotate_text(conv_then("return (%c)"), quantizer);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "c") == "excluded by op_type \"aten.conv2d\"");
}

TEST_CASE("a filter function that excludes the clamp leaves the convolution alone with its output",
          "[quantizers][xnnpack][config]") {
  XNNPACKQuantizer quantizer;
  quantizer.set_global(per_tensor()).set_filter_function([](const Node& node) {
    return node.name() != "r";
  });
  const std::string text =
      annotate_text(conv_then("%r: f32[1,4,6,6] = aten.relu.default(%c) return (%r)"), quantizer)
          .text;
  CHECK(text == "%c [conv]: %x: ACT, %w: WEIGHT_T => ACT\n");
}

TEST_CASE("a dynamic config quantizes inputs of linear and leaves outputs and additions float",
          "[quantizers][xnnpack][dynamic]") {
  XNNPACKQuantizer quantizer;
  SymmetricOptions options;
  options.is_dynamic = true;
  quantizer.set_global(get_symmetric_quantization_config(options));
  const test::Annotated result = annotate_text(R"(graph(%x: f32[2,4], %w = param "w": f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    %s: f32[2,4] = aten.add.Tensor(%l, %x)
    return (%s))",
                                               quantizer);
  CHECK(result.text ==
        "%l [linear]: %x: int8 -128..127 per_tensor_affine dynamic placeholder, %w: WEIGHT_T\n");
  CHECK(reason_for(result.report, "s") ==
        "its configuration is dynamic, which applies to linear and convolution only");
}

TEST_CASE("nothing is annotated without a config", "[quantizers][xnnpack][config]") {
  XNNPACKQuantizer quantizer;
  const test::Annotated result = annotate_text(conv_then("return (%c)"), quantizer);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "c") == "no configuration covers it and there is no global one");
}

}  // namespace octet::test_xnnpack
