// Integers: what they are made of, and that they wrap as torch's do.
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_whole_numbers {
namespace {

// Of a call on %r, reals up to 5 with fractions.
double difference_on_reals(const std::string& result, const std::string& call) {
  return compare_with_interpreter(make_graph("graph(%x: f32[3,7]):\n"
                                             "      %r: f32[3,7] = aten.mul.Scalar(%x, 5)\n"
                                             "      %y: " +
                                             result + " = " + call + "\n      return (%y)"))
      .greatest;
}

}  // namespace

TEST_CASE("reals become integers before they are reduced to one", "[lowering][integers]") {
  CHECK(difference_on_reals("i64[3,7]", "aten.cumsum.default(%r, 1, dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[3,7]", "aten.cumprod.default(%r, 0, dtype=i64)") == 0);
  CHECK(difference_on_reals("i32[3]", "aten.sum.dim_IntList(%r, [1], dtype=i32)") == 0);
  CHECK(difference_on_reals("i64[3]", "aten.nansum.default(%r, [1], dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[7]", "aten.prod.dim_int(%r, 0, dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[]", "aten.prod.default(%r, dtype=i64)") == 0);
}

}  // namespace octet::test_whole_numbers
