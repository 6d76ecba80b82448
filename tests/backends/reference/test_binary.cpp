// binary, unary, reduce and arithmetic of integers; expected numbers are PyTorch's.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "tests/backends/reference/op_runner.h"

namespace octet::test_binary {
namespace {

using namespace reference_ops;
using Longs = std::vector<int64_t>;
using Reals = std::vector<double>;

constexpr int64_t kBig = (int64_t{1} << 53) + 1;  // no double is equal
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
const double kInf = INFINITY, kNaN = NAN;

Attributes fn(const std::string& name) { return {{"fn", name}}; }

Longs whole(const std::string& kind, const Operand& a, const Operand& b, Attributes attributes = {},
            DType dtype = DType::kInt64) {
  return integers_of(run_one(kind, {a, b}, {{dtype, a.data.shape()}}, std::move(attributes))[0]);
}
Reals real(const std::string& name, const Operand& a, const Operand& b) {
  return values_of(run_one("binary", {a, b}, {{DType::kFloat32, a.data.shape()}}, fn(name))[0]);
}

Reals unary(const std::string& name, const Operand& x, Attributes attributes = {},
            DType dtype = DType::kFloat64) {
  attributes["fn"] = name;
  return values_of(run_one("unary", {x}, {{dtype, x.data.shape()}}, attributes)[0]);
}

}  // namespace

TEST_CASE("arithmetic of integers is exact in 64 bits and wraps", "[backends][reference]") {
  const Operand a = longs({2}, {kBig, INT64_MAX}), b = longs({2}, {1, 1});
  CHECK(whole("add", a, b) == Longs{kBig + 1, kLeast});
  CHECK(whole("sub", a, b, {{"alpha", int64_t{2}}}) == Longs{kBig - 2, INT64_MAX - 2});
  CHECK(whole("mul", a, longs({}, {3})) == Longs{3 * kBig, INT64_MAX - 2});
  CHECK(whole("minimum", a, longs({2}, {kBig - 1, 5})) == Longs{kBig - 1, 5});
  CHECK(whole("maximum", a, longs({2}, {kBig - 1, 5})) == Longs{kBig, INT64_MAX});
  CHECK(integers_of(run_one("clamp", {a}, {{DType::kInt64, {2}}}, {{"max", kBig + 2}})[0]) ==
        Longs{kBig, kBig + 2});
  CHECK(integers_of(run_one("where", {bools({2}, {0, 1}), b, a}, {{DType::kInt64, {2}}})[0]) ==
        Longs{kBig, 1});
  CHECK(integers_of(run_one("copy", {a}, {{DType::kInt64, {2}}})[0]) == Longs{kBig, INT64_MAX});
  CHECK(integers_of(run_one("cast", {longs({1}, {kBig})}, {{DType::kInt32, {1}}})[0]) == Longs{1});
}

TEST_CASE("comparisons tell neighboring integers apart", "[backends][reference]") {
  const Operand a = longs({3}, {kBig, kBig, kBig}), b = longs({3}, {kBig - 1, kBig, kBig + 1});
  const auto compare = [&](const char* name) {
    return whole("binary", a, b, fn(name), DType::kBool);
  };
  CHECK(compare("eq") == Longs{0, 1, 0});
  CHECK(compare("ne") == Longs{1, 0, 1});
  CHECK(compare("lt") == Longs{0, 0, 1});
  CHECK(compare("le") == Longs{0, 1, 1});
  CHECK(compare("gt") == Longs{1, 0, 0});
  CHECK(compare("ge") == Longs{1, 1, 0});
}

TEST_CASE("comparisons and logic of reals follow IEEE", "[backends][reference]") {
  const Operand a = floats({4}, {1, NAN, 0, -0.0f}), b = floats({}, {0});
  const auto run = [&](const char* name) { return whole("binary", a, b, fn(name), DType::kBool); };
  CHECK(run("eq") == Longs{0, 0, 1, 1});
  CHECK(run("ne") == Longs{1, 1, 0, 0});
  CHECK(run("gt") == Longs{1, 0, 0, 0});
  CHECK(run("logical_or") == Longs{1, 1, 0, 0});
  CHECK(run("logical_and") == Longs{0, 0, 0, 0});
  CHECK(run("logical_xor") == Longs{1, 1, 0, 0});
}

TEST_CASE("bits and shifts", "[backends][reference]") {
  const Operand a = longs({2}, {12, -1}), b = longs({2}, {10, 6});
  CHECK(whole("binary", a, b, fn("bitwise_and")) == Longs{8, 6});
  CHECK(whole("binary", a, b, fn("bitwise_or")) == Longs{14, -1});
  CHECK(whole("binary", a, b, fn("bitwise_xor")) == Longs{6, -7});
  CHECK(whole("binary", bools({2}, {1, 0}), bools({2}, {1, 1}), fn("bitwise_xor"), DType::kBool) ==
        Longs{0, 1});
  CHECK(whole("binary", ints32({4}, {1, -1, 5, 3}), ints32({4}, {31, 33, -1, 2}), fn("left_shift"),
              DType::kInt32) == Longs{-2147483648, 0, 0, 12});
  CHECK(whole("binary", bytes({4}, {-8, 8, -8, 8}), bytes({4}, {1, 9, -1, 3}), fn("right_shift"),
              DType::kInt8) == Longs{-4, 0, -1, 1});
  CHECK(integers_of(run_one("unary", {longs({2}, {0, 5})}, {{DType::kInt64, {2}}},
                            fn("bitwise_not"))[0]) == Longs{-1, -6});
  CHECK(integers_of(run_one("unary", {bools({2}, {0, 1})}, {{DType::kBool, {2}}},
                            fn("bitwise_not"))[0]) == Longs{1, 0});
}

TEST_CASE("quotients, remainders and powers of integers", "[backends][reference]") {
  const Operand a = longs({4}, {5, -5, 5, -5}), b = longs({4}, {3, 3, -3, -3});
  CHECK(whole("binary", a, b, fn("remainder")) == Longs{2, 1, -1, -2});
  CHECK(whole("binary", a, b, fn("fmod")) == Longs{2, -2, 2, -2});
  CHECK(whole("binary", a, b, fn("div_floor")) == Longs{1, -2, -2, 1});
  CHECK(whole("binary", a, b, fn("div_trunc")) == Longs{1, -1, -1, 1});
  CHECK(whole("binary", longs({5}, {3, -1, 2, 7, -1}), longs({5}, {40, -3, -1, 0, -2}),
              fn("pow")) == Longs{-6289078614652622815, -1, 0, 1, 1});
  for (const char* name : {"div_floor", "div_trunc"})
    CHECK(whole("binary", longs({1}, {kLeast}), longs({1}, {-1}), fn(name)) == Longs{kLeast});
  CHECK_THROWS_WITH(whole("binary", a, longs({}, {0}), fn("fmod")),
                    Catch::Contains("divides an integer by zero"));
}

TEST_CASE("quotients and remainders of reals", "[backends][reference]") {
  const float inf = INFINITY;
  CHECK(is_close(
      real("remainder", floats({6}, {5, -5, 5, -5, inf, 1}), floats({6}, {3, 3, -3, -3, 2, 0})),
      {2, 1, -1, -2, kNaN, kNaN}));
  CHECK(is_close(
      real("div_floor", floats({6}, {7, -7, 7, -0.0f, 1, 0}), floats({6}, {2, 2, -2, 3, 0, 0})),
      {3, -4, -4, -0.0, kInf, kNaN}));
  CHECK(real("div_trunc", floats({2}, {7, -7}), floats({}, {2})) == Reals{3, -3});
  CHECK(real("fmod", floats({2}, {7, -7}), floats({}, {2})) == Reals{1, -1});
  CHECK(is_close(real("pow", floats({3}, {2, -2, 4}), floats({3}, {3, 0.5f, -0.5f})),
                 {8, kNaN, 0.5}));
  CHECK(is_close(real("atan2", floats({2}, {1, -1}), floats({2}, {-1, 0})),
                 {2.35619449, -1.57079633}));
}

TEST_CASE("the functions of one real", "[backends][reference]") {
  struct Row {
    const char* name;
    Reals x, want;
  };
  const Row rows[] = {
      {"erf", {0.5, 1.5}, {0.520499878, 0.966105146}},
      {"erfc", {0.5, 1.5}, {0.479500122, 0.0338948535}},
      {"lgamma", {0.5, 1.5}, {0.572364943, -0.120782238}},
      {"log", {0.5, 1.5}, {-0.693147181, 0.405465108}},
      {"log2", {0.5, 1.5}, {-1, 0.584962501}},
      {"log10", {0.5, 1.5}, {-0.301029996, 0.176091259}},
      {"log1p", {0.5, 1.5}, {0.405465108, 0.916290732}},
      {"expm1", {0.5, 1.5}, {0.648721271, 3.48168907}},
      {"exp2", {0.5, 1.5}, {1.41421356, 2.82842712}},
      {"sin", {0.5, 1.5}, {0.479425539, 0.997494987}},
      {"cos", {0.5, 1.5}, {0.877582562, 0.0707372017}},
      {"tan", {0.5, 1.5}, {0.54630249, 14.1014199}},
      {"asin", {0.5, 0.25}, {0.523598776, 0.252680255}},
      {"acos", {0.5, 0.25}, {1.04719755, 1.31811607}},
      {"atan", {0.5, 1.5}, {0.463647609, 0.982793723}},
      {"sinh", {0.5, 1.5}, {0.521095305, 2.12927946}},
      {"cosh", {0.5, 1.5}, {1.12762597, 2.35240962}},
      {"asinh", {0.5, 1.5}, {0.481211825, 1.19476322}},
      {"acosh", {0.5, 1.5}, {kNaN, 0.96242365}},
      {"atanh", {0.5, 0.25}, {0.549306144, 0.255412812}},
      {"ceil", {0.5, -1.5}, {1, -1}},
      {"floor", {0.5, -1.5}, {0, -2}},
      {"round", {0.5, 1.5, 2.5}, {0, 2, 2}},
      {"trunc", {0.5, -1.5}, {0, -1}},
      {"sign", {kNaN, 2, -3}, {0, 1, -1}},
      {"reciprocal", {0.5, 1.5}, {2, 0.666666667}},
      {"square", {0.5, 1.5}, {0.25, 2.25}},
      {"mish", {-1.5, 0.5, 30}, {-0.298099742, 0.375245211, 30}},
      {"selu", {-1.5, 0.5, 30}, {-1.36581435, 0.525350494, 31.5210296}},
      {"log_sigmoid", {-1.5, 0.5, 30}, {-1.70141328, -0.474076984, -9.35762297e-14}},
      {"softsign", {-1.5, 0.5, 30}, {-0.6, 0.333333333, 0.967741935}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(is_close(unary(row.name, reals({static_cast<int64_t>(row.x.size())}, row.x)), row.want));
  }
  const Operand x = reals({3}, {-1.5, 0.5, 30});
  CHECK(is_close(unary("celu", x, {{"alpha", 2.0}}), {-1.05526689, 0.5, 30}));
  CHECK(is_close(unary("softplus", x, {{"alpha", 2.0}}), {0.0242936758, 0.656630844, 30}));
  CHECK(is_close(unary("softplus", x, {{"alpha", 2.0}, {"threshold", 0.5}}),
                 {0.0242936758, 0.5, 30}));
}

TEST_CASE("functions of integers are exact, predicates give bools", "[backends][reference]") {
  const Operand x = longs({3}, {-kBig, 0, kLeast});
  const auto run = [&](const char* name) {
    return integers_of(run_one("unary", {x}, {{DType::kInt64, {3}}}, fn(name))[0]);
  };
  CHECK(run("abs") == Longs{kBig, 0, kLeast});
  CHECK(run("neg") == Longs{kBig, 0, kLeast});
  CHECK(run("sign") == Longs{-1, 0, -1});
  CHECK(run("round") == Longs{-kBig, 0, kLeast});
  const Operand y = floats({4}, {NAN, -INFINITY, 0, 2});
  const auto ask = [&](const char* name) {
    return integers_of(run_one("unary", {y}, {{DType::kBool, {4}}}, fn(name))[0]);
  };
  CHECK(ask("isnan") == Longs{1, 0, 0, 0});
  CHECK(ask("isinf") == Longs{0, 1, 0, 0});
  CHECK(ask("isfinite") == Longs{0, 0, 1, 1});
  CHECK(ask("logical_not") == Longs{0, 0, 1, 0});
}

TEST_CASE("reductions of integers are exact; any and all give bools", "[backends][reference]") {
  const Operand x = longs({2, 2}, {kBig, 1, kBig, 0});
  const auto reduce = [&](const char* name, DType dtype) {
    Attributes attributes = fn(name);
    attributes["dims"] = ints({1});
    return integers_of(run_one("reduce", {x}, {{dtype, {2}}}, attributes)[0]);
  };
  CHECK(reduce("sum", DType::kInt64) == Longs{kBig + 1, kBig});
  CHECK(reduce("prod", DType::kInt64) == Longs{kBig, 0});
  CHECK(reduce("max", DType::kInt64) == Longs{kBig, kBig});
  CHECK(reduce("min", DType::kInt64) == Longs{1, 0});
  CHECK(reduce("any", DType::kBool) == Longs{1, 1});
  CHECK(reduce("all", DType::kBool) == Longs{1, 0});
  CHECK(integers_of(run_one("reduce", {bools({3}, {1, 1, 0})}, {{DType::kInt64, {}}},
                            fn("sum"))[0]) == Longs{2});
  CHECK(integers_of(run_one("reduce", {floats({2}, {NAN, 1})}, {{DType::kBool, {}}},
                            fn("all"))[0]) == Longs{1});
}

TEST_CASE("damaged ops of two and of one operand are refused", "[backends][reference]") {
  using Catch::Contains;
  const Operand x = floats({2}, {1, 2}), n = longs({2}, {1, 2});
  const Result f{DType::kFloat32, {2}}, l{DType::kInt64, {2}}, b{DType::kBool, {2}};
  CHECK_THAT(reason("binary", {x, x}, {f}, fn("nothing")), Contains("unknown fn"));
  CHECK_THAT(reason("binary", {x, x}, {f}), Contains("it has no fn"));
  CHECK_THAT(reason("binary", {x}, {b}, fn("eq")), Contains("lacks input 1"));
  CHECK_THAT(reason("binary", {x, floats({3}, {1, 2, 3})}, {b}, fn("eq")),
             Contains("does not broadcast"));
  CHECK_THAT(reason("binary", {x, x}, {f}, fn("eq")), Contains("returns bools"));
  CHECK_THAT(reason("binary", {x, n}, {l}, fn("left_shift")), Contains("integers or bools"));
  CHECK_THAT(reason("unary", {x}, {l}, fn("bitwise_not")), Contains("integers or bools"));
  CHECK_THAT(reason("unary", {x}, {f}, fn("isnan")), Contains("returns bools"));
  CHECK_THAT(reason("unary", {x}, {{DType::kFloat32, {3}}}, fn("exp")), Contains("want [2]"));
  CHECK_THAT(reason("reduce", {x}, {{DType::kFloat32, {}}}, fn("any")), Contains("returns bools"));
}

}  // namespace octet::test_binary
