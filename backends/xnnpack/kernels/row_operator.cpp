// Multiplies with XNNPACK's operator. Custom kernels quantize, so that the scales are those of the
// op.
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/library.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

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

}  // namespace

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

}  // namespace octet::xnnpack
