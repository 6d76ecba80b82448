// Multiplies with XNNPACK's operator, or with a custom kernel for releases of XNNPACK whose integer
// products only write 8 bits, or whose operator has another type. Custom kernels quantize for both,
// so that the scales are those of the op.
#include "backends/xnnpack/kernels/row_product.h"

#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_kernels.h"
#include "backends/xnnpack/library.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

class PackedRows : public RowProduct::Packed {
 public:
  PackedRows(const RowProductTerms& terms, int64_t rows)
      : rows_{rows, terms.weights.values.shape()[1]},
        out_(terms.weights.values.shape()[0]),
        columns_(
            pack_columns(terms.weights.values.data<int8_t>(), out_, rows_.width, rows_.stride())),
        scale_(terms.weights.scale),
        bias_(terms.bias),
        low_(terms.low),
        high_(terms.high) {
    scale_.resize(columns_.sums.size());
    bias_.resize(columns_.sums.size());
  }

  void run(const std::byte* from, std::byte* to, pthreadpool_t pool) const override {
    // rows of x that stay in the L2 cache while all columns are processed
    constexpr int64_t kMostRows = 96;
    const RowProductView view = {reinterpret_cast<const uint8_t*>(from) + rows_.values(),
                                 rows_.stride(),
                                 reinterpret_cast<const RowParameters*>(from),
                                 columns_.weights.get(),
                                 rows_.stride(),
                                 columns_.sums.data(),
                                 scale_.data(),
                                 bias_.data(),
                                 reinterpret_cast<float*>(to),
                                 out_,
                                 low_,
                                 high_};
    const int64_t blocks = static_cast<int64_t>(columns_.sums.size()) / kBlockColumns,
                  column_parts = round_up(blocks, kTileBlocks) / kTileBlocks;
    const int64_t threads = static_cast<int64_t>(pthreadpool_get_threads_count(pool));
    int64_t row_parts = (rows_.rows + kMostRows - 1) / kMostRows;
    if (threads > 1 && row_parts * column_parts < 4 * threads)
      row_parts = 4 * threads / column_parts + 1;
    const int64_t rows = round_up((rows_.rows + row_parts - 1) / row_parts, kTileRows);
    pthreadpool_parallelize_2d_tile_2d(
        pool,
        [](void* context, size_t row, size_t block, size_t row_count, size_t block_count) {
          best_row_kernel().run(*static_cast<const RowProductView*>(context),
                                static_cast<int64_t>(row), static_cast<int64_t>(row_count),
                                static_cast<int64_t>(block), static_cast<int64_t>(block_count));
        },
        const_cast<RowProductView*>(&view), static_cast<size_t>(rows_.rows),
        static_cast<size_t>(blocks), static_cast<size_t>(rows), static_cast<size_t>(kTileBlocks),
        0);
  }

 private:
  RowLayout rows_;
  int64_t out_;
  PackedColumns columns_;
  std::vector<float> scale_;  // as bias_: padded to whole blocks
  std::vector<float> bias_;
  float low_, high_;
};

class PackedOperator : public RowProduct::Packed {
 public:
  PackedOperator(const RowLayout& rows, xnn_operator_t product) : rows_(rows), product_(product) {}

  void run(const std::byte* from, std::byte* to, pthreadpool_t pool) const override {
    xnn_status status = xnn_setup_fully_connected_nc_qd8_f32_qc8w(
        product_.get(), reinterpret_cast<const int8_t*>(from + rows_.values()),
        reinterpret_cast<float*>(to), from);
    if (status == xnn_status_success) status = xnn_run_operator(product_.get(), pool);
    OCTET_ASSERT(status == xnn_status_success, "an operator that was reshaped runs");
  }

 private:
  RowLayout rows_;
  OperatorHandle product_;
};

// Whether XNNPACK has the operator.
bool has_row_operator() { return opened_release() == Release::k2024; }

std::shared_ptr<const RowProduct::Packed> pack_for_operator(const RowProductTerms& terms,
                                                            int64_t rows, pthreadpool_t pool) {
  const Tensor& weights = terms.weights.values;
  const size_t out = static_cast<size_t>(weights.shape()[0]),
               in = static_cast<size_t>(weights.shape()[1]);
  const RowLayout layout = {rows, weights.shape()[1]};
  xnn_operator_t product = nullptr;
  require_success(xnn_create_fully_connected_nc_qd8_f32_qc8w(
                      in, out, static_cast<size_t>(layout.stride()), out,
                      terms.weights.scale.data(), weights.data<int8_t>(), terms.bias.data(),
                      terms.low, terms.high, 0, nullptr, nullptr, &product),
                  "xnn_create_fully_connected_nc_qd8_f32_qc8w");
  auto packed = std::make_shared<const PackedOperator>(layout, product);
  require_success(
      xnn_reshape_fully_connected_nc_qd8_f32_qc8w(product, static_cast<size_t>(rows), pool),
      "xnn_reshape_fully_connected_nc_qd8_f32_qc8w");
  return packed;
}

}  // namespace

int lowest_byte() { return has_row_operator() ? -128 : best_row_kernel().lowest; }

RowProduct::RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t pool) {
  if (has_row_operator())
    packed_ = pack_for_operator(terms, rows, pool);
  else
    packed_ = std::make_shared<const PackedRows>(terms, rows);
}

}  // namespace octet::xnnpack
