// XNNPACK's float ops against the reference.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

constexpr DType kF32 = DType::kFloat32;

Attribute text(const char* value) { return std::string(value); }

}  // namespace

TEST_CASE("XNNPACK: float convolutions and linear layers agree with the reference",
          "[backends][xnnpack]") {
  for (int64_t groups : {1, 2, 6}) {
    const std::vector<int64_t> in{2, 6, 9, 8};
    ProgramBuilder b;
    const int x = b.input("x", kF32, in);
    const int w = b.constant("w", random_floats({12, 6 / groups, 3, 3}, -1, 1, 2));
    const int bias = b.constant("b", random_floats({12}, -1, 1, 3));
    const Attributes attributes{{"stride", ints({2, 1})},   {"padding", ints({1, 0})},
                                {"dilation", ints({1, 2})}, {"groups", groups},
                                {"post_min", 0.0},          {"post_max", 6.0}};
    b.output(b.op("conv", {x, w, bias}, "y", kF32, {2, 12, 5, 4}, {}, attributes));
    const int t =
        b.constant("t", random_floats({6, 4 / (groups == 6 ? 1 : groups), 3, 3}, -1, 1, 2));
    const int64_t t_groups = groups == 6 ? 1 : groups;
    b.output(b.op("conv_transpose", {x, t, -1}, "z", kF32, {2, 4, 19, 17}, {},
                  {{"stride", ints({2, 2})},
                   {"padding", ints({0, 0})},
                   {"dilation", ints({1, 1})},
                   {"output_padding", ints({0, 0})},
                   {"groups", t_groups}}));
    const int v = b.constant("v", random_floats({7, 8}, -1, 1, 4));
    b.output(b.op("linear", {x, v, -1}, "rows", kF32, {2, 6, 9, 7}));
    CAPTURE(groups);
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats(in)}) < 1e-5);
  }
}

TEST_CASE("XNNPACK: float functions agree with the reference", "[backends][xnnpack]") {
  const std::vector<int64_t> shape{3, 10, 7};
  for (const char* fn :
       {"sigmoid", "hardswish", "hardsigmoid", "silu", "leaky_relu", "elu", "neg", "abs", "sqrt"}) {
    ProgramBuilder b;
    const int x = b.input("x", kF32, shape);
    b.output(b.op("unary", {x}, "y", kF32, shape, {}, {{"fn", text(fn)}, {"alpha", 0.3}}));
    CAPTURE(fn);
    const float low = std::string(fn) == "sqrt" ? 0 : -5;
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats(shape, low, 5)}) < 1e-5);
  }
}

TEST_CASE("XNNPACK: float softmax, poolings, clamps and pads agree with the reference",
          "[backends][xnnpack]") {
  const std::vector<int64_t> shape{2, 5, 8, 9};
  ProgramBuilder b;
  const int x = b.input("x", kF32, shape);
  const int r = b.input("r", kF32, {4, 6, 11});
  b.output(b.op("softmax", {x}, "channels", kF32, shape, {}, {{"dim", int64_t{1}}}));
  b.output(b.op("softmax", {r}, "last", kF32, {4, 6, 11}, {}, {{"dim", int64_t{-1}}}));
  const Attributes window{
      {"kernel_size", ints({3, 3})}, {"stride", ints({2, 2})}, {"padding", ints({1, 1})}};
  Attributes inside = window, around = window;
  inside["count_include_pad"] = false;
  around["count_include_pad"] = true;
  b.output(b.op("avg_pool", {x}, "inside", kF32, {2, 5, 4, 5}, {}, inside));
  b.output(b.op("avg_pool", {x}, "around", kF32, {2, 5, 4, 5}, {}, around));
  b.output(b.op("max_pool", {x}, "max", kF32, {2, 5, 4, 5}, {}, window));
  b.output(
      b.op("mean", {x}, "mean", kF32, {2, 5}, {}, {{"dims", ints({2, 3})}, {"keepdim", false}}));
  b.output(b.op("adaptive_avg_pool", {x}, "quarters", kF32, {2, 5, 2, 3}, {},
                {{"output_size", ints({2, 3})}}));
  b.output(b.op("clamp", {x}, "clamp", kF32, shape, {}, {{"min", -0.25}, {"max", 0.5}}));
  b.output(b.op("clamp", {x}, "relu", kF32, shape, {}, {{"min", 0.0}}));
  b.output(b.op("pad", {x}, "pad", kF32, {2, 5, 9, 13}, {},
                {{"pads", ints({0, 0, 0, 0, 1, 0, 1, 3})}, {"value", -2.0}}));
  b.output(b.op("pad", {r}, "pad3", kF32, {4, 7, 13}, {},
                {{"pads", ints({0, 0, 0, 1, 1, 1})}, {"value", 0.0}}));
  CHECK(check_against_reference(b.finish(), "xnnpack",
                                {random_floats(shape), random_floats({4, 6, 11}, -3, 3, 2)}) <
        1e-5);
}

TEST_CASE("XNNPACK: float arithmetic broadcasts as the reference does", "[backends][xnnpack]") {
  const std::vector<int64_t> out{2, 3, 4, 5};
  for (const char* kind : {"add", "sub", "mul"}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
             {2, 3, 4, 5}, {3, 1, 1}, {2, 1, 4, 1}, {5}, {4, 1}, {}}) {
      ProgramBuilder b;
      const int x = b.input("x", kF32, out);
      const int y = b.input("y", kF32, shape);
      b.output(b.op(kind, {x, y}, "z", kF32, out, {}, {{"post_max", 0.75}}));
      b.output(b.op(kind, {y, x}, "z2", kF32, out));
      CAPTURE(kind, shape);
      CHECK(check_against_reference(b.finish(), "xnnpack",
                                    {random_floats(out), random_floats(shape, -1, 1, 2)}) < 1e-6);
    }
  }
}

}  // namespace octet
