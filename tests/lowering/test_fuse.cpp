// Lowers q/dq graphs to program text, and compares the results with the interpreter.

#include <catch2/catch.hpp>

#include "backends/reference/reference_backend.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_fuse {
using Catch::Matchers::Contains;

namespace {

const char* const kConvRelu =
    R"(graph(%w = buffer "w": i8[4,3,3,3], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %b = param "b": f32[4], %x: f32[1,3,6,6]):
  %q: i8[1,3,6,6] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 3, -128, 127, i8)
  %dq: f32[1,3,6,6] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
  %dw: f32[4,3,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %conv: f32[1,4,4,4] = aten.conv2d.default(%dq, %dw, %b)
  %relu: f32[1,4,4,4] = aten.relu.default(%conv)
  %q2: i8[1,4,4,4] = quantized_decomposed.quantize_per_tensor.default(%relu, 0.02, -128, -128, 127, i8)
  %dq2: f32[1,4,4,4] = quantized_decomposed.dequantize_per_tensor.default(%q2, 0.02, -128, -128, 127, i8)
  return (%dq2))";

}  // namespace

TEST_CASE("conv, relu and quantize become one integer op", "[lowering][fuse]") {
  const Graph graph = make_graph(kConvRelu);
  CHECK(lowered(graph) ==
        "q: i8[1,3,6,6] = quantize(x f32[1,3,6,6])\n"
        "q2: i8[1,4,4,4] = conv(q i8[1,3,6,6], w i8[4,3,3,3] per-channel, b f32[4]) dilation=[1,1] "
        "groups=1 padding=[0,0] post_min=0 stride=[1,1]\n"
        "dq2: f32[1,4,4,4] = dequantize(q2 i8[1,4,4,4])\n"
        "return dq2\n");
  const Difference difference = compare_with_interpreter(graph);
  CHECK(difference.greatest < 0.0201);
  CHECK(difference.share < 0.05);
}

TEST_CASE("without fusion each node stays an op", "[lowering][fuse]") {
  const Graph graph = make_graph(kConvRelu);
  Report report;
  LowerOptions options;
  options.fuse = false;
  CHECK(lower(graph, ReferenceSupport(), options, report).ops.size() == 7);
  CHECK(compare_with_interpreter(graph, false).greatest < 0.0201);
}

TEST_CASE("data movement between equal parameters runs on integers", "[lowering][fuse]") {
  const Graph graph = make_graph(R"(graph(%x: f32[1,4,6,6]):
  %q: i8[1,4,6,6] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 3, -128, 127, i8)
  %dq: f32[1,4,6,6] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
  %pool: f32[1,4,3,3] = aten.max_pool2d.default(%dq, [2, 2], [2, 2])
  %q2: i8[1,4,3,3] = quantized_decomposed.quantize_per_tensor.default(%pool, 0.01, 3, -128, 127, i8)
  %dq2: f32[1,4,3,3] = quantized_decomposed.dequantize_per_tensor.default(%q2, 0.01, 3, -128, 127, i8)
  %flat: f32[1,36] = aten.flatten.using_ints(%dq2, 1)
  %q3: i8[1,36] = quantized_decomposed.quantize_per_tensor.default(%flat, 0.02, 0, -128, 127, i8)
  return (%q3))");
  CHECK(lowered(graph) ==
        "q: i8[1,4,6,6] = quantize(x f32[1,4,6,6])\n"
        "pool_q: i8[1,4,3,3] = max_pool(q i8[1,4,6,6]) ceil_mode=false dilation=[1,1] "
        "kernel_size=[2,2] padding=[0,0] stride=[2,2]\n"
        "flat_q: i8[1,36] = reshape(pool_q i8[1,4,3,3])\n"
        "q3: i8[1,36] = requantize(flat_q i8[1,36])\n"
        "return q3\n");
  CHECK(compare_with_interpreter(graph).greatest <= 1);
}

TEST_CASE("permutations one after the other become one, and reshapes to the same shape vanish",
          "[lowering][fuse]") {
  const Graph graph = make_graph(R"(graph(%x: f32[2,3,4]):
  %a: f32[2,3,4] = aten.exp.default(%x)
  %b: f32[4,2,3] = aten.permute.default(%a, [2, 0, 1])
  %v: f32[4,2,3] = aten.view.default(%b, [4, 2, 3])
  %c: f32[2,4,3] = aten.transpose.int(%v, 0, 1)
  %d: f32[2,3,4] = aten.transpose.int(%c, 1, 2)
  %e: f32[2,3,4] = aten.neg.default(%d)
  %f: f32[3,2,4] = aten.transpose.int(%e, 0, 1)
  %g: f32[6,4] = aten.reshape.default(%f, [6, 4])
  %h: f32[24] = aten.view.default(%g, [24])
  return (%h))");
  CHECK(lowered(graph) ==
        "a: f32[2,3,4] = unary(x f32[2,3,4]) fn=exp\n"
        "e: f32[2,3,4] = unary(a f32[2,3,4]) fn=neg\n"
        "f: f32[3,2,4] = permute(e f32[2,3,4]) dims=[1,0,2]\n"
        "h: f32[24] = reshape(f f32[3,2,4])\n"
        "return h\n");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("an add of two dequantized tensors with relu6 writes integers", "[lowering][fuse]") {
  const Graph graph = make_graph(R"(graph(%a: f32[2,3], %b: f32[2,3]):
  %qa: i8[2,3] = quantized_decomposed.quantize_per_tensor.default(%a, 0.01, 3, -128, 127, i8)
  %qb: i8[2,3] = quantized_decomposed.quantize_per_tensor.default(%b, 0.02, -1, -128, 127, i8)
  %da: f32[2,3] = quantized_decomposed.dequantize_per_tensor.default(%qa, 0.01, 3, -128, 127, i8)
  %db: f32[2,3] = quantized_decomposed.dequantize_per_tensor.default(%qb, 0.02, -1, -128, 127, i8)
  %sum: f32[2,3] = aten.add.Tensor(%da, %db)
  %act: f32[2,3] = aten.hardtanh.default(%sum, 0.0, 6.0)
  %q: u8[2,3] = quantized_decomposed.quantize_per_tensor.default(%act, 0.01, 0, 0, 127, u8)
  return (%q))");
  CHECK_THAT(lowered(graph),
             Contains("q: u8[2,3] = add(qa i8[2,3], qb i8[2,3]) post_max=1.26999") &&
                 Contains("post_min=0"));
  CHECK(compare_with_interpreter(graph).greatest <= 1);
}

TEST_CASE("addmm with constant integer weights becomes linear with a bias", "[lowering][fuse]") {
  const Graph graph =
      make_graph(R"(graph(%w = buffer "w": i8[5,3], %b = param "b": f32[3], %x: f32[2,5]):
  %q: i8[2,5] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 0, -128, 127, i8)
  %dq: f32[2,5] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 0, -128, 127, i8)
  %dw: f32[5,3] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.02, 0, -127, 127, i8)
  %y: f32[2,3] = aten.addmm.default(%b, %dq, %dw)
  return (%y))");
  CHECK_THAT(lowered(graph),
             Contains("y: f32[2,3] = linear(q i8[2,5], w_transposed i8[3,5], b f32[3])"));
  CHECK(compare_with_interpreter(graph).greatest < 1e-4);
}

TEST_CASE("attention becomes matrix products and softmax", "[lowering][import]") {
  const Graph graph =
      make_graph(R"(graph(%q: f32[1,2,4,8], %k: f32[1,2,5,8], %v: f32[1,2,5,8], %m: f32[1,1,4,5]):
  %y: f32[1,2,4,8] = aten.scaled_dot_product_attention.default(%q, %k, %v, %m)
  return (%y))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("views, slices, stacks and pads follow torch", "[lowering][import]") {
  const Graph graph = make_graph(R"(graph(%x: f32[2,6,4]):
  %t: f32[2,4,6] = aten.transpose.int(%x, 1, -1)
  %s: f32[2,2,6] = aten.slice.Tensor(%t, 1, -3, -1)
  %p: f32[2,3,8] = aten.constant_pad_nd.default(%s, [1, 1, 0, 1], 0.5)
  [%a: f32[2,3,5], %b: f32[2,3,3]] = aten.split.Tensor(%p, 5, 2)
  %sel: f32[2,5] = aten.select.int(%a, 1, -1)
  %st: f32[2,2,5] = aten.stack.default([%sel, %sel], 1)
  %e: f32[3,2,2,5] = aten.expand.default(%st, [3, 2, 2, 5])
  %m: f32[3,2,5] = aten.mean.dim(%e, [2])
  %c: f32[2,3,6] = aten.cat.default([%b, %b], -1)
  return (%m, %c))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("pools, upsampling and functions follow torch", "[lowering][import]") {
  const Graph graph = make_graph(R"(graph(%x: f32[2,3,7,9]):
  %a: f32[2,3,4,5] = aten.avg_pool2d.default(%x, [3, 3], [2, 2], [1, 1], True, False)
  %m: f32[2,3,4,5] = aten.max_pool2d.default(%x, [3, 2], [2, 2], [1, 1], [1, 1], False)
  %s: f32[2,3,4,5] = aten.mul.Tensor(%a, %m)
  %g: f32[2,3,4,5] = aten.gelu.default(%s)
  %h: f32[2,3,4,5] = aten.hardswish.default(%g)
  %u: f32[2,3,8,10] = aten.upsample_bilinear2d.vec(%h, [8, 10], False, None)
  %n: f32[2,3,16,20] = aten.upsample_nearest2d.vec(%u, None, [2.0, 2.0])
  %d: f32[2,3,3,2] = aten.adaptive_avg_pool2d.default(%n, [3, 2])
  %v: f32[2,3,3,2] = aten.sub.Tensor(%d, 0.25, alpha=2)
  %f: f32[2,3,3,2] = aten.silu.default(%v)
  %sm: f32[2,3,3,2] = aten.softmax.int(%f, 1)
  return (%sm, %n))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("convolutions of every kind follow torch", "[lowering][import]") {
  const Graph graph = make_graph(
      R"(graph(%w1 = param "w1": f32[4,2,3], %w2 = param "w2": f32[4,3,2,2], %w3 = param "w3": f32[2,2,2,2,2], %b = param "b": f32[6],
      %x1: f32[2,4,9], %x2: f32[4,5,5], %x3: f32[1,2,3,4,4]):
  %c1: f32[2,4,9] = aten.conv1d.padding(%x1, %w1, None, [1], "same", [1], 2)
  %c2: f32[6,10,10] = aten.conv_transpose2d.input(%x2, %w2, %b, [2, 2], [0, 0], [0, 0], 2)
  %c3: f32[1,2,2,3,3] = aten.conv3d.default(%x3, %w3)
  return (%c1, %c2, %c3))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("an in-place op is seen by later uses of its input", "[lowering][import]") {
  const Graph graph = make_graph(R"(graph(%x: f32[2,3]):
  %a: f32[2,3] = aten.exp.default(%x)
  %r: f32[2,3] = aten.hardtanh_.default(%a, 0.5, 1.5)
  %s: f32[2,3] = aten.add.Tensor(%a, %r)
  return (%s))");
  CHECK(compare_with_interpreter(graph).greatest < 1e-6);
}

TEST_CASE("what cannot be lowered is named", "[lowering][error]") {
  CHECK_THAT(
      error_of(make_graph(R"(graph(%x: f32[2,3]):
  %a: f32[2,3] = aten.digamma.default(%x)
  %b: f32[2,3] = aten.erfinv.default(%a)
  return (%b))")),
      Contains("lower: a (aten.digamma.default): has no kernel in the reference backend; 2 such "
               "ops: a (aten.digamma.default), b (aten.erfinv.default)"));
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,1]):
  %a: f32[2,1] = aten.exp.default(%x)
  %v: f32[2,3] = aten.expand.default(%a, [2, 3])
  %r: f32[2,3] = aten.relu_.default(%v)
  %e: f32[2,1] = aten.exp.default(%a)
  return (%r, %e))")),
             Contains("writes into a view of %v that has no inverse"));
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,3]):
  %r: f32[2,3] = aten.relu_.default(%x)
  return (%r))")),
             Contains("writes into %x, an input of the program"));
}

TEST_CASE("scales and zero points that no kernel can use are named", "[lowering][error]") {
  const auto message = [](const std::string& scale, const std::string& zero_point) {
    const std::string arguments = scale + ", " + zero_point + ", -128, 127, i8";
    return error_of(make_graph(
        "graph(%x: f32[2,3]):\n  %q: i8[2,3] = "
        "quantized_decomposed.quantize_per_tensor.default(%x, " +
        arguments + ")\n  %y: f32[2,3] = quantized_decomposed.dequantize_per_tensor.default(%q, " +
        arguments + ")\n  return (%y)"));
  };
  const std::string at = "lower: q (quantized_decomposed.quantize_per_tensor.default): ";
  CHECK(message("0.1", "127") == "no error");
  CHECK(message("0.1", "300") ==
        at + "has zero point 300, want one of -128 .. 127, the values of int8");
  CHECK(message("0.0", "0") == at + "has scale 0, want a positive number");
}

TEST_CASE("a float program's batch norms go into its convolutions", "[lowering][fuse]") {
  const char* const text =
      R"(graph(%w = param "w": f32[4,3,1,1], %g = param "g": f32[4], %b = param "b": f32[4], %m = buffer "m": f32[4], %v = buffer "v": f32[4], %x: f32[1,3,2,2]):
  %c: f32[1,4,2,2] = aten.conv2d.default(%x, %w)
  %n: f32[1,4,2,2] = aten.batch_norm.default(%c, %g, %b, %m, %v, False, 0.1, 1e-05, True)
  return (RESULTS))";
  std::string alone = text, shared = text;
  alone.replace(alone.find("RESULTS"), 7, "%n");
  shared.replace(shared.find("RESULTS"), 7, "%n, %c");
  CHECK_THAT(lowered(make_graph(alone)), !Contains("batch_norm") && Contains("conv"));
  CHECK_THAT(lowered(make_graph(shared)), Contains("batch_norm"));
  const Graph graph = make_graph(alone);
  lowered(graph);
  CHECK(graph.node_count() == 2);  // lower() leaves its graph alone
}

}  // namespace octet::test_fuse
