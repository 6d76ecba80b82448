// Compiled with -O3 and without contraction of multiplications and additions.
#include "annotate/observers/histogram_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace octet {
namespace {

constexpr size_t kBlock = 1024;
// neighbours often fall into one bin (zeros behind a ReLU): four tables let the processor overlap
// their additions
constexpr size_t kTables = 4;

// density * integral of x^2 from begin to end.
inline float norm(float begin, float end, float density) {
  return density * ((end * end * end - begin * begin * begin) / 3.0f);
}

// floor(a / b) clamped to [0, last]. The quotient of two floats, rounded to double, has the floor
// of the exact one below 2^28; beyond, the clamp decides. Index: wide enough for `last`.
template <typename Index>
inline float bin_of(float a, double b, double last) {
  const double quotient = static_cast<double>(a) / b;
  const double clamped = quotient > 0.0 ? std::min(quotient, last) : 0.0;
  return static_cast<float>(static_cast<Index>(clamped));
}

template <typename Index>
void errors_of(std::span<const float> density, const ErrorRange& range, std::span<float> errors) {
  const double dst_width = range.dst_width;
  const double last = range.last;
  for (size_t i = 0; i < density.size(); ++i) {
    const float begin = static_cast<float>(static_cast<int>(i) - range.start_bin) * range.width;
    const float end = begin + range.width;
    const float bin_of_begin = bin_of<Index>(begin, dst_width, last);
    const float bin_of_end = bin_of<Index>(end, dst_width, last);
    const float center_of_begin = (bin_of_begin + 0.5f) * range.dst_width;
    const float center_of_end = bin_of_end * range.dst_width + range.half_dst_width;
    float error = norm(begin - center_of_begin, range.half_dst_width, density[i]);
    error += (bin_of_end - bin_of_begin - 1.0f) *
             norm(-range.half_dst_width, range.half_dst_width, density[i]);
    error += norm(-range.half_dst_width, end - center_of_end, density[i]);
    errors[i] = error;
  }
}

// How many boundaries are at most `value`, by halving as aten::bucketize does: it also defines the
// answer for boundaries out of order, which rounding can make of a range of a few ulps.
size_t count_at_most(std::span<const float> boundaries, float value) {
  size_t start = 0;
  size_t end = boundaries.size();
  while (start < end) {
    const size_t middle = start + ((end - start) >> 1);
    if (!(boundaries[middle] > value))
      start = middle + 1;
    else
      end = middle;
  }
  return start;
}

}  // namespace

void count_into_bins(std::span<const float> values, float low, float high,
                     std::span<uint32_t> counts) {
  const size_t bins = counts.size();
  const float scale = static_cast<float>(bins);
  const float range = high - low;
  const int32_t last = static_cast<int32_t>(bins) - 1;
  // else clearing and adding them costs more than they save
  const bool has_tables = values.size() > 2 * kTables * bins;
  thread_local std::vector<uint32_t> tables;
  if (has_tables) tables.assign(kTables * bins, 0);
  std::array<int32_t, kBlock> index;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    const float* block = values.data() + begin;
    for (size_t i = 0; i < count; ++i)
      index[i] = std::min(static_cast<int32_t>((block[i] - low) * scale / range), last);
    size_t i = 0;
    if (has_tables)
      for (; i + kTables <= count; i += kTables)
        for (size_t t = 0; t < kTables; ++t) ++tables[t * bins + static_cast<size_t>(index[i + t])];
    for (; i < count; ++i) ++counts[static_cast<size_t>(index[i])];
  }
  if (!has_tables) return;
  for (size_t t = 0; t < kTables; ++t)
    for (size_t bin = 0; bin < bins; ++bin) counts[bin] += tables[t * bins + bin];
}

bool can_count_into_bins(float low, float high, size_t bins) {
  const float range = high - low;
  return range > 0.0f && std::isfinite(range * static_cast<float>(bins)) &&
         bins < (size_t{1} << 24);
}

void spread_counts(std::span<const float> counts, int rate, std::span<const float> points,
                   float half, std::span<const float> boundaries, std::span<float> out) {
  const bool sorted = std::is_sorted(boundaries.begin(), boundaries.end());
  const size_t last = out.size() - 1;
  size_t below = 0;  // boundaries at most the point
  for (size_t bin = 0; bin < counts.size(); ++bin) {
    const float part = counts[bin] / static_cast<float>(rate);
    if (part == 0.0f) continue;
    for (size_t i = bin * static_cast<size_t>(rate); i < (bin + 1) * static_cast<size_t>(rate);
         ++i) {
      const float point = points[i] + half;
      if (sorted) {
        while (below < boundaries.size() && boundaries[below] <= point) ++below;
        while (below > 0 && boundaries[below - 1] > point) --below;
      } else {
        below = count_at_most(boundaries, point);
      }
      out[below == 0 ? 0 : std::min(below - 1, last)] += part;
    }
  }
}

void quantization_errors(std::span<const float> density, const ErrorRange& range,
                         std::span<float> errors) {
  if (range.last < 2147483648.0f)
    errors_of<int32_t>(density, range, errors);
  else
    errors_of<int64_t>(density, range, errors);
}

}  // namespace octet
