// sort, topk, arg_reduce, cumulative, linalg; expected numbers are PyTorch's.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "tests/backends/reference/op_runner.h"

namespace octet::test_order {
namespace {

using namespace reference_ops;
using Catch::Contains;
using Longs = std::vector<int64_t>;
using Reals = std::vector<double>;

const float kInf = INFINITY, kNaN = NAN;

Attributes fn(const std::string& name) { return {{"fn", name}}; }

std::vector<Tensor> with_indices(const std::string& kind, const Operand& x,
                                 std::vector<int64_t> shape, Attributes attributes = {}) {
  return run_one(kind, {x}, {{x.data.dtype(), shape}, {DType::kInt64, shape}},
                 std::move(attributes));
}

}  // namespace

TEST_CASE("sort keeps equals in order and takes NaN for the greatest", "[backends][reference]") {
  const Operand x = floats({6}, {2, kNaN, 1, 2, kNaN, -kInf});
  const std::vector<Tensor> up = with_indices("sort", x, {6});
  CHECK(is_close(values_of(up[0]), {-INFINITY, 1, 2, 2, NAN, NAN}));
  CHECK(integers_of(up[1]) == Longs{5, 2, 0, 3, 1, 4});
  const std::vector<Tensor> down = with_indices("sort", x, {6}, {{"descending", true}});
  CHECK(is_close(values_of(down[0]), {NAN, NAN, 2, 2, 1, -INFINITY}));
  CHECK(integers_of(down[1]) == Longs{1, 4, 0, 3, 2, 5});
}

TEST_CASE("sort goes along any dimension, of integers exactly", "[backends][reference]") {
  const int64_t big = (int64_t{1} << 53) + 1;
  const std::vector<Tensor> y =
      with_indices("sort", longs({2, 2}, {big, 1, big - 1, 2}), {2, 2}, {{"dim", int64_t{0}}});
  CHECK(integers_of(y[0]) == Longs{big - 1, 1, big, 2});
  CHECK(integers_of(y[1]) == Longs{1, 0, 0, 1});
  CHECK(integers_of(with_indices("sort", longs({}, {4}), {})[1]) == Longs{0});
}

TEST_CASE("topk is the head of sort", "[backends][reference]") {
  const Operand x = floats({4}, {2, kNaN, 1, 5});
  const std::vector<Tensor> most = with_indices("topk", x, {2}, {{"k", int64_t{2}}});
  CHECK(is_close(values_of(most[0]), {NAN, 5}));
  CHECK(integers_of(most[1]) == Longs{1, 3});
  const std::vector<Tensor> least =
      with_indices("topk", x, {2}, {{"k", int64_t{2}}, {"largest", false}});
  CHECK(values_of(least[0]) == Reals{1, 2});
  CHECK(integers_of(least[1]) == Longs{2, 0});
  const Operand wide = {random_floats({3, 7, 2})};
  const std::vector<Tensor> head = with_indices("topk", wide, {3, 4, 2},
                                                {{"k", int64_t{4}}, {"dim", int64_t{1}}}),
                            all = with_indices("sort", wide, {3, 7, 2},
                                               {{"dim", int64_t{1}}, {"descending", true}});
  for (int64_t i = 0; i < 24; ++i)
    CHECK(head[0].data<float>()[i] == all[0].data<float>()[i / 8 * 14 + i % 8]);
}

TEST_CASE("argmax gives the first of equals, NaN before all", "[backends][reference]") {
  const auto arg = [](const char* name, const Operand& x, std::vector<int64_t> shape,
                      Attributes more = {}) {
    more["fn"] = std::string(name);
    return integers_of(run_one("arg_reduce", {x}, {{DType::kInt64, std::move(shape)}}, more)[0]);
  };
  CHECK(arg("argmax", floats({6}, {1, 3, 3, kNaN, 2, kNaN}), {}) == Longs{3});
  CHECK(arg("argmax", floats({3}, {-kInf, -kInf, -kInf}), {}) == Longs{0});
  CHECK(arg("argmin", longs({2, 2}, {1, 0, 0, 5}), {}) == Longs{1});
  CHECK(arg("argmin", longs({2, 2}, {1, 0, 0, 5}), {2}, {{"dim", int64_t{-1}}}) == Longs{1, 0});
  CHECK(arg("argmax", longs({2, 2}, {1, 0, 0, 5}), {1, 2},
            {{"dim", int64_t{0}}, {"keepdim", true}}) == Longs{0, 1});
  CHECK(arg("argmax", floats({2, 3}, {0, 0, 0, 0, 0, 0}), {1, 1}, {{"keepdim", true}}) == Longs{0});
}

TEST_CASE("cumulative sums and products, of integers exactly", "[backends][reference]") {
  const int64_t big = int64_t{1} << 53;
  CHECK(integers_of(run_one("cumulative", {longs({3}, {big, 1, 1})}, {{DType::kInt64, {3}}},
                            fn("sum"))[0]) == Longs{big, big + 1, big + 2});
  CHECK(integers_of(run_one("cumulative", {bools({3}, {1, 0, 1})}, {{DType::kInt64, {3}}},
                            fn("sum"))[0]) == Longs{1, 1, 2});
  Attributes prod = fn("prod");
  prod["dim"] = int64_t{0};
  CHECK(values_of(run_one("cumulative", {floats({2, 2}, {2, 3, 4, 5})}, {{DType::kFloat32, {2, 2}}},
                          prod)[0]) == Reals{2, 3, 8, 15});
}

TEST_CASE("cumulative max and min take the last of equals, and keep NaN", "[backends][reference]") {
  const std::vector<Tensor> y =
      with_indices("cumulative", floats({6}, {1, 3, 3, kNaN, 2, kNaN}), {6}, fn("max"));
  CHECK(is_close(values_of(y[0]), {1, 3, 3, NAN, NAN, NAN}));
  CHECK(integers_of(y[1]) == Longs{0, 1, 2, 3, 3, 5});
  const std::vector<Tensor> z =
      with_indices("cumulative", longs({4}, {3, 1, 1, 2}), {4}, fn("min"));
  CHECK(integers_of(z[0]) == Longs{3, 1, 1, 1});
  CHECK(integers_of(z[1]) == Longs{0, 1, 2, 2});
}

TEST_CASE("cumulative logsumexp handles infinities", "[backends][reference]") {
  const auto run = [](const std::vector<float>& x) {
    const int64_t n = static_cast<int64_t>(x.size());
    return values_of(
        run_one("cumulative", {floats({n}, x)}, {{DType::kFloat32, {n}}}, fn("logsumexp"))[0]);
  };
  CHECK(is_close(run({-kInf, 0, 1, kNaN}), {-INFINITY, 0, 1.3132617, NAN}));
  CHECK(is_close(run({kInf, kInf, 1}), {INFINITY, INFINITY, INFINITY}));
}

TEST_CASE("linear algebra has errors for singular matrices and wrong shapes",
          "[backends][reference]") {
  const Operand singular = floats({2, 2}, {1, 2, 2, 4}), b = floats({2, 1}, {1, 1});
  const Result y{DType::kFloat32, {2, 2}}, x{DType::kFloat32, {2, 1}};
  CHECK(values_of(run_one("linalg", {singular}, {{DType::kFloat32, {}}}, fn("det"))[0]) ==
        Reals{0});
  std::vector<float> small(200 * 200, 0.0f);  // its determinant, 1e-400, underflows
  for (size_t i = 0; i < 200; ++i) small[i * 201] = 0.01f;
  const std::vector<Tensor> hundred =
      run_one("linalg", {floats({200, 200}, small), floats({200, 1}, std::vector<float>(200, 1))},
              {{DType::kFloat32, {200, 1}}}, fn("solve"));
  CHECK(is_close(values_of(hundred[0]), Reals(200, 100.0)));
  CHECK(std::isnan(values_of(run_one("linalg", {floats({2, 2}, {0, 1, kNaN, 1})},
                                     {{DType::kFloat32, {}}}, fn("det"))[0])[0]));
  CHECK_THROWS_WITH(run_one("linalg", {singular, b}, {x}, fn("solve")), Contains("is singular"));
  CHECK_THROWS_WITH(run_one("linalg", {floats({2, 2}, {1, 0, 2, 1})}, {y}, fn("cholesky")),
                    Contains("not positive definite"));
  CHECK_THAT(reason("linalg", {b}, {x}, fn("det")), Contains("needs a square matrix"));
  CHECK_THAT(reason("linalg", {singular}, {x}, fn("solve")), Contains("has two inputs"));
  CHECK_THAT(reason("linalg", {singular, floats({1, 2}, {1, 2})}, {y}, fn("solve")),
             Contains("do not fit"));
  CHECK_THAT(reason("linalg", {singular}, {y}, fn("qr")), Contains("two results"));
  CHECK_THAT(reason("linalg", {singular}, {y, x}, fn("qr")), Contains("want [2, 2]"));
}

TEST_CASE("damaged ops that order elements are refused", "[backends][reference]") {
  const Operand x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Result y{DType::kFloat32, {2, 3}}, i{DType::kInt64, {2, 3}};
  CHECK_THAT(reason("sort", {x}, {y}), Contains("has 1 outputs"));
  CHECK_THAT(reason("sort", {x}, {y, y}), Contains("returns indices as int64"));
  CHECK_THAT(reason("sort", {x}, {y, i}, {{"dim", int64_t{2}}}), Contains("dimension 2"));
  CHECK_THAT(reason("sort", {x}, {y, {DType::kInt64, {3}}}), Contains("want [2, 3]"));
  CHECK_THAT(reason("topk", {x}, {y, i}, {{"k", int64_t{4}}}), Contains("the first 4 of 3"));
  CHECK_THAT(reason("topk", {x}, {y, i}), Contains("it has no k"));
  CHECK_THAT(reason("topk", {x}, {y, i}, {{"k", int64_t{2}}}), Contains("want [2, 2]"));
  CHECK_THAT(reason("arg_reduce", {x}, {{DType::kInt64, {}}}), Contains("it has no fn"));
  CHECK_THAT(reason("arg_reduce", {x}, {{DType::kFloat32, {}}}, fn("argmax")),
             Contains("returns indices as int64"));
  CHECK_THAT(reason("arg_reduce", {floats({0}, {})}, {{DType::kInt64, {}}}, fn("argmax")),
             Contains("needs at least one element"));
  CHECK_THAT(reason("arg_reduce", {x}, {i}, fn("argmax")), Contains("want []"));
  CHECK_THAT(reason("cumulative", {x}, {y}, fn("mean")), Contains("unknown fn"));
  CHECK_THAT(reason("cumulative", {x}, {y, i}, fn("sum")), Contains("sum returns no indices"));
  CHECK_THAT(reason("cumulative", {x}, {i, i}, {{"fn", std::string("max")}, {"dim", int64_t{-3}}}),
             Contains("dimension -3"));
}

}  // namespace octet::test_order
