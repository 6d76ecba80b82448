// Ops of a segment that XNNPACK lacks, done between two stages by ourselves, so that they break no
// segment: copies of elements and tables of bytes, in whatever memory order the tensors are;
// functions, softmax, layer norm; recurrent layers; products of two activations, and linears on
// activations that are quantized at run time.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backends/xnnpack/form.h"
#include "backends/xnnpack/kernels/byte_conv.h"
#include "backends/xnnpack/kernels/byte_linear.h"
#include "backends/xnnpack/kernels/byte_product.h"
#include "backends/xnnpack/kernels/channel_affine.h"
#include "backends/xnnpack/kernels/copy.h"
#include "backends/xnnpack/kernels/float_map.h"
#include "backends/xnnpack/kernels/float_product.h"
#include "backends/xnnpack/kernels/float_softmax.h"
#include "backends/xnnpack/kernels/layer_norm.h"
#include "backends/xnnpack/kernels/recurrent.h"
#include "backends/xnnpack/kernels/reduction.h"
#include "backends/xnnpack/kernels/resize.h"
#include "backends/xnnpack/kernels/rotary.h"
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/kernels/softmax.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Accepts what is done that way; asked for what the table of XNNPACK's ops refuses. Shapes and
// attributes are checked too.
Verdict check_own(const Program& program, const ProgramOp& op);

// The memory orders that an accepted op insists on: of its inputs, of its output. Nothing: any.
struct OwnOrders {
  std::optional<Order> from;
  std::optional<Order> to;
  bool agree = false;  // the output's is the first input's
};
OwnOrders own_orders(const Program& program, const ProgramOp& op);

using OwnKernel =
    std::variant<StridedCopy, ByteSoftmax, RowQuantization, RowFakeQuantization, RowProduct,
                 FloatMap, FloatSoftmax, LayerNorm, ChannelAffine, Reduction, FloatProduct,
                 ByteProduct, ByteLinear, ByteConv, ImageResize, Rotary, Recurrent>;

// Some inputs of the op, and what is done with their elements.
struct OwnStep {
  std::vector<size_t> inputs;
  OwnKernel how;
};
// The steps that do an accepted op. from: the memory order of each input; to: that of the output;
// pool: of the runs, null for one thread. Throws Refusal.
std::vector<OwnStep> own_steps(const Program& program, const ProgramOp& op,
                               std::span<const Order> from, Order to, pthreadpool_t pool);

}  // namespace octet::xnnpack
