// Linears on floats with weights that stay integers (backends/kernels/weight_product.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/weight_product.h"

namespace octet::xnnpack {

// Holds the packed weights. All that are made from the same elements in memory share them: sessions
// of one program, or the bound sizes of one session.
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
