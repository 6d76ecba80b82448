// Compares the custom kernels of convolutions on bytes, also on activations quantized at run time,
// with the reference.
#include <catch2/catch.hpp>

#include <cstring>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "backends/xnnpack/dynamic.h"

namespace octet::test_xnnpack_byte_conv {

using Shape = std::vector<int64_t>;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kS8 = DType::kInt8;
constexpr DType kU8 = DType::kUInt8;

struct Conv {
  Shape x;  // [N, C, spatial...]
  Shape w;  // [O, C / groups, spatial...]
  int64_t groups = 1;
  Shape stride, padding, dilation;

  Attributes attributes() const {
    return {{"groups", groups},
            {"stride", ints(stride)},
            {"padding", ints(padding)},
            {"dilation", ints(dilation)}};
  }
  Shape y() const {
    Shape shape{x[0], w[0]};
    for (size_t d = 0; d < stride.size(); ++d)
      shape.push_back((x[d + 2] + 2 * padding[d] - dilation[d] * (w[d + 2] - 1) - 1) / stride[d] +
                      1);
    return shape;
  }
};

const Conv kConvs[] = {
    {{1, 8, 6, 6}, {16, 8, 1, 1}, 1, {1, 1}, {0, 0}, {1, 1}},
    {{2, 3, 9, 7}, {5, 3, 3, 3}, 1, {2, 2}, {1, 1}, {1, 1}},
    {{1, 3, 33, 29}, {7, 3, 3, 3}, 1, {2, 2}, {1, 1}, {1, 1}},
    {{2, 32, 6, 5}, {8, 16, 3, 3}, 2, {1, 1}, {1, 1}, {1, 1}},
    {{1, 5, 8, 8}, {33, 5, 3, 2}, 1, {1, 2}, {1, 0}, {2, 1}},
    {{1, 6, 7, 7}, {70, 6, 3, 3}, 1, {1, 1}, {2, 2}, {2, 2}},
    {{2, 4, 5, 30}, {8, 4, 5, 5}, 1, {1, 1}, {2, 2}, {1, 1}},
    {{1, 12, 6, 6}, {8, 3, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1}},
    {{2, 4, 17}, {6, 4, 3}, 1, {2}, {1}, {1}},
    {{2, 8, 7, 9}, {8, 1, 3, 3}, 8, {1, 1}, {1, 1}, {1, 1}},
    {{1, 40, 9, 9}, {40, 1, 7, 7}, 40, {1, 1}, {3, 3}, {1, 1}},
    {{2, 17, 8, 11}, {17, 1, 3, 5}, 17, {2, 3}, {1, 2}, {2, 1}},
    {{1, 6, 5, 5}, {6, 1, 2, 2}, 6, {3, 3}, {0, 0}, {1, 1}},
    {{3, 6, 40}, {6, 1, 9}, 6, {1}, {4}, {1}},
    {{1, 4, 6, 6}, {8, 1, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1}},
    {{1, 1, 6, 6}, {1, 1, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}},
    {{1, 256, 20, 20}, {96, 256, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}},
};

const Conv kConvs3d[] = {
    {{1, 3, 4, 7, 6}, {8, 3, 3, 3, 3}, 1, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}},
    {{2, 8, 3, 5, 5}, {20, 8, 1, 3, 3}, 1, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {{1, 16, 5, 4, 4}, {8, 16, 3, 1, 1}, 1, {2, 1, 1}, {2, 0, 0}, {2, 1, 1}},
    {{1, 8, 3, 4, 5}, {6, 8, 1, 1, 1}, 1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {{2, 6, 4, 4, 4}, {6, 1, 3, 3, 3}, 6, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

// The difference from the reference; a CHECK fails where threads change a bit.
double difference(const Program& program, const Tensor& x) {
  const auto run = [&](int threads) {
    return Session(with_one_segment(program, "xnnpack"), {.threads = threads}).run({{x}})[0];
  };
  const Tensor one = run(1), two = run(2);
  CHECK(std::memcmp(one.raw(), two.raw(), one.nbytes()) == 0);
  return check_against_reference(program, "xnnpack", {x});
}

struct Ends {
  DType in, out;
};

double difference(const Conv& conv, Ends ends, bool is_per_channel) {
  ProgramBuilder b;
  const std::vector<float> scales =
      is_per_channel ? random_scales(static_cast<size_t>(conv.w[0])) : std::vector{0.004f};
  const int x = b.input("x", ends.in, conv.x, qparams_of(ends.in, 0.02f, -5));
  const int w = b.constant("w", random_integers(kS8, conv.w, 6),
                           is_per_channel ? per_channel(scales, 0) : quantized(scales[0], 0));
  const int bias = b.constant("b", random_floats({conv.w[0]}, -1, 1, 4));
  Attributes attributes = conv.attributes();
  attributes["post_min"] = -1.0;
  b.output(b.op("conv", {x, w, bias}, "y", ends.out, conv.y(), qparams_of(ends.out, 0.2f, 9),
                attributes));
  return difference(b.finish(), random_integers(ends.in, conv.x, 3));
}

TEST_CASE("XNNPACK: convolutions on bytes, to floats and bytes, of every window and grouping",
          "[backends][xnnpack]") {
  std::vector<Conv> convs(std::begin(kConvs), std::end(kConvs));
  convs.insert(convs.end(), std::begin(kConvs3d), std::end(kConvs3d));
  for (const Conv& conv : convs)
    for (const Ends ends : {Ends{kS8, kF32}, {kU8, kF32}, {kS8, kS8}, {kU8, kU8}})
      for (const bool is_per_channel : {true, false}) {
        CAPTURE(conv.x, conv.w, conv.groups, name_of(ends.in), name_of(ends.out));
        CHECK(difference(conv, ends, is_per_channel) <= (ends.out == kF32 ? 5e-4 : 1));
      }
}

StoredConstant stored(const Shape& shape) {
  Shape blocks(shape.size(), 1);
  blocks[0] = shape[0];
  const size_t count = static_cast<size_t>(shape[0]);
  return {random_integers(kS8, shape, 2, -127, 127),
          Tensor::from<float>(kF32, blocks, random_scales(count)), Tensor()};
}

// The program; `quantize` says how the input is quantized at run time.
Program dynamic_program(const Conv& conv, const Attributes& quantize) {
  ProgramBuilder b;
  const int q =
      b.op("fake_quantize_dynamic", {b.input("x", kF32, conv.x)}, "q", kF32, conv.x, {}, quantize);
  const int bias = b.constant("b", random_floats({conv.w[0]}, -1, 1, 5));
  b.output(b.op("conv", {q, b.constant("w", stored(conv.w)), bias}, "y", kF32, conv.y(), {},
                conv.attributes()));
  return b.finish();
}

TEST_CASE(
    "XNNPACK: a convolution on activations quantized at run time multiplies their integers, with "
    "every mapping, per tensor and per image",
    "[backends][xnnpack][dynamic]") {
  constexpr double kRounding = 2e-5;  // of sums of about 10
  for (const Conv& conv : kConvs)
    for (const char* name : {"asymmetric", "symmetric", "symmetric_unclipped", "least_error"})
      for (const bool is_per_image : {false, true}) {
        Shape blocks(conv.x.size(), 1);
        if (is_per_image) blocks[0] = conv.x[0];
        const Program program = dynamic_program(conv, mapping(name, -128, 127, blocks));
        CAPTURE(conv.x, conv.w, conv.groups, name, is_per_image);
        CHECK(xnnpack::find_row_quantize(program, program.ops[1]) == &program.ops[0]);
        CHECK(difference(program, random_floats(conv.x, -1, 3)) <=
              kRounding * static_cast<double>(10 + conv.w[1]));
      }
}

TEST_CASE("XNNPACK: consecutive convolutions keep channels last between them",
          "[backends][xnnpack][dynamic]") {
  ProgramBuilder b;
  const Shape shape{1, 8, 6, 6}, blocks{1, 1, 1, 1};
  const Conv conv = {shape, {8, 8, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}};
  int x = b.input("x", kF32, shape);
  for (const std::string name : {"a", "b"}) {
    const int q = b.op("fake_quantize_dynamic", {x}, name + "q", kF32, shape, {},
                       mapping("asymmetric", -128, 127, blocks));
    x = b.op("conv", {q, b.constant(name + "w", stored(conv.w)), -1}, name, kF32, shape, {},
             conv.attributes());
  }
  b.output(x);
  const Program program = b.finish();
  const std::vector<KernelReport> kernels = Session(with_one_segment(program, "xnnpack")).kernels();
  CHECK(std::none_of(kernels.begin(), kernels.end(),
                     [](const KernelReport& kernel) { return kernel.what == "change of order"; }));
  CHECK(kernels.size() == 6);  // copies of the input and output, four ops
  CHECK(check_against_reference(program, "xnnpack", {random_floats(shape, -1, 3)}) <= 1e-2);
}

TEST_CASE(
    "XNNPACK: the op that keeps a convolution from multiplying integers made at run time is named",
    "[backends][xnnpack][dynamic]") {
  const Conv conv = {{2, 4, 5, 5}, {6, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}};
  const auto reason = [](const Program& program) {
    const Verdict verdict = xnnpack::check_pixel_quantize(program, program.ops[0]);
    return verdict ? "none" : verdict.reason();
  };
  CHECK(reason(dynamic_program(conv, mapping("asymmetric", -128, 127, {1, 1, 1, 1}))) == "none");
  CHECK(reason(dynamic_program(conv, mapping("asymmetric", -128, 127, {2, 4, 1, 1}))) ==
        "the scales of [2, 4, 5, 5] are not one per tensor or image");
  Program with_floats = dynamic_program(conv, mapping("asymmetric", -128, 127, {1, 1, 1, 1}));
  with_floats.ops[1].kind = "conv_transpose";
  CHECK(reason(with_floats) == "y cannot multiply its integers: conv_transpose reads its floats");
}

}  // namespace octet::test_xnnpack_byte_conv
