// Compares the custom kernel of reductions over adjacent dimensions with the reference.
#include <catch2/catch.hpp>

#include <cmath>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"

namespace octet::test_xnnpack_reductions {

using Shape = std::vector<int64_t>;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kS8 = DType::kInt8;
constexpr DType kU8 = DType::kUInt8;

Program reduction(const std::string& fn, const Shape& shape, const Shape& dims, DType in = kF32,
                  DType out = kF32, const Attributes& clamp = {}) {
  Shape kept = shape;
  for (const int64_t d : dims) kept[static_cast<size_t>(d < 0 ? d + std::ssize(shape) : d)] = 1;
  if (dims.empty()) kept.assign(shape.size(), 1);
  Attributes attributes = clamp;
  attributes["dims"] = ints(dims);
  attributes["keepdim"] = true;
  if (fn != "mean") attributes["fn"] = fn;
  ProgramBuilder b;
  const int x = b.input("x", in, shape, qparams_of(in, 0.02f, -5));
  b.output(b.op(fn == "mean" ? "mean" : "reduce", {x}, "y", out, kept, qparams_of(out, 0.03f, 9),
                attributes));
  return b.finish();
}

TEST_CASE("XNNPACK: sums, means and extremes of floats and bytes over neighboring dimensions",
          "[backends][xnnpack]") {
  const Shape shape{3, 5, 6, 70};
  for (const char* fn : {"sum", "mean", "max", "min"})
    for (const Shape& dims : {Shape{-1}, {0}, {1}, {1, 2}, {0, 1}, {3, 2, 1}, {}})
      for (const DType in : {kF32, kS8, kU8})
        for (const DType out : {kF32, kS8}) {
          CAPTURE(fn, dims, name_of(in), name_of(out));
          const Tensor x =
              in == kF32 ? random_floats(shape, -1, 2, 3) : random_integers(in, shape, 3);
          CHECK(check_against_reference(reduction(fn, shape, dims, in, out), "xnnpack", {x}) <=
                (out == kF32 ? 2e-3 : 1));
        }
}

TEST_CASE("XNNPACK: the clamp after a reduction is applied before its output is rounded",
          "[backends][xnnpack]") {
  const Shape shape{3, 5, 6, 70};
  for (const char* fn : {"sum", "mean", "max", "min"})
    for (const DType in : {kF32, kS8})
      for (const DType out : {kF32, kS8})
        for (const Attributes& clamp :
             {Attributes{{"post_min", 0.3}}, Attributes{{"post_max", -0.2}},
              Attributes{{"post_min", -0.1}, {"post_max", 0.11}}}) {
          CAPTURE(fn, name_of(in), name_of(out));
          const Tensor x =
              in == kF32 ? random_floats(shape, -1, 1, 3) : random_integers(in, shape, 3);
          CHECK(check_against_reference(reduction(fn, shape, {1}, in, out, clamp), "xnnpack",
                                        {x}) <= (out == kF32 ? 2e-3 : 1));
        }
}

TEST_CASE("XNNPACK: an extreme with a NaN is NaN", "[backends][xnnpack]") {
  for (const Shape& dims : {Shape{0}, {1}}) {
    Tensor x = random_floats({70, 40}, -1, 2, 3);
    x.data<float>()[41] = NAN;
    const Tensor y =
        Session(with_one_segment(reduction("max", {70, 40}, dims), "xnnpack")).run({x})[0];
    int64_t count = 0;
    for (int64_t i = 0; i < y.numel(); ++i) count += std::isnan(y.data<float>()[i]) ? 1 : 0;
    CHECK(count == 1);
  }
}

TEST_CASE("XNNPACK: reductions over dimensions that are not adjacent are refused",
          "[backends][xnnpack]") {
  CHECK(refusal(reduction("sum", {2, 3, 4}, {0, 2}), "xnnpack") ==
        "y: its dimensions [0, 2] of [2, 3, 4] are not adjacent");
  CHECK(refusal(reduction("prod", {2, 3, 4}, {0}), "xnnpack") == "y: XNNPACK has no prod");
}

}  // namespace octet::test_xnnpack_reductions
