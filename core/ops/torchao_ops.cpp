#include "core/ops/torchao_ops.h"

#include <mutex>

#include <torch/library.h>

#include "core/ops/op_lookup.h"
#include "core/ops/qdq_kernels.h"

namespace octet {
namespace {

// Composite kernels, as torchao's are: what they call makes shapes and dtypes. Default dtypes by
// number: 6 is float32, 24 float8_e4m3fn.
void define_torchao(torch::Library& library) {
  library.def(
      "choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType "
      "target_dtype, Scalar? quant_min=None, "
      "Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? "
      "zero_point_dtype=None, bool keepdim=False) "
      "-> (Tensor, Tensor)",
      &qdq::choose_qparams_affine);
  library.def(
      "quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
      "ScalarType output_dtype, Scalar? quant_min=None, "
      "Scalar? quant_max=None) -> Tensor",
      &qdq::quantize_affine);
  library.def(
      "dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
      "ScalarType input_dtype, Scalar? quant_min=None, "
      "Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor",
      &qdq::dequantize_affine);
  library.def(
      "quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType "
      "float8_dtype=24) -> Tensor",
      &qdq::quantize_affine_float8);
  library.def(
      "dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType "
      "output_dtype=6) -> Tensor",
      &qdq::dequantize_affine_float8);
}

}  // namespace

void register_torchao_ops() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: a Library takes its ops back, and others may still run when the program
    // ends.
    static torch::Library* const library =
        new torch::Library(torch::Library::DEF, kOwnTorchao, std::nullopt, __FILE__, __LINE__);
    define_torchao(*library);
  });
}

}  // namespace octet
