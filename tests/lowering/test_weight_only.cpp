// Weights as integers with float activations: per channel, in groups, with float zero points;
// linear, convolution, embedding; other dtypes.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_weight_only {
using Catch::Matchers::Contains;

namespace {

// A linear layer [4, 64] whose weight is dequantized by `call`.
Graph linear_with(const std::string& call) {
  return make_graph(fmt::format(
      R"(graph(%w = buffer "w": i8[4,64], %n = buffer "w_int4": i8[4,64], %s = buffer "w_scale": f32[4], %g = buffer "group_scale": f32[4,2],
      %z = buffer "w_zero": i32[4], %gz = buffer "group_zero": i32[4,2], %fz = buffer "float_zero": f32[4,2], %x: f32[2,64]):
  %dw: f32[4,64] = {}
  %y: f32[2,4] = aten.linear.default(%x, %dw)
  return (%y))",
      call));
}

struct Case {
  const char* call;
  const char* stored;
};
// clang-format off
const Case kLinear[] = {
    {"quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)",              "i8 in 4x1 blocks"},
    {"quantized_decomposed.dequantize_per_tensor.default(%w, 0.01, 3, -127, 127, i8)",                 "i8 in 1x1 blocks"},
    {"quantized_decomposed.dequantize_per_channel_group.default(%w, %g, %gz, -128, 127, i8, 32, f32)", "i8 in 4x2 blocks"},
    {"quantized_decomposed.dequantize_per_channel_group.default(%n, %g, None, -8, 7, i8, 32, f32)",    "4-bit i8 in 4x2 blocks"},
    {"quantized_decomposed.dequantize_per_channel_group.default(%n, %g, %fz, -8, 7, i8, 32, f32)",     "4-bit i8 in 4x2 blocks"},
    {"torchao.dequantize_affine.default(%w, [1, 64], %s, %z, i8, -127, 127)",                          "i8 in 4x1 blocks"},
    {"torchao.dequantize_affine.default(%n, [1, 32], %g, %gz, i8, -8, 7)",                             "4-bit i8 in 4x2 blocks"},
    {"torchao.dequantize_affine.default(%n, [1, 32], %g, %fz, i8, -8, 7)",                             "4-bit i8 in 4x2 blocks"},
    {"torchao.dequantize_affine.default(%n, [1, 32], %g, None, i8, -8, 7)",                            "4-bit i8 in 4x2 blocks"},
    {"torchao.dequantize_affine.default(%n, [2, 16], %g, %gz, i8, -8, 7)",                             "4-bit i8 in 2x4 blocks"},
};
// clang-format on

}  // namespace

TEST_CASE("the weight of a linear layer stays integers in every granularity",
          "[lowering][weight_only]") {
  for (const Case& row : kLinear) {
    INFO(row.call);
    const Graph graph = linear_with(row.call);
    CHECK_THAT(lowered(graph), Contains(fmt::format("f32[4,64] stored as {},", row.stored)));
    CHECK(compare_with_interpreter(graph).greatest < 1e-5);
    CHECK(compare_with_interpreter(graph, false).greatest < 1e-5);
  }
}

TEST_CASE("a weight that is transposed for a matrix product stays integers",
          "[lowering][weight_only]") {
  const Graph graph = make_graph(
      R"(graph(%w = buffer "w_int4": i8[4,64], %s = buffer "w_scale": f32[4,2], %z = buffer "w_zero": i32[4,2], %b = param "b": f32[4],
      %x: f32[2,64]):
  %dw: f32[4,64] = torchao.dequantize_affine.default(%w, [1, 32], %s, %z, i8, -8, 7)
  %t: f32[64,4] = aten.t.default(%dw)
  %y: f32[2,4] = aten.addmm.default(%b, %x, %t)
  return (%y))");
  CHECK_THAT(lowered(graph), Contains("f32[4,64] stored as 4-bit i8 in 4x2 blocks"));
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

TEST_CASE("convolutions and embeddings keep integer weights", "[lowering][weight_only]") {
  const Graph conv = make_graph(
      R"(graph(%w = buffer "w": i8[4,3,3,3], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %x: f32[1,3,6,6]):
  %dw: f32[4,3,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %y: f32[1,4,4,4] = aten.conv2d.default(%x, %dw)
  return (%y))");
  CHECK_THAT(lowered(conv), Contains("f32[4,3,3,3] stored as i8 in 4x1x1x1 blocks"));
  CHECK(compare_with_interpreter(conv).greatest < 1e-5);
  const Graph table = make_graph(
      R"(graph(%w = buffer "w": u8[6,8], %s = buffer "w_scale": f32[6], %z = buffer "w_zero": f32[6], %i: i64[2,3]):
  %dw: f32[6,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, 0, 255, u8)
  %y: f32[2,3,8] = aten.embedding.default(%dw, %i)
  return (%y))");
  CHECK_THAT(lowered(table), Contains("f32[6,8] stored as u8 in 6x1 blocks"));
  CHECK(compare_with_interpreter(table).greatest < 1e-5);
  const Graph rows = make_graph(
      R"(graph(%w = buffer "w": i8[6,8], %s = buffer "w_scale": f32[6], %z = buffer "w_zero": i32[6], %i: i64[2,3]):
  %dw: f32[6,8] = torchao.dequantize_affine.default(%w, [1, 8], %s, %z, i8, -127, 127)
  %y: f32[2,3,8] = aten.embedding.default(%dw, %i)
  return (%y))");
  CHECK(lowered(rows) ==
        "y: f32[2,3,8] = embedding(w i8[6,8] per-channel, i i64[2,3])\nreturn y\n");
  CHECK(compare_with_interpreter(rows).greatest < 1e-5);
}

TEST_CASE("a table of an embedding and a linear layer is stored once", "[lowering][weight_only]") {
  for (const char* call :
       {"%e: f32[2,8] = aten.embedding.default(%dw, %i)",
        "%e: f32[2,8], %a: i64[2], %b: i64[2], %m: i64[2] = "
        "aten.embedding_bag.padding_idx(%dw, %i, %o, False, 0, False, None, False, None)"}) {
    INFO(call);
    const Graph tied = make_graph(fmt::format(
        R"(graph(%w = buffer "w": i8[6,8], %s = buffer "w_scale": f32[6], %z = buffer "w_zero": i32[6], %o = buffer "o": i64[2], %i: i64[2]):
  %dw: f32[6,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  {}
  %dw2: f32[6,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %y: f32[2,6] = aten.linear.default(%e, %dw2)
  return (%y))",
        call));
    const Program program = reference_program(tied);
    const auto is_table = [](const ProgramTensor& tensor) {
      return tensor.is_constant() && tensor.shape.size() == 2;
    };
    CHECK(std::ranges::count_if(program.tensors, is_table) == 1);
    CHECK(program.input(program.op(0), 0).stored);
    CHECK(compare_with_interpreter(tied).greatest < 1e-5);
  }
}

TEST_CASE("float weights that are still quantized in the graph are quantized at once",
          "[lowering][weight_only]") {
  for (
      const char* calls :
      {R"(  %q: i8[4,64] = torchao.quantize_affine.default(%w, [1, 32], %s, %z, i8, -8, 7)
  %dw: f32[4,64] = torchao.dequantize_affine.default(%q, [1, 32], %s, %z, i8, -8, 7))",
       R"(  %q: i8[4,64] = quantized_decomposed.quantize_per_channel_group.default(%w, %s, %z, -8, 7, i8, 32)
  %dw: f32[4,64] = quantized_decomposed.dequantize_per_channel_group.default(%q, %s, %z, -8, 7, i8, 32, f32))"}) {
    const Graph graph = make_graph(fmt::format(
        R"(graph(%w = param "w": f32[4,64], %s = buffer "w_scale": f32[4,2], %z = buffer "w_zero": i32[4,2], %x: f32[2,64]):
{}
  %y: f32[2,4] = aten.linear.default(%x, %dw)
  return (%y))",
        calls));
    CHECK_THAT(lowered(graph), Contains("stored as 4-bit i8 in 4x2 blocks"));
    CHECK(compare_with_interpreter(graph).greatest < 1e-5);
  }
}

TEST_CASE("every backend runs integer weights and run-time scales, and says how weights are stored",
          "[lowering][weight_only]") {
  const Graph graph = make_graph(
      R"(graph(%w = buffer "w_int4": i8[16,64], %s = buffer "w_scale": f32[16,2], %z = buffer "w_zero": i32[16,2], %b = param "b": f32[16],
      %x: f32[2,64]):
  %scale: f32[2], %zero: i32[2] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1,64], i8, -128, 127, 1e-6, f32, i32)
  %q: i8[2,64] = torchao.quantize_affine.default(%x, [1,64], %scale, %zero, i8, -128, 127)
  %dq: f32[2,64] = torchao.dequantize_affine.default(%q, [1,64], %scale, %zero, i8, -128, 127)
  %dw: f32[16,64] = torchao.dequantize_affine.default(%w, [1, 32], %s, %z, i8, -8, 7)
  %y: f32[2,16] = aten.linear.default(%dq, %dw, %b)
  return (%y))");
  const Tensor x = random_floats({2, 64});
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     fmt::format("octet_test_{}_weights.octet", ::getpid());
  std::vector<float> want;
  for (const std::string& name : backend_names()) {
    INFO(name);
    Report report;
    const Program program = lower(graph, *make_support(name), {}, report);
    CHECK_THAT(explain(program), Contains("f32[16,64] (stored as 4-bit i8 in 16x2 blocks)"));
    CHECK_FALSE(program.reasons.contains("q_fake_quantize_dynamic"));
    save_program(program, path);
    const Tensor y = Session(load_program(path)).run({x})[0];
    const std::vector<float> got(y.data<float>(), y.data<float>() + y.numel());
    if (want.empty()) want = got;
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-5));
  }
  std::filesystem::remove(path);
}

TEST_CASE("activations of 16 bits run on the reference, float8 and blocks are refused by name",
          "[lowering][dtypes]") {
  for (const auto& [dtype, range] : {std::pair{"i16", "-32768, 32767"},
                                     {"u16", "0, 65535"},
                                     {"i32", "-2147483648, 2147483647"}}) {
    INFO(dtype);
    const Graph graph = make_graph(fmt::format(
        R"(graph(%w = buffer "w": i8[4,8], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %x: f32[2,8]):
  %q: {0}[2,8] = quantized_decomposed.quantize_per_tensor.default(%x, 0.001, 5, {1}, {0})
  %dq: f32[2,8] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.001, 5, {1}, {0})
  %dw: f32[4,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %y: f32[2,4] = aten.linear.default(%dq, %dw)
  %q2: {0}[2,4] = quantized_decomposed.quantize_per_tensor.default(%y, 0.001, 5, {1}, {0})
  %dq2: f32[2,4] = quantized_decomposed.dequantize_per_tensor.default(%q2, 0.001, 5, {1}, {0})
  return (%dq2))",
        dtype, range));
    CHECK(compare_with_interpreter(graph).greatest < 0.00101);
    const Tensor x = random_floats({2, 8});
    std::vector<float> want;
    for (const std::string& name : backend_names()) {
      INFO(name);
      Report report;
      const Program program = lower(graph, *make_support(name), {}, report);
      const Tensor y = Session(program).run({x})[0];
      const std::vector<float> got(y.data<float>(), y.data<float>() + y.numel());
      if (want.empty()) want = got;
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(0.00101));
    }
  }
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,8]):
  %q: f8e4m3fn[2,8] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 0, -448, 448, f8e4m3fn)
  %dq: f32[2,8] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 0, -448, 448, f8e4m3fn)
  return (%dq))")),
             Contains("q (quantized_decomposed.quantize_per_tensor.default) to float8_e4m3fn"));
  CHECK_THAT(
      error_of(make_graph(
          R"(graph(%s = buffer "scale": f32[2,2], %z = buffer "zero": i32[2,2], %x: f32[2,8]):
  %q: i8[2,8] = torchao.quantize_affine.default(%x, [1, 4], %s, %z, i8, -128, 127)
  %dq: f32[2,8] = torchao.dequantize_affine.default(%q, [1, 4], %s, %z, i8, -128, 127)
  return (%dq))")),
      Contains("q (torchao.quantize_affine.default) of a computed tensor in 2x2 blocks"));
  CHECK_THAT(error_of(make_graph(
                 R"(graph(%w = buffer "w": i8[4,8], %s = buffer "scale": f32[4,3], %x: f32[2,8]):
  %dw: f32[4,8] = torchao.dequantize_affine.default(%w, [1, 3], %s, None, i8, -128, 127)
  %y: f32[2,4] = aten.linear.default(%x, %dw)
  return (%y))")),
             Contains("lower: dw (torchao.dequantize_affine.default): has block_size 3 in "
                      "dimension 1, want a divisor of 8"));
}

TEST_CASE("weights in float16 stay that in the file and run in float32", "[lowering][dtypes]") {
  const Graph graph = make_graph(R"(graph(%w = param "w": f32[4,8], %x: f32[2,8]):
  %h: f16[4,8] = quantized_decomposed.convert_element_type.no_fuse(%w, f16)
  %f: f32[4,8] = quantized_decomposed.convert_element_type.no_fuse(%h, f32)
  %y: f32[2,4] = aten.linear.default(%x, %f)
  return (%y))");
  CHECK_THAT(lowered(graph), Contains("f32[4,8] stored as f16,"));
  CHECK(compare_with_interpreter(graph).greatest < 1e-5);
}

}  // namespace octet::test_weight_only
