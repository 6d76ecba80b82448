// Few rows of floats times weights of 4 bits, against the reference.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

// x [rows, in] times weights [out, in] of dtype in [low, low + 15], cut into groups along `in`.
double run_nibbles(int64_t rows, int64_t in, int64_t out, int64_t groups, DType dtype,
                   bool has_zero_points) {
  ProgramBuilder b;
  const std::vector<int64_t> blocks = {out, groups};
  Tensor zero_point;
  if (has_zero_points) zero_point = random_floats(blocks, -3, 9, 7);
  const Tensor scale = Tensor::from<float>(DType::kFloat32, blocks,
                                           random_scales(static_cast<size_t>(out * groups)));
  const int64_t low = dtype == DType::kInt8 ? -8 : 0;
  const int x = b.input("x", DType::kFloat32, {rows, in});
  const int w = b.constant(
      "w", StoredConstant{random_integers(dtype, {out, in}, 2, low, low + 15), scale, zero_point});
  b.output(b.op("linear", {x, w, b.constant("b", random_floats({out}))}, "y", DType::kFloat32,
                {rows, out}));
  return check_against_reference(b.finish(), "onednn", {random_floats({rows, in}, -1, 1, 3)});
}

// As above, with x quantized at run time, per row or per tensor, and int8 weights in [low, high].
double run_dynamic(int64_t rows, int64_t in, int64_t out, int64_t groups, bool is_per_row,
                   int64_t high, Attributes post = {}) {
  ProgramBuilder b;
  const std::vector<int64_t> blocks = {out, groups};
  const Tensor scale = Tensor::from<float>(DType::kFloat32, blocks,
                                           random_scales(static_cast<size_t>(out * groups)));
  const int x = b.input("x", DType::kFloat32, {rows, in});
  const int w =
      b.constant("w", StoredConstant{random_integers(DType::kInt8, {out, in}, 2, -high - 1, high),
                                     scale, Tensor()});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {rows, in}, {},
                     {{"mapping", std::string("asymmetric")},
                      {"quant_min", int64_t{-128}},
                      {"quant_max", int64_t{127}},
                      {"blocks", ints({is_per_row ? rows : 1, 1})}});
  b.output(b.op("linear", {q, w, b.constant("b", random_floats({out}))}, "y", DType::kFloat32,
                {rows, out}, {}, std::move(post)));
  return check_against_reference(b.finish(), "onednn", {random_floats({rows, in}, -1, 1, 3)});
}

}  // namespace

TEST_CASE(
    "oneDNN: linear on activations quantized at run time with weights in groups equals the "
    "reference",
    "[backends][onednn][dynamic]") {
  for (const int64_t high : {127, 7})
    for (const bool is_per_row : {true, false})
      for (const int64_t rows : {1, 2, 3, 5, 8, 11}) {
        CAPTURE(high, is_per_row, rows);
        CHECK(run_dynamic(rows, 128, 8, 4, is_per_row, high) <= 5e-5);
        CHECK(run_dynamic(rows, 256, 50, 2, is_per_row, high) <= 5e-5);
        CHECK(run_dynamic(rows, 64, 100, 4, is_per_row, high) <= 5e-5);
        CHECK(run_dynamic(rows, 66, 7, 3, is_per_row, high) <= 5e-5);
      }
  CHECK(run_dynamic(6, 128, 8, 4, true, 127, {{"post_min", 0.0}, {"post_max", 1.0}}) <= 5e-5);
}

TEST_CASE("oneDNN: float linear with weights of 4 bits in groups equals the reference",
          "[backends][onednn][weight_only]") {
  for (const DType dtype : {DType::kInt8, DType::kUInt8})
    for (const bool has_zero_points : {false, true})
      for (const int64_t rows : {1, 2, 3, 4, 7}) {
        CAPTURE(name_of(dtype), has_zero_points, rows);
        CHECK(run_nibbles(rows, 128, 8, 4, dtype, has_zero_points) <= 2e-5);
        CHECK(run_nibbles(rows, 256, 5, 2, dtype, has_zero_points) <= 2e-5);
        CHECK(run_nibbles(rows, 75, 7, 1, dtype, has_zero_points) <= 2e-5);
        CHECK(run_nibbles(rows, 96, 6, 2, dtype, has_zero_points) <= 2e-5);
        CHECK(run_nibbles(rows, 64, 3, 4, dtype, has_zero_points) <= 2e-5);
      }
}

}  // namespace octet
