// Copies of elements between memory orders, on the way through a table where the bytes change their
// meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace octet::xnnpack {

using ByteTable = std::array<uint8_t, 256>;

// to[to_offset + sum(i[d] * to_strides[d])] = from[from_offset + sum(i[d] * from_strides[d])] for
// all i below shape. Offsets and strides in elements.
struct StridedCopy {
  std::vector<int64_t> shape;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t from_offset = 0;
  int64_t to_offset = 0;
  size_t element_size = 1;         // bytes: 1 or 4; 1 when there is a table
  std::optional<ByteTable> table;  // what each byte becomes
};

// The same copy in as few dimensions as possible, the innermost one at the smallest steps of `to`.
StridedCopy simplified(const StridedCopy& copy);

// Fast for simplified copies; allocates nothing. At most kHighestRank dimensions.
inline constexpr size_t kHighestRank = 8;
void run(const StridedCopy& copy, const std::byte* from, std::byte* to);

}  // namespace octet::xnnpack
