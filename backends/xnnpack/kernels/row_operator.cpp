// Multiplies with XNNPACK's operator, in releases that have it. Custom kernels quantize, so that
// the scales are those of the op.
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/library.h"
#include "core/base/error.h"

namespace octet::xnnpack {

static_assert(sizeof(RowParameters) == sizeof(xnn_quantization_params) &&
              RowLayout::kExtraRows >= XNN_EXTRA_QUANTIZATION_PARAMS &&
              RowLayout::kExtraBytes >= XNN_EXTRA_BYTES);

struct RowProduct::Packed {
  RowLayout rows;
  OperatorHandle product;
};

int lowest_byte() { return -128; }

RowProduct::RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t pool) {
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
  packed_ = std::make_shared<const Packed>(Packed{layout, OperatorHandle(product)});
  require_success(
      xnn_reshape_fully_connected_nc_qd8_f32_qc8w(product, static_cast<size_t>(rows), pool),
      "xnn_reshape_fully_connected_nc_qd8_f32_qc8w");
}

void RowProduct::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                     pthreadpool_t pool) const {
  const xnn_operator_t product = packed_->product.get();
  xnn_status status = xnn_setup_fully_connected_nc_qd8_f32_qc8w(
      product, reinterpret_cast<const int8_t*>(from[0] + packed_->rows.values()),
      reinterpret_cast<float*>(to), reinterpret_cast<const xnn_quantization_params*>(from[0]));
  if (status == xnn_status_success) status = xnn_run_operator(product, pool);
  OCTET_ASSERT(status == xnn_status_success, "an operator that was reshaped runs");
}

}  // namespace octet::xnnpack
