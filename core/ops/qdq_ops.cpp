// Defines the ops of quantized_decomposed and torchao for LibTorch's dispatcher, so that q/dq
// graphs run without Python.
#include "core/ops/op_lookup.h"

#include <mutex>

#include <torch/library.h>

#include "core/ops/qdq_kernels.h"

namespace octet {
namespace {

// Composite kernels: the ops that they call are differentiable, and fake_quant_per_channel defines
// its gradient.
void define_quantized_decomposed(torch::Library& library) {
  library.def(
      "quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
      "quant_max, ScalarType dtype) -> Tensor",
      &qdq::quantize_per_tensor);
  library.def(
      "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
      "int quant_max, ScalarType dtype) -> Tensor",
      &qdq::quantize_per_tensor_tensor);
  library.def(
      "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
      "quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
      &qdq::quantize_per_tensor_tensor2);
  library.def(
      "dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
      "quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &qdq::dequantize_per_tensor);
  library.def(
      "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
      "int quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &qdq::dequantize_per_tensor_tensor);
  library.def(
      "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
      "quant_min, Tensor quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &qdq::dequantize_per_tensor_tensor2);
  library.def(
      "choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
      "dtype) -> (Tensor, Tensor)",
      &qdq::choose_qparams);
  library.def(
      "choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, "
      "ScalarType dtype) -> (Tensor, Tensor)",
      &qdq::choose_qparams_symmetric);
  library.def(
      "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
      "quant_min, int quant_max, ScalarType dtype) -> Tensor",
      &qdq::quantize_per_channel);
  library.def(
      "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int "
      "quant_min, int quant_max, ScalarType dtype, *, "
      "ScalarType? out_dtype=None) -> Tensor",
      &qdq::dequantize_per_channel);
  library.def("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
              &qdq::choose_qparams_per_token);
  library.def(
      "_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, "
      "Tensor)",
      &qdq::choose_qparams_per_token_asymmetric);
  library.def(
      "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
      &qdq::choose_qparams_per_token_asymmetric);
  library.def(
      "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
      "quant_max, ScalarType dtype) -> Tensor",
      &qdq::quantize_per_token);
  library.def(
      "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
      "quant_max, ScalarType dtype, "
      "ScalarType output_dtype) -> Tensor",
      &qdq::dequantize_per_token);
  library.def(
      "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
      "int quant_max, ScalarType dtype, "
      "int group_size) -> Tensor",
      &qdq::quantize_per_channel_group);
  library.def(
      "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int "
      "quant_min, int quant_max, ScalarType dtype, "
      "int group_size, ScalarType output_dtype) -> Tensor",
      &qdq::dequantize_per_channel_group);
  library.def(
      "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
      "quant_min, int quant_max) -> Tensor",
      &qdq::fake_quant_per_channel);
  library.def("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor",
              &qdq::convert_element_type);
}

// Composite kernels, like torchao's: the ops that they call determine shapes and dtypes. Default
// dtypes are numbers: 6 is float32, 24 float8_e4m3fn.
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

void register_quantized_decomposed() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: a Library takes its ops back, and others may still run when the program
    // ends.
    static torch::Library* const library = new torch::Library(
        torch::Library::DEF, kOwnQuantizedDecomposed, std::nullopt, __FILE__, __LINE__);
    define_quantized_decomposed(*library);
  });
}

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
