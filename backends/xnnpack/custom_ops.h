// Ops of a segment that XNNPACK lacks, done by custom kernels between two XNNPACK runtimes, so that
// the segment need not be cut: copies of elements and tables of bytes in any memory order;
// functions of floats, softmax, norms, reductions, rotary embeddings, other sizes of images;
// products of two activations; linears and convolutions on bytes; recurrent layers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backends/kernels/float_loops.h"
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

// Accepts what a custom kernel does; asked about what the table of XNNPACK's ops refuses. Shapes
// and attributes are checked too.
Verdict check_custom(const Program& program, const ProgramOp& op);

// The memory orders that an accepted op insists on: of its inputs, of its output. Nothing: any.
struct CustomOrders {
  std::optional<Order> from;
  std::optional<Order> to;
  bool agree = false;  // the output's is the first input's
};
CustomOrders custom_orders(const Program& program, const ProgramOp& op);

using SharedRecurrentLayer = std::shared_ptr<const RecurrentLayer>;
using CustomKernel =
    std::variant<StridedCopy, ByteSoftmax, RowQuantization, RowFakeQuantization, RowProduct,
                 FloatMap, FloatSoftmax, RowNorm, ChannelAffine, Reduction, FloatProduct,
                 ByteProduct, ByteLinear, ByteConv, ImageResize, Rotary, SharedRecurrentLayer>;

// Some inputs of the op, and the kernel that reads them.
struct CustomStep {
  std::vector<size_t> inputs;
  CustomKernel kernel;
};
// The steps that do an accepted op. from: the memory order of each input; to: that of the output;
// pool: of the runs, null for one thread. Throws Refusal.
using MakeSteps = std::vector<CustomStep>(const Program& program, const ProgramOp& op,
                                          std::span<const Order> from, Order to,
                                          pthreadpool_t pool);
MakeSteps custom_steps;

// ---- the rows of custom_ops.cpp. Checks come after check_activations; steps are of accepted ops.

inline bool has_floats(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }
// The scale of an activation; nothing where it has floats.
std::optional<ByteScale> byte_scale_of(const ProgramTensor& tensor);

using CheckOp = Verdict(const Program& program, const ProgramOp& op);
CheckOp expect_same_shape, check_float_map, check_float_softmax, check_layer_norm, check_group_norm,
    check_batch_norm, check_reduction, check_rotary, check_resize, check_matmul, check_byte_linear,
    check_byte_conv, check_byte_conv_3d, check_row_product;
// Accepts images with so many channels that vectors of them pay.
CheckOp check_resize_by_channels;

MakeSteps float_map_steps, float_softmax_steps, layer_norm_steps, group_norm_steps,
    batch_norm_steps, reduction_steps, rotary_steps, resize_steps, matmul_steps, byte_linear_steps,
    byte_conv_steps, row_quantize_steps, pixel_quantize_steps, fake_quantize_steps,
    row_linear_steps, pixel_conv_steps, recurrent_steps;

}  // namespace octet::xnnpack
