#include "backends/xnnpack/kernels/weight_linear.h"

#include <map>
#include <mutex>
#include <tuple>

#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

struct Packed {
  Tensor weights;
  StoredConstant source;  // owns the addresses that serve as key
};

// Keeps one copy while anyone uses it. Thread-safe.
std::shared_ptr<const Tensor> find_or_pack(const ProgramTensor& w) {
  using Key = std::tuple<const void*, const void*, const void*, std::vector<int64_t>>;
  using Known = std::map<Key, std::weak_ptr<Packed>>;
  static std::mutex* const mutex = new std::mutex;  // segments may outlive static objects
  static Known* const known = new Known;
  const auto address = [](const Tensor& tensor) -> const void* {
    return tensor.defined() ? tensor.raw() : nullptr;
  };
  const StoredConstant& source = *w.stored;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Packed>& entry = (*known)[{address(bytes_of(source)), address(source.scale),
                                           address(source.zero_point), w.shape}];
  std::shared_ptr<Packed> packed = entry.lock();
  if (packed == nullptr) entry = packed = std::make_shared<Packed>(Packed{pack_weights(w), source});
  return {packed, &packed->weights};
}

}  // namespace

WeightLinear::WeightLinear(const ProgramTensor& w, int64_t rows, std::vector<float> bias)
    : product_(weight_product(w, rows)),
      weights_(find_or_pack(w)),
      bias_(std::make_shared<std::vector<float>>(std::move(bias))) {}

size_t WeightLinear::scratch_bytes() const { return static_cast<size_t>(product_.scratch_bytes()); }

void WeightLinear::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                       const Parallel& parallel) const {
  const std::byte* const all[] = {from[0], weights_->raw(),
                                  reinterpret_cast<const std::byte*>(bias_->data())};
  product_.run(all, to, scratch, parallel);
}

}  // namespace octet::xnnpack
