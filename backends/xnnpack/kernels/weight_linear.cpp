#include "backends/xnnpack/kernels/weight_linear.h"

#include "backends/xnnpack/kernels/shared_weights.h"

namespace octet::xnnpack {

WeightLinear::WeightLinear(const ProgramTensor& w, int64_t rows, std::vector<float> bias)
    : product_(weight_product(w, rows)),
      weights_(find_or_pack(w, pack_weights)),
      bias_(std::make_shared<std::vector<float>>(std::move(bias))) {}

size_t WeightLinear::scratch_bytes() const { return static_cast<size_t>(product_.scratch_bytes()); }

void WeightLinear::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                       const Parallel& parallel) const {
  const std::byte* const all[] = {from[0], weights_->raw(),
                                  reinterpret_cast<const std::byte*>(bias_->data())};
  product_.run(all, to, scratch, parallel);
}

}  // namespace octet::xnnpack
