// Activations whose scale is computed at run time, per tensor, per row or in blocks: compared with
// the interpreter, and refusals.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_scales_at_run_time {
using Catch::Matchers::Contains;

namespace {

// choose -> quantize -> dequantize of %x, then a linear layer with an int8 weight per channel.
Graph linear_behind(const std::string& chain) {
  return make_graph(
      R"(graph(%w = buffer "w": i8[3,8], %s = buffer "w_scale": f32[3], %z = buffer "w_zero": i64[3], %b = param "b": f32[3], %x: f32[2,5,8]):
)" + chain +
      R"(
  %dw: f32[3,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %y: f32[2,5,3] = aten.linear.default(%dq, %dw, %b)
  return (%y))");
}

Graph affine(const std::string& mapping, const std::string& blocks, const std::string& count,
             const std::string& range, const std::string& dtype) {
  return linear_behind(fmt::format(
      R"(  %scale: f32[{2}], %zero: i32[{2}] = torchao.choose_qparams_affine.default(%x, "{0}", {1}, {4}, {3}, 1e-6, f32, i32)
  %q: {4}[2,5,8] = torchao.quantize_affine.default(%x, {1}, %scale, %zero, {4}, {3})
  %dq: f32[2,5,8] = torchao.dequantize_affine.default(%q, {1}, %scale, %zero, {4}, {3}))",
      mapping, blocks, count, range, dtype));
}

Graph tokens(const std::string& choose) {
  return linear_behind(fmt::format(
      R"(  %scale: f64[2,5,1], %zero: i64[2,5,1] = quantized_decomposed.{}.default(%x, i8)
  %q: i8[2,5,8] = quantized_decomposed.quantize_per_token.default(%x, %scale, %zero, -128, 127, i8)
  %dq: f32[2,5,8] = quantized_decomposed.dequantize_per_token.default(%q, %scale, %zero, -128, 127, i8, f32))",
      choose));
}

}  // namespace

TEST_CASE("a scale per tensor is computed at run time", "[lowering][dynamic]") {
  for (const char* choose : {"choose_qparams", "choose_qparams_symmetric"}) {
    const Graph graph = linear_behind(fmt::format(
        R"(  %scale: f64[1], %zero: i64[1] = quantized_decomposed.{}.tensor(%x, -127, 127, 1e-6, i8)
  %q: i8[2,5,8] = quantized_decomposed.quantize_per_tensor.tensor(%x, %scale, %zero, -127, 127, i8)
  %dq: f32[2,5,8] = quantized_decomposed.dequantize_per_tensor.tensor(%q, %scale, %zero, -127, 127, i8))",
        choose));
    CHECK(compare_with_interpreter(graph).greatest < 1e-5);
  }
}

TEST_CASE("a scale per token is computed at run time, by the ops of torch", "[lowering][dynamic]") {
  for (const char* choose : {"choose_qparams_per_token", "choose_qparams_per_token_asymmetric",
                             "_choose_qparams_per_token_asymmetric_impl"}) {
    INFO(choose);
    CHECK(compare_with_interpreter(tokens(choose)).greatest < 1e-5);
    CHECK(compare_with_interpreter(tokens(choose), false).greatest < 1e-5);
  }
}

TEST_CASE("affine scales at run time, in every mapping and granularity", "[lowering][dynamic]") {
  for (const char* mapping : {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"})
    for (const auto& [blocks, count] : {std::pair{"[1,1,8]", "2,5"},
                                        {"[2,5,8]", ""},
                                        {"[1,1,4]", "2,5,2"},
                                        {"[2,1,8]", "5"},
                                        {"[1,1,-1]", "2,5"}})
      for (const auto& [range, dtype] : {std::pair{"-128, 127", "i8"},
                                         {"-127, 127", "i8"},
                                         {"0, 255", "u8"},
                                         {"-8, 7", "i8"},
                                         {"None, None", "i8"}}) {
        // A range from 0 has no smallest number to divide by.
        if (std::string(range) == "0, 255" && std::string(mapping) == "SYMMETRIC_NO_CLIPPING_ERR")
          continue;
        INFO(mapping << " " << blocks << " " << range);
        CHECK(compare_with_interpreter(affine(mapping, blocks, count, range, dtype)).greatest <
              1e-5);
      }
}

TEST_CASE("a chain of run-time scales is one op, and the weight stays int8",
          "[lowering][dynamic]") {
  CHECK(lowered(affine("ASYMMETRIC", "[1,1,8]", "2,5", "-128, 127", "i8")) ==
        "q_fake_quantize_dynamic: f32[2,5,8] = fake_quantize_dynamic(x f32[2,5,8]) blocks=[2,5,1] "
        "eps=1e-06 mapping=asymmetric quant_max=127 "
        "quant_min=-128\n"
        "y: f32[2,5,3] = linear(q_fake_quantize_dynamic f32[2,5,8], dw_folded f32[3,8] stored as "
        "i8 in 3x1 blocks, b f32[3])\n"
        "return y\n");
}

TEST_CASE("movement after a chain of run-time scales moves before it", "[lowering][dynamic]") {
  const auto chain = [](const char* block, const char* scales, const char* dims,
                        const char* shape) {
    return make_graph(fmt::format(
        R"(graph(%w = param "w": i8[3,8], %x: f32[2,5,8]):
  %dw: f32[3,8] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.01, 0, -127, 127, i8)
  %scale: f32[{1}], %zero: i32[{1}] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", {0}, i8, -128, 127, 1e-6, f32, i32)
  %q: i8[2,5,8] = torchao.quantize_affine.default(%x, {0}, %scale, %zero, i8, -128, 127)
  %dq: f32[2,5,8] = torchao.dequantize_affine.default(%q, {0}, %scale, %zero, i8, -128, 127)
  %moved: f32[{3}] = aten.permute.default(%dq, {2})
  %y: f32[{4},3] = aten.linear.default(%moved, %dw)
  return (%y))",
        block, scales, dims, shape, std::string(shape).substr(0, std::string(shape).rfind(','))));
  };
  const Graph rows = chain("[1,1,8]", "2,5,1", "[1,0,2]", "5,2,8");
  CHECK_THAT(lowered(rows), Contains("= fake_quantize_dynamic(moved_moved f32[5,2,8])") &&
                                Contains("blocks=[5,2,1]"));
  CHECK(compare_with_interpreter(rows).greatest < 1e-5);
  // A row that becomes a column keeps its scale where it is.
  const char* const kColumns = R"(graph(%x: f32[2,8]):
  %scale: f32[2,1], %zero: i32[2,1] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1,8], i8, -128, 127, 1e-6, f32, i32)
  %q: i8[2,8] = torchao.quantize_affine.default(%x, [1,8], %scale, %zero, i8, -128, 127)
  %dq: f32[2,8] = torchao.dequantize_affine.default(%q, [1,8], %scale, %zero, i8, -128, 127)
  %y: f32[8,2] = aten.permute.default(%dq, [1,0])
  return (%y))";
  CHECK_THAT(lowered(make_graph(kColumns)), Contains("fake_quantize_dynamic(x f32[2,8])"));
}

TEST_CASE("chains of run-time scales that are not one op are refused by name",
          "[lowering][dynamic]") {
  const auto chain = [](const char* quantize, const char* outputs) {
    return make_graph(fmt::format(R"(graph(%x: f32[2,8], %other: f32[2,8]):
  %scale: f32[2], %zero: i32[2] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1,8], i8, -128, 127)
  %q: i8[2,8] = torchao.quantize_affine.default({})
  %dq: f32[2,8] = torchao.dequantize_affine.default(%q, [1,8], %scale, %zero, i8, -128, 127)
  return ({}))",
                                  quantize, outputs));
  };
  CHECK_THAT(error_of(chain("%other, [1,8], %scale, %zero, i8, -128, 127", "%dq")),
             Contains("q (torchao.quantize_affine.default) with the range of another tensor"));
  CHECK_THAT(error_of(chain("%x, [2,8], %scale, %zero, i8, -128, 127", "%dq")),
             Contains("in other blocks than those of its range"));
  CHECK_THAT(error_of(chain("%x, [1,8], %scale, %zero, i8, -8, 7", "%dq")),
             Contains("with another range than that of its scale"));
}

TEST_CASE("integers that were quantized with the scale of something else are refused",
          "[lowering][dynamic]") {
  const Graph graph = make_graph(R"(graph(%x: f32[2,8], %q: i8[2,8]):
  %scale: f32[2], %zero: i32[2] = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1,8], i8, -128, 127)
  %dq: f32[2,8] = torchao.dequantize_affine.default(%q, [1,8], %scale, %zero, i8, -128, 127)
  return (%dq))");
  CHECK_THAT(error_of(graph), Contains("dq (torchao.dequantize_affine.default) of integers that "
                                       "were quantized with another scale"));
}

TEST_CASE("scales that are chosen for constants are computed when the program is lowered",
          "[lowering][dynamic]") {
  const char* const kHead =
      R"(graph(%t = buffer "t": f32[2,8], %ints = buffer "ints": i8[2,8], %x: f32[2,8]):
  %scale: f32[2], %zero: i32[2] = torchao.choose_qparams_affine.default(%t, "ASYMMETRIC", [1,8], i8, -128, 127)
)";
  for (
      const char* body :
      {// what prepare leaves of a constant
       R"(  %q: i8[2,8] = torchao.quantize_affine.default(%t, [1,8], %scale, %zero, i8, -128, 127)
  %dq: f32[2,8] = torchao.dequantize_affine.default(%q, [1,8], %scale, %zero, i8, -128, 127)
)",
       // what convert leaves: the integers as a constant
       R"(  %dq: f32[2,8] = torchao.dequantize_affine.default(%ints, [1,8], %scale, %zero, i8, -128, 127)
)"}) {
    const Graph graph = make_graph(std::string(kHead) + body +
                                   "  %y: f32[2,8] = aten.add.Tensor(%x, %dq)\n  return (%y)");
    CHECK(lowered(graph).find("fake_quantize") == std::string::npos);
    CHECK(compare_with_interpreter(graph).greatest < 1e-5);
  }
}

TEST_CASE("a program may give neither the scale nor the integers of a run-time range",
          "[lowering][dynamic]") {
  const auto chain = [](const char* outputs) {
    return make_graph(fmt::format(R"(graph(%x: f32[2,8]):
  %scale: f64[1], %zero: i64[1] = quantized_decomposed.choose_qparams.tensor(%x, -128, 127, 1e-6, i8)
  %q: i8[2,8] = quantized_decomposed.quantize_per_tensor.tensor(%x, %scale, %zero, -128, 127, i8)
  %dq: f32[2,8] = quantized_decomposed.dequantize_per_tensor.tensor(%q, %scale, %zero, -128, 127, i8)
  %e: i8[2,8] = aten.clone.default(%q)
  return ({}))",
                                  outputs));
  };
  CHECK_THAT(error_of(chain("%dq, %e")),
             Contains("whose integers are used by something other than its dequantize"));
}

}  // namespace octet::test_scales_at_run_time
