// Sums and products that both quantizers leave float although their rules match, and why.
#include <catch2/catch.hpp>

#include "annotate/rules/annotation_rule.h"
#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/x86/quantizer.h"

namespace octet::test_left_float {
namespace {

using test::annotate_text;
using test::reason_for;

test::Annotated annotate_for_x86(const std::string& graph) {
  X86InductorQuantizer quantizer;
  quantizer.set_global(get_default_x86_inductor_quantization_config());
  return annotate_text(graph, quantizer);
}

constexpr const char* kNorm = R"(graph(%w = param "w": f32[8], %x: f32[4,8]):
  %p: f32[4,8] = aten.pow.Tensor_Scalar(%x, 2)
  %m: f32[4,1] = aten.mean.dim(%p, [-1], True)
  %a: f32[4,1] = aten.add.Tensor(%m, 1e-06)
  %r: f32[4,1] = aten.rsqrt.default(%a)
  %n: f32[4,8] = aten.mul.Tensor(%x, %r)
  %c: f32[4,8] = aten.to.dtype(%n, f32)
  %y: f32[4,8] = aten.mul.Tensor(%w, %c)
  %z: f32[4,8] = aten.mul.Tensor(%y, %x)
  return (%z))";

}  // namespace

TEST_CASE("what depends on no input stays float, because it is computed ahead",
          "[quantizers][left_float]") {
  const std::string text =
      R"(graph(%f = buffer "f": f32[4], %w = param "w": f32[3,4], %x: f32[4,3]):
    %i: i64[4] = aten.arange.default(4)
    %t: f32[4] = aten.to.dtype(%i, f32)
    %a: f32[4] = aten.mul.Tensor(%t, %f)
    %e: f32[4,4] = aten.expand.default(%a, [4, 4])
    %l: f32[4,3] = aten.linear.default(%e, %w)
    %y: f32[4,3] = aten.mul.Tensor(%x, %l)
    return (%y))";
  const char* const reason = "it depends on no input and is computed ahead of time";
  const test::Annotated xnnpack = annotate_text(text), x86 = annotate_for_x86(text);
  CHECK(xnnpack.text == "%y [mul]: %x: ACT, %l: ACT => ACT\n");
  CHECK(x86.text == "%y [mul]: %x: ACT8U, %l: ACT8U\n");
  for (const test::Annotated* result : {&xnnpack, &x86}) {
    CHECK(reason_for(result->report, "a") == reason);
    CHECK(reason_for(result->report, "l") == reason);
  }
  CHECK(annotate_text(text, Compat::kTorchao).text.find("%l [linear]") != std::string::npos);
}

TEST_CASE("a row may leave its matches float and give the reason", "[quantizers][left_float]") {
  Graph graph = parse_graph(R"(graph(%x: f32[2,3], %w: f32[3,3]):
    %l: f32[2,3] = aten.linear.default(%x, %w)
    %r: f32[2,3] = aten.relu.default(%l)
    %m: f32[2,3] = aten.linear.default(%r, %w)
    return (%m))");
  AnnotationRule left{"linear_relu", "relu(linear(x, w))", {}, LeaveFloat{}};
  left.stays_float = "its clamp needs floats";
  const AnnotationRule taken{"linear[_relu]", "relu?(linear(x, w))", {{"x", kInput}}, LeaveFloat{}};
  const std::vector<AnnotationRule> rules = {left, taken};
  const QuantizationConfig config = get_symmetric_quantization_config();
  const auto choose = [&](const AnnotationRule&, const Match&) {
    return ConfigChoice{&config, {}};
  };
  Annotations annotations;
  RuleState state;
  CHECK(annotate_by_rules(graph, rules, choose, annotations, state) == 1);
  CHECK(state.refusals.at(graph.find_node("l")) == "its clamp needs floats");
  CHECK_FALSE(annotations.is_annotated(graph.find_node("r")));
  CHECK(annotations.find(graph.find_node("m"))->rule == "linear");
}

TEST_CASE("angles that come in at run time stay float", "[quantizers][left_float]") {
  const std::string text = R"(graph(%f = buffer "f": f32[4], %p: f32[3,4]):
    %a: f32[3,4] = aten.mul.Tensor(%p, %f)
    %b: f32[3,8] = aten.cat.default([%a, %a], -1)
    %c: f32[3,8] = aten.cos.default(%b)
    return (%c))";
  const test::Annotated result = annotate_text(text);
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "a") ==
        "its result is an angle, and %c needs more than 8 bits of it");
  CHECK(annotate_text(text, Compat::kTorchao).text.find("%a [mul]") != std::string::npos);
}

TEST_CASE("a mask stays float when a large factor would amplify its rounding errors",
          "[quantizers][left_float]") {
  const auto masks = [](const char* factor) {
    return std::string(R"(graph(%p: f32[1,4,1], %q: f32[1,1,4]):
    %m: f32[1,4,4] = aten.mul.Tensor(%p, %q)
    %u: f32[1,1,4,4] = aten.unsqueeze.default(%m, 1)
    %i: f32[1,1,4,4] = aten.rsub.Scalar(%u, 1.0)
    %y: f32[1,1,4,4] = aten.mul.Tensor(%i, )") +
           factor + R"()
    return (%y))";
  };
  for (const char* factor : {"-3.4028234663852886e+38", "-10000.0"}) {
    const test::Annotated result = annotate_text(masks(factor));
    CHECK(result.text.find("%m [mul]") == std::string::npos);
    CHECK(reason_for(result.report, "m") ==
          "its result is a mask, and %y would amplify its rounding errors");
  }
  CHECK(annotate_text(masks("-2.0")).text.find("%m [mul]") != std::string::npos);
}

TEST_CASE("a norm that is written out stays float, what takes its result does not",
          "[quantizers][left_float]") {
  const test::Annotated result = annotate_text(kNorm);
  CHECK(result.text == "%z [mul]: %y: ACT, %x: ACT => ACT\n");
  CHECK(reason_for(result.report, "a") == "%r is computed from it, as in a norm");
  CHECK(
      reason_for(result.report, "n") ==
      "it is the product of a norm: no scale fits the results of %r for short rows and for others");
  CHECK(reason_for(result.report, "y") ==
        "it is the product with the weight of a norm, which stays float");
  CHECK(annotate_text(kNorm, Compat::kTorchao).text.find("%n [mul]") != std::string::npos);
}

TEST_CASE("a product with a weight that is picked at run time says so",
          "[quantizers][left_float]") {
  const std::string text = R"(graph(%w = param "w": f32[4,8,3], %x: f32[2,5,8], %i: i64[2]):
    %p: f32[2,8,3] = aten.index.Tensor(%w, [%i])
    %y: f32[2,5,3] = aten.bmm.default(%x, %p)
    return (%y))";
  const char* const reason = "its weights are picked at run time, by index";
  CHECK(reason_for(annotate_text(text).report, "y") == reason);
  CHECK(reason_for(annotate_for_x86(text).report, "y") == reason);
}

}  // namespace octet::test_left_float
