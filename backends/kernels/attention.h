// Attention over keys and values that lie in a cache, as floats or as int8 with a scale for each
// row (ops.def, `attention`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/kernels/parallel.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

class FloatAttention {
 public:
  // Accepts heads of at most 256 elements.
  static Verdict check(const Program& program, const ProgramOp& op);
  // op: accepted by check. q_strides, y_strides: of [N,H,L], in elements; the last dimension has
  // no gaps. Keys, values and mask are row-major.
  using Strides = std::array<int64_t, 3>;
  FloatAttention(const Program& program, const ProgramOp& op, const Strides& q_strides,
                 const Strides& y_strides);
  // With row-major queries and results.
  FloatAttention(const Program& program, const ProgramOp& op);

  // from: the inputs of the op that are present. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;

 private:
  struct Rows;     // neighboring rows of one head
  struct Cached;   // its keys or values
  struct Columns;  // [first, end)

  Rows rows_at(std::span<const std::byte* const> from, std::byte* to, int64_t head,
               int64_t first) const;
  Columns visible_columns(const Rows& rows) const;
  void mask_scores(const Rows& rows, int64_t first, int64_t columns, int64_t row_step, int64_t step,
                   float* scores) const;
  template <int64_t lanes>
  void run_row(const Rows& row) const;
  template <int64_t lanes>
  void run_rows(const Rows& rows) const;
  // Divides by the sums.
  void write(const Rows& rows, const float* y, const float* sums) const;

  int64_t heads_, groups_, length_, columns_, depth_, width_, batch_;
  Strides q_strides_, y_strides_;
  std::array<int64_t, 4> mask_strides_{};  // 0 where it repeats
  bool has_mask_, has_scales_;
  float scale_, softcap_;
  bool is_masked_;
};

}  // namespace octet
