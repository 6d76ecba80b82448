// The kernels of quantized_decomposed's and torchao's ops, by op family. Each computes, bit by bit,
// what the Python function of the same name computes: quantization multiplies by the reciprocal of
// the scale and rounds half to even; per tensor, per channel and affine add the zero point after
// rounding, per token and per channel group before. Wrong dtypes and ranges throw c10::Error, like
// in every LibTorch op.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

namespace octet::qdq {

using at::ScalarType;
using OptionalType = std::optional<ScalarType>;

// Throws unless values can be quantized to the dtype (u8, i8, u16, i16, i32, f8e4m3fn, f8e5m2) and
// the range fits it.
void check_bounds(int64_t quant_min, int64_t quant_max, ScalarType dtype);
bool is_quantized_type(ScalarType dtype);
// Converts f16 and bf16 to f32; throws for dtypes other than f16, bf16 and f32.
at::Tensor to_float32(const at::Tensor& input);

// Per tensor
at::Tensor quantize_per_tensor(const at::Tensor& input, double scale, int64_t zero_point,
                               int64_t quant_min, int64_t quant_max, ScalarType dtype);
at::Tensor quantize_per_tensor_tensor(const at::Tensor& input, const at::Tensor& scale,
                                      const at::Tensor& zero_point, int64_t quant_min,
                                      int64_t quant_max, ScalarType dtype);
at::Tensor quantize_per_tensor_tensor2(const at::Tensor& input, const at::Tensor& scale,
                                       const at::Tensor& zero_point, const at::Tensor& quant_min,
                                       const at::Tensor& quant_max, ScalarType dtype);
at::Tensor dequantize_per_tensor(const at::Tensor& input, double scale, int64_t zero_point,
                                 int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                 OptionalType out_dtype);
at::Tensor dequantize_per_tensor_tensor(const at::Tensor& input, const at::Tensor& scale,
                                        const at::Tensor& zero_point, int64_t quant_min,
                                        int64_t quant_max, ScalarType dtype,
                                        OptionalType out_dtype);
at::Tensor dequantize_per_tensor_tensor2(const at::Tensor& input, const at::Tensor& scale,
                                         const at::Tensor& zero_point, const at::Tensor& quant_min,
                                         const at::Tensor& quant_max, ScalarType dtype,
                                         OptionalType out_dtype);
at::Tensor convert_element_type(const at::Tensor& input, ScalarType dtype);

// qdq_affine.cpp: (scale, zero point)
using QParamTensors = std::tuple<at::Tensor, at::Tensor>;
QParamTensors choose_qparams(const at::Tensor& input, int64_t quant_min, int64_t quant_max,
                             double eps, ScalarType dtype);
QParamTensors choose_qparams_symmetric(const at::Tensor& input, int64_t quant_min,
                                       int64_t quant_max, double eps, ScalarType dtype);
QParamTensors choose_qparams_per_token(const at::Tensor& input, ScalarType dtype);
QParamTensors choose_qparams_per_token_asymmetric(const at::Tensor& input, ScalarType dtype);

// Per channel, group and token. A negative axis counts from the end.
at::Tensor quantize_per_channel(const at::Tensor& input, const at::Tensor& scales,
                                const at::Tensor& zero_points, int64_t axis, int64_t quant_min,
                                int64_t quant_max, ScalarType dtype);
at::Tensor dequantize_per_channel(const at::Tensor& input, const at::Tensor& scales,
                                  const std::optional<at::Tensor>& zero_points, int64_t axis,
                                  int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                  OptionalType out_dtype);
at::Tensor fake_quant_per_channel(const at::Tensor& input, const at::Tensor& scales,
                                  const at::Tensor& zero_points, int64_t axis, int64_t quant_min,
                                  int64_t quant_max);
at::Tensor quantize_per_channel_group(const at::Tensor& input, const at::Tensor& scales,
                                      const at::Tensor& zero_points, int64_t quant_min,
                                      int64_t quant_max, ScalarType dtype, int64_t group_size);
at::Tensor dequantize_per_channel_group(const at::Tensor& input, const at::Tensor& scales,
                                        const std::optional<at::Tensor>& zero_points,
                                        int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                        int64_t group_size, ScalarType output_dtype);
at::Tensor quantize_per_token(const at::Tensor& input, const at::Tensor& scales,
                              const at::Tensor& zero_points, int64_t quant_min, int64_t quant_max,
                              ScalarType dtype);
at::Tensor dequantize_per_token(const at::Tensor& input, const at::Tensor& scales,
                                const at::Tensor& zero_points, int64_t quant_min, int64_t quant_max,
                                ScalarType dtype, ScalarType output_dtype);

// qdq_affine.cpp. block_size: one entry per dimension; the elements of a block share a scale and a
// zero point, and blocks are counted row-major. The default range is the dtype's; dtypes: u8, i8,
// i16, i32, float8, i1-i7 (ranges only) and u1-u7 (stored as u8). mapping_type: SYMMETRIC,
// ASYMMETRIC or SYMMETRIC_NO_CLIPPING_ERR.
QParamTensors choose_qparams_affine(const std::optional<at::Tensor>& input,
                                    c10::string_view mapping_type, c10::SymIntArrayRef block_size,
                                    ScalarType target_dtype,
                                    const std::optional<at::Scalar>& quant_min,
                                    const std::optional<at::Scalar>& quant_max,
                                    std::optional<double> eps, OptionalType scale_dtype,
                                    OptionalType zero_point_dtype, bool keepdim);
at::Tensor quantize_affine(const at::Tensor& input, c10::SymIntArrayRef block_size,
                           const at::Tensor& scale, const std::optional<at::Tensor>& zero_point,
                           ScalarType output_dtype, const std::optional<at::Scalar>& quant_min,
                           const std::optional<at::Scalar>& quant_max);
at::Tensor dequantize_affine(const at::Tensor& input, c10::SymIntArrayRef block_size,
                             const at::Tensor& scale, const std::optional<at::Tensor>& zero_point,
                             ScalarType input_dtype, const std::optional<at::Scalar>& quant_min,
                             const std::optional<at::Scalar>& quant_max, ScalarType output_dtype);
// Returns tensor / scale as float8, saturated. The scale is broadcast or repeated to the tensor's
// shape.
at::Tensor quantize_affine_float8(const at::Tensor& tensor, const at::Tensor& scale,
                                  ScalarType float8_dtype);
at::Tensor dequantize_affine_float8(const at::Tensor& tensor, const at::Tensor& scale,
                                    ScalarType output_dtype);

}  // namespace octet::qdq
