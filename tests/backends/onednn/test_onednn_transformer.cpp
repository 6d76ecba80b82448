// Other ops of transformers on oneDNN: RMS norms, sums and products in permuted orders and of
// views, masked softmax.
#include <catch2/catch.hpp>

#include <cmath>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"

namespace octet::test_onednn_transformer {

using Shape = std::vector<int64_t>;

namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kTypes[] = {DType::kUInt8, DType::kInt8, DType::kFloat32};

std::optional<TensorQParams> scale_of(DType dtype) {
  if (dtype == kF32) return std::nullopt;
  return quantized(0.03f, dtype == DType::kUInt8 ? 120 : -3);
}

}  // namespace

TEST_CASE("oneDNN: rms_norm equals the reference", "[backends][onednn][transformer]") {
  for (const DType in : kTypes)
    for (const DType out : kTypes)
      for (const bool has_weight : {false, true})
        for (const Shape& shape : {Shape{3, 5, 7}, Shape{2, 6, 300}, Shape{1, 512}}) {
          CAPTURE(name_of(in), name_of(out), has_weight, shape);
          ProgramBuilder b;
          const int x = b.input("x", in, shape, scale_of(in));
          const int w = has_weight ? b.constant("w", random_floats({shape.back()}, -1, 1, 2)) : -1;
          b.output(b.op("rms_norm", {x, w}, "y", out, shape, scale_of(out),
                        {{"normalized_dims", int64_t{1}}, {"eps", 1e-6}}));
          CHECK(check_against_reference(b.finish(), "onednn", {random_elements(in, shape, 4, 3)}) <=
                (out == kF32 ? 1e-5 : 1));
        }
}

TEST_CASE("oneDNN: rms_norm over several dimensions after a permutation",
          "[backends][onednn][transformer]") {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {4, 3, 6});
  const int turned =
      b.op("permute", {x}, "turned", kF32, {3, 4, 6}, {}, {{"dims", ints({1, 0, 2})}});
  const int w = b.constant("w", random_floats({4, 6}, -1, 1, 2));
  b.output(b.op("rms_norm", {turned, w}, "y", kF32, {3, 4, 6}, {},
                {{"normalized_dims", int64_t{2}}, {"eps", 1e-6}}));
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({4, 3, 6})}) <= 1e-5);
}

TEST_CASE("oneDNN: a quantization after rms_norm is part of it",
          "[backends][onednn][transformer]") {
  for (const DType out : {DType::kUInt8, DType::kInt8}) {
    ProgramBuilder b;
    const int x = b.input("x", kF32, {6, 40});
    const int y = b.op("rms_norm", {x, -1}, "y", kF32, {6, 40}, {},
                       {{"normalized_dims", int64_t{1}}, {"eps", 1e-6}});
    b.output(b.op("quantize", {y}, "q", out, {6, 40}, scale_of(out)));
    const Program program = b.finish();
    CHECK(check_against_reference(program, "onednn", {random_floats({6, 40}, -3, 3)}) <= 1);
  }
}

TEST_CASE("oneDNN: sums and products where an operand repeats in a permuted order",
          "[backends][onednn][transformer]") {
  for (const char* kind : {"add", "sub", "mul"})
    for (const Shape& other : {Shape{1, 1, 5, 8}, Shape{5, 8}, Shape{2, 4, 1, 1}, Shape{1, 4, 5, 1},
                               Shape{2, 4, 5, 8}, Shape{}})
      for (const bool is_first : {false, true}) {
        CAPTURE(kind, other, is_first);
        ProgramBuilder b;
        const int x = b.input("x", kF32, {2, 5, 4, 8});
        const int heads =
            b.op("permute", {x}, "heads", kF32, {2, 4, 5, 8}, {}, {{"dims", ints({0, 2, 1, 3})}});
        const int z = b.input("z", kF32, other);
        b.output(b.op(kind, is_first ? std::vector<int>{heads, z} : std::vector<int>{z, heads}, "y",
                      kF32, {2, 4, 5, 8}, {}, {{"post_min", -1.5}, {"post_max", 1.25}}));
        CHECK(check_against_reference(
                  b.finish(), "onednn",
                  {random_floats({2, 5, 4, 8}), random_floats(other, -2, 2, 3)}) <= 1e-6);
      }
}

TEST_CASE("oneDNN: sums and products of views and of what repeats on both sides",
          "[backends][onednn][transformer]") {
  for (const char* kind : {"add", "mul"}) {
    CAPTURE(kind);
    Attributes alpha;
    if (kind == std::string("add")) alpha["alpha"] = 0.5;
    ProgramBuilder b;
    const int x = b.input("x", kF32, {3, 16});
    std::vector<int> halves;
    for (const int64_t start : {int64_t{0}, int64_t{8}})
      halves.push_back(b.op("slice", {x}, "half" + std::to_string(start), kF32, {3, 8}, {},
                            {{"dim", int64_t{1}}, {"start", start}, {"step", int64_t{1}}}));
    b.output(b.op(kind, halves, "gated", kF32, {3, 8}));
    const int column = b.input("column", kF32, {3, 1}), row = b.input("row", kF32, {1, 5});
    b.output(b.op(kind, {column, row}, "table", kF32, {3, 5}, {}, alpha));
    CHECK(check_against_reference(b.finish(), "onednn",
                                  {random_floats({3, 16}), random_floats({3, 1}, -1, 1, 2),
                                   random_floats({1, 5}, -1, 1, 3)}) <= 1e-6);
  }
}

TEST_CASE("oneDNN: functions, gates and residuals join a linear with scales at run time",
          "[backends][onednn][transformer]") {
  for (const char* fn : {"silu", "gelu", "gelu_tanh", "sigmoid", ""})
    for (const char* kind : {"mul", "add", ""})
      for (const Shape& other : {Shape{2, 5, 24}, Shape{24}}) {
        CAPTURE(fn, kind, other);
        ProgramBuilder b;
        const int x = b.input("x", kF32, {2, 5, 40}), gate = b.input("gate", kF32, other);
        const int q = b.op("fake_quantize_dynamic", {x}, "q", kF32, {2, 5, 40}, {},
                           mapping("asymmetric", -128, 127, {2, 5, 1}));
        const int w = b.constant(
            "w", StoredConstant{random_integers(DType::kInt8, {24, 40}, 2, -127, 127),
                                Tensor::from<float>(DType::kFloat32, {24, 1}, random_scales(24)),
                                Tensor()});
        int y = b.op("linear", {q, w, -1}, "linear", kF32, {2, 5, 24});
        if (*fn != 0)
          y = b.op("unary", {y}, "act", kF32, {2, 5, 24}, {}, {{"fn", std::string(fn)}});
        if (*kind != 0) y = b.op(kind, {gate, y}, "gated", kF32, {2, 5, 24});
        b.output(y);
        CHECK(check_against_reference(
                  b.finish(), "onednn",
                  {random_floats({2, 5, 40}, -1, 3), random_floats(other, -2, 2, 7)}) <= 1e-4);
      }
}

TEST_CASE("rotary embeddings equal the reference on every backend",
          "[backends][onednn][xnnpack][transformer]") {
  for (const char* backend : {"onednn", "xnnpack"})
    for (const Shape& factors : {Shape{1, 1, 5, 8}, Shape{2, 1, 5, 8}, Shape{5, 8}, Shape{8},
                                 Shape{2, 3, 5, 8}, Shape{1, 3, 1, 8}})
      for (const bool is_permuted : {false, true}) {
        CAPTURE(backend, factors, is_permuted);
        ProgramBuilder b;
        const Shape given = is_permuted ? Shape{2, 5, 3, 8} : Shape{2, 3, 5, 8};
        int x = b.input("x", kF32, given);
        const int cosine = b.input("cosine", kF32, factors), sine = b.input("sine", kF32, factors);
        if (is_permuted)
          x = b.op("permute", {x}, "heads", kF32, {2, 3, 5, 8}, {}, {{"dims", ints({0, 2, 1, 3})}});
        b.output(b.op("rotary", {x, cosine, sine}, "y", kF32, {2, 3, 5, 8}));
        CHECK(check_against_reference(b.finish(), backend,
                                      {random_floats(given), random_floats(factors, -1, 1, 2),
                                       random_floats(factors, -1, 1, 3)}) <= 1e-6);
      }
}

TEST_CASE("a masked softmax gives zeros where everything is hidden",
          "[backends][onednn][xnnpack][transformer]") {
  for (const char* backend : {"onednn", "xnnpack"})
    for (const int64_t width : {int64_t{3}, int64_t{40}})
      for (const int64_t dim : {int64_t{1}, int64_t{0}}) {
        CAPTURE(backend, width, dim);
        const Shape shape = dim == 1 ? Shape{4, width} : Shape{width, 4};
        ProgramBuilder b;
        const int x = b.input("x", kF32, shape);
        b.output(b.op("softmax", {x}, "y", kF32, shape, {}, {{"dim", dim}, {"masked", true}}));
        Tensor scores = random_floats(shape, -3, 3, 5);
        const auto at = [&](int64_t row, int64_t i) -> float& {
          return scores.data<float>()[dim == 1 ? row * width + i : i * 4 + row];
        };
        for (int64_t i = 0; i < width; ++i) at(1, i) = -INFINITY;
        at(2, 0) = -INFINITY;
        CHECK(check_against_reference(b.finish(), backend, {scores}) <= 1e-6);
      }
}

}  // namespace octet::test_onednn_transformer
