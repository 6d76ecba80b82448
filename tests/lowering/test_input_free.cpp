// What depends on no input is computed during lowering.
#include <catch2/catch.hpp>

#include "core/passes/rewrites.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_input_free {
namespace {

using Catch::Matchers::Contains;

// A causal mask from positions, as transformers makes it.
const char* const kMask = R"(graph(%x: f32[1,2,4,4]):
  %a: i64[4] = aten.arange.default(4)
  %row: i64[1,4] = aten.unsqueeze.default(%a, 0)
  %ones: b8[1,4] = aten.ne.Scalar(%row, 9)
  %sum: i64[1,4] = aten.cumsum.default(%ones, -1)
  %zero: i64[1] = aten.zeros.default([1], dtype=i64)
  %group: i64[4] = aten.index.Tensor(%sum, [%zero, %a])
  %column: i64[4,1] = aten.unsqueeze.default(%group, 1)
  %keep: b8[4,4] = aten.le.Tensor(%group, %column)
  %none: f32[] = aten.scalar_tensor.default(-100.0)
  %all: f32[] = aten.scalar_tensor.default(0.0)
  %mask: f32[4,4] = aten.where.self(%keep, %all, %none)
  %y: f32[1,2,4,4] = aten.add.Tensor(%x, %mask)
  return (%y))";

void set_flags(Graph& graph, const std::string& fqn, std::vector<bool> flags) {
  bool* data = graph.constants.at(fqn).tensor.data<bool>();
  for (bool flag : flags) *data++ = flag;
}

}  // namespace

TEST_CASE("a mask that depends on no input is a constant of the program",
          "[lowering][input_free]") {
  const Graph graph = make_graph(kMask);
  CHECK(lowered(graph) == "y: f32[1,2,4,4] = add(x f32[1,2,4,4], c_mask f32[4,4])\nreturn y\n");
  CHECK(compare_with_interpreter(graph).greatest == 0);
  CHECK(graph.node_count() == 12);  // lower() leaves its graph alone
}

TEST_CASE("only what takes no tensor starts a fold, and weights stay quantized",
          "[lowering][input_free]") {
  Graph graph = make_graph(R"(graph(%w = param "w": f32[4,4], %x: f32[4,4]):
  %t: f32[4,4] = aten.transpose.int(%w, 0, 1)
  %a: f32[4,4] = aten.ones.default([4,4])
  %q: i8[4,4] = quantized_decomposed.quantize_per_tensor.default(%a, 0.1, 0, -128, 127, i8)
  %d: f32[4,4] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.1, 0, -128, 127, i8)
  %y: f32[4,4] = aten.add.Tensor(%x, %d)
  %z: f32[4,4] = aten.add.Tensor(%y, %t)
  return (%z))");
  CHECK(fold_input_free(graph) == 1);
  CHECK(graph.node_count() == 5);
  CHECK(fold_input_free(graph) == 0);
}

TEST_CASE("a mask that is made by writes is folded with them", "[lowering][input_free]") {
  const Graph graph = make_graph(R"(graph(%x: f32[4,4]):
  %a: f32[4,4] = aten.ones.default([4,4])
  %u: f32[4,4] = aten.triu.default(%a, 1)
  %m: f32[4,4] = aten.mul_.Scalar(%u, -5.0)
  [%top: f32[2,4], %low: f32[2,4]] = aten.split.Tensor(%m, 2)
  %f: f32[2,4] = aten.fill_.Scalar(%low, 2.0)
  %y: f32[4,4] = aten.add.Tensor(%x, %u)
  return (%y))");
  CHECK(lowered(graph) == "y: f32[4,4] = add(x f32[4,4], c_u f32[4,4])\nreturn y\n");
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

TEST_CASE("a write into what is computed leaves what it was computed of alone",
          "[lowering][input_free]") {
  // relative positions, as T5 counts them: the positions are read by others before the write
  const Graph graph = make_graph(R"(graph(%x: f32[4,4]):
  %a: f32[4] = aten.arange.default(4, dtype=f32)
  %row: f32[1,4] = aten.unsqueeze.default(%a, 0)
  %z: f32[4,4] = aten.add.Tensor(%x, %row)
  %far: f32[1,4] = aten.abs.default(%row)
  %sum: f32[1,4] = aten.add_.Tensor(%far, %row)
  %y: f32[4,4] = aten.add.Tensor(%z, %sum)
  return (%y))");
  CHECK(lowered(graph).find("abs") == std::string::npos);
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

TEST_CASE("constants are computed with where a program is lowered", "[lowering][input_free]") {
  const Graph graph = make_graph(R"(graph(%w = param "w": f32[4,3], %x: f32[4,3]):
  %m: f32[4,1] = aten.mean.dim(%w, [1], True)
  %c: f32[4,3] = aten.sub.Tensor(%w, %m)
  %y: f32[4,3] = aten.mul.Tensor(%x, %c)
  return (%y))");
  CHECK(lowered(graph).find("mean") == std::string::npos);
  CHECK(compare_with_interpreter(graph).greatest < 1e-6);
}

TEST_CASE("integer layers of constants are computed, and end where integers or reals are read",
          "[lowering][input_free]") {
  const Graph graph =
      make_graph(R"(graph(%t = buffer "t": i8[4,2], %w = param "w": i8[3,2], %x: f32[4,3]):
  %dt: f32[4,2] = quantized_decomposed.dequantize_per_tensor.default(%t, 0.1, 0, -128, 127, i8)
  %dw: f32[3,2] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.1, 0, -127, 127, i8)
  %l: f32[4,3] = aten.linear.default(%dt, %dw)
  %q: i8[4,3] = quantized_decomposed.quantize_per_tensor.default(%l, 0.2, 0, -128, 127, i8)
  %d: f32[4,3] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.2, 0, -128, 127, i8)
  %y: f32[4,3] = aten.add.Tensor(%x, %d)
  return (%y))");
  std::unique_ptr<Graph> folded = clone(graph);
  CHECK(fold_input_free(*folded, FoldFrom::kConstants) == 4);
  CHECK(folded->node_count() == 2);  // the last dequantize, and add
  CHECK(compare_with_interpreter(graph).greatest < 1e-6);
}

TEST_CASE("weights stay integers, moved or not, where a layer of inputs reads them",
          "[lowering][input_free]") {
  const char* const kGraph = R"(graph(%w = param "w": i8[3,2], %x: f32[4,3]):
  %d: f32[3,2] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.1, 0, -127, 127, i8)
  %t: f32[2,3] = aten.permute.default(%d, [1, 0])
  %y: f32[4,2] = aten.linear.default(%x, %t)
  return (%y))";
  Graph graph = make_graph(kGraph);
  CHECK(fold_input_free(graph, FoldFrom::kConstants) == 0);
}

TEST_CASE("what is written to later and what is random is not folded", "[lowering][input_free]") {
  Graph written = make_graph(R"(graph(%x: f32[4]):
  %a: f32[4] = aten.zeros.default([4])
  %b: f32[4] = aten.add_.Tensor(%a, %x)
  return (%b))");
  CHECK(fold_input_free(written) == 0);
  Graph random = make_graph(R"(graph(%x: f32[4]):
  %a: f32[4] = aten.rand.default([4])
  %b: f32[4] = aten.add.Tensor(%a, %x)
  return (%b))");
  CHECK(fold_input_free(random) == 0);
  CHECK_THAT(error_of(random), Contains("a (aten.rand.default)"));
}

// ---- sizes that constants decide

TEST_CASE("a mask of constants selects as many as it has", "[lowering][input_free]") {
  Graph graph = make_graph(R"graph(graph(%m = tensor "m": b8[2], %x: f32[2,4]):
  %copy: b8[2] = aten.lift_fresh_copy.default(%m)
  %y: f32[{"Symbol('u0', integer=True)": -1},4] = aten.index.Tensor(%x, [%copy])
  %n: int{"Symbol('u0', integer=True)"} = aten.sym_size.int(%y, 0)
  %ge: bool = _operator.ge(%n, 0)
  aten._assert_scalar.default(%ge, "u0 >= 0")
  %z: f32[{"Mul(Integer(4), Symbol('u0', integer=True))": -1}] = aten.view.default(%y, [-1])
  return (%z))graph");
  set_flags(graph, "m", {false, true});
  CHECK(lowered(graph) ==
        "y: f32[1,4] = index(x f32[2,4], c_c_copy_places i64[1])\nz: f32[4] = reshape(y f32[1,4])\n"
        "return z\n");
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

TEST_CASE("places, selections and unique values of constants are computed",
          "[lowering][input_free]") {
  Graph graph = make_graph(R"graph(graph(%m = tensor "m": b8[4], %x: f32[2,4]):
  %a: f32[4] = aten.arange.default(4.0, dtype=f32)
  %s: f32[{"Symbol('u0', integer=True)": -1}] = aten.masked_select.default(%a, %m)
  %sum: f32[] = aten.sum.default(%s)
  %p: i64[{"Symbol('u1', integer=True)": -1},1] = aten.nonzero.default(%m)
  %n: int{"Symbol('u1', integer=True)"} = aten.sym_size.int(%p, 0)
  %f: i64[{"Symbol('u1', integer=True)": -1}] = aten.view.default(%p, [%n])
  %t: f32[2,{"Symbol('u1', integer=True)": -1}] = aten.index.Tensor(%x, [None, %f])
  %y: f32[2,{"Symbol('u1', integer=True)": -1}] = aten.add.Tensor(%t, %sum)
  return (%y))graph");
  set_flags(graph, "m", {true, false, true, false});
  CHECK(lowered(graph).find("masked_select") == std::string::npos);
  CHECK(lowered(graph).find("y: f32[2,2]") != std::string::npos);
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

TEST_CASE("an input is selected from, and repeated, as constants say", "[lowering][input_free]") {
  Graph graph = make_graph(R"graph(graph(%m = tensor "m": b8[2,2], %x: f32[2,2]):
  %c: i64[2] = aten.sum.dim_IntList(%m, [1])
  %y: f32[{"Symbol('u0', integer=True)": -1}] = aten.masked_select.default(%x, %m)
  %z: f32[{"Symbol('u1', integer=True)": -1},2] = aten.repeat_interleave.self_Tensor(%x, %c, 0)
  return (%y, %z))graph");
  set_flags(graph, "m", {true, true, false, true});
  CHECK(lowered(graph).find("z: f32[3,2]") != std::string::npos);
  CHECK(compare_with_interpreter(graph).greatest == 0);
}

}  // namespace octet::test_input_free
