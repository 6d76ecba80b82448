// Compares ops that XNNPACK does not have but that stay in its segments with the reference: copies
// and tables, in every memory order.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/kernels/strided.h"
#include "backends/xnnpack/custom_ops.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr DType kU8 = DType::kUInt8;
constexpr DType kS8 = DType::kInt8;
constexpr DType kF32 = DType::kFloat32;

std::optional<TensorQParams> parameters_for(DType dtype, float scale = 0.05f,
                                            int32_t zero_point = 3) {
  if (dtype == kF32) return std::nullopt;
  return quantized(scale, zero_point);
}

Tensor random_values(DType dtype, const std::vector<int64_t>& shape) {
  return dtype == kF32 ? random_floats(shape) : random_integers(dtype, shape);
}

// A pooling that keeps the shape: XNNPACK reads and writes it channels-last.
int pooled(ProgramBuilder& b, int x, const std::string& name, DType dtype,
           const std::vector<int64_t>& shape, std::optional<TensorQParams> q) {
  const std::vector<int> inputs{x};
  return b.op("max_pool", inputs, name, dtype, shape, std::move(q),
              {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({1, 1})}});
}

// One op with one input, alone and between two that need channels-last.
double difference(const std::string& kind, DType dtype, const std::vector<int64_t>& in,
                  const std::vector<int64_t>& out, const Attributes& attributes, bool is_between,
                  std::optional<TensorQParams> q = {}) {
  if (!q) q = parameters_for(dtype);
  ProgramBuilder b;
  int x = b.input("x", dtype, in, parameters_for(dtype));
  if (is_between) x = pooled(b, x, "p", dtype, in, parameters_for(dtype));
  const std::vector<int> inputs{x};
  int y = b.op(kind, inputs, "y", dtype, out, q, attributes);
  if (is_between && out.size() == 4) y = pooled(b, y, "z", dtype, out, q);
  b.output(y);
  return check_against_reference(b.finish(), "xnnpack", {random_values(dtype, in)});
}

}  // namespace

TEST_CASE(
    "XNNPACK: resizing to the nearest neighbor by whole factors stays in the segment, exactly",
    "[backends][xnnpack]") {
  for (DType dtype : {kS8, kU8, kF32})
    for (bool is_between : {false, true}) {
      CAPTURE(name_of(dtype), is_between);
      for (const std::vector<int64_t>& factors :
           {std::vector<int64_t>{2, 2}, {1, 3}, {5, 1}, {7, 4}}) {
        const std::vector<double> scales{1.0 / static_cast<double>(factors[0]),
                                         1.0 / static_cast<double>(factors[1])};
        CHECK(difference("upsample", dtype, {2, 12, 5, 7}, {2, 12, 5 * factors[0], 7 * factors[1]},
                         {{"mode", std::string("nearest")}, {"scales", scales}}, is_between) == 0);
      }
    }
}

TEST_CASE("XNNPACK: softmax of bytes stays in the segment, within a step of the reference",
          "[backends][xnnpack]") {
  for (DType dtype : {kS8, kU8})
    for (bool is_between : {false, true})
      for (int64_t dim : {0, 1, 2, -1})
        for (float scale : {1.0f / 256, 0.01f}) {
          CAPTURE(name_of(dtype), is_between, dim, scale);
          const TensorQParams q = quantized(scale, dtype == kU8 ? 0 : -128);
          CHECK(difference("softmax", dtype, {2, 12, 5, 7}, {2, 12, 5, 7}, {{"dim", dim}},
                           is_between, q) <= 1);
        }
  CHECK(difference("softmax", kS8, {3, 1000}, {3, 1000}, {{"dim", int64_t{1}}}, false,
                   quantized(1.0f / 256, -128)) <= 1);
}

TEST_CASE("XNNPACK: permutations, slices and broadcasts stay in the segment, exactly",
          "[backends][xnnpack]") {
  for (DType dtype : {kS8, kU8, kF32})
    for (bool is_between : {false, true}) {
      CAPTURE(name_of(dtype), is_between);
      const std::vector<int64_t> shape{2, 12, 5, 7};
      CHECK(difference("permute", dtype, shape, {5, 2, 7, 12}, {{"dims", ints({2, 0, 3, 1})}},
                       is_between) == 0);
      CHECK(difference("permute", dtype, shape, {2, 12, 7, 5}, {{"dims", ints({0, 1, -1, -2})}},
                       is_between) == 0);
      CHECK(difference("slice", dtype, shape, {2, 4, 5, 7},
                       {{"dim", int64_t{1}}, {"start", int64_t{2}}, {"step", int64_t{3}}},
                       is_between) == 0);
      CHECK(difference("slice", dtype, shape, {2, 12, 5, 3},
                       {{"dim", int64_t{-1}}, {"start", int64_t{4}}, {"step", int64_t{1}}},
                       is_between) == 0);
    }
  CHECK(difference("permute", kS8, {3, 4, 5}, {5, 3, 4}, {{"dims", ints({2, 0, 1})}}, false) == 0);
  CHECK(difference("permute", kS8, {2, 3, 4, 5, 6}, {6, 4, 2, 5, 3},
                   {{"dims", ints({4, 2, 0, 3, 1})}}, false) == 0);
  CHECK(difference("expand", kS8, {4, 1, 7}, {2, 4, 5, 7}, {}, false) == 0);
  CHECK(difference("expand", kF32, {1, 12, 1, 1}, {3, 12, 5, 7}, {}, true) == 0);
}

TEST_CASE("XNNPACK: cat joins activations and constants of different scales",
          "[backends][xnnpack]") {
  for (DType dtype : {kS8, kU8, kF32})
    for (int64_t dim : {1, -1}) {
      CAPTURE(name_of(dtype), dim);
      ProgramBuilder b;
      const std::vector<int64_t> shape{1, 6, 4, 5};
      std::vector<int64_t> joined = shape;
      joined[dim == 1 ? 1 : 3] *= 3;
      const int x = b.input("x", dtype, shape, parameters_for(dtype));
      const int p = pooled(b, x, "p", dtype, shape, parameters_for(dtype));
      const int c = b.constant("c", random_values(dtype, shape), parameters_for(dtype, 0.02f, 9));
      const std::vector<int> inputs{p, c, x};
      const int y =
          b.op("cat", inputs, "y", dtype, joined, parameters_for(dtype, 0.07f, 4), {{"dim", dim}});
      b.output(pooled(b, y, "z", dtype, joined, parameters_for(dtype, 0.07f, 4)));
      b.output(y);
      CHECK(check_against_reference(b.finish(), "xnnpack", {random_values(dtype, shape)}) == 0);
    }
}

TEST_CASE("XNNPACK: 8-bit functions that it lacks come from a table", "[backends][xnnpack]") {
  for (const char* fn : {"gelu", "gelu_tanh", "silu", "hardswish", "hardsigmoid", "leaky_relu",
                         "sigmoid", "tanh", "exp", "abs", "neg", "sqrt", "rsqrt"})
    for (DType dtype : {kS8, kU8}) {
      CAPTURE(fn, name_of(dtype));
      for (bool is_between : {false, true})
        CHECK(difference("unary", dtype, {1, 6, 4, 5}, {1, 6, 4, 5}, {{"fn", std::string(fn)}},
                         is_between, quantized(0.021f, 7)) == 0);
    }
  CHECK(difference("unary", kS8, {1, 6, 4, 5}, {1, 6, 4, 5},
                   {{"fn", std::string("leaky_relu")}, {"alpha", 0.3}}, true,
                   quantized(0.03f, -3)) == 0);
}

TEST_CASE("XNNPACK: custom kernels refuse sizes that do not fit", "[backends][xnnpack]") {
  const TensorQParams q = quantized(0.05f, 3);
  ProgramBuilder b;
  const int x = b.input("x", kS8, {2, 6}, q);
  const std::vector<int> of_x{x}, twice{x, x};
  b.op("permute", of_x, "p0", kS8, {6, 2}, q, {{"dims", ints({1, 1})}});
  b.op("permute", of_x, "p1", kS8, {2, 6}, q, {{"dims", ints({1, 0})}});
  b.op("permute", of_x, "p2", kS8, {6, 2}, q, {{"dims", ints({1, 9})}});
  b.op("slice", of_x, "s0", kS8, {2, 4}, q,
       {{"dim", int64_t{1}}, {"start", int64_t{3}}, {"step", int64_t{1}}});
  b.op("slice", of_x, "s1", kS8, {2, 4}, q,
       {{"dim", int64_t{2}}, {"start", int64_t{0}}, {"step", int64_t{1}}});
  b.op("slice", of_x, "s2", kS8, {2, 2}, q,
       {{"dim", int64_t{1}}, {"start", int64_t{-1}}, {"step", int64_t{1} << 62}});
  b.op("slice", of_x, "s3", kS8, {2, 1}, q,
       {{"dim", int64_t{1}}, {"start", int64_t{0}}, {"step", int64_t{1} << 62}});
  b.op("expand", of_x, "e0", kS8, {6}, q);
  b.op("expand", of_x, "e1", kS8, {4, 6}, q);
  b.op("cat", twice, "c0", kS8, {2, 13}, q, {{"dim", int64_t{1}}});
  b.op("cat", twice, "c1", kS8, {4, 5}, q, {{"dim", int64_t{0}}});
  b.op("unary", of_x, "u0", kS8, {2, 6}, q, {{"fn", std::string("sine")}});
  const char* const reasons[] = {
      "dims [1, 1] do not fit input [2, 6]",
      "output shape [2, 6], want [6, 2]",
      "dims [1, 9] do not fit input [2, 6]",
      "slice [2, 4] reaches outside of [2, 6]",
      "slice with dimension, start or step out of range",
      "slice with dimension, start or step out of range",
      "slice out of range",
      "input does not broadcast to the output",
      "input does not broadcast to the output",
      "output shape [2, 13], want [2, 12]",
      "input 0 does not fit [4, 5]",
      "unknown fn \"sine\"",
  };
  const Program program = b.finish();
  for (size_t i = 0; i < program.ops.size(); ++i)
    CHECK(xnnpack::check_custom(program, program.ops[i]).reason() == reasons[i]);
}

TEST_CASE("a walk has as few dimensions as its steps allow", "[backends][xnnpack]") {
  const std::vector<int64_t> shape = {2, 3, 1, 4}, row_major = {12, 4, 4, 1},
                             channels_last = {12, 1, 12, 3};
  CHECK(plan_walk(shape, row_major, row_major, row_major).counts == std::vector<int64_t>{24});
  CHECK(plan_walk(shape, channels_last, row_major, channels_last).counts ==
        std::vector<int64_t>{2, 4, 3});
}

}  // namespace octet
