// The X86 rows in Octet's default mode.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "core/text/text.h"
#include "quantizers/annotate_text.h"
#include "quantizers/x86/quantizer.h"

namespace octet::test_x86 {
namespace {

using test::reason_for;

QuantizationConfig static_config() { return get_default_x86_inductor_quantization_config(); }

test::Annotated annotate(const std::string& graph) {
  X86InductorQuantizer quantizer;
  quantizer.set_global(static_config());
  return test::annotate_text(graph, quantizer);
}

// A convolution of %x, as %c, whose uses follow; %y has its shape.
std::string conv_then(const std::string& rest) {
  return R"(graph(%x: f32[1,3,8,8], %y: f32[1,4,6,6], %w = param "conv.weight": f32[4,3,3,3], %b = param "conv.bias": f32[4]):
    %c: f32[1,4,6,6] = aten.conv2d.default(%x, %w, %b)
    )" + rest;
}
std::string linear_then(const std::string& rest) {
  return R"(graph(%x: f32[2,4], %y: f32[2,4], %w = param "fc.weight": f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    )" + rest;
}

}  // namespace

TEST_CASE("x86: a convolution observes its input and weight, not its output", "[quantizers][x86]") {
  CHECK(annotate(conv_then("return (%c)")).text == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
}

TEST_CASE("x86: convolutions of one and three dimensions are quantized alone",
          "[quantizers][x86]") {
  CHECK(annotate(R"(graph(%x: f32[1,3,8], %w = param "w": f32[4,3,3]):
    %c: f32[1,4,6] = aten.conv1d.default(%x, %w) return (%c))")
            .text == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
  CHECK(annotate(R"(graph(%x: f32[1,3,8,8,8], %w = param "w": f32[4,3,3,3,3]):
    %c: f32[1,4,6,6,6] = aten.conv3d.default(%x, %w) return (%c))")
            .text == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
}

TEST_CASE("x86: transposed convolutions are quantized per channel, not in compat",
          "[quantizers][x86]") {
  const auto transposed = [](const std::string& op, const std::string& shapes) {
    return fmt::format(R"(graph({}):
      %c: f32[1,4,9] = aten.{}(%x, %w)
      %r: f32[1,4,9] = aten.relu.default(%c)
      return (%r))",
                       shapes, op);
  };
  for (const auto& [op, shapes] :
       {std::pair{"conv_transpose1d.default", "%x: f32[1,3,8], %w = param \"w\": f32[3,4,2]"},
        {"conv_transpose2d.input", "%x: f32[1,3,8,8], %w = param \"w\": f32[3,4,2,2]"},
        {"conv_transpose3d.input", "%x: f32[1,3,8,8,8], %w = param \"w\": f32[3,4,2,2,2]"}}) {
    const std::string graph = transposed(op, shapes);
    CHECK(annotate(graph).text ==
          "%c [conv_transpose_unary]: %x: ACT8U, %w: int8 -128..127 per_channel_symmetric axis 1 "
          "per_channel_min_max\n%r [conv_transpose_unary]:\n");
    X86InductorQuantizer compat(Compat::kTorchao);
    compat.set_global(static_config());
    CHECK(test::annotate_text(graph, compat).text.empty());
  }
}

TEST_CASE(
    "x86: elementwise ops after a convolution or linear op belong to it, as functions and as "
    "modules",
    "[quantizers][x86]") {
  for (const std::string unary : {"relu", "relu_", "relu6", "hardswish", "silu", "gelu", "tanh",
                                  "leaky_relu", "sigmoid", "hardswish_", "silu_"}) {
    CAPTURE(unary);
    CHECK(
        annotate(conv_then("%r: f32[1,4,6,6] = aten." + unary + ".default(%c) return (%r)")).text ==
        "%c [conv_unary]: %x: ACT8U, %w: WEIGHT8\n%r [conv_unary]:\n");
    const std::string linear = "%r: f32[2,4] = aten." + unary + ".default(%l) return (%r)";
    CHECK(test::fused_as(annotate(linear_then(linear)), {"r", "l"}) == "linear_unary");
  }
}

TEST_CASE("x86: an op after a convolution that others read too stays apart", "[quantizers][x86]") {
  const test::Annotated result =
      annotate(conv_then("%r: f32[1,4,6,6] = aten.relu.default(%c) return (%c, %r)"));
  CHECK(result.text == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
  CHECK(reason_for(result.report, "r") == "no rule of x86 matches aten.relu.default");
}

TEST_CASE("x86: the other operand of an addition after a convolution is observed, on either side",
          "[quantizers][x86]") {
  for (const std::string add :
       {"aten.add.Tensor(%c, %y)", "aten.add.Tensor(%y, %c)", "aten.add_.Tensor(%c, %y)"}) {
    CAPTURE(add);
    CHECK(annotate(conv_then("%a: f32[1,4,6,6] = " + add + " return (%a)")).text ==
          "%c [conv_add]: %x: ACT8U, %w: WEIGHT8\n%a [conv_add]: %y: ACT8U\n");
    CHECK(annotate(conv_then("%a: f32[1,4,6,6] = " + add +
                             " %r: f32[1,4,6,6] = aten.relu_.default(%a) return (%r)"))
              .text ==
          "%c [conv_add_relu]: %x: ACT8U, %w: WEIGHT8\n%a [conv_add_relu]: %y: ACT8U\n%r "
          "[conv_add_relu]:\n");
  }
}

TEST_CASE("x86: of two convolutions that are added one takes the addition", "[quantizers][x86]") {
  CHECK(annotate(conv_then(R"(%d: f32[1,4,6,6] = aten.conv2d.default(%x, %w)
    %a: f32[1,4,6,6] = aten.add.Tensor(%c, %d) return (%a))"))
            .text ==
        "%c [conv_add]: %x: ACT8U, %w: WEIGHT8\n%d [conv]: %x: ACT8U, %w: WEIGHT8\n%a [conv_add]: "
        "%d: ACT8U\n");
}

TEST_CASE("x86: a convolution that is added to itself is quantized alone", "[quantizers][x86]") {
  CHECK(annotate(conv_then("%a: f32[1,4,6,6] = aten.add.Tensor(%c, %c) return (%a)")).text ==
        "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
}

TEST_CASE("x86: the other operand of an addition after a linear op stays float",
          "[quantizers][x86]") {
  CHECK(annotate(linear_then("%a: f32[2,4] = aten.add.Tensor(%y, %l) %r: f32[2,4] = "
                             "aten.relu.default(%a) return (%r)"))
            .text ==
        "%l [linear_add_relu]: %x: ACT8U, %w: WEIGHT8\n%a [linear_add_relu]:\n%r "
        "[linear_add_relu]:\n");
}

TEST_CASE("x86: a Python scalar that is added leaves the op before it quantized",
          "[quantizers][x86]") {
  CHECK(annotate(conv_then("%a: f32[1,4,6,6] = aten.add.Tensor(%c, 1.5) return (%a)")).text ==
        "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
  CHECK(annotate(linear_then("%a: f32[2,4] = aten.add.Tensor(%l, 2) return (%a)")).text ==
        "%l [linear]: %x: ACT8U, %w: WEIGHT8\n");
}

TEST_CASE("x86: an op whose result nobody uses does not prevent fusion", "[quantizers][x86]") {
  CHECK(annotate(conv_then("%r: f32[1,4,6,6] = aten.relu.default(%c) return (%c)")).text ==
        "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
}

TEST_CASE("x86: modules that are called twice are quantized both times, a shared ReLU too",
          "[quantizers][x86]") {
  X86InductorQuantizer quantizer;
  quantizer.set_global(static_config());
  const std::string conv = "0,,M;1,conv,torch.nn.modules.conv.Conv2d";
  const std::string relu = "0,,M;1,relu,torch.nn.modules.activation.ReLU";
  const test::Annotated result =
      test::annotate_text(R"(graph(%x: f32[1,4,8,8], %w = param "conv.weight": f32[4,4,1,1]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %r: f32[1,4,8,8] = aten.relu.default(%c)
    %d: f32[1,4,8,8] = aten.conv2d.default(%r, %w)
    %s: f32[1,4,8,8] = aten.relu.default(%d)
    return (%s))",
                          quantizer, {{"c", conv}, {"r", relu}, {"d", conv}, {"s", relu}});
  CHECK(result.text ==
        "%c [conv_unary]: %x: ACT8U, %w: WEIGHT8\n%r [conv_unary]:\n%d [conv_unary]: %r: ACT8U, "
        "%w: WEIGHT8\n%s [conv_unary]:\n");
}

TEST_CASE("x86: products of equal shapes are quantized, others stay float with the reason",
          "[quantizers][x86]") {
  CHECK(annotate(
            "graph(%x: f32[2,4], %y: f32[2,4]): %m: f32[2,4] = aten.mul.Tensor(%x, %y) return (%m)")
            .text == "%m [mul]: %x: ACT8U, %y: ACT8U\n");
  CHECK(annotate("graph(%x: f32[2,4]): %m: f32[2,4] = aten.mul.Tensor(%x, %x) return (%m)").text ==
        "%m [mul]: %x: ACT8U\n");
  const test::Annotated broadcast = annotate(
      "graph(%x: f32[2,4], %y: f32[4]): %m: f32[2,4] = aten.mul.Tensor(%x, %y) return (%m)");
  CHECK(broadcast.text.empty());
  CHECK(reason_for(broadcast.report, "m") ==
        "its operands have shapes [2, 4] and [4], want equal ones");
}

TEST_CASE("x86: integer ops are unchanged", "[quantizers][x86]") {
  const test::Annotated result = annotate(
      "graph(%x: i64[2,4], %y: i64[2,4]): %m: i64[2,4] = aten.mul.Tensor(%x, %y) return (%m)");
  CHECK(result.text.empty());
  CHECK(reason_for(result.report, "m") == "input %x is int64, want float32");
}

TEST_CASE("x86: matmul is quantized where it is named", "[quantizers][x86]") {
  const std::string graph =
      "graph(%x: f32[2,4], %y: f32[4,3]): %m: f32[2,3] = aten.matmul.default(%x, %y) return (%m)";
  const test::Annotated float_one = annotate(graph);
  CHECK(float_one.text.empty());
  CHECK(reason_for(float_one.report, "m") ==
        "it is quantized only where its op type or module is named");
  for (const std::string name : {"torch.matmul", "matmul", "aten.matmul", "aten.matmul.default"}) {
    X86InductorQuantizer quantizer;
    quantizer.set_global(static_config()).set_function_type_qconfig(name, static_config());
    CHECK(test::annotate_text(graph, quantizer).text == "%m [matmul]: %x: ACT8U, %y: ACT8U\n");
  }
}

TEST_CASE("x86: pooling, cat and flatten between quantized ops share one observer at both ends",
          "[quantizers][x86]") {
  CHECK(annotate(conv_then(R"(%r: f32[1,4,6,6] = aten.relu.default(%c)
    %d: f32[1,4,6,6] = aten.dropout.default(%r, 0.5, False)
    %p: f32[1,4,3,3] = aten.max_pool2d.default(%d, [2, 2])
    %q: f32[1,4,3,3] = aten.avg_pool2d.default(%r, [2, 2])
    %k: f32[1,8,3,3] = aten.cat.default([%p, %q], 1)
    %f: f32[1,72] = aten.flatten.using_ints(%k, 1)
    %m: f32[1,72] = aten.mul.Tensor(%f, %f)
    return (%m))"))
            .text == R"(%c [conv_unary]: %x: ACT8U, %w: WEIGHT8
%r [conv_unary]:
%p [max_pool]: %d: ACT8U => same as %d -> %p
%q [avg_pool]: %r: ACT8U => same as %r -> %q
%k [cat]: %p: ACT8U, %q: same as %p -> %k => same as %p -> %k
%f [flatten]: %k: ACT8U => same as %k -> %f
%m [mul]: %f: ACT8U
)");
}

TEST_CASE("x86: cat of one value, or of the same twice, is quantized", "[quantizers][x86]") {
  for (const std::string inputs : {"[%c]", "[%c, %c]"}) {
    CAPTURE(inputs);
    CHECK(annotate(conv_then("%k: f32[1,8,6,6] = aten.cat.default(" + inputs + ", 1) return (%k)"))
              .text ==
          "%c [conv]: %x: ACT8U, %w: WEIGHT8\n%k [cat]: %c: ACT8U => same as %c -> %k\n");
  }
}

TEST_CASE("x86: a chain of residual additions is quantized throughout", "[quantizers][x86]") {
  CHECK(annotate(R"(graph(%x: f32[1,4,8,8], %w = param "w": f32[4,4,1,1]):
    %c: f32[1,4,8,8] = aten.conv2d.default(%x, %w)
    %a: f32[1,4,8,8] = aten.add.Tensor(%c, %x)
    %r: f32[1,4,8,8] = aten.relu.default(%a)
    %d: f32[1,4,8,8] = aten.conv2d.default(%r, %w)
    %e: f32[1,4,8,8] = aten.add.Tensor(%r, %d)
    %s: f32[1,4,8,8] = aten.relu.default(%e)
    return (%s))")
            .text == R"(%c [conv_add_relu]: %x: ACT8U, %w: WEIGHT8
%a [conv_add_relu]: %x: ACT8U
%r [conv_add_relu]:
%d [conv_add_relu]: %r: ACT8U, %w: WEIGHT8
%e [conv_add_relu]: %r: ACT8U
%s [conv_add_relu]:
)");
}

TEST_CASE("x86: pooling after a float op and flatten before one stay float, with the reason",
          "[quantizers][x86]") {
  const test::Annotated result =
      annotate(conv_then(R"(%p: f32[1,4,3,3] = aten.max_pool2d.default(%y, [2, 2])
    %f: f32[1,144] = aten.flatten.using_ints(%c, 1)
    return (%p, %f))"));
  CHECK(result.text == "%c [conv]: %x: ACT8U, %w: WEIGHT8\n");
  CHECK(reason_for(result.report, "p") == "it follows its input, and %y is not quantized");
}

TEST_CASE("x86: float64 programs and weights that are computed stay float, with the reason",
          "[quantizers][x86]") {
  const test::Annotated wide = annotate(
      "graph(%x: f64[2,4], %w = param \"w\": f64[4,4]): %l: f64[2,4] = aten.linear.default(%x, %w) "
      "return (%l)");
  CHECK(wide.text.empty());
  CHECK(reason_for(wide.report, "l") == "input %w is float64, want float32");
  const test::Annotated computed = annotate(
      "graph(%x: f32[2,4], %w: f32[4,4]): %l: f32[2,4] = aten.linear.default(%x, %w) return (%l)");
  CHECK(reason_for(computed.report, "l") == "weight %w is computed at run time, want a constant");
}

TEST_CASE("x86: annotations do not depend on where nodes came from", "[quantizers][x86]") {
  const std::string text = conv_then(R"(%a: f32[1,4,6,6] = aten.add.Tensor(%c, %y)
    %r: f32[1,4,6,6] = aten.relu.default(%a)
    return (%r))");
  const auto annotated_with = [&](const std::string& key, const std::string& value) {
    Graph graph = parse_graph(text);
    for (Node* node : graph.nodes()) node->metadata[key] = value;
    X86InductorQuantizer quantizer;
    quantizer.set_global(static_config());
    Annotations annotations;
    Report report;
    quantizer.annotate(graph, annotations, report);
    return annotations.size();
  };
  CHECK(annotated_with("source_fn_stack", "f,somewhere.else") == 3);
  CHECK(annotated_with("torch_fn", "f_1;function.f") == 3);
  CHECK(annotated_with("nn_module_stack", "0,,M;1,m,my.Module") == 3);
}

}  // namespace octet::test_x86
