// gather, index, index_put, scatter, flip; expected numbers are PyTorch's.
#include <cmath>
#include <numeric>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "tests/backends/reference/op_runner.h"

namespace octet::test_index {
namespace {

using namespace reference_ops;
using Catch::Contains;
using Longs = std::vector<int64_t>;
using Reals = std::vector<double>;

Attributes dim(int64_t value) { return {{"dim", value}}; }

Operand counting(std::vector<int64_t> shape) {
  Longs values(static_cast<size_t>(product(shape)));
  std::iota(values.begin(), values.end(), int64_t{0});
  return longs(std::move(shape), values);
}

}  // namespace

TEST_CASE("gather takes one element for each index", "[backends][reference]") {
  const Operand x = counting({3, 4});
  CHECK(integers_of(run_one("gather", {x, longs({2, 2}, {3, 0, 1, 1})}, {{DType::kInt64, {2, 2}}},
                            dim(1))[0]) == Longs{3, 0, 5, 5});
  CHECK(integers_of(run_one("gather", {x, ints32({1, 4}, {2, 0, 1, 2})}, {{DType::kInt64, {1, 4}}},
                            dim(-2))[0]) == Longs{8, 1, 6, 11});
  CHECK_THROWS_WITH(run_one("gather", {x, longs({1, 1}, {-1})}, {{DType::kInt64, {1, 1}}}, dim(1)),
                    Contains("run: gather: index -1 is outside of a dimension of 4 elements"));
}

TEST_CASE("index refuses indices from the end where they are not wanted", "[backends][reference]") {
  const Attributes from_front = {{"from_end", false}};
  const std::vector<Operand> last = {counting({3}), longs({1}, {-1})};
  CHECK(integers_of(run_one("index", last, {{DType::kInt64, {1}}})[0]) == Longs{2});
  CHECK_THROWS_WITH(run_one("index", last, {{DType::kInt64, {1}}}, from_front),
                    Contains("index -1 is outside of a dimension of 3 elements"));
}

TEST_CASE("indices of adjacent dimensions stay at their place, others come first",
          "[backends][reference]") {
  const Operand x = counting({2, 3, 4}), i = longs({2, 1}, {0, -1}), j = longs({3}, {1, 0, 2});
  CHECK(integers_of(run_one("index", {x, {}, i, j}, {{DType::kInt64, {2, 2, 3}}})[0]) ==
        Longs{1, 0, 2, 9, 8, 10, 13, 12, 14, 21, 20, 22});
  CHECK(integers_of(run_one("index", {x, i, {}, j}, {{DType::kInt64, {2, 3, 3}}})[0]) ==
        Longs{1, 5, 9, 0, 4, 8, 2, 6, 10, 13, 17, 21, 12, 16, 20, 14, 18, 22});
  CHECK(integers_of(run_one("index", {x, longs({1}, {1})}, {{DType::kInt64, {1, 3, 4}}})[0])[5] ==
        17);
  CHECK_THROWS_WITH(run_one("index", {x, longs({1}, {2})}, {{DType::kInt64, {1, 3, 4}}}),
                    Contains("index 2 is outside of a dimension of 2"));
}

TEST_CASE("index_put replaces values, or adds up those at the same place",
          "[backends][reference]") {
  const Operand x = floats({3, 4}, std::vector<float>(12, 0.0f)), i = longs({3}, {0, 0, -1}),
                j = longs({3}, {1, 1, 2});
  const Result y{DType::kFloat32, {3, 4}};
  CHECK(values_of(run_one("index_put", {x, floats({3}, {1, 2, 3}), i, j}, {y},
                          {{"accumulate", true}})[0]) == Reals{0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0});
  CHECK(values_of(run_one("index_put", {x, floats({}, {7}), {}, longs({1}, {3})}, {y})[0]) ==
        Reals{0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7});
  const int64_t big = (int64_t{1} << 53) + 1;
  CHECK(integers_of(run_one("index_put", {longs({2}, {0, 1}), longs({}, {big}), longs({1}, {1})},
                            {{DType::kInt64, {2}}}, {{"accumulate", true}})[0]) ==
        Longs{0, big + 1});
}

TEST_CASE("scatter reduces values at the same place, with or without the existing one",
          "[backends][reference]") {
  const Operand x = floats({4}, {1, 2, 3, 4}), index = longs({3}, {0, 0, 2}),
                source = floats({3}, {5, 7, 9});
  const auto scatter = [&](const char* reduce, bool includes) {
    return values_of(run_one("scatter", {x, index, source}, {{DType::kFloat32, {4}}},
                             {{"reduce", std::string(reduce)}, {"include_self", includes}})[0]);
  };
  CHECK(scatter("none", true) == Reals{7, 2, 9, 4});
  CHECK(scatter("sum", true) == Reals{13, 2, 12, 4});
  CHECK(scatter("sum", false) == Reals{12, 2, 9, 4});
  CHECK(scatter("prod", true) == Reals{35, 2, 27, 4});
  CHECK(scatter("prod", false) == Reals{35, 2, 9, 4});
  CHECK(scatter("amax", true) == Reals{7, 2, 9, 4});
  CHECK(scatter("amin", true) == Reals{1, 2, 3, 4});
  CHECK(scatter("amin", false) == Reals{5, 2, 9, 4});
  CHECK(is_close(scatter("mean", true), {13.0 / 3, 2, 6, 4}));
  CHECK(scatter("mean", false) == Reals{6, 2, 9, 4});
  CHECK(integers_of(run_one("scatter", {longs({4}, {1, 2, 3, 4}), index, longs({3}, {5, 8, -10})},
                            {{DType::kInt64, {4}}}, {{"reduce", std::string("mean")}})[0]) ==
        Longs{4, 2, -4, 4});
  CHECK(values_of(run_one("scatter",
                          {floats({2, 2}, {1, 2, 3, 4}), longs({1, 2}, {1, 0}), floats({}, {9})},
                          {{DType::kFloat32, {2, 2}}}, dim(0))[0]) == Reals{1, 9, 9, 4});
}

TEST_CASE("flip turns dimensions around", "[backends][reference]") {
  CHECK(integers_of(run_one("flip", {counting({2, 3})}, {{DType::kInt64, {2, 3}}},
                            {{"dims", ints({0, -1})}})[0]) == Longs{5, 4, 3, 2, 1, 0});
  CHECK(integers_of(run_one("flip", {counting({2, 0})}, {{DType::kInt64, {2, 0}}},
                            {{"dims", ints({0, 1})}})[0])
            .empty());
}

TEST_CASE("quantized elements are moved unchanged or change their scale", "[backends][reference]") {
  const TensorQParams q = quantized(0.5f, 7), half = quantized(1.0f, 0);
  const Operand x = bytes({3}, {1, 9, -3}, q);
  const Operand index = longs({2}, {2, 0});
  CHECK(integers_of(run_one("gather", {x, index}, {{DType::kInt8, {2}, q}}, dim(0))[0]) ==
        Longs{-3, 1});
  CHECK(integers_of(run_one("index", {x, index}, {{DType::kInt8, {2}, half}})[0]) == Longs{-5, -3});
  CHECK(integers_of(run_one("scatter", {x, index, x}, {{DType::kInt8, {3}, q}}, dim(0))[0]) ==
        Longs{9, 9, 1});
  const std::vector<Tensor> sorted =
      run_one("sort", {x}, {{DType::kInt8, {3}, q}, {DType::kInt64, {3}}});
  CHECK(integers_of(sorted[0]) == Longs{-3, 1, 9});
  CHECK(integers_of(sorted[1]) == Longs{2, 0, 1});
  // per channel: an element that changes its row changes its scale
  CHECK(integers_of(run_one("flip", {bytes({2, 1}, {1, 4}, per_channel({1, 2}, 0))},
                            {{DType::kInt8, {2, 1}, per_channel({1, 2}, 0)}},
                            {{"dims", ints({0})}})[0]) == Longs{8, 0});
}

TEST_CASE("damaged index ops are refused", "[backends][reference]") {
  const Operand x = counting({3, 4}), i = longs({2, 2}, {0, 0, 0, 0}),
                f = floats({2, 2}, {0, 0, 0, 0});
  const Result y{DType::kInt64, {2, 2}}, same{DType::kInt64, {3, 4}};
  CHECK_THAT(reason("gather", {x}, {y}), Contains("lacks input 1"));
  CHECK_THAT(reason("gather", {x, f}, {y}), Contains("wants int64 or int32"));
  CHECK_THAT(reason("gather", {x, i}, {y}, dim(2)), Contains("along dimension 2"));
  CHECK_THAT(reason("gather", {x, longs({2}, {0, 0})}, {{DType::kInt64, {2}}}, dim(0)),
             Contains("does not fit indices [2] and input"));
  CHECK_THAT(reason("gather", {counting({1, 4}), i}, {y}, dim(1)),
             Contains("does not fit indices [2, 2] and input"));
  CHECK_THAT(reason("gather", {x, i}, {same}, dim(1)), Contains("want [2, 2]"));
  CHECK_THAT(reason("scatter", {x, i, longs({1, 2}, {0, 0})}, {same}),
             Contains("do not fit source [1, 2]"));
  CHECK_THAT(reason("scatter", {x, i, i}, {same}, {{"reduce", std::string("no")}}),
             Contains("unknown reduce"));
  CHECK_THAT(reason("scatter", {x, i, i}, {y}), Contains("want [3, 4]"));
  CHECK_THAT(reason("index", {x, {}, {}}, {same}), Contains("their number does not fit"));
  CHECK_THAT(reason("index", {x, i, i, i}, {y}), Contains("their number does not fit"));
  CHECK_THAT(reason("index", {x, i, longs({3}, {0, 0, 0})}, {y}), Contains("do not broadcast"));
  CHECK_THAT(reason("index", {x, bools({3, 4}, std::vector<uint8_t>(12, 1))}, {y}),
             Contains("wants int64 or int32"));
  CHECK_THAT(reason("index", {x, i, i}, {same}), Contains("want [2, 2]"));
  CHECK_THAT(reason("index_put", {x, longs({3}, {0, 0, 0}), i, i}, {same}),
             Contains("values [3] do not broadcast"));
  CHECK_THAT(reason("index_put", {x, longs({}, {0}), i, i}, {y}), Contains("want [3, 4]"));
  CHECK_THAT(reason("flip", {x}, {same}, {{"dims", ints({0, -2})}}), Contains("dims [0, -2]"));
}

}  // namespace octet::test_index
