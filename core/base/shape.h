// Shapes: the sizes of a tensor's dimensions, outermost first. Free of torch.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace octet {

inline int64_t product(std::span<const int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape) result *= size;
  return result;
}

// Writes the row-major strides of `shape`, in elements, to `strides`, which has as many dimensions.
inline void write_contiguous_strides(std::span<const int64_t> shape, std::span<int64_t> strides) {
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
}
inline std::vector<int64_t> contiguous_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  write_contiguous_strides(shape, strides);
  return strides;
}

// The dimension counted from the front; negative numbers count from the end. Not checked.
template <std::integral Rank>
constexpr int64_t wrap_dim(int64_t dim, Rank rank) {
  return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
}
// As above; nullopt when the tensor has no such dimension.
inline std::optional<size_t> find_dim(int64_t dim, size_t rank) {
  const int64_t index = wrap_dim(dim, rank);
  if (index < 0 || index >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(index);
}

}  // namespace octet
