// Products in floats: of two activations, y = clamp(a b) for each matrix of a batch, and of
// activations and integer weights (backends/kernels/weight_product.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/weight_product.h"
#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// Offsets of the matrices of both factors, in elements; the matrices of y are contiguous.
struct MatrixBatch {
  int64_t rows = 0;          // of a and of y
  int64_t depth = 0;         // columns of a, rows of b
  int64_t columns = 0;       // of b and of y
  std::vector<int64_t> a;    // per matrix of y: offset of its a
  std::vector<int64_t> b;    // offset of each matrix of b
  std::vector<size_t> b_of;  // per matrix of y: index into `b`
  int64_t count() const { return static_cast<int64_t>(a.size()); }
};

struct FloatProduct {
  MatrixBatch batch;
  float low = 0;  // clamp of the result; infinite when unbounded
  float high = 0;

  size_t scratch_bytes() const;
  // from: a and b, each matrix in row-major order. scratch: aligned to 64. Allocates nothing. pool:
  // null for one thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

// A linear on floats with weights that stay integers. Holds the packed weights. All that are made
// from the same elements in memory share them: sessions of one program, or the bound sizes of one
// session.
class WeightLinear {
 public:
  // Requires has_weight_product(w, rows). bias: [out].
  WeightLinear(const ProgramTensor& w, int64_t rows, std::vector<float> bias);
  size_t scratch_bytes() const;
  // from: [rows, in]; to: [rows, out]; both row-major. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;

 private:
  WeightProduct product_;
  std::shared_ptr<const Tensor> weights_;
  std::shared_ptr<const std::vector<float>> bias_;
};

}  // namespace octet::xnnpack
