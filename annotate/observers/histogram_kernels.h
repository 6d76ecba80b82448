// The loops of the histogram observer over plain arrays. Float order and rounding are those of the
// ATen ops that torchao calls, to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace octet {

// counts[floor((x - low) * bins / (high - low))] += 1 for each x, the last bin taking x = high too,
// as aten::histc does. Requires low <= x <= high for each x, and a positive, finite (high - low) *
// bins.
void count_into_bins(std::span<const float> values, float low, float high,
                     std::span<uint32_t> counts);

// Whether count_into_bins can serve this range.
bool can_count_into_bins(float low, float high, size_t bins);

// Adds each source bin to `out` in `rate` equal parts; part i falls where points[i] + half lies
// among the boundaries (one more than `out` has bins; values outside go to the outermost bins).
// points: counts.size() * rate of them. Adds in the order of the parts.
void spread_counts(std::span<const float> counts, int rate, std::span<const float> points,
                   float half, std::span<const float> boundaries, std::span<float> out);

// The squared error of each source bin when the bins from start_bin on are quantized to integers
// 0..last, dst_width apart. density: count / width of each bin. width: of a source bin.
struct ErrorRange {
  int start_bin;
  float width;
  float dst_width;
  float half_dst_width;
  float last;  // at most 2^32
};
void quantization_errors(std::span<const float> density, const ErrorRange& range,
                         std::span<float> errors);

}  // namespace octet
