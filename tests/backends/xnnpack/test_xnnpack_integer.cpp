// Compares XNNPACK's 8-bit ops with the reference over many shapes: they differ by at most one
// output step.
#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

struct ConvCase {
  int64_t n = 1, c = 8, h = 7, w = 9, o = 8, kernel = 3, stride = 1, padding = 1, dilation = 1,
          groups = 1;
};

int64_t conv_out(int64_t in, const ConvCase& k) {
  return (in + 2 * k.padding - k.dilation * (k.kernel - 1) - 1) / k.stride + 1;
}

// rank 3 leaves the height out.
double run_conv(const ConvCase& k, DType dtype, bool per_channel_weight, bool integer_bias,
                size_t rank, Attributes extra, uint32_t seed) {
  ProgramBuilder b;
  std::vector<int64_t> in{k.n, k.c, k.h, k.w}, weight{k.o, k.c / k.groups, k.kernel, k.kernel},
      out{k.n, k.o, conv_out(k.h, k), conv_out(k.w, k)};
  size_t spatial = 2;
  if (rank == 3) {
    in.erase(in.begin() + 2), weight.erase(weight.begin() + 2), out.erase(out.begin() + 2);
    spatial = 1;
  }
  const int zero_point = dtype == DType::kUInt8 ? 121 : -7;
  const float scale = 0.02f;
  const int x = b.input("x", dtype, in, quantized(scale, zero_point));
  const std::vector<float> scales = random_scales(static_cast<size_t>(k.o), 0.001f, 0.01f, seed);
  const TensorQParams wq = per_channel_weight ? per_channel(scales, 0) : quantized(0.005f, 0);
  const int w = b.constant("w", random_integers(DType::kInt8, weight, seed + 1, -127, 127), wq);
  int bias = -1;
  if (integer_bias) {
    TensorQParams bq = wq;
    for (float& s : bq.scale) s *= scale;
    bq.axis = per_channel_weight ? 0 : -1;
    bias = b.constant("b", random_integers(DType::kInt32, {k.o}, seed + 2, -3000, 3000), bq);
  } else {
    bias = b.constant("b", random_floats({k.o}, -1, 1, seed + 2));
  }
  const float fan_in = static_cast<float>(weight[1] * k.kernel * (spatial == 2 ? k.kernel : 1));
  extra["stride"] = ints(std::vector<int64_t>(spatial, k.stride));
  extra["padding"] = ints(std::vector<int64_t>(spatial, k.padding));
  extra["dilation"] = ints(std::vector<int64_t>(spatial, k.dilation));
  extra["groups"] = k.groups;
  const int y = b.op("conv", {x, w, bias}, "y", dtype, out,
                     quantized(0.02f * std::sqrt(fan_in), zero_point + 3), extra);
  b.output(y);
  return check_against_reference(b.finish(), "xnnpack", {random_integers(dtype, in, seed + 3)});
}

const ConvCase kConvCases[] = {
    {},
    {.n = 2, .c = 3, .h = 17, .w = 13, .o = 5, .stride = 2},
    {.c = 16, .o = 24, .kernel = 1, .padding = 0},
    {.c = 16, .o = 24, .kernel = 1, .stride = 2, .padding = 0},
    {.c = 4, .h = 15, .w = 15, .o = 6, .kernel = 5, .padding = 2},
    {.c = 8, .h = 15, .w = 15, .o = 12, .dilation = 2, .groups = 4},
    {.c = 12, .o = 12, .groups = 12},
    {.n = 3, .c = 12, .o = 24, .stride = 2, .groups = 12},
    {.c = 20, .h = 11, .w = 11, .o = 20, .kernel = 5, .padding = 2, .groups = 20},
    {.c = 6, .h = 20, .w = 20, .o = 6, .padding = 3, .dilation = 3, .groups = 6},
    {.c = 4, .h = 20, .w = 20, .o = 4, .kernel = 7, .padding = 3, .groups = 4},
    {.c = 1, .o = 7, .kernel = 3},
};

}  // namespace

TEST_CASE("XNNPACK: 8-bit convolutions stay within a step of the reference",
          "[backends][xnnpack]") {
  uint32_t seed = 10;
  for (const ConvCase& k : kConvCases) {
    for (DType dtype : {DType::kInt8, DType::kUInt8}) {
      for (bool per_channel_weight : {false, true}) {
        CAPTURE(k.c, k.o, k.kernel, k.groups, name_of(dtype), per_channel_weight);
        CHECK(run_conv(k, dtype, per_channel_weight, seed % 2 == 0, 4, {}, seed) <= 1);
        CHECK(run_conv(k, dtype, per_channel_weight, seed % 2 == 1, 3, {}, seed) <= 1);
        seed += 5;
      }
    }
  }
}

TEST_CASE("XNNPACK: the clamp after a convolution is applied before its output is rounded",
          "[backends][xnnpack]") {
  for (bool per_channel_weight : {false, true}) {
    CHECK(run_conv({}, DType::kInt8, per_channel_weight, true, 4, {{"post_min", 0.0}}, 3) <= 1);
    CHECK(run_conv({}, DType::kUInt8, per_channel_weight, true, 4,
                   {{"post_min", 0.0}, {"post_max", 6.0}}, 4) <= 1);
    CHECK(run_conv({.c = 16, .o = 16, .groups = 16}, DType::kInt8, per_channel_weight, true, 4,
                   {{"post_min", -0.5}, {"post_max", 0.5}}, 5) <= 1);
  }
}

TEST_CASE("XNNPACK: 8-bit linear layers of any rank stay within a step of the reference",
          "[backends][xnnpack]") {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 64}, {5, 33}, {2, 7, 48}, {2, 3, 4, 16}, {19}};
  uint32_t seed = 1;
  for (const std::vector<int64_t>& in : shapes) {
    for (bool per_channel_weight : {false, true}) {
      for (DType dtype : {DType::kInt8, DType::kUInt8}) {
        const int64_t k = in.back(), o = 21;
        std::vector<int64_t> out = in;
        out.back() = o;
        const int zero_point = dtype == DType::kUInt8 ? 128 : 5;
        ProgramBuilder b;
        const int x = b.input("x", dtype, in, quantized(0.03f, zero_point));
        const int w = b.constant(
            "w", random_integers(DType::kInt8, {o, k}, seed, -127, 127),
            per_channel_weight ? per_channel(random_scales(o), 0) : quantized(0.004f, 0));
        const int bias = b.constant("b", random_floats({o}, -2, 2, seed));
        const int y = b.op("linear", {x, w, bias}, "y", dtype, out, quantized(0.1f, zero_point));
        const int z =
            b.op("clamp", {y}, "z", dtype, out, quantized(0.1f, zero_point), {{"min", 0.0}});
        b.output(y);
        b.output(z);
        CAPTURE(in, per_channel_weight);
        CHECK(check_against_reference(b.finish(), "xnnpack",
                                      {random_integers(dtype, in, seed + 9)}) <= 1);
        ++seed;
      }
    }
  }
}

TEST_CASE("XNNPACK: transposed convolutions stay within a step of the reference",
          "[backends][xnnpack]") {
  for (int64_t groups : {1, 2}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t output_padding : {0, 1}) {
        if (output_padding >= stride) continue;
        const int64_t c = 6, o = 8, k = 3, h = 5, w = 6;
        const int64_t oh = (h - 1) * stride - 2 + k + output_padding,
                      ow = (w - 1) * stride - 2 + k + output_padding;
        ProgramBuilder b;
        const int x = b.input("x", DType::kInt8, {2, c, h, w}, quantized(0.03f, 4));
        const int weight =
            b.constant("w", random_integers(DType::kInt8, {c, o / groups, k, k}, 7, -127, 127),
                       quantized(0.006f, 0));
        const int bias = b.constant("b", random_floats({o}));
        const int y = b.op("conv_transpose", {x, weight, bias}, "y", DType::kInt8, {2, o, oh, ow},
                           quantized(0.1f, -3),
                           {{"stride", ints({stride, stride})},
                            {"padding", ints({1, 1})},
                            {"output_padding", ints({output_padding, output_padding})},
                            {"dilation", ints({1, 1})},
                            {"groups", groups}});
        b.output(y);
        CAPTURE(groups, stride, output_padding);
        CHECK(check_against_reference(b.finish(), "xnnpack",
                                      {random_integers(DType::kInt8, {2, c, h, w}, 5)}) <= 1);
      }
    }
  }
}

TEST_CASE("XNNPACK: 8-bit add, sub and mul with broadcasting stay within a step of the reference",
          "[backends][xnnpack]") {
  const std::vector<int64_t> out{2, 6, 4, 5};
  const std::vector<std::vector<int64_t>> shapes = {{2, 6, 4, 5}, {1, 6, 1, 1}, {2, 6, 1, 1}, {5},
                                                    {1},          {6, 1, 1},    {4, 5},       {}};
  uint32_t seed = 1;
  for (const char* kind : {"add", "sub", "mul"}) {
    for (const std::vector<int64_t>& shape : shapes) {
      for (bool is_constant : {false, true}) {
        ProgramBuilder b;
        const int x = b.input("x", DType::kInt8, out, quantized(0.03f, 4));
        const TensorQParams yq = quantized(0.02f, 120);
        const Tensor other = random_integers(DType::kUInt8, shape, seed);
        const int y =
            is_constant ? b.constant("y", other, yq) : b.input("y", DType::kUInt8, shape, yq);
        const int z =
            b.op(kind, {x, y}, "z", DType::kInt8, out, quantized(0.05f, -9), {{"post_min", -2.0}});
        const int z2 = b.op(kind, {y, x}, "z2", DType::kUInt8, out, quantized(0.04f, 100));
        b.output(z);
        b.output(z2);
        std::vector<Tensor> inputs{random_integers(DType::kInt8, out, seed + 1)};
        if (!is_constant) inputs.push_back(other);
        CAPTURE(kind, shape, is_constant);
        CHECK(check_against_reference(b.finish(), "xnnpack", inputs) <= 1);
        ++seed;
      }
    }
  }
}

TEST_CASE("XNNPACK: 8-bit poolings stay within a step of the reference", "[backends][xnnpack]") {
  const std::vector<int64_t> in{2, 5, 9, 11};
  const TensorQParams q = quantized(0.05f, 3);
  struct Case {
    int64_t kernel, stride, padding, dilation;
    bool ceil_mode;
  };
  for (const Case& k : {Case{2, 2, 0, 1, false}, Case{3, 2, 1, 1, false}, Case{3, 2, 1, 1, true},
                        Case{2, 1, 0, 2, false}, Case{3, 3, 0, 1, true}}) {
    const auto size = [&](int64_t n) {
      const int64_t room = n + 2 * k.padding - k.dilation * (k.kernel - 1) - 1;
      int64_t count = (k.ceil_mode ? (room + k.stride - 1) / k.stride : room / k.stride) + 1;
      if (k.ceil_mode && (count - 1) * k.stride >= n + k.padding) --count;
      return count;
    };
    const std::vector<int64_t> out{2, 5, size(9), size(11)};
    Attributes attributes{{"kernel_size", ints({k.kernel, k.kernel})},
                          {"stride", ints({k.stride, k.stride})},
                          {"padding", ints({k.padding, k.padding})},
                          {"dilation", ints({k.dilation, k.dilation})},
                          {"ceil_mode", k.ceil_mode}};
    ProgramBuilder b;
    const int x = b.input("x", DType::kInt8, in, q);
    b.output(b.op("max_pool", {x}, "max", DType::kInt8, out, q, attributes));
    CAPTURE(k.kernel, k.stride, k.padding, k.dilation, k.ceil_mode);
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(DType::kInt8, in, 5)}) ==
          0);
    if (k.dilation == 1 && !k.ceil_mode) {
      attributes.erase("dilation");
      ProgramBuilder a;
      const int xa = a.input("x", DType::kUInt8, in, quantized(0.05f, 130));
      attributes["count_include_pad"] = true;
      a.output(
          a.op("avg_pool", {xa}, "avg", DType::kUInt8, out, quantized(0.03f, 128), attributes));
      attributes["divisor_override"] = int64_t{3};
      a.output(a.op("avg_pool", {xa}, "sum", DType::kUInt8, out, quantized(0.3f, 128), attributes));
      CHECK(check_against_reference(a.finish(), "xnnpack",
                                    {random_integers(DType::kUInt8, in, 5)}) <= 1);
    }
  }
}

TEST_CASE("XNNPACK: averages over all pixels stay within a step of the reference",
          "[backends][xnnpack]") {
  for (DType dtype : {DType::kInt8, DType::kUInt8}) {
    const int zero_point = dtype == DType::kUInt8 ? 130 : 2;
    ProgramBuilder b;
    const int x = b.input("x", dtype, {2, 19, 7, 7}, quantized(0.05f, zero_point));
    b.output(b.op("mean", {x}, "kept", dtype, {2, 19, 1, 1}, quantized(0.01f, zero_point),
                  {{"dims", ints({-1, -2})}, {"keepdim", true}}));
    b.output(b.op("mean", {x}, "dropped", dtype, {2, 19}, quantized(0.02f, zero_point),
                  {{"dims", ints({2, 3})}, {"keepdim", false}}));
    b.output(b.op("adaptive_avg_pool", {x}, "adaptive", dtype, {2, 19, 1, 1},
                  quantized(0.02f, zero_point), {{"output_size", ints({1, 1})}}));
    b.output(b.op("adaptive_avg_pool", {x}, "columns", dtype, {2, 19, 1, 7},
                  quantized(0.02f, zero_point), {{"output_size", ints({1, 7})}}));
    CHECK(check_against_reference(b.finish(), "xnnpack",
                                  {random_integers(dtype, {2, 19, 7, 7}, 5)}) <= 1);
  }
}

TEST_CASE("XNNPACK: 8-bit functions and conversions stay within a step of the reference",
          "[backends][xnnpack]") {
  const std::vector<int64_t> shape{2, 5, 6, 7};
  const TensorQParams q = quantized(0.05f, 3);
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, shape, q);
  const int f = b.input("f", DType::kFloat32, shape);
  b.output(b.op("unary", {x}, "sigmoid", DType::kInt8, shape, quantized(1.0f / 256, -128),
                {{"fn", std::string("sigmoid")}}));
  b.output(b.op("unary", {x}, "sigmoid_u8", DType::kUInt8, shape, quantized(1.0f / 256, 0),
                {{"fn", std::string("sigmoid")}}));
  b.output(b.op("unary", {x}, "tanh", DType::kInt8, shape, quantized(1.0f / 128, 0),
                {{"fn", std::string("tanh")}}));
  b.output(b.op("unary", {x}, "elu", DType::kInt8, shape, quantized(0.04f, -5),
                {{"fn", std::string("elu")}, {"alpha", 1.5}}));
  b.output(b.op("clamp", {x}, "clamp", DType::kInt8, shape, q, {{"min", -1.0}, {"max", 2.0}}));
  b.output(b.op("requantize", {x}, "requantize", DType::kUInt8, shape, quantized(0.031f, 99)));
  b.output(b.op("requantize", {x}, "reinterpret", DType::kUInt8, shape, quantized(0.05f, 131)));
  b.output(b.op("quantize", {f}, "quantize", DType::kUInt8, shape, quantized(0.011f, 77)));
  b.output(b.op("dequantize", {x}, "dequantize", DType::kFloat32, shape));
  b.output(b.op("pad", {x}, "pad", DType::kInt8, {2, 7, 8, 10}, q,
                {{"pads", ints({0, 0, 2, 0, 1, 1, 3, 0})}, {"value", 0.5}}));
  b.output(b.op("copy", {x}, "copy", DType::kInt8, shape, q));
  const Tensor floats = random_floats(shape, -1.2f, 1.2f);
  CHECK(check_against_reference(b.finish(), "xnnpack",
                                {random_integers(DType::kInt8, shape, 5), floats}) <= 1);
}

TEST_CASE("XNNPACK: conversions keep to a range narrower than the dtype", "[backends][xnnpack]") {
  const std::vector<int64_t> shape{2, 5, 6, 7};
  std::mt19937 random(31);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int draw = 0; draw < 40; ++draw) {
    const DType dtype = draw % 2 == 0 ? DType::kInt8 : DType::kUInt8;
    const int64_t lowest = dtype == DType::kInt8 ? -128 : 0;
    const int64_t zero = between(lowest + 1, lowest + 254);
    Attributes range;
    if (draw % 3 != 0) range["quant_min"] = between(lowest, zero);
    if (draw % 3 != 1) range["quant_max"] = between(zero + 1, lowest + 255);
    const int32_t zero_point = static_cast<int32_t>(zero);
    const TensorQParams q = quantized(0.05f, zero_point);
    ProgramBuilder b;
    const int f = b.input("f", DType::kFloat32, shape), x = b.input("x", dtype, shape, q);
    b.output(b.op("quantize", {f}, "quantize", dtype, shape, q, range));
    b.output(b.op("requantize", {x}, "narrow", dtype, shape, q, range));
    b.output(
        b.op("requantize", {x}, "requantize", dtype, shape, quantized(0.031f, zero_point), range));
    // a ratio that only our table takes
    b.output(b.op("requantize", {x}, "table", dtype, shape, quantized(1e-5f, zero_point), range));
    CAPTURE(draw, zero);
    CHECK(check_against_reference(b.finish(), "xnnpack",
                                  {random_floats(shape, -20, 20), random_integers(dtype, shape)}) <=
          1);
  }
}

TEST_CASE("XNNPACK: bilinear resizing stays within a step of the reference",
          "[backends][xnnpack]") {
  for (bool aligns : {false, true}) {
    ProgramBuilder b;
    const TensorQParams q = quantized(0.05f, 3);
    const int x = b.input("x", DType::kInt8, {1, 5, 6, 7}, q);
    const std::vector<double> scales =
        aligns ? std::vector<double>{5.0 / 11, 6.0 / 20} : std::vector<double>{0.5, 1.0 / 3};
    b.output(
        b.op("upsample", {x}, "y", DType::kInt8, {1, 5, 12, 21}, q,
             {{"mode", std::string("bilinear")}, {"align_corners", aligns}, {"scales", scales}}));
    CHECK(check_against_reference(b.finish(), "xnnpack",
                                  {random_integers(DType::kInt8, {1, 5, 6, 7}, 5)}) <= 1);
  }
}

TEST_CASE("XNNPACK: convolutions of random shapes stay within a step of the reference",
          "[backends][xnnpack]") {
  std::mt19937 random(2024);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    ConvCase k;
    k.groups = pick(0, 2) == 0 ? pick(1, 12) : 1;
    k.n = pick(1, 3), k.c = k.groups * pick(1, k.groups == 1 ? 40 : 4),
    k.o = k.groups * pick(1, k.groups == 1 ? 40 : 4);
    k.kernel = pick(1, 5), k.stride = pick(1, 3), k.padding = pick(0, k.kernel / 2),
    k.dilation = pick(1, 2);
    k.h = pick(10, 20), k.w = pick(10, 20);
    CAPTURE(i, k.n, k.c, k.h, k.w, k.o, k.kernel, k.stride, k.padding, k.dilation, k.groups);
    CHECK(run_conv(k, i % 2 == 0 ? DType::kInt8 : DType::kUInt8, i % 3 != 0, i % 5 == 0, 4,
                   {{"post_min", -1.0}}, static_cast<uint32_t>(i)) <= 1);
  }
}

TEST_CASE(
    "XNNPACK: linear layers and additions of random shapes stay within a step of the reference",
    "[backends][xnnpack]") {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (uint32_t i = 0; i < 40; ++i) {
    const int64_t rows = pick(1, 17), k = pick(1, 90), o = pick(1, 40);
    ProgramBuilder b;
    const int x = b.input("x", DType::kInt8, {rows, k},
                          quantized(0.02f, static_cast<int32_t>(pick(-128, 127))));
    const int w =
        b.constant("w", random_integers(DType::kInt8, {o, k}, i, -127, 127),
                   per_channel(random_scales(static_cast<size_t>(o), 0.001f, 0.01f, i), 0));
    const int y = b.op("linear", {x, w, -1}, "y", DType::kInt8, {rows, o},
                       quantized(0.1f, static_cast<int32_t>(pick(-20, 20))));
    b.output(y);
    const int a = b.input(
        "a", DType::kUInt8, {rows, k},
        quantized(0.001f * static_cast<float>(pick(1, 100)), static_cast<int32_t>(pick(0, 255))));
    b.output(b.op("add", {x, a}, "sum", DType::kUInt8, {rows, k},
                  quantized(0.05f, static_cast<int32_t>(pick(0, 255)))));
    CAPTURE(i, rows, k, o);
    CHECK(check_against_reference(b.finish(), "xnnpack",
                                  {random_integers(DType::kInt8, {rows, k}, i),
                                   random_integers(DType::kUInt8, {rows, k}, i + 1)}) <= 1);
  }
}

}  // namespace octet
