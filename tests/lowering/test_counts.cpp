// Graphs whose sizes only a run decides: what runs before the count and what after it.
#include <catch2/catch.hpp>

#include "lowering/program/symbols.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_counts {
namespace {

using Catch::Matchers::Contains;

// U0, U1: the symbols u0 and u1 as sizes.
std::string counted(std::string text) {
  for (const char* name : {"u0", "u1"}) {
    const std::string word = name[1] == '0' ? "<U0>" : "<U1>",
                      size = "{\"Symbol('" + std::string(name) + "', integer=True)\": -1}";
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at, word.size(), size);
  }
  return text;
}

}  // namespace

TEST_CASE("a mask cuts a program in two", "[lowering][counts]") {
  const std::string text = counted(R"(graph(%w = param "w": f32[4,3], %x: f32[5,3], %limit: f32[5]):
  %mask: b8[5] = aten.gt.Scalar(%limit, 0.0)
  %y: f32[<U0>,3] = aten.index.Tensor(%x, [%mask])
  %z: f32[<U0>,4] = aten.linear.default(%y, %w)
  %all: f32[5,4] = aten.linear.default(%x, %w)
  return (%z, %all))");
  CHECK(greatest_in_four_runs(text) < 1e-6);
  const Program program = reference_program(make_graph(text));
  REQUIRE(program.bodies.size() == 1);
  CHECK_THAT(to_text(program), Contains("z: f32[5,4] = rest(y_count i64[], y_nonzero i64[5,1], x "
                                        "f32[5,3]) bodies=[0] counts=1"));
  CHECK_THAT(to_text(program.bodies[0]), Contains("z: f32[u0,4] = linear("));
  REQUIRE(program.bodies[0].symbols.size() == 1);
  CHECK(symbols_text(program.bodies[0]) ==
        "symbol u0 (dimension 0 of y_counted) from 0 to 5, lowered at 5\n");
}

TEST_CASE("weights are dequantized after the count", "[lowering][counts]") {
  const Program program = reference_program(
      make_graph(counted(R"(graph(%w = param "w": i8[4,3], %x: f32[5,3], %m: b8[5]):
  %v: f32[4,3] = quantized_decomposed.dequantize_per_tensor.default(%w, 0.05, 0, -127, 127, i8)
  %q: i8[5,3] = quantized_decomposed.quantize_per_tensor.default(%x, 0.02, 3, -128, 127, i8)
  %d: f32[5,3] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.02, 3, -128, 127, i8)
  %y: f32[<U0>,3] = aten.index.Tensor(%d, [%m])
  %z: f32[<U0>,4] = aten.linear.default(%y, %v)
  %p: i8[<U0>,4] = quantized_decomposed.quantize_per_tensor.default(%z, 0.04, 1, -128, 127, i8)
  %o: f32[<U0>,4] = quantized_decomposed.dequantize_per_tensor.default(%p, 0.04, 1, -128, 127, i8)
  return (%o))")));
  CHECK_THAT(to_text(program), Contains("rest(y_count i64[], y_nonzero i64[5,1], q i8[5,3])"));
  CHECK_THAT(to_text(program.bodies.at(0)), Contains("i8[u0,4] = linear("));
}

TEST_CASE("counts that depend on each other are cut one after the other", "[lowering][counts]") {
  const std::string text = counted(R"(graph(%x: f32[7]):
  %some: b8[7] = aten.gt.Scalar(%x, -0.5)
  %y: f32[<U0>] = aten.masked_select.default(%x, %some)
  %fewer: b8[<U0>] = aten.lt.Scalar(%y, 0.5)
  %z: f32[<U1>] = aten.index.Tensor(%y, [%fewer])
  %places: i64[<U1>,1] = aten.nonzero.default(%fewer)
  %sum: f32[] = aten.sum.default(%z)
  return (%z, %places, %sum))");
  CHECK(greatest_in_four_runs(text) < 1e-6);
  const Program program = reference_program(make_graph(text));
  REQUIRE(program.bodies.size() == 1);
  REQUIRE(program.bodies[0].bodies.size() == 1);
  CHECK(program.tensor(program.outputs[0]).shape == std::vector<int64_t>{7});
  CHECK(program.tensor(program.outputs[0]).sizes.empty());
}

TEST_CASE("values put by a mask are taken in order", "[lowering][counts]") {
  CHECK(greatest_in_four_runs(counted(R"(graph(%x: f32[5,3], %limit: f32[5]):
  %mask: b8[5] = aten.gt.Scalar(%limit, 0.0)
  %y: f32[<U0>,3] = aten.index.Tensor(%x, [%mask])
  %n: f32[<U0>,3] = aten.neg.default(%y)
  %z: f32[5,3] = aten.index_put.default(%x, [%mask], %n)
  return (%z))")) < 1e-6);
}

TEST_CASE("an output of which the greatest size is not known is refused", "[lowering][counts]") {
  const std::string size =
      R"size({"Add(Integer(9), Mul(Integer(-1), Symbol('u0', integer=True)))": -1})size";
  CHECK_THAT(
      error_of(make_graph(counted("graph(%x: f32[9], %k: f32[9]):\n"
                                  "  %m: b8[9] = aten.gt.Scalar(%x, 0.0)\n"
                                  "  %y: f32[<U0>] = aten.index.Tensor(%x, [%m])\n"
                                  "  %n: int{\"Symbol('u0', integer=True)\"} = "
                                  "aten.sym_size.int(%y, 0)\n"
                                  "  %z: f32[" +
                                  size + "] = aten.slice.Tensor(%k, 0, %n)\n  return (%z)"))),
      Contains("is an output of the size") && Contains("return what it is computed from"));
}

}  // namespace octet::test_counts
