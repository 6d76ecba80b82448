// Iterates over tensors that are divided into equal blocks with one scale and zero point each: per
// tensor, per channel, per row, per group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/shape.h"

namespace octet {

// Calls visit(first, count, block) for runs of `count` elements that start at element `first` and
// lie in one block, in row-major order. `blocks`: the number of blocks along each dimension, a
// divisor of its size. Blocks are numbered in row-major order.
template <typename Sizes = std::vector<int64_t>, typename Visit>
void for_each_block_run(const std::vector<int64_t>& shape, const Sizes& blocks,
                        const Visit& visit) {
  const int64_t total = product(shape);
  if (total == 0) return;
  // A run covers the trailing dimensions that are not divided, and a part of the dimension before
  // them.
  size_t outer = shape.size();
  int64_t run = 1;
  while (outer > 0 && blocks[outer - 1] == 1) run *= shape[--outer];
  if (outer > 0) run *= shape[outer - 1] / blocks[outer - 1];
  // The last digit of this counter counts runs; the others count elements.
  Sizes digits(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(outer));
  Sizes elements(outer, 1);  // elements of a block per digit
  Sizes strides(outer, 1);   // in blocks
  for (size_t d = 0; d < outer; ++d) elements[d] = shape[d] / blocks[d];
  if (outer > 0) {
    digits[outer - 1] = blocks[outer - 1];
    elements[outer - 1] = 1;
  }
  write_contiguous_strides(std::span<const int64_t>(blocks).first(outer), strides);
  Sizes index(outer, 0);
  for (int64_t first = 0; first < total; first += run) {
    int64_t block = 0;
    for (size_t d = 0; d < outer; ++d) block += index[d] / elements[d] * strides[d];
    visit(first, run, block);
    for (size_t d = outer; d-- > 0;) {
      if (++index[d] < digits[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace octet
