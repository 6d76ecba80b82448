// count_products CASE RUNS: runs a product of bytes on XNNPACK, for `tools/dev/aarch64.sh
// --counts`, which counts its instructions. Prints the multiply-accumulates of a run.
#define CATCH_CONFIG_RUNNER  // the program builder links Catch2; main is below
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "tests/backends/small_programs.h"

using namespace octet;

namespace {

struct Case {
  std::string_view name;
  int64_t rows, in, out;
  int64_t kernel = 0;     // of a convolution of rows x rows pixels
  bool is_static = true;  // else with scales at run time
  int64_t groups = 1;     // 4-bit weights
};

constexpr Case kCases[] = {
    {"resnet50-1x1", 14, 1024, 256, 1},
    {"resnet50-3x3", 14, 256, 256, 3},
    {"minilm-static", 128, 384, 384},
    {"minilm-dynamic", 128, 384, 384, 0, false},
    {"smollm2-64", 64, 576, 1536, 0, false, 18},
    {"smollm2-1", 1, 576, 1536, 0, false, 18},
};

Tensor stored_scales(int64_t out, int64_t groups) {
  return Tensor::from<float>(DType::kFloat32, {out, groups},
                             random_scales(static_cast<size_t>(out * groups)));
}

Program program_of(const Case& c) {
  ProgramBuilder b;
  const std::vector<float> scales = random_scales(static_cast<size_t>(c.out));
  if (c.kernel > 0) {
    const int x = b.input("x", DType::kInt8, {1, c.in, c.rows, c.rows}, quantized(0.02f, 3)),
              w = b.constant("w", random_integers(DType::kInt8, {c.out, c.in, c.kernel, c.kernel}),
                             per_channel(scales, 0));
    const Attributes window = {{"stride", ints({1, 1})},
                               {"padding", ints({c.kernel / 2, c.kernel / 2})},
                               {"dilation", ints({1, 1})},
                               {"groups", int64_t{1}}};
    b.output(b.op("conv", {x, w, -1}, "y", DType::kInt8, {1, c.out, c.rows, c.rows},
                  quantized(0.1f, -4), window));
  } else if (c.is_static) {
    const int x = b.input("x", DType::kInt8, {c.rows, c.in}, quantized(0.02f, 3)),
              w = b.constant("w", random_integers(DType::kInt8, {c.out, c.in}),
                             per_channel(scales, 0));
    b.output(b.op("linear", {x, w, -1}, "y", DType::kInt8, {c.rows, c.out}, quantized(0.1f, -4)));
  } else {
    const bool is_nibbles = c.groups > 1;
    const int x = b.input("x", DType::kFloat32, {c.rows, c.in}),
              q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {c.rows, c.in}, {},
                       mapping("asymmetric", -128, 127, {c.rows, 1})),
              w = b.constant(
                  "w", StoredConstant{random_integers(DType::kInt8, {c.out, c.in}, 2,
                                                      is_nibbles ? -8 : -127, is_nibbles ? 7 : 127),
                                      stored_scales(c.out, c.groups), Tensor()});
    b.output(b.op("linear", {q, w, -1}, "y", DType::kFloat32, {c.rows, c.out}));
  }
  return with_one_segment(b.finish(), "xnnpack");
}

}  // namespace

int main(int count, char** arguments) {
  for (const Case& c : kCases) {
    if (count != 3 || c.name != arguments[1]) continue;
    Session session(program_of(c));
    const ProgramTensor& x = session.program().tensor(session.program().inputs[0]);
    const std::vector<Tensor> inputs = {x.dtype == DType::kFloat32
                                            ? random_floats(x.shape, -2, 2)
                                            : random_integers(x.dtype, x.shape)};
    for (int i = 0; i < std::atoi(arguments[2]); ++i) session.run(inputs);
    const int64_t pixels = c.kernel > 0 ? c.rows * c.rows * c.kernel * c.kernel : c.rows;
    std::printf("%lld\n", static_cast<long long>(pixels * c.in * c.out));
    return 0;
  }
  for (const Case& c : kCases) std::printf("%s\n", std::string(c.name).c_str());
  return count == 1 ? 0 : 2;
}
