// See the header.
#include "backends/xnnpack/kernels/copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

struct Row {
  int64_t size, from_stride, to_stride;
};

template <typename T>
void copy_row(const Row& row, const T* from, T* to, const ByteTable* table) {
  if constexpr (sizeof(T) == 1) {
    if (table != nullptr) {
      for (int64_t i = 0; i < row.size; ++i)
        to[i * row.to_stride] = (*table)[from[i * row.from_stride]];
      return;
    }
  }
  if (row.from_stride == 1 && row.to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(row.size) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < row.size; ++i) to[i * row.to_stride] = from[i * row.from_stride];
}

template <typename T>
void run_rows(const StridedCopy& copy, const T* from, T* to) {
  const size_t rank = copy.shape.size();
  const ByteTable* table = copy.table ? &*copy.table : nullptr;
  from += copy.from_offset;
  to += copy.to_offset;
  if (rank == 0) return copy_row<T>({1, 1, 1}, from, to, table);
  const size_t last = rank - 1;
  const Row row{copy.shape[last], copy.from_strides[last], copy.to_strides[last]};
  std::array<int64_t, kHighestRank> index{};
  for (;;) {
    copy_row<T>(row, from, to, table);
    size_t d = last;
    for (;; --d) {
      if (d == 0) return;
      from += copy.from_strides[d - 1];
      to += copy.to_strides[d - 1];
      if (++index[d - 1] < copy.shape[d - 1]) break;
      from -= copy.from_strides[d - 1] * copy.shape[d - 1];
      to -= copy.to_strides[d - 1] * copy.shape[d - 1];
      index[d - 1] = 0;
    }
  }
}

}  // namespace

StridedCopy simplified(const StridedCopy& copy) {
  StridedCopy result = copy;
  result.shape.clear(), result.from_strides.clear(), result.to_strides.clear();
  std::vector<size_t> order(copy.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return copy.to_strides[a] > copy.to_strides[b]; });
  for (size_t d : order) {
    const int64_t size = copy.shape[d], from = copy.from_strides[d], to = copy.to_strides[d];
    if (size == 1) continue;
    if (!result.shape.empty() && result.from_strides.back() == from * size &&
        result.to_strides.back() == to * size) {
      result.shape.back() *= size, result.from_strides.back() = from, result.to_strides.back() = to;
      continue;
    }
    result.shape.push_back(size), result.from_strides.push_back(from),
        result.to_strides.push_back(to);
  }
  return result;
}

void run(const StridedCopy& copy, const std::byte* from, std::byte* to) {
  OCTET_ASSERT(
      copy.shape.size() <= kHighestRank && (copy.element_size == 1 || copy.element_size == 4),
      "a copy of another rank or element size");
  if (copy.element_size == 1)
    return run_rows(copy, reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to));
  run_rows(copy, reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to));
}

}  // namespace octet::xnnpack
