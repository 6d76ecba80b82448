// Takes blocks of columns with a running maximum and sum (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018), so that the scores need no memory outside of a
// core's cache. A block serves several rows: it is transposed, and then both products are sums of
// rows of numbers. A single row, as in decoding, reads keys where they lie. Columns before the
// first and after the last that the mask shows are not read.
#include "backends/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/shape.h"

namespace octet {
namespace {

constexpr int64_t kMostWidth = 256;  // elements of a head
constexpr int64_t kBlock = 64;       // columns
constexpr int64_t kRows = 32;        // that share the transposed block
constexpr float kHidden = -1e30f;    // see ops.def
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// y[rows, width] += a[rows, depth] * b[depth, width]; b and y have these steps between rows. rows
// and the width are compile-time constants of a tile, so that its sums are registers.
template <int64_t lanes, int64_t rows, int64_t vectors>
[[gnu::always_inline]] inline void add_tile(const float* a, int64_t a_step, const float* b,
                                            int64_t b_step, float* y, int64_t y_step,
                                            int64_t depth) {
  using Floats = typename VectorOf<lanes>::Floats;
  Floats sums[rows][vectors];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      sums[r][v] = *reinterpret_cast<const Floats*>(y + r * y_step + v * lanes);
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t v = 0; v < vectors; ++v) {
      const Floats column = *reinterpret_cast<const Floats*>(b + d * b_step + v * lanes);
      for (int64_t r = 0; r < rows; ++r) sums[r][v] += a[r * a_step + d] * column;
    }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      *reinterpret_cast<Floats*>(y + r * y_step + v * lanes) = sums[r][v];
}

template <int64_t lanes, int64_t rows>
[[gnu::always_inline]] inline void add_product(const float* a, int64_t a_step, const float* b,
                                               int64_t b_step, float* y, int64_t y_step,
                                               int64_t depth, int64_t width) {
  constexpr int64_t kVectors = rows == 1 ? 4 : 2;
  int64_t column = 0;
  for (; column + kVectors * lanes <= width; column += kVectors * lanes)
    add_tile<lanes, rows, kVectors>(a, a_step, b + column, b_step, y + column, y_step, depth);
  for (; column + lanes <= width; column += lanes)
    add_tile<lanes, rows, 1>(a, a_step, b + column, b_step, y + column, y_step, depth);
  for (; column < width; ++column)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < depth; ++d)
        y[r * y_step + column] += a[r * a_step + d] * b[d * b_step + column];
}

// scores[j] = sum over i of q[i] * keys[j, i]
template <int64_t lanes>
[[gnu::always_inline]] inline void multiply_row(const float* q, const float* keys, int64_t depth,
                                                int64_t columns, float* scores) {
  using Floats = typename VectorOf<lanes>::Floats;
  const int64_t whole = depth / lanes * lanes;
  for (int64_t j = 0; j < columns; ++j, keys += depth) {
    Floats sum{};
    for (int64_t i = 0; i < whole; i += lanes)
      sum += *reinterpret_cast<const Floats*>(q + i) * *reinterpret_cast<const Floats*>(keys + i);
    float parts[lanes];
    *reinterpret_cast<Floats*>(parts) = sum;
    float score = sum_of_lanes(parts);
    for (int64_t i = whole; i < depth; ++i) score += q[i] * keys[i];
    scores[j] = score;
  }
}

}  // namespace

struct FloatAttention::Rows {
  const float *q, *keys, *values, *mask;  // of the first row and column
  float* y;
  int64_t count;
};

struct FloatAttention::Columns {
  int64_t first, end;
};

Verdict FloatAttention::check(const Program& program, const ProgramOp& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.has_input(i) && program.input(op, i).dtype != DType::kFloat32)
      return Verdict::refuse(fmt::format("{} is not float32", program.input(op, i).name));
  const int64_t width = std::max(program.input(op, 1).shape[3], program.input(op, 2).shape[3]);
  return width <= kMostWidth
             ? Verdict::accept()
             : Verdict::refuse(
                   fmt::format("its heads have {} elements, want at most {}", width, kMostWidth));
}

FloatAttention::FloatAttention(const Program& program, const ProgramOp& op,
                               const Strides& q_strides, const Strides& y_strides)
    : q_strides_(q_strides),
      y_strides_(y_strides),
      has_mask_(op.has_input(3)),
      scale_(static_cast<float>(op.get(attr::kScale))),
      softcap_(static_cast<float>(op.get(attr::kSoftcap))),
      is_masked_(op.get(attr::kMasked)) {
  const std::vector<int64_t>&q = program.input(op, 0).shape, &v = program.input(op, 2).shape;
  batch_ = q[0], heads_ = q[1], length_ = q[2], depth_ = q[3];
  groups_ = v[1], columns_ = v[2], width_ = v[3];
  if (!has_mask_) return;
  const std::vector<int64_t>& mask = program.input(op, 3).shape;
  for (size_t d = mask.size(), step = 1; d-- > 0; step *= static_cast<size_t>(mask[d]))
    if (mask[d] != 1) mask_strides_[4 - mask.size() + d] = static_cast<int64_t>(step);
}

FloatAttention::FloatAttention(const Program& program, const ProgramOp& op)
    : FloatAttention(program, op, {}, {}) {
  q_strides_ = {heads_ * length_ * depth_, length_ * depth_, depth_};
  y_strides_ = {heads_ * length_ * width_, length_ * width_, width_};
}

FloatAttention::Rows FloatAttention::rows_at(std::span<const std::byte* const> from, std::byte* to,
                                             int64_t head, int64_t first) const {
  const auto floats = [&](size_t i) { return reinterpret_cast<const float*>(from[i]); };
  const int64_t n = head / heads_, h = head % heads_;
  const int64_t cache = n * groups_ + h * groups_ / heads_;
  const auto offset = [&](const Strides& strides) {
    return n * strides[0] + h * strides[1] + first * strides[2];
  };
  Rows rows{floats(0) + offset(q_strides_),
            floats(1) + cache * columns_ * depth_,
            floats(2) + cache * columns_ * width_,
            nullptr,
            reinterpret_cast<float*>(to) + offset(y_strides_),
            std::min(kRows, length_ - first)};
  if (has_mask_)
    rows.mask = floats(3) + offset({mask_strides_[0], mask_strides_[1], mask_strides_[2]});
  return rows;
}

// All columns where some row has nothing but hidden ones.
FloatAttention::Columns FloatAttention::visible_columns(const Rows& rows) const {
  Columns visible{columns_, 0};
  if (!has_mask_ || mask_strides_[3] == 0) return {0, columns_};
  for (int64_t r = 0; r < rows.count; ++r) {
    const float* const mask = rows.mask + r * mask_strides_[2];
    int64_t first = 0, end = columns_;
    // NaN is not hidden
    while (first < columns_ && mask[first] <= kHidden) ++first;
    if (first == columns_) return {0, columns_};
    while (mask[end - 1] <= kHidden) --end;
    visible = {std::min(visible.first, first), std::max(visible.end, end)};
  }
  return visible;
}

template <int64_t lanes>
[[gnu::always_inline]] inline void FloatAttention::run_rows(const Rows& rows) const {
  const Columns visible = visible_columns(rows);
  const bool is_single = rows.count == 1;
  const int64_t count = is_single ? 1 : (rows.count + 3) / 4 * 4;
  alignas(64) float q[kRows * kMostWidth], y[kRows * kMostWidth], scores[kRows * kBlock];
  alignas(64) float keys[kMostWidth * kBlock];
  float greatest[kRows], sums[kRows];
  std::fill_n(greatest, count, kLowest);
  std::fill_n(sums, count, 0.0f);
  std::fill_n(y, count * width_, 0.0f);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t i = 0; i < depth_; ++i)
      q[r * depth_ + i] = r < rows.count ? rows.q[r * q_strides_[2] + i] * scale_ : 0;
  for (int64_t first = visible.first; first < visible.end; first += kBlock) {
    const int64_t columns = std::min(kBlock, visible.end - first);
    const float* const given = rows.keys + first * depth_;
    if (is_single) {
      multiply_row<lanes>(q, given, depth_, columns, scores);
    } else {
      for (int64_t i = 0; i < depth_; ++i)
        for (int64_t j = 0; j < kBlock; ++j)
          keys[i * kBlock + j] = j < columns ? given[j * depth_ + i] : 0;
      std::fill_n(scores, count * kBlock, 0.0f);
      for (int64_t r = 0; r < count; r += 4)
        add_product<lanes, 4>(q + r * depth_, depth_, keys, kBlock, scores + r * kBlock, kBlock,
                              depth_, kBlock);
    }
    for (int64_t r = 0; r < rows.count; ++r) {
      float* const row = scores + r * kBlock;
      if (softcap_ != 0)
        for (int64_t j = 0; j < columns; ++j)
          row[j] = softcap_ * hyperbolic_tangent(row[j] / softcap_);
      if (has_mask_) {
        const float* const mask = rows.mask + r * mask_strides_[2] + first * mask_strides_[3];
        for (int64_t j = 0; j < columns; ++j) row[j] += mask[j * mask_strides_[3]];
      }
      for (int64_t j = columns; j < kBlock; ++j) row[j] = kLowest;
      float lines[kBlock];
      for (int64_t j = 0; j < kBlock; ++j) lines[j] = row[j];
      const float before = greatest[r], now = std::max(before, greatest_of_lanes(lines));
      greatest[r] = now;
      // where nothing is visible so far, e^(x - 0) is 0 for all x of -inf
      const float shift = now == kLowest ? 0 : now;
      for (int64_t j = 0; j < kBlock; ++j) lines[j] = row[j] = falling_exponential(row[j] - shift);
      const float factor = before == kLowest ? 0 : exponential(before - shift);
      sums[r] = sums[r] * factor + sum_of_lanes(lines);
      if (factor != 1)
        for (int64_t i = 0; i < width_; ++i) y[r * width_ + i] *= factor;
    }
    const float* const values = rows.values + first * width_;
    if (is_single) {
      add_product<lanes, 1>(scores, kBlock, values, width_, y, width_, columns, width_);
    } else {
      for (int64_t r = 0; r < count; r += 4)
        add_product<lanes, 4>(scores + r * kBlock, kBlock, values, width_, y + r * width_, width_,
                              columns, width_);
    }
  }
  for (int64_t r = 0; r < rows.count; ++r) {
    // without a visible column the sum is 0, and softmax NaN unless it is masked
    const float factor = sums[r] == 0 && is_masked_ ? 0 : 1 / sums[r];
    for (int64_t i = 0; i < width_; ++i) rows.y[r * y_strides_[2] + i] = y[r * width_ + i] * factor;
  }
}

void FloatAttention::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                         const Parallel& parallel) const {
  const int64_t parts = (length_ + kRows - 1) / kRows;
  parallel(batch_ * heads_ * parts, std::min(length_, kRows) * columns_ * (depth_ + width_) / 4,
           [&](int64_t first, int64_t last) {
             run_in_vectors([&]<int64_t lanes>() __attribute__((always_inline)) {
               for (int64_t part = first; part < last; ++part)
                 run_rows<lanes>(rows_at(from, to, part / parts, part % parts * kRows));
             });
           });
}

}  // namespace octet
