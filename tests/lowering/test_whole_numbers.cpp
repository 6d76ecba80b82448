// Integers: what is converted to them, and that they wrap as torch's do.
#include <string>

#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_whole_numbers {
namespace {

// The difference for a call on %r, reals up to 5 with fractions.
double difference_on_reals(const std::string& result, const std::string& call) {
  return compare_with_interpreter(make_graph("graph(%x: f32[3,7]):\n"
                                             "      %r: f32[3,7] = aten.mul.Scalar(%x, 5)\n"
                                             "      %y: " +
                                             result + " = " + call + "\n      return (%y)"))
      .greatest;
}

// The difference for a call on %r, which is x - factor, cast to `dtype`; x is 0 or 1.
double difference_on(const std::string& dtype, const std::string& factor, const std::string& call,
                     const std::string& shape = "[3,4]",
                     const std::string& rest = "aten.alias.default(%y)") {
  return compare_with_interpreter(
             make_graph("graph(%x: i64[3,4]):\n      %f: i64[3,4] = aten.sub.Scalar(%x, " + factor +
                        ")\n      %r: " + dtype + "[3,4] = aten.to.dtype(%f, " + dtype +
                        ")\n      %y: " + dtype + shape + " = " + call + "\n      %z: " + dtype +
                        shape + " = " + rest + "\n      return (%z)"))
      .greatest;
}

}  // namespace

TEST_CASE("floats become integers before they are reduced to one", "[lowering][integers]") {
  CHECK(difference_on_reals("i64[3,7]", "aten.cumsum.default(%r, 1, dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[3,7]", "aten.cumprod.default(%r, 0, dtype=i64)") == 0);
  CHECK(difference_on_reals("i32[3]", "aten.sum.dim_IntList(%r, [1], dtype=i32)") == 0);
  CHECK(difference_on_reals("i64[3]", "aten.nansum.default(%r, [1], dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[7]", "aten.prod.dim_int(%r, 0, dtype=i64)") == 0);
  CHECK(difference_on_reals("i64[]", "aten.prod.default(%r, dtype=i64)") == 0);
}

TEST_CASE("integers with numbers wrap", "[lowering][integers]") {
  const std::string calls[] = {
      "aten.add.Scalar(%r, 1)",       "aten.sub.Scalar(%r, 1)",
      "aten.mul.Scalar(%r, 2)",       "aten.rsub.Scalar(%r, 1)",
      "aten.rsub.Scalar(%r, 5, 3)",   "aten.add.Scalar(%r, 3, 100)",
      "aten.add.Tensor(%r, 1)",       "aten.sub.Tensor(%r, %r, alpha=-5)",
      "aten.mul.Tensor(%r, 2654435)",
  };
  for (const std::string& call : calls) {
    INFO(call);
    CHECK(difference_on("i8", "128", call) == 0);
    CHECK(difference_on("u8", "1", call) == 0);
    CHECK(difference_on("i16", "32768", call) == 0);
    CHECK(difference_on("i32", "2147483648", call) == 0);
  }
}

// The second call tells neighbors of 2^60 apart, which the comparison in double does not.
TEST_CASE("integers with numbers stay exact", "[lowering][integers]") {
  const std::string rest = "aten.remainder.Scalar(%y, 1000)";
  const std::string calls[] = {
      "aten.add.Scalar(%r, 1)",
      "aten.mul.Scalar(%r, 2654435761)",
      "aten.add.Scalar(%r, 1, 1152921504606846977)",
      "aten.clamp.default(%r, 1152921504606846977, 1152921504606846977)",
      "aten.clamp_min.default(%r, 1152921504606846977)",
      "aten.clamp_max.default(%r, -1152921504606846979)",
      "aten.constant_pad_nd.default(%r, [0, 0], 7)",
      "aten.full_like.default(%r, 1152921504606846977)",
  };
  for (const std::string& call : calls) {
    INFO(call);
    CHECK(difference_on("i64", "1152921504606846979", call, "[3,4]", rest) == 0);
  }
  CHECK(difference_on("i64", "1152921504606846979", "aten.constant_pad_nd.default(%r, [1, 1], 7)",
                      "[3,6]", rest) == 0);
}

TEST_CASE("sums of products of integers wrap", "[lowering][integers]") {
  const auto difference = [](const std::string& dtype, const std::string& factor,
                             const std::string& call) {
    return compare_with_interpreter(
               make_graph("graph(%x: i64[3,3]):\n      %f: i64[3,3] = aten.sub.Scalar(%x, " +
                          factor + ")\n      %r: " + dtype + "[3,3] = aten.to.dtype(%f, " + dtype +
                          ")\n      %y: " + dtype + "[3,3] = " + call + "\n      %z: " + dtype +
                          "[3,3] = aten.remainder.Scalar(%y, 100)\n      return (%z)"))
        .greatest;
  };
  for (const std::string call : {"aten.mm.default(%r, %r)", "aten.addmm.default(%r, %r, %r)"}) {
    INFO(call);
    CHECK(difference("i64", "2305843009213693953", call) == 0);
    CHECK(difference("i32", "1073741825", call) == 0);
    CHECK(difference("i8", "100", call) == 0);
  }
}

}  // namespace octet::test_whole_numbers
