// Our own arithmetic in place of what XNNPACK lacks, as rows of fallback_ops.cpp: functions of
// floats, softmax of floats, norms, reductions, rotary embeddings, products of two activations,
// linears and convolutions on bytes, recurrent layers, other sizes of images. Checks come after
// check_activations; steps are of accepted ops.
#pragma once

#include "backends/xnnpack/fallback_ops.h"

namespace octet::xnnpack {

inline bool has_floats(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }
// Of an activation; nothing: it has floats.
std::optional<ByteScale> byte_scale_of(const ProgramTensor& tensor);
Verdict expect_same_shape(const Program& program, const ProgramOp& op);

Verdict check_float_map(const Program& program, const ProgramOp& op);
Verdict check_float_softmax(const Program& program, const ProgramOp& op);
Verdict check_layer_norm(const Program& program, const ProgramOp& op);
Verdict check_group_norm(const Program& program, const ProgramOp& op);
Verdict check_batch_norm(const Program& program, const ProgramOp& op);
Verdict check_reduction(const Program& program, const ProgramOp& op);
Verdict check_rotary(const Program& program, const ProgramOp& op);
Verdict check_resize(const Program& program, const ProgramOp& op);
// Of images with so many channels that vectors of them pay.
Verdict check_resize_by_channels(const Program& program, const ProgramOp& op);
Verdict check_matmul(const Program& program, const ProgramOp& op);
Verdict check_byte_linear(const Program& program, const ProgramOp& op);
Verdict check_byte_conv(const Program& program, const ProgramOp& op);
Verdict check_byte_conv_3d(const Program& program, const ProgramOp& op);
Verdict check_row_product(const Program& program, const ProgramOp& op);
Verdict check_own_recurrent(const Program& program, const ProgramOp& op);

std::vector<OwnStep> float_map_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> float_softmax_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> layer_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> group_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> batch_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> reduction_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> rotary_steps(const Program& program, const ProgramOp& op,
                                  std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> resize_steps(const Program& program, const ProgramOp& op,
                                  std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> matmul_steps(const Program& program, const ProgramOp& op,
                                  std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> byte_linear_steps(const Program& program, const ProgramOp& op,
                                       std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> byte_conv_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> row_quantize_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> pixel_quantize_steps(const Program& program, const ProgramOp& op,
                                          std::span<const Order> from, Order to,
                                          pthreadpool_t pool);
std::vector<OwnStep> fake_quantize_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> row_linear_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> pixel_conv_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t pool);
std::vector<OwnStep> recurrent_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t pool);

}  // namespace octet::xnnpack
