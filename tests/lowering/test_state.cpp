// Buffers that a graph writes, in both forms of torch.export: several runs compared with the
// interpreter, and which buffers become states.
#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_state {
namespace {

using Catch::Matchers::Contains;

// A running mean, as run_decompositions() gives it.
const char* const kFunctional = R"(graph(%b_mean = buffer "mean": f32[4], %x: f32[3,4]):
  %old: f32[4] = aten.mul.Tensor(%b_mean, 0.9)
  %now: f32[4] = aten.mean.dim(%x, [0])
  %part: f32[4] = aten.mul.Tensor(%now, 0.1)
  %new: f32[4] = aten.add.Tensor(%old, %part)
  %y: f32[3,4] = aten.sub.Tensor(%x, %new)
  return (mutate "mean" = %new, %y))";

// A cache that is written at a position, a counter and flags, as torch.export writes them.
const char* const kInPlace =
    R"(graph(%b_k = buffer "cache.k": f32[2,8,4], %b_n = buffer "n": i64[], %b_seen = buffer "seen": b8[8], %one = tensor "one": b8[], %x: f32[2,1,4], %at: i64[1]):
  %k: f32[2,8,4] = aten.index_copy_.default(%b_k, 1, %at, %x)
  %seen: b8[8] = aten.index_put_.default(%b_seen, [%at], %one)
  %n: i64[] = aten.add_.Tensor(%b_n, 1)
  %t: f32[2,4,8] = aten.transpose.int(%k, 1, 2)
  %scores: f32[2,1,8] = aten.matmul.default(%x, %t)
  %unseen: b8[8] = aten.bitwise_not.default(%seen)
  %masked: f32[2,1,8] = aten.masked_fill.Scalar(%scores, %unseen, -100.0)
  %p: f32[2,1,8] = aten.softmax.int(%masked, -1)
  %y: f32[2,1,4] = aten.matmul.default(%p, %k)
  %count: i64[] = aten.mul.Tensor(%n, 2)
  return (%y, %count, %b_k))";

}  // namespace

TEST_CASE("buffers that an output updates keep their value", "[lowering][state]") {
  CHECK(greatest_in_four_runs(kFunctional) < 1e-6);
  const Program program = reference_program(make_graph(kFunctional));
  REQUIRE(program.states.size() == 1);
  CHECK(program.states[0].name == "mean");
  CHECK(program.outputs.size() == 1);
  CHECK(program.inputs.size() == 1);
  CHECK(program.states[0].start >= 0);  // make_graph fills it
}

TEST_CASE("buffers that are written in place keep their value", "[lowering][state]") {
  CHECK(greatest_in_four_runs(kInPlace) < 1e-5);
  const Program program = reference_program(make_graph(kInPlace));
  REQUIRE(program.states.size() == 3);
  CHECK(program.states[1].name == "n");
  CHECK(program.states[1].start < 0);  // zeros take no place in the file
}

TEST_CASE("writes through views of a buffer reach it", "[lowering][state]") {
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": f32[4,3], %x: f32[2,3]):
  %part: f32[2,3] = aten.slice.Tensor(%b, 0, 1, 3)
  %before: f32[3,4] = aten.mT.default(%b)
  %sum: f32[2,3] = aten.add.Tensor(%part, %x)
  %put: f32[2,3] = aten.copy_.default(%part, %sum)
  %row: f32[3] = aten.select.int(%b, 0, 3)
  %more: f32[3] = aten.mul_.Tensor(%row, 0.5)
  %y: f32[3,4] = aten.mul.Tensor(%before, 2.0)
  return (%y, %b))") == 0);
}

TEST_CASE("a batch norm in training mode moves its running statistics", "[lowering][state]") {
  const char* const text =
      R"(graph(%w = param "w": f32[3], %b = param "b": f32[3], %m = buffer "mean": f32[3], %v = buffer "var": f32[3], %x: f32[4,3,2]):
  %y: f32[4,3,2] = aten.batch_norm.default(%x, %w, %b, %m, %v, True, 0.2, 1e-05, True)
  %z: f32[3] = aten.mul.Tensor(%v, 2.0)
  return (%y, %z))";
  CHECK(greatest_in_four_runs(text) < 1e-5);
  const Program program = reference_program(make_graph(text));
  REQUIRE(program.states.size() == 2);
  CHECK(program.states[0].name == "mean");
  // as run_decompositions() gives it
  CHECK(
      greatest_in_four_runs(
          R"(graph(%w = param "w": f32[3], %b = param "b": f32[3], %m = buffer "mean": f32[3], %v = buffer "var": f32[3], %x: f32[4,3]):
  %y: f32[4,3], %mean: f32[3], %inverse: f32[3], %nm: f32[3], %nv: f32[3] = aten._native_batch_norm_legit_functional.default(%x, %w, %b, %m, %v, True, 0.1, 1e-05)
  return (mutate "mean" = %nm, mutate "var" = %nv, %y, %mean, %inverse))") < 1e-5);
}

TEST_CASE("what a run read of a buffer before it wrote stays what it was", "[lowering][state]") {
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": f32[4], %x: f32[4]):
  %old: f32[4] = aten.clone.default(%b)
  %put: f32[4] = aten.copy_.default(%b, %x)
  return (%old, %put))") == 0);
}

TEST_CASE("two buffers can change places", "[lowering][state]") {
  CHECK(
      greatest_in_four_runs(R"(graph(%a = buffer "a": f32[4], %b = buffer "b": f32[4], %x: f32[4]):
  %y: f32[4] = aten.add.Tensor(%a, %x)
  %c: f32[4] = aten.clone.default(%b)
  %d: f32[4] = aten.clone.default(%a)
  return (mutate "a" = %c, mutate "b" = %d, %y))") == 0);
}

TEST_CASE("what is computed of a written buffer is not folded", "[lowering][state]") {
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": f32[8,8], %x: f32[4,8]):
  %part: f32[1,8] = aten.slice.Tensor(%b, 0, 0, 1)
  %t: f32[8,8] = aten.transpose.int(%b, 0, 1)
  %double: f32[8,8] = aten.mul.Tensor(%t, 2.0)
  %y: f32[4,8] = aten.linear.default(%x, %double)
  %first: f32[1,8] = aten.slice.Tensor(%y, 0, 0, 1)
  %put: f32[1,8] = aten.copy_.default(%part, %first)
  return (%y))") < 1e-5);
}

TEST_CASE("integer states, quantized ones among them, keep their integers", "[lowering][state]") {
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": i8[2,4], %x: f32[2,4]):
  %old: f32[2,4] = quantized_decomposed.dequantize_per_tensor.default(%b, 0.02, 3, -128, 127, i8)
  %sum: f32[2,4] = aten.add.Tensor(%old, %x)
  %q: i8[2,4] = quantized_decomposed.quantize_per_tensor.default(%sum, 0.02, 3, -128, 127, i8)
  %put: i8[2,4] = aten.copy_.default(%b, %q)
  %new: f32[2,4] = quantized_decomposed.dequantize_per_tensor.default(%b, 0.02, 3, -128, 127, i8)
  return (%new))") < 1e-6);
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": i8[4,2], %x: f32[1,2], %at: i64[1]):
  %q: i8[1,2] = quantized_decomposed.quantize_per_tensor.default(%x, 0.01, 3, -128, 127, i8)
  %put: i8[4,2] = aten.index_copy_.default(%b, 0, %at, %q)
  %new: f32[4,2] = quantized_decomposed.dequantize_per_tensor.default(%put, 0.01, 3, -128, 127, i8)
  return (%new))") < 1e-6);
  CHECK(greatest_in_four_runs(R"(graph(%b = buffer "b": i8[4], %n = buffer "n": i32[], %x: i8[4]):
  %put: i8[4] = aten.add_.Tensor(%b, %x)
  %more: i32[] = aten.add_.Tensor(%n, 3)
  return (%put, %more))") == 0);
}

TEST_CASE("a buffer that only looked written is a constant", "[lowering][state]") {
  const Graph graph = make_graph(R"(graph(%b = buffer "b": f32[4], %x: f32[4]):
  %y: f32[4] = aten.add.Tensor(%b, %x)
  return (mutate "b" = %b, %y))");
  const Program program = reference_program(graph);
  CHECK(program.states.empty());
  CHECK(compare_with_interpreter(graph, true, 2).greatest == 0);
}

TEST_CASE("writes into inputs are refused by name", "[lowering][state]") {
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[4]):
  %y: f32[4] = aten.add_.Tensor(%x, 1.0)
  return (%y))")),
             Contains("writes into %x, an input of the program"));
}

}  // namespace octet::test_state
