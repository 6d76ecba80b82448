// Compares each inner loop of the custom row product that this CPU has with sums in 64 bits.
// (Releases of XNNPACK that have the product do not need it.)
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/xnnpack/kernels/row_kernels.h"

namespace octet::xnnpack {
namespace {

// Bytes that give the largest sums, or any bytes.
enum class Filling { kAny, kExtreme };

// The greatest difference of a linear [rows, in] -> [rows, out] to the formula, relative to what an
// f32 resolves.
double difference(const RowKernel& kernel, int64_t rows, int64_t in, int64_t out, Filling filling) {
  const int64_t depth = (in + kGroup - 1) / kGroup * kGroup,
                columns = (out + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
  const Tensor x = random_integers(DType::kUInt8, {rows, depth}, 1),
               w = random_integers(DType::kInt8, {out, in}, 2);
  std::vector<uint8_t> bytes(x.data<uint8_t>(), x.data<uint8_t>() + rows * depth);
  std::vector<int8_t> weights(w.data<int8_t>(), w.data<int8_t>() + out * in),
      packed(static_cast<size_t>(columns * depth), 0);
  if (filling == Filling::kExtreme) {
    std::fill(bytes.begin(), bytes.end(), kernel.lowest == 0 ? uint8_t{255} : uint8_t{127});
    std::fill(weights.begin(), weights.end(), int8_t{-128});
  }
  std::vector<int32_t> sums(static_cast<size_t>(columns));
  for (int64_t n = 0; n < out; ++n)
    for (int64_t k = 0; k < in; ++k) {
      const int8_t weight = weights[static_cast<size_t>(n * in + k)];
      packed[static_cast<size_t>((n / kBlockColumns * depth + k / kGroup * kGroup) * kBlockColumns +
                                 n % kBlockColumns * kGroup + k % kGroup)] = weight;
      sums[static_cast<size_t>(n)] += weight;
    }
  // powers of two: floats are exact too
  std::vector<float> scale, bias(static_cast<size_t>(columns), 0.25f);
  for (int64_t n = 0; n < columns; ++n) scale.push_back(n % 2 == 0 ? 0.5f : 1.0f);
  std::vector<RowParameters> parameters;
  for (int64_t m = 0; m < rows; ++m)
    parameters.push_back(
        {kernel.lowest + static_cast<int32_t>(filling == Filling::kExtreme ? 0 : m % 256), 0.5f});
  std::vector<float> y(static_cast<size_t>(rows * out), -1.0f);
  const RowProductView view = {bytes.data(), depth,        parameters.data(), packed.data(), depth,
                               sums.data(),  scale.data(), bias.data(),       y.data(),      out,
                               -1e9f,        1e9f};
  kernel.run(view, 0, rows, 0, columns / kBlockColumns);
  double greatest = 0;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < out; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < in; ++k) {
        const uint8_t byte = bytes[static_cast<size_t>(m * depth + k)];
        const int64_t value = kernel.lowest == 0 ? byte : static_cast<int8_t>(byte);
        sum += (value - parameters[static_cast<size_t>(m)].zero_point) *
               weights[static_cast<size_t>(n * in + k)];
      }
      const double want = static_cast<double>(sum) *
                              double{parameters[static_cast<size_t>(m)].scale} *
                              double{scale[static_cast<size_t>(n)]} +
                          0.25;
      greatest = std::max(
          greatest, std::abs(y[static_cast<size_t>(m * out + n)] - want) / (1 + std::abs(want)));
    }
  return greatest;
}

}  // namespace

TEST_CASE("XNNPACK: every inner loop of the custom row product sums exactly, whatever the sizes",
          "[backends][xnnpack][dynamic]") {
  for (const RowKernel& kernel : row_kernels()) {
    if (!kernel.is_here()) continue;
    CAPTURE(kernel.name);
    for (int64_t rows : {1, 2, 3, 7, 13})
      for (int64_t in : {1, 4, 12, 31, 64})
        for (int64_t out : {1, 16, 17, 64, 150}) {
          CAPTURE(rows, in, out);
          CHECK(difference(kernel, rows, in, out, Filling::kAny) == 0);
        }
  }
}

TEST_CASE("XNNPACK: the greatest sums of a row product do not saturate",
          "[backends][xnnpack][dynamic]") {
  for (const RowKernel& kernel : row_kernels()) {
    if (!kernel.is_here()) continue;
    CAPTURE(kernel.name);
    CHECK(difference(kernel, 1, 65000, 1, Filling::kExtreme) < 3e-7);
    CHECK(difference(kernel, 6, 4, 64, Filling::kExtreme) < 3e-7);
  }
}

}  // namespace octet::xnnpack
