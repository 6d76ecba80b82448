// Linear on floats with integer weights on oneDNN: few rows read the integers, many rows read
// floats.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// [out, in] weights with scales, and zero points when `has_zero_points`, in blocks.
double run_linear(const Shape& x_shape, int64_t out, const Shape& blocks, bool has_zero_points,
                  Attributes post = {}) {
  ProgramBuilder b;
  Shape y_shape = x_shape;
  y_shape.back() = out;
  const int64_t count = blocks[0] * blocks[1];
  Tensor zero_point;
  if (has_zero_points) {
    zero_point = Tensor::zeros(DType::kFloat32, blocks);
    for (int64_t i = 0; i < count; ++i) zero_point.data<float>()[i] = static_cast<float>(i % 7 - 3);
  }
  const Tensor scale =
      Tensor::from<float>(DType::kFloat32, blocks, random_scales(static_cast<size_t>(count)));
  const int x = b.input("x", DType::kFloat32, x_shape);
  const int w = b.constant(
      "w",
      StoredConstant{random_integers(DType::kInt8, {out, x_shape.back()}, 2), scale, zero_point});
  b.output(b.op("linear", {x, w, b.constant("b", random_floats({out}))}, "y", DType::kFloat32,
                y_shape, {}, std::move(post)));
  return check_against_reference(b.finish(), "onednn", {random_floats(x_shape, -1, 3)});
}

}  // namespace

TEST_CASE(
    "oneDNN: float linear with integer weights equals the reference for few and for many rows",
    "[backends][onednn][weight_only]") {
  for (int64_t rows : {1, 2, 3, 4, 5, 9}) {
    for (bool has_zero_points : {false, true}) {
      CAPTURE(rows, has_zero_points);
      CHECK(run_linear({rows, 64}, 8, {8, 1}, has_zero_points) <= 2e-5);
      CHECK(run_linear({rows, 75}, 7, {7, 1}, has_zero_points) <= 2e-5);
      CHECK(run_linear({rows, 75}, 6, {1, 1}, has_zero_points) <= 2e-5);
      CHECK(run_linear({rows, 128}, 5, {5, 4}, has_zero_points) <= 2e-5);
      CHECK(run_linear({rows, 80}, 4, {2, 2}, has_zero_points) <= 2e-5);
    }
  }
  CHECK(run_linear({1, 1, 40}, 1, {1, 1}, true) <= 2e-5);
  CHECK(run_linear({40}, 3, {3, 1}, false) <= 2e-5);
  CHECK(run_linear({2, 64}, 8, {8, 1}, true, {{"post_min", 0.0}}) <= 2e-5);
}

}  // namespace octet
