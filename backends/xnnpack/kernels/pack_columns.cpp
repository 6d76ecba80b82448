// Packs constant weights for the loops of row_kernels.h.
#include <cstring>
#include <new>

#include "backends/xnnpack/kernels/row_kernels.h"
#include "backends/xnnpack/memory.h"

namespace octet::xnnpack {

// Zeros where there are no columns or elements.
PackedColumns pack_columns(const int8_t* from, int64_t out, int64_t in, int64_t depth) {
  const int64_t columns = (out + kBlockColumns - 1) / kBlockColumns * kBlockColumns,
                bytes = columns * depth;
  const xnn_allocator& memory = *memory_source();
  void* const block = memory.aligned_allocate(memory.context, 64, static_cast<size_t>(bytes));
  if (block == nullptr) throw std::bad_alloc();
  PackedColumns packed;
  packed.weights = {static_cast<int8_t*>(block),
                    [&memory](int8_t* p) { memory.aligned_deallocate(memory.context, p); }};
  packed.sums.resize(static_cast<size_t>(columns));
  if (out % kBlockColumns != 0 || in % kGroup != 0)
    std::memset(packed.weights.get(), 0, static_cast<size_t>(bytes));
  for (int64_t n = 0; n < out; ++n) {
    const int8_t* row = from + n * in;
    int8_t* to = packed.weights.get() + n / kBlockColumns * kBlockColumns * depth +
                 n % kBlockColumns * kGroup;
    for (int64_t k = 0; k + kGroup <= in; k += kGroup)
      std::memcpy(to + k * kBlockColumns, row + k, kGroup);
    const int64_t left = in % kGroup;
    std::memcpy(to + (in - left) * kBlockColumns, row + in - left, static_cast<size_t>(left));
    int32_t sum = 0;
    for (int64_t k = 0; k < in; ++k) sum += row[k];
    packed.sums[static_cast<size_t>(n)] = sum;
  }
  return packed;
}

}  // namespace octet::xnnpack
