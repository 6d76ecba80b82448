// Multiplies rows quantized at run time by int8 weights with scales per group of inputs; values of
// 4 bits or fewer are packed as nibbles.
// The sum of a group is exact; it is scaled and added to the others in float:
//
//   y[m, n] = scale[m] * (sum over groups g of w_scale[n, g] * sum[m, n, g]
//                         - zero_point[m] * shift[n]) + bias[n]
//   shift[n] = sum over groups g of w_scale[n, g] * (sum of the weights of the group)
#include <algorithm>
#include <cstring>

#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_kernels.h"
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/kernels/shared_weights.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kLeastGroup = 16;
constexpr int64_t kNibbleGroup = 2 * kGroup;  // inputs in 64 bytes of nibbles
constexpr int64_t kMostRows = 48;             // that share the weights of a block

// Packed for row_kernels.h.
struct GroupColumns {
  int bits;
  int64_t out, in, groups;
  Tensor values;             // int8 [blocks, in * 16 * bits / 8]
  std::vector<float> scale;  // [blocks, groups, 16]
  std::vector<float> shift;  // [blocks, 16]

  int64_t blocks() const { return round_up(out, kBlockColumns) / kBlockColumns; }
  int64_t block_bytes(int64_t inputs) const { return inputs * kBlockColumns * bits / 8; }
};

GroupColumns pack_groups(const ProgramTensor& w) {
  const Tensor values = w.stored->integers().contiguous(), scale = w.stored->scales();
  const int64_t out = w.shape[0], in = w.shape[1], groups = scale.shape()[1], group = in / groups,
                rows_per_scale = out / scale.shape()[0];
  const bool is_nibbles = group % kNibbleGroup == 0 && w.stored->bits() <= 4;
  GroupColumns packed = {is_nibbles ? 4 : 8, out, in, groups, {}, {}, {}};
  const int64_t columns = packed.blocks() * kBlockColumns;
  packed.values = Tensor::zeros(DType::kInt8, {packed.blocks(), packed.block_bytes(in)});
  packed.scale.resize(static_cast<size_t>(columns * groups));
  packed.shift.resize(static_cast<size_t>(columns));
  const int64_t together = is_nibbles ? kNibbleGroup : kGroup;  // inputs in 64 bytes
  for (int64_t n = 0; n < out; ++n) {
    const int64_t block = n / kBlockColumns, column = n % kBlockColumns;
    const int8_t* const from = values.data<int8_t>() + n * in;
    int8_t* const to =
        packed.values.data<int8_t>() + block * packed.block_bytes(in) + column * kGroup;
    for (int64_t k = 0; k < in; ++k) {
      const int place = static_cast<int>(k % together / kGroup * 4);  // of a nibble
      int8_t& byte = to[k / together * kGroup * kBlockColumns + k % kGroup];
      byte = static_cast<int8_t>(is_nibbles ? byte | (from[k] & 0xf) << place : from[k]);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const float one = scale.data<float>()[n / rows_per_scale * groups + g];
      int32_t sum = 0;
      for (int64_t k = g * group; k < (g + 1) * group; ++k) sum += from[k];
      packed.shift[static_cast<size_t>(n)] += one * static_cast<float>(sum);
      // kernels take nibbles 16 times as large
      packed.scale[static_cast<size_t>((block * groups + g) * kBlockColumns + column)] =
          is_nibbles ? one / 16 : one;
    }
  }
  return packed;
}

class PackedGroups : public RowProduct::Packed {
 public:
  PackedGroups(const RowProductTerms& terms, const ProgramTensor& w, int64_t rows)
      : rows_{rows, w.shape[1]},
        columns_(find_or_pack(w, pack_groups)),
        bias_(terms.bias),
        low_(terms.low),
        high_(terms.high) {
    bias_.resize(columns_->shift.size());
  }

  void run(const std::byte* from, std::byte* to, pthreadpool_t pool) const override {
    const int64_t blocks = columns_->blocks(), parts = (rows_.rows + kMostRows - 1) / kMostRows,
                  rows = std::min(rows_.rows, kMostRows);
    for_parts(pool, parts * blocks, rows_per_part(rows_.width * kBlockColumns * rows / 4),
              [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i)
                  multiply(from, i / blocks * kMostRows, i % blocks, reinterpret_cast<float*>(to));
              });
  }

 private:
  // Computes one block of some rows.
  void multiply(const std::byte* from, int64_t row, int64_t block, float* y) const {
    const GroupColumns& columns = *columns_;
    const RowKernel& kernel = best_row_kernel();
    const int64_t count = std::min(kMostRows, rows_.rows - row),
                  group = columns.in / columns.groups;
    alignas(64) float totals[kMostRows * kBlockColumns];
    std::fill_n(totals, count * kBlockColumns, 0.0f);
    const RowProductView view = {
        reinterpret_cast<const uint8_t*>(from) + rows_.values() + row * rows_.stride(),
        rows_.stride(),
        nullptr,
        columns.values.data<int8_t>() + block * columns.block_bytes(columns.in),
        group,
        nullptr,
        columns.scale.data() + block * columns.groups * kBlockColumns,
        nullptr,
        totals,
        kBlockColumns,
        0,
        0,
        nullptr,
        kBlockColumns,
        true,
        columns.groups};
    (columns.bits == 4 ? kernel.run_nibble_groups : kernel.run_groups)(view, 0, count, 0, 1);
    const RowParameters* const parameters = reinterpret_cast<const RowParameters*>(from) + row;
    for (int64_t m = 0; m < count; ++m)
      finish_row(totals + m * kBlockColumns, parameters[m], block,
                 y + (row + m) * columns.out + block * kBlockColumns);
  }

  void finish_row(const float* totals, RowParameters row, int64_t block, float* y) const {
    const int64_t column = block * kBlockColumns;
    const float *shift = columns_->shift.data() + column, *bias = bias_.data() + column;
    const float zero_point = static_cast<float>(row.zero_point);
    float real[kBlockColumns];
    for (int64_t c = 0; c < kBlockColumns; ++c) {
      const float v = (totals[c] - zero_point * shift[c]) * row.scale + bias[c];
      const float least = v < low_ ? low_ : v;
      real[c] = least > high_ ? high_ : least;
    }
    const int64_t some = std::min(kBlockColumns, columns_->out - column);
    std::memcpy(y, real, static_cast<size_t>(some) * sizeof(float));
  }

  RowLayout rows_;
  std::shared_ptr<const GroupColumns> columns_;
  std::vector<float> bias_;  // padded to whole blocks
  float low_, high_;
};

}  // namespace

bool has_weight_groups(const ProgramTensor& w) {
  if (best_row_kernel().run_groups == nullptr || !w.stored ||
      w.stored->values.dtype() != DType::kInt8 || !w.stored->scale.defined() ||
      w.shape.size() != 2 || w.numel() == 0)
    return false;
  const int64_t groups = w.stored->scale.shape()[1], group = w.shape[1] / groups;
  return groups >= 2 && group >= kLeastGroup && group % kGroup == 0 && !has_zero_points(*w.stored);
}

RowProduct::RowProduct(const RowProductTerms& terms, const ProgramTensor& w, int64_t rows)
    : packed_(std::make_shared<const PackedGroups>(terms, w, rows)) {}

}  // namespace octet::xnnpack
