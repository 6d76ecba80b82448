// What lowering refuses: each reason once, with possible remedies.
#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_refusals {

using Catch::Matchers::Contains;

TEST_CASE("ops without a kernel and sizes of a run are refused together", "[lowering][refusals]") {
  const std::string message = error_of(make_graph(R"graph(graph(%x: f32[2,4]):
  %a: f32[2,4] = aten.erfinv.default(%x)
  %b: f32[{"Symbol('u0', integer=True)": -1},4] = aten._unique9.default(%a, 0)
  %c: f32[{"Symbol('u0', integer=True)": -1},4] = aten.neg.default(%b)
  %w: i64[2,4] = aten.to.dtype(%x, i64)
  %n: i64[] = aten.sum.default(%w)
  %i: int{"Symbol('u1', integer=True)"} = aten.item.default(%n)
  %d: f32[{"Symbol('u1', integer=True)": -1}] = aten.zeros.default([%i])
  %e: f32[2,4] = aten.digamma.default(%x)
  return (%c, %d, %e))graph"));
  CHECK(
      message ==
      "lower: a (aten.erfinv.default): has no kernel in the reference backend; 2 such ops: a "
      "(aten.erfinv.default), e (aten.digamma.default); replace them before the export, or run "
      "them with LibTorch (--fallback torch); also, the program has a size or an index that "
      "is known only when the program runs, which no backend and no fallback takes; 2 such ops: b "
      "(aten._unique9.default) gives the size u0, d (aten.zeros.default) gives the size u1, a "
      "number without a maximum (torch._check(n <= 100) sets one); make it fixed before "
      "the export, or leave it to the caller");
}

TEST_CASE("the fallback to LibTorch is suggested only for ops that it accepts",
          "[lowering][refusals]") {
  const std::string write = error_of(make_graph(R"(graph(%x: f32[2,5]):
  %y: f32[2,5] = aten.exp.default(%x)
  %u: f32[2,2,2] = aten.unfold.default(%y, 1, 2, 2)
  %m: f32[2,2,2] = aten.mul_.Scalar(%u, 3.0)
  return (%y))"));
  CHECK_THAT(write, Contains("writes into a view of %u that has no inverse"));
  CHECK_THAT(write, !Contains("--fallback torch"));
  const std::string mixed = error_of(make_graph(R"(graph(%x: f32[2,5]):
  %y: f32[2,5] = aten.erfinv.default(%x)
  %u: f32[2,2,2] = aten.unfold.default(%y, 1, 2, 2)
  %m: f32[2,2,2] = aten.mul_.Scalar(%u, 3.0)
  return (%y))"));
  CHECK_THAT(mixed, Contains(", or run y with LibTorch (--fallback torch)"));
}

}  // namespace octet::test_refusals
