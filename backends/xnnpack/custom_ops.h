// Runs ops that XNNPACK lacks with custom kernels between two XNNPACK runtimes, so that the segment
// need not be split: copies and byte tables in any memory order; functions of floats, softmax,
// norms, reductions, rotary embeddings, resized images; products of two activations; linears and
// convolutions on bytes; recurrent layers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backends/kernels/attention.h"
#include "backends/kernels/float_loops.h"
#include "backends/kernels/int16_ops.h"
#include "backends/kernels/norm.h"
#include "backends/kernels/recurrent_layer.h"
#include "backends/kernels/reduction.h"
#include "backends/kernels/resize.h"
#include "backends/kernels/softmax.h"
#include "backends/kernels/strided.h"
#include "backends/xnnpack/form.h"
#include "backends/xnnpack/kernels/byte_conv.h"
#include "backends/xnnpack/kernels/byte_linear.h"
#include "backends/xnnpack/kernels/byte_product.h"
#include "backends/xnnpack/kernels/float_product.h"
#include "backends/xnnpack/kernels/row_product.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Accepts what a custom kernel can run. Called for ops that find_native_op's checks refuse.
Verdict check_custom(const Program& program, const ProgramOp& op);
// The kinds with custom kernels; some repeat.
std::vector<std::string_view> custom_kinds();

// The memory orders that an accepted op requires of its inputs and output; nullopt: any.
struct CustomOrders {
  std::optional<Order> from;
  std::optional<Order> to;
  bool agree = false;  // the output has the order of the first input
};
CustomOrders custom_orders(const Program& program, const ProgramOp& op);

using SharedRecurrentLayer = std::shared_ptr<const RecurrentLayer>;
using CustomKernel =
    std::variant<StridedCopy, ByteSoftmax, RowQuantization, RowFakeQuantization, RowProduct,
                 FloatMap, FloatSoftmax, RowNorm, ChannelAffine, Reduction, FloatProduct,
                 ByteProduct, ByteLinear, ByteConv, ImageResize, Rotary, FloatAttention,
                 WeightLinear, Int16Kernel, SharedRecurrentLayer>;

// A kernel, and which inputs of the op it reads.
struct CustomStep {
  std::vector<size_t> inputs;
  CustomKernel kernel;
};
// Makes the steps for an accepted op. from, to: memory orders of the inputs and the output. pool:
// of the runs, null for one thread. Throws Refusal.
using MakeSteps = std::vector<CustomStep>(const Program& program, const ProgramOp& op,
                                          std::span<const Order> from, Order to,
                                          pthreadpool_t pool);
MakeSteps custom_steps;

// ---- the rows of custom_ops.cpp. Checks run after check_activations; steps are for accepted ops.

inline bool has_floats(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }
// Strides of a tensor in that order, by logical dimension.
std::vector<int64_t> strides_in(const std::vector<int64_t>& shape, Order order);
// The scale of an activation; nullopt for floats.
std::optional<ByteScale> byte_scale_of(const ProgramTensor& tensor);

using CheckOp = Verdict(const Program& program, const ProgramOp& op);
CheckOp check_float_map, check_float_softmax, check_norm, check_reduction, check_rotary,
    check_matmul, check_weight_linear, check_byte_linear, check_byte_conv, check_byte_conv_3d,
    check_row_product;
// Accepts images with enough channels for vectors along them to pay.
CheckOp check_resize_by_channels;

MakeSteps float_map_steps, float_softmax_steps, layer_norm_steps, group_norm_steps,
    batch_norm_steps, reduction_steps, rotary_steps, attention_steps, resize_steps, matmul_steps,
    weight_linear_steps, int16_steps, byte_linear_steps, byte_conv_steps, row_quantize_steps,
    pixel_quantize_steps, fake_quantize_steps, row_linear_steps, pixel_conv_steps, recurrent_steps;

}  // namespace octet::xnnpack
