// See the header.
#include "backends/xnnpack/kernels/rotary.h"

#include "backends/common/rotary_row.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

// Where a row of cosine and sine begins.
int64_t factor_of(const Rotary& rotary, int64_t row) {
  int64_t offset = 0;
  for (size_t d = rotary.shape.size(); d-- > 0; row /= rotary.shape[d])
    offset += row % rotary.shape[d] * rotary.strides[d];
  return offset;
}

}  // namespace

void Rotary::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                 pthreadpool_t pool) const {
  const float *x = reinterpret_cast<const float*>(from[0]),
              *cosine = reinterpret_cast<const float*>(from[1]),
              *sine = reinterpret_cast<const float*>(from[2]);
  float* y = reinterpret_cast<float*>(to);
  int64_t rows = 1;
  for (const int64_t size : shape) rows *= size;
  for_parts(pool, rows, rows_per_part(width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = factor_of(*this, row);
      run_vectorised([=, this]() __attribute__((always_inline)) {
        rotate_row(x + row * width, cosine + at, sine + at, y + row * width, width / 2, width / 2);
      });
    }
  });
}

}  // namespace octet::xnnpack
