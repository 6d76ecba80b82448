// Images and tables: upsample, grid_sample, im2col, col2im, poolings with indices, log_softmax,
// embedding_bag; expected numbers are PyTorch's.
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "tests/backends/reference/op_runner.h"

namespace octet::test_sample {
namespace {

using namespace reference_ops;
using Catch::Contains;
using Longs = std::vector<int64_t>;
using Reals = std::vector<double>;

Operand image() { return floats({1, 1, 3, 3}, {1, 4, 2, 8, 3, 5, 7, 6, 9}); }
Operand squares() { return floats({1, 1, 2, 2, 2}, {0, 1, 4, 9, 16, 25, 36, 49}); }

Reals resized(const Operand& x, const char* mode, std::vector<int64_t> shape, Reals scales,
              bool aligns = false) {
  return values_of(run_one(
      "upsample", {x}, {{DType::kFloat32, std::move(shape)}},
      {{"mode", std::string(mode)}, {"align_corners", aligns}, {"scales", std::move(scales)}})[0]);
}

Attributes sampling(const char* mode, const char* padding, bool aligns) {
  return {{"mode", std::string(mode)},
          {"padding_mode", std::string(padding)},
          {"align_corners", aligns}};
}

}  // namespace

TEST_CASE("upsample reads cubically and from the exact neighbor", "[backends][reference]") {
  const Operand x = image();
  CHECK(is_close(resized(x, "bicubic", {1, 1, 2, 4}, {1.5, 0.75}),
                 {2.545952, 3.414751, 3.376179, 2.458033, 7.629669, 5.753277, 6.094917, 8.408382}));
  CHECK(is_close(resized(x, "bicubic", {1, 1, 2, 4}, {2, 2.0 / 3}, true),
                 {1, 3.277778, 3.703703, 2, 7, 5.981483, 6.833331, 9}));
  CHECK(resized(x, "nearest_exact", {1, 1, 2, 4}, {1.5, 0.75}) == Reals{1, 4, 4, 2, 7, 6, 6, 9});
  CHECK(is_close(resized(x, "bilinear_aa", {1, 1, 2, 2}, {1.5, 1.5}),
                 {3.625, 3.3125, 6.4375, 6.515625}));
  CHECK(is_close(resized(x, "bicubic_aa", {1, 1, 2, 2}, {1.5, 1.5}),
                 {3.529308, 3.114961, 6.566005, 6.628046}));
}

TEST_CASE("upsample takes one to three dimensions", "[backends][reference]") {
  CHECK(is_close(resized(squares(), "trilinear", {1, 1, 3, 2, 1}, {2.0 / 3, 1, 2}),
                 {0.5, 6.5, 10.5, 24.5, 20.5, 42.5}));
  CHECK(resized(squares(), "nearest", {1, 1, 1, 3, 2}, {2, 2.0 / 3, 1}) == Reals{0, 1, 0, 1, 4, 9});
  CHECK(is_close(resized(floats({1, 1, 3}, {1, 4, 2}), "linear", {1, 1, 5}, {0.6}),
                 {1, 2.2, 4, 2.8, 2}));
}

TEST_CASE("grid_sample follows its mode and what lies outside", "[backends][reference]") {
  const Operand grid = floats({1, 2, 2, 2}, {-1.2f, -0.3f, 0.2f, 0.6f, 1.4f, 0.9f, 0.1f, -2.3f});
  struct Row {
    const char *mode, *padding;
    bool aligns;
    Reals want;
  };
  const Row rows[] = {
      {"bilinear", "zeros", false, {0.9699996, 6.57, 0, 0}},
      {"bilinear", "zeros", true, {4.719999, 5.32, 5.159999, 0}},
      {"bilinear", "border", false, {4.849999, 6.57, 9, 3.7}},
      {"bilinear", "border", true, {5.9, 5.32, 8.6, 3.8}},
      {"bilinear", "reflection", false, {4.849999, 6.57, 8.7, 4.7175}},
      {"bilinear", "reflection", true, {5.38, 5.32, 7.44, 4.13}},
      {"nearest", "zeros", false, {0, 6, 0, 0}},
      {"nearest", "zeros", true, {8, 6, 9, 0}},
      {"nearest", "border", false, {8, 6, 9, 4}},
      {"nearest", "reflection", true, {8, 6, 9, 3}},
      {"bicubic", "zeros", false, {0.9324675, 7.261734, -0.3916669, 0}},
      {"bicubic", "zeros", true, {5.406965, 5.876031, 5.992009, -0.4444995}},
      {"bicubic", "border", false, {5.039994, 6.416537, 9.443621, 3.98847}},
      {"bicubic", "border", true, {6.465318, 4.974113, 9.010308, 4.018251}},
      {"bicubic", "reflection", false, {5.21835, 6.416537, 9.420363, 4.265035}},
      {"bicubic", "reflection", true, {5.585989, 5.430785, 8.01163, 3.836042}},
  };
  for (const Row& row : rows) {
    INFO(row.mode << " " << row.padding << " " << row.aligns);
    CHECK(is_close(
        values_of(run_one("grid_sample", {image(), grid}, {{DType::kFloat32, {1, 1, 2, 2}}},
                          sampling(row.mode, row.padding, row.aligns))[0]),
        row.want));
  }
}

TEST_CASE("grid_sample in three dimensions, and of no number", "[backends][reference]") {
  const Operand grid = floats({1, 1, 1, 2, 3}, {-0.5f, 0.3f, 0.9f, 0, 0, -1});
  const Result y{DType::kFloat32, {1, 1, 1, 1, 2}};
  CHECK(is_close(values_of(run_one("grid_sample", {squares(), grid}, {y},
                                   sampling("bilinear", "zeros", true))[0]),
                 {30.48, 3.5}));
  CHECK(values_of(run_one("grid_sample", {squares(), grid}, {y},
                          sampling("nearest", "border", false))[0]) == Reals{36, 0});
  const auto at_nan = [](const char* padding) {
    return values_of(run_one("grid_sample", {image(), floats({1, 1, 1, 2}, {NAN, 0})},
                             {{DType::kFloat32, {1, 1, 1, 1}}},
                             sampling("bilinear", padding, false))[0]);
  };
  CHECK(is_close(at_nan("zeros"), {NAN}));
  CHECK(at_nan("border") == Reals{8});
  CHECK(at_nan("reflection") == Reals{8});
}

TEST_CASE("im2col lays windows out, col2im adds them up", "[backends][reference]") {
  Attributes window = {
      {"kernel_size", ints({2, 3})}, {"padding", ints({1, 0})}, {"stride", ints({2, 1})}};
  const std::vector<float> columns = {0, 0, 5, 6,  0, 0, 6,  7,  0, 0, 7,  8,
                                      1, 2, 9, 10, 2, 3, 10, 11, 3, 4, 11, 12};
  const Operand x = floats({1, 1, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(values_of(run_one("im2col", {x}, {{DType::kFloat32, {1, 6, 4}}}, window)[0]) ==
        Reals(columns.begin(), columns.end()));
  window["output_size"] = ints({3, 4});
  CHECK(values_of(run_one("col2im", {floats({6, 4}, columns)}, {{DType::kFloat32, {1, 3, 4}}},
                          window)[0]) == Reals{1, 4, 6, 4, 5, 12, 14, 8, 9, 20, 22, 12});
}

TEST_CASE("poolings give the place of the greatest element", "[backends][reference]") {
  const auto pool = [](const char* kind, const std::vector<float>& x, Attributes attributes) {
    return run_one(kind, {floats({1, 1, 3, 3}, x)},
                   {{DType::kFloat32, {1, 1, 2, 2}}, {DType::kInt64, {1, 1, 2, 2}}}, attributes);
  };
  const Attributes adaptive = {{"output_size", ints({2, 2})}},
                   window = {{"kernel_size", ints({2, 2})}, {"stride", ints({1, 1})}};
  std::vector<Tensor> y = pool("adaptive_max_pool", {1, 4, 2, 8, 3, 5, 8, 6, 9}, adaptive);
  CHECK(values_of(y[0]) == Reals{8, 5, 8, 9});
  CHECK(integers_of(y[1]) == Longs{3, 5, 3, 8});
  const std::vector<float> gaps = {1, 4, 4, NAN, 3, 5, 8, NAN, 9};
  for (const auto& [kind, attributes] :
       {std::pair("adaptive_max_pool", adaptive), std::pair("max_pool", window)}) {
    y = pool(kind, gaps, attributes);
    CHECK(is_close(values_of(y[0]), {NAN, 5, NAN, NAN}));
    CHECK(integers_of(y[1]) == Longs{3, 5, 7, 7});
  }
}

TEST_CASE("log_softmax handles large values", "[backends][reference]") {
  CHECK(is_close(values_of(run_one("log_softmax", {floats({2, 3}, {0, 1, 2, 1000, 0, -INFINITY})},
                                   {{DType::kFloat32, {2, 3}}})[0]),
                 {-2.407606, -1.407606, -0.4076059, 0, -1000, -INFINITY}));
  CHECK(is_close(values_of(run_one("log_softmax", {floats({2, 2}, {0, 1, 2, 1})},
                                   {{DType::kFloat32, {2, 2}}}, {{"dim", int64_t{0}}})[0]),
                 {-2.126928, -0.6931472, -0.126928, -0.6931472}));
}

TEST_CASE("embedding_bag joins the rows of each bag", "[backends][reference]") {
  const Operand w = floats({4, 2}, {1, 2, 3, 4, 5, -6, 7, 8}), i = longs({5}, {0, 2, 1, 3, 3}),
                offsets = longs({3}, {0, 2, 2});
  const auto bag = [](const std::vector<Operand>& inputs, int64_t bags, const char* mode,
                      Attributes more = {}) {
    more["mode"] = std::string(mode);
    return values_of(run_one("embedding_bag", inputs, {{DType::kFloat32, {bags, 2}}}, more)[0]);
  };
  CHECK(bag({w, i, offsets}, 3, "sum") == Reals{6, -4, 0, 0, 17, 20});
  CHECK(is_close(bag({w, i, offsets}, 3, "mean"), {3, -2, 0, 0, 17.0 / 3, 20.0 / 3}));
  CHECK(bag({w, i, offsets}, 3, "max") == Reals{5, 2, 0, 0, 7, 8});
  CHECK(bag({w, i, offsets}, 3, "mean", {{"padding_idx", int64_t{3}}}) == Reals{3, -2, 0, 0, 3, 4});
  CHECK(bag({w, i, longs({3}, {0, 2, 5})}, 2, "sum", {{"include_last_offset", true}}) ==
        Reals{6, -4, 17, 20});
  CHECK(bag({w, i, offsets, floats({5}, {1, 2, 3, 0.5f, -1})}, 3, "sum") ==
        Reals{11, -10, 0, 0, 5.5, 8});
  CHECK(bag({w, longs({2, 2}, {0, 1, 3, 2})}, 2, "max") == Reals{3, 4, 7, 8});
  CHECK_THROWS_WITH(bag({w, i, longs({3}, {0, 3, 2})}, 3, "sum"),
                    Contains("offset 2 is 2, want increasing offsets"));
  CHECK_THROWS_WITH(bag({w, longs({1, 1}, {4})}, 1, "sum"), Contains("index 4 is outside"));
}

TEST_CASE("damaged ops on images and tables are refused", "[backends][reference]") {
  const Result y{DType::kFloat32, {1, 1, 2, 2}};
  const Operand x = image(), grid = floats({1, 2, 2, 2}, std::vector<float>(8, 0.0f));
  const auto resize = [&](const Operand& input, const char* mode, Reals scales) {
    return reason("upsample", {input}, {y}, {{"mode", std::string(mode)}, {"scales", scales}});
  };
  CHECK_THAT(resize(x, "cubic", {1, 1}), Contains("unknown mode"));
  CHECK_THAT(resize(x, "trilinear", {1, 1}), Contains("mode trilinear"));
  CHECK_THAT(resize(x, "bicubic", {1}), Contains("upsample [1, 1, 3, 3] to [1, 1, 2, 2]"));
  CHECK_THAT(resize(x, "bicubic", {1, -1}), Contains("scale -1"));
  CHECK_THAT(reason("grid_sample", {x}, {y}), Contains("lacks input 1"));
  CHECK_THAT(reason("grid_sample", {x, x}, {y}), Contains("grid [1, 1, 3, 3]"));
  CHECK_THAT(reason("grid_sample", {x, grid}, {y}, sampling("cubic", "zeros", true)),
             Contains("unknown mode"));
  CHECK_THAT(reason("grid_sample", {x, grid}, {y}, sampling("nearest", "none", true)),
             Contains("unknown padding"));
  CHECK_THAT(reason("grid_sample", {x, grid}, {{DType::kFloat32, {1, 1, 2}}}),
             Contains("want [1, 1, 2, 2]"));
  CHECK_THAT(reason("im2col", {x}, {{DType::kFloat32, {1, 4, 4}}}),
             Contains("it has no kernel_size"));
  CHECK_THAT(reason("im2col", {x}, {y}, {{"kernel_size", ints({2, 2})}}),
             Contains("want [1, 4, 4]"));
  CHECK_THAT(reason("im2col", {x}, {y}, {{"kernel_size", ints({4, 2})}}), Contains("do not fit"));
  CHECK_THAT(reason("col2im", {x}, {y}, {{"kernel_size", ints({2, 2})}}),
             Contains("it has no output_size"));
  CHECK_THAT(reason("adaptive_max_pool", {x}, {y, y}, {{"output_size", ints({2, 2})}}),
             Contains("returns indices as int64"));
  CHECK_THAT(reason("avg_pool", {x}, {y, {DType::kInt64, {1, 1, 2, 2}}},
                    {{"kernel_size", ints({2, 2})}, {"stride", ints({1, 1})}}),
             Contains("has 2 outputs"));
  CHECK_THAT(reason("log_softmax", {x}, {{DType::kFloat32, {1, 1, 3, 3}}}, {{"dim", int64_t{4}}}),
             Contains("dimension 4"));
  const Operand w = floats({4, 2}, std::vector<float>(8, 1.0f)), i = longs({3}, {0, 1, 2});
  const Result bags{DType::kFloat32, {2, 2}};
  CHECK_THAT(reason("embedding_bag", {w, i}, {bags}), Contains("indices of rank 2"));
  CHECK_THAT(reason("embedding_bag", {w, i, w}, {bags}), Contains("wants int64 or int32"));
  CHECK_THAT(reason("embedding_bag", {w, i, i}, {bags}), Contains("want [3, 2]"));
  CHECK_THAT(reason("embedding_bag", {w, i, i, w}, {bags}), Contains("per-sample weights"));
  CHECK_THAT(reason("embedding_bag", {w, i, i}, {bags}, {{"mode", std::string("min")}}),
             Contains("unknown mode"));
}

}  // namespace octet::test_sample
