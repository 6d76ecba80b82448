// Products of integers give the same bits with any kernels of a CPU. Writes the results of this
// machine; same_bits.py runs it with smaller instruction sets (ONEDNN_MAX_CPU_ISA) and compares.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// Values of every size; or small ones as after a ReLU, of which one in `large` is at the end of its
// range.
Tensor random_bytes(DType dtype, const Shape& shape, int large) {
  if (large == 0) return random_integers(dtype, shape, 9);
  const Tensor small = random_integers(dtype, shape, 9, 0, 40),
               which = random_integers(DType::kInt32, shape, 4, 0, large - 1);
  for (int64_t i = 0; i < small.numel(); ++i)
    if (which.data<int32_t>()[i] == 0)
      small.raw()[i] = static_cast<std::byte>(integer_range(dtype).max);
  return small;
}

// The program as one segment of oneDNN, on random inputs. Appends "name count" and the bytes of the
// output.
void write_outputs(std::ofstream& file, const std::string& name, Program program, int large = 0) {
  Session session(with_one_segment(std::move(program), "onednn"));
  std::vector<Tensor> inputs;
  for (int index : session.program().inputs) {
    const ProgramTensor& t = session.program().tensor(index);
    inputs.push_back(t.dtype == DType::kFloat32 ? random_floats(t.shape, -2, 2, 3)
                                                : random_bytes(t.dtype, t.shape, large));
  }
  const Tensor y = session.run(inputs)[0].contiguous();
  const int64_t bytes = y.numel() * static_cast<int64_t>(size_of(y.dtype()));
  file << name << " " << bytes << "\n";
  file.write(reinterpret_cast<const char*>(y.raw()), bytes);
}

enum class Result { kUnsigned, kSigned, kReal, kRelu, kResidual };
constexpr const char* kResultNames[] = {"unsigned", "signed", "real", "relu", "residual"};

struct ConvCase {
  int64_t channels, outputs, size, kernel, stride, padding, groups, dilation = 1;
};

// A step that spreads the outputs of a product of `terms` terms over the bytes.
float output_scale(int64_t terms) { return 0.0095f * std::sqrt(static_cast<float>(terms)); }

Program convolution(const ConvCase& c, Result result, bool is_transposed,
                    std::optional<int> zero = {}) {
  ProgramBuilder b;
  const DType dtype = result == Result::kSigned ? DType::kInt8 : DType::kUInt8;
  const int zero_point = zero                          ? *zero
                         : result == Result::kSigned   ? -7
                         : result == Result::kUnsigned ? 0
                                                       : 113;
  const int64_t out =
      is_transposed ? (c.size - 1) * c.stride - 2 * c.padding + c.kernel
                    : (c.size + 2 * c.padding - (c.kernel - 1) * c.dilation - 1) / c.stride + 1;
  const Shape y_shape = {1, c.outputs, out, out};
  const float scale = output_scale(c.channels / c.groups * c.kernel * c.kernel);
  const int x = b.input("x", dtype, {1, c.channels, c.size, c.size}, quantized(0.021f, zero_point));
  const Shape w_shape = is_transposed ? Shape{c.channels, c.outputs / c.groups, c.kernel, c.kernel}
                                      : Shape{c.outputs, c.channels / c.groups, c.kernel, c.kernel};
  const int64_t w_scales = is_transposed ? c.outputs / c.groups : c.outputs;
  const int w =
      b.constant("w", random_integers(DType::kInt8, w_shape, 5),
                 per_channel(random_scales(static_cast<size_t>(w_scales)), is_transposed ? 1 : 0));
  const int bias = b.constant("b", random_floats({c.outputs}));
  Attributes attributes = {{"stride", ints({c.stride, c.stride})},
                           {"padding", ints({c.padding, c.padding})},
                           {"dilation", ints({c.dilation, c.dilation})},
                           {"groups", c.groups}};
  const std::string kind = is_transposed ? "conv_transpose" : "conv";
  if (result == Result::kReal || result == Result::kResidual) {
    const int y = b.op(kind, {x, w, bias}, "y", DType::kFloat32, y_shape, {}, attributes);
    if (result == Result::kReal) {
      b.output(y);
      return b.finish();
    }
    const int residual =
        b.op("dequantize", {b.input("r", DType::kUInt8, y_shape, quantized(scale * 0.9f, 121))},
             "real", DType::kFloat32, y_shape);
    const int sum =
        b.op("add", {y, residual}, "sum", DType::kFloat32, y_shape, {}, {{"post_min", 0.0}});
    b.output(b.op("quantize", {sum}, "q", DType::kUInt8, y_shape, quantized(scale * 1.1f, 0)));
    return b.finish();
  }
  if (result == Result::kRelu) attributes["post_min"] = 0.0;
  b.output(b.op(kind, {x, w, bias}, "y", dtype, y_shape,
                quantized(scale, result == Result::kRelu ? 3 : zero_point), attributes));
  return b.finish();
}

Program linear(int64_t rows, int64_t in, int64_t out, bool is_real) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {rows, in}, quantized(0.021f, 5));
  const int w = b.constant("w", random_integers(DType::kInt8, {out, in}, 5),
                           per_channel(random_scales(static_cast<size_t>(out)), 0));
  const int bias = b.constant("b", random_floats({out}));
  const std::optional<TensorQParams> q =
      is_real ? std::nullopt : std::optional(quantized(output_scale(in), 4));
  b.output(
      b.op("linear", {x, w, bias}, "y", is_real ? DType::kFloat32 : DType::kInt8, {rows, out}, q));
  return b.finish();
}

// Weights with scales in `groups` groups, on activations quantized at run time, per row.
Program dynamic(int64_t rows, int64_t in, int64_t out, int64_t groups) {
  ProgramBuilder b;
  const Tensor scale = Tensor::from<float>(DType::kFloat32, {out, groups},
                                           random_scales(static_cast<size_t>(out * groups)));
  const int x = b.input("x", DType::kFloat32, {rows, in});
  const int w =
      b.constant("w", StoredConstant{random_integers(DType::kInt8, {out, in}, 2), scale, Tensor()});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {rows, in}, {},
                     mapping("asymmetric", -128, 127, {rows, 1}));
  b.output(b.op("linear", {q, w, b.constant("b", random_floats({out}))}, "y", DType::kFloat32,
                {rows, out}));
  return b.finish();
}

Program matmul(const Shape& a, const Shape& b_shape, const Shape& y, bool is_real) {
  ProgramBuilder b;
  const int left = b.input("a", DType::kUInt8, a, quantized(0.02f, 100)),
            right = b.input("b", DType::kInt8, b_shape, quantized(0.03f, -9));
  const std::optional<TensorQParams> q =
      is_real ? std::nullopt : std::optional(quantized(output_scale(a.back()) * 3, 128));
  b.output(b.op("matmul", {left, right}, "y", is_real ? DType::kFloat32 : DType::kUInt8, y, q));
  return b.finish();
}

}  // namespace

TEST_CASE("oneDNN: writes the bits of products of integers", "[.][bits]") {
  const char* path = std::getenv("OCTET_BITS");
  REQUIRE(path != nullptr);
  std::ofstream file(path, std::ios::binary);
  const ConvCase convolutions[] = {
      {64, 64, 14, 3, 1, 1, 1},  {64, 64, 14, 3, 2, 1, 1},  {64, 128, 14, 1, 1, 0, 1},
      {64, 128, 14, 1, 2, 0, 1}, {700, 70, 7, 1, 1, 0, 1},  {32, 32, 14, 3, 1, 1, 32},
      {40, 40, 30, 3, 2, 1, 40}, {20, 20, 11, 5, 1, 2, 20}, {48, 48, 19, 5, 2, 2, 48},
      {24, 24, 17, 4, 3, 1, 24}, {24, 24, 17, 3, 4, 1, 24}, {3, 32, 28, 3, 2, 1, 1},
      {48, 96, 9, 3, 2, 1, 2},   {13, 21, 6, 5, 1, 2, 1},
  };
  for (int result = 0; result < 5; ++result)
    for (const ConvCase& c : convolutions)
      write_outputs(
          file,
          std::string("conv/") + kResultNames[result] + "/" + std::to_string(&c - convolutions),
          convolution(c, static_cast<Result>(result), false));
  // Activations near the zero point, of which few or many exceed what the bins assume.
  for (Result result : {Result::kUnsigned, Result::kReal, Result::kResidual})
    for (int large : {1000, 40, 3}) {
      const std::string name =
          std::string(kResultNames[static_cast<int>(result)]) + "/" + std::to_string(large);
      for (const ConvCase& c :
           {ConvCase{64, 64, 14, 3, 1, 1, 1, 1}, ConvCase{64, 72, 15, 3, 2, 1, 1, 1},
            ConvCase{64, 128, 14, 1, 1, 0, 1, 1}, ConvCase{64, 128, 14, 1, 2, 0, 1, 1},
            ConvCase{48, 96, 9, 3, 2, 1, 2}, ConvCase{20, 40, 13, 3, 1, 2, 1, 2}})
        write_outputs(file, "conv/crowded/" + name, convolution(c, result, false, 20), large);
      if (result != Result::kResidual)
        write_outputs(file, "conv_transpose/crowded/" + name,
                      convolution({64, 32, 7, 3, 2, 1, 1}, result, true, 20), large);
    }
  for (Result result : {Result::kUnsigned, Result::kReal})
    for (const ConvCase& c : {ConvCase{16, 24, 7, 3, 2, 1, 1}, ConvCase{16, 8, 6, 4, 3, 0, 2}})
      write_outputs(file, std::string("conv_transpose/") + kResultNames[static_cast<int>(result)],
                    convolution(c, result, true));
  for (bool is_real : {false, true})
    for (int64_t rows : {1, 7, 50})
      write_outputs(file, "linear/" + std::to_string(rows), linear(rows, 100, 77, is_real));
  for (int64_t groups : {1, 4})
    for (int64_t rows : {1, 6, 33})
      write_outputs(file, "dynamic/" + std::to_string(groups), dynamic(rows, 128, 50, groups));
  for (bool is_real : {false, true}) {
    write_outputs(file, "matmul", matmul({2, 19, 33}, {2, 33, 21}, {2, 19, 21}, is_real));
    write_outputs(file, "matmul", matmul({64, 64}, {64, 64}, {64, 64}, is_real));
  }
  CHECK(file.good());
}

}  // namespace octet
