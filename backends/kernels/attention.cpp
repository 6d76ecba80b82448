// Computes attention block by block over the columns of the cache, with a running maximum and sum
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), so that the scores
// need no memory outside of a core's cache. For each block of columns, with its scores s:
//
//   m' = max(m, max s)                  the maximum so far; m is -inf at first
//   sum = sum * e^(m - m') + sum of e^(s - m')
//   y   = y   * e^(m - m') + sum of e^(s - m') * values
//
// and at the end y / sum. Example: the scores 1, 3 in one block and 5 in the next. After the first,
// m = 3 and sum = e^-2 + 1; the second makes it m = 5 and sum = (e^-2 + 1) * e^-2 + 1, which is
// e^-4 + e^-2 + 1, as if all scores had been known.
//
// In a prompt, a block serves several rows: their queries and scores are transposed, so that the
// lanes of a vector are rows, and softmax needs no sums across a vector. A single row, as in
// decoding, has its elements in the lanes. Columns before the first and after the last that the
// mask shows are not read. Integers become floats block by block, so that results are those of a
// cache with these floats.
#include "backends/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/kernels/float_tile.h"
#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/shape.h"

namespace octet {
namespace {

constexpr int64_t kMostWidth = 256;  // elements of a head
constexpr int64_t kBlock = 64;       // columns
constexpr int64_t kRows = 32;        // of queries that share a block
constexpr float kHidden = -1e30f;    // see ops.def

// The first factor of a product. A step of 1 between rows: it is transposed.
struct Factor {
  const float* from;
  int64_t row_step, step;
};

template <int64_t lanes, int64_t rows>
[[gnu::always_inline]] inline void add_rows(const Factor& a, const float* b, int64_t b_step,
                                            float* y, int64_t y_step, int64_t depth,
                                            int64_t width) {
  constexpr int64_t kVectors = rows == 1 ? 4 : 2;
  int64_t column = 0;
  for (; column + kVectors * lanes <= width; column += kVectors * lanes)
    add_tile<lanes, rows, kVectors>(a.from, a.row_step, a.step, b + column, b_step, y + column,
                                    y_step, y + column, y_step, depth);
  for (; column + lanes <= width; column += lanes)
    add_tile<lanes, rows, 1>(a.from, a.row_step, a.step, b + column, b_step, y + column, y_step,
                             y + column, y_step, depth);
  for (; column < width; ++column)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < depth; ++d)
        y[r * y_step + column] += a.from[r * a.row_step + d * a.step] * b[d * b_step + column];
}

// y[rows, width] += a[rows, depth] * b[depth, width]; b and y have these steps between rows.
template <int64_t lanes>
[[gnu::always_inline]] inline void add_product(const Factor& a, const float* b, int64_t b_step,
                                               float* y, int64_t y_step, int64_t rows,
                                               int64_t depth, int64_t width) {
  constexpr int64_t kTileRows = lanes == 16 ? 8 : 4;
  const auto rest = [&](int64_t r) { return Factor{a.from + r * a.row_step, a.row_step, a.step}; };
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows)
    add_rows<lanes, kTileRows>(rest(r), b, b_step, y + r * y_step, y_step, depth, width);
  for (; r < rows; ++r)
    add_rows<lanes, 1>(rest(r), b, b_step, y + r * y_step, y_step, depth, width);
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

// Whether the mask hides or shows all of kBlock columns; NaN does neither. Compilers vectorize sums
// of integers.
[[gnu::always_inline]] inline bool hides_block(const float* mask) {
  int32_t others = 0;
  for (int64_t j = 0; j < kBlock; ++j) others += mask[j] <= kHidden ? 0 : 1;
  return others == 0;
}
[[gnu::always_inline]] inline bool shows_block(const float* mask) {
  int32_t others = 0;
  for (int64_t j = 0; j < kBlock; ++j) others += mask[j] == 0 ? 0 : 1;
  return others == 0;
}

// What is subtracted from scores. Where nothing is visible so far, e^(x - 0) is 0 for all x of
// -inf.
[[gnu::always_inline]] inline float shift_of(float greatest) {
  return greatest == kLowest ? 0 : greatest;
}
// The factor of earlier results.
[[gnu::always_inline]] inline float factor_of(float greatest_before, float shift) {
  const float factor = exponential(greatest_before - shift);
  return greatest_before == kLowest ? 0 : factor;
}

}  // namespace

struct FloatAttention::Cached {
  const std::byte* elements;
  const float* scales;  // one for each row of int8; null for floats
  int64_t width;

  // `count` rows from row `first` on, made in `block` unless the cache has floats.
  [[gnu::always_inline]] inline const float* floats(int64_t first, int64_t count,
                                                    float* block) const {
    if (scales == nullptr) return reinterpret_cast<const float*>(elements) + first * width;
    const int8_t* from = reinterpret_cast<const int8_t*>(elements) + first * width;
    float* to = block;
    for (int64_t row = first; row < first + count; ++row, from += width, to += width) {
      const float scale = scales[row];
      for (int64_t i = 0; i < width; ++i) to[i] = static_cast<float>(from[i]) * scale;
    }
    return block;
  }
};

struct FloatAttention::Rows {
  const float *q, *mask;  // of the first row and column
  Cached keys, values;
  float* y;
  int64_t count;
};

struct FloatAttention::Columns {
  int64_t first, end;
};

Verdict FloatAttention::check(const Program& program, const ProgramOp& op) {
  const bool has_scales = op.has_input(4);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.has_input(i) && program.input(op, i).dtype != DType::kFloat32 &&
        !(has_scales && (i == 1 || i == 2)))
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
      has_scales_(op.has_input(4)),
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
  const auto cached = [&](size_t i, int64_t width) {
    const int64_t element = has_scales_ ? 1 : sizeof(float);
    const float* const scales =
        has_scales_ ? floats(i + (has_mask_ ? 3 : 2)) + cache * columns_ : nullptr;
    return Cached{from[i] + cache * columns_ * width * element, scales, width};
  };
  Rows rows{floats(0) + offset(q_strides_),
            nullptr,
            cached(1, depth_),
            cached(2, width_),
            reinterpret_cast<float*>(to) + offset(y_strides_),
            std::min(kRows, length_ - first)};
  if (has_mask_)
    rows.mask = floats(3) + offset({mask_strides_[0], mask_strides_[1], mask_strides_[2]});
  return rows;
}

// All columns where some row has nothing but hidden ones.
[[gnu::always_inline]] inline FloatAttention::Columns FloatAttention::visible_columns(
    const Rows& rows) const {
  Columns visible{columns_, 0};
  if (!has_mask_ || mask_strides_[3] == 0) return {0, columns_};
  for (int64_t r = 0; r < rows.count; ++r) {
    const float* const mask = rows.mask + r * mask_strides_[2];
    int64_t first = 0, end = columns_;
    while (first + kBlock <= columns_ && hides_block(mask + first)) first += kBlock;
    // NaN is not hidden
    while (first < columns_ && mask[first] <= kHidden) ++first;
    if (first == columns_) return {0, columns_};
    while (end >= kBlock && hides_block(mask + end - kBlock)) end -= kBlock;
    while (mask[end - 1] <= kHidden) --end;
    visible = {std::min(visible.first, first), std::max(visible.end, end)};
  }
  return visible;
}

// Applies softcap and mask to the score of row r and column j, which is at scores[r * row_step + j
// * step].
[[gnu::always_inline]] inline void FloatAttention::mask_scores(const Rows& rows, int64_t first,
                                                               int64_t columns, int64_t row_step,
                                                               int64_t step, float* scores) const {
  for (int64_t r = 0; r < rows.count; ++r) {
    float* const row = scores + r * row_step;
    if (softcap_ != 0)
      for (int64_t j = 0; j < columns; ++j)
        row[j * step] = softcap_ * hyperbolic_tangent(row[j * step] / softcap_);
    if (!has_mask_) continue;
    const float* const mask = rows.mask + r * mask_strides_[2] + first * mask_strides_[3];
    if (mask_strides_[3] == 1 && columns == kBlock && shows_block(mask)) continue;
    for (int64_t j = 0; j < columns; ++j) row[j * step] += mask[j * mask_strides_[3]];
  }
}

template <int64_t lanes>
[[gnu::always_inline]] inline void FloatAttention::run_row(const Rows& row) const {
  const Columns visible = visible_columns(row);
  alignas(64) float q[kMostWidth], y[kMostWidth], scores[kBlock], block[kBlock * kMostWidth];
  float greatest = kLowest, sum = 0;
  std::fill_n(y, width_, 0.0f);
  for (int64_t i = 0; i < depth_; ++i) q[i] = row.q[i] * scale_;
  for (int64_t first = visible.first; first < visible.end; first += kBlock) {
    const int64_t columns = std::min(kBlock, visible.end - first);
    multiply_row<lanes>(q, row.keys.floats(first, columns, block), depth_, columns, scores);
    mask_scores(row, first, columns, 0, 1, scores);
    for (int64_t j = columns; j < kBlock; ++j) scores[j] = kLowest;
    float lines[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) lines[j] = scores[j];
    const float before = greatest;
    greatest = std::max(before, greatest_of_lanes(lines));
    const float shift = shift_of(greatest), factor = factor_of(before, shift);
    for (int64_t j = 0; j < kBlock; ++j)
      lines[j] = scores[j] = falling_exponential(scores[j] - shift);
    sum = sum * factor + sum_of_lanes(lines);
    if (factor != 1)
      for (int64_t i = 0; i < width_; ++i) y[i] *= factor;
    add_rows<lanes, 1>({scores, kBlock, 1}, row.values.floats(first, columns, block), width_, y,
                       width_, columns, width_);
  }
  write(row, y, &sum);
}

// Lanes are rows.
template <int64_t lanes>
[[gnu::always_inline]] inline void FloatAttention::run_rows(const Rows& rows) const {
  using Floats = typename VectorOf<lanes>::Floats;
  // at: aligned, as clang takes the reference to be
  const auto vector = [](float* at) __attribute__((always_inline)) -> Floats& {
    return *reinterpret_cast<Floats*>(at);
  };
  const Columns visible = visible_columns(rows);
  const int64_t count = (rows.count + lanes - 1) / lanes * lanes;
  alignas(64) float q[kMostWidth * kRows], y[kRows * kMostWidth], scores[kBlock * kRows];
  alignas(64) float greatest[kRows], sums[kRows], shift[kRows], factor[kRows];
  alignas(64) float block[kBlock * kMostWidth];
  std::fill_n(greatest, kRows, kLowest);
  std::fill_n(sums, kRows, 0.0f);
  std::fill_n(y, rows.count * width_, 0.0f);
  std::fill_n(q, depth_ * kRows, 0.0f);
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t i = 0; i < depth_; ++i) q[i * kRows + r] = rows.q[r * q_strides_[2] + i] * scale_;
  for (int64_t first = visible.first; first < visible.end; first += kBlock) {
    const int64_t columns = std::min(kBlock, visible.end - first);
    std::fill_n(scores, columns * kRows, 0.0f);
    add_product<lanes>({rows.keys.floats(first, columns, block), depth_, 1}, q, kRows, scores,
                       kRows, columns, depth_, count);
    mask_scores(rows, first, columns, 1, kRows, scores);
    for (int64_t c = 0; c < count; c += lanes) {
      const float* const before = greatest + c;
      Floats now = vector(greatest + c), sum{};
      for (int64_t j = 0; j < columns; ++j) {
        const Floats score = vector(scores + j * kRows + c);
        now = now < score ? score : now;
      }
      alignas(64) float latest[lanes];
      vector(latest) = now;
      for (int64_t k = 0; k < lanes; ++k) shift[c + k] = shift_of(latest[k]);
      for (int64_t k = 0; k < lanes; ++k) factor[c + k] = factor_of(before[k], shift[c + k]);
      vector(greatest + c) = now;
      for (int64_t j = 0; j < columns; ++j) {
        float* const line = scores + j * kRows + c;
        for (int64_t k = 0; k < lanes; ++k) line[k] = falling_exponential(line[k] - shift[c + k]);
        sum += vector(line);
      }
      vector(sums + c) = vector(sums + c) * vector(factor + c) + sum;
    }
    for (int64_t r = 0; r < rows.count; ++r)
      if (factor[r] != 1)
        for (int64_t i = 0; i < width_; ++i) y[r * width_ + i] *= factor[r];
    add_product<lanes>({scores, 1, kRows}, rows.values.floats(first, columns, block), width_, y,
                       width_, rows.count, columns, width_);
  }
  write(rows, y, sums);
}

void FloatAttention::write(const Rows& rows, const float* y, const float* sums) const {
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
               for (int64_t part = first; part < last; ++part) {
                 const Rows rows = rows_at(from, to, part / parts, part % parts * kRows);
                 rows.count == 1 ? run_row<lanes>(rows) : run_rows<lanes>(rows);
               }
             });
           });
}

}  // namespace octet
