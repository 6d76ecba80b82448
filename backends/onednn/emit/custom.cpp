// Emits ops that only custom kernels run (backends/kernels): reductions, group and RMS norms,
// rotary embeddings, attention, resizing, recurrent layers. The kernels use floats; integer inputs
// and outputs are converted unless the kernel supports them.
#include <memory>

#include <fmt/format.h>

#include "backends/kernels/attention.h"
#include "backends/kernels/norm.h"
#include "backends/kernels/recurrent_layer.h"
#include "backends/kernels/reduction.h"
#include "backends/kernels/resize.h"
#include "backends/kernels/strided.h"
#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/emit/post_ops.h"
#include "backends/onednn/packed.h"
#include "core/base/shape.h"
#include "lowering/program/resize_scale.h"

namespace octet::onednn {
namespace {

std::vector<char> reduced_dimensions(const ProgramOp& op, size_t rank) {
  const Dims dims = op.get(attr::kDims);
  std::vector<char> is_reduced(rank, dims.empty());
  for (int64_t dim : dims) is_reduced[static_cast<size_t>(wrap_dim(dim, rank))] = true;
  return is_reduced;
}

// Merges the reduced dimensions into one if they are contiguous in memory; else chooses an order in
// which they are innermost.
struct ReductionPlan {
  Reduction reduction;
  Dims strides;  // of x
};

ReductionPlan plan_reduction(const Dims& shape, const std::vector<char>& is_reduced) {
  ReductionPlan plan{{}, row_major(shape)};
  bool is_broken = false, is_after = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (is_reduced[d]) {
      is_broken = is_broken || is_after;
      plan.reduction.size *= shape[d];
    } else {
      is_after = is_after || plan.reduction.size > 1;
      (is_after ? plan.reduction.inner : plan.reduction.outer) *= shape[d];
    }
  }
  if (!is_broken) return plan;
  plan.reduction.outer *= plan.reduction.inner;
  plan.reduction.inner = 1;
  int64_t step = 1;
  for (const bool turn : {true, false})
    for (size_t d = shape.size(); d-- > 0;)
      if (static_cast<bool>(is_reduced[d]) == turn) {
        plan.strides[d] = step;
        step *= shape[d];
      }
  return plan;
}

// Keeps one copy for all segments.
std::shared_ptr<std::byte> keep_packed(const ProgramTensor& weights, const std::string& form,
                                       size_t bytes, const std::function<PackedBlock()>& pack) {
  const PackedForm packed = {form, {}, {}, bytes};
  return weights.stored ? find_or_pack(*weights.stored, packed, pack)
                        : find_or_pack(weights.data, packed, pack);
}

// Arguments: the input's gates, the first hidden state, for lstm the first cell state, then scratch
// memory, y, and for lstm the last cell state.
Loop layer_loop(std::shared_ptr<const RecurrentLayer> layer, bool has_cell) {
  return [layer = std::move(layer), has_cell](std::byte* const* arguments) {
    const size_t inputs = has_cell ? 3 : 2, outputs = has_cell ? 2 : 1;
    layer->run({arguments, inputs}, {arguments + inputs + 1, outputs}, arguments[inputs],
               on_openmp());
  };
}

}  // namespace

void emit_reduce(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const std::string name = op.get(attr::kFn);
  const std::optional<Reduction::Kind> kind = find_reduction(name);
  if (!kind) throw Refusal{fmt::format("the reduction {} is unknown here", name)};
  ReductionPlan plan = plan_reduction(xt.shape, reduced_dimensions(op, xt.shape.size()));
  plan.reduction.kind = *kind;
  const Clamp clamp = clamp_of(op);
  if (clamp.min) plan.reduction.low = static_cast<float>(*clamp.min);
  if (clamp.max) plan.reduction.high = static_cast<float>(*clamp.max);
  const Stored x = to_real(builder, op.inputs[0], plan.strides);
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  add_kernel(builder, "reduce", plan.reduction, {x.place}, y.place);
  define_real(builder, op.outputs[0], y);
}

void emit_group_norm(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims shape = builder.tensor(op.inputs[0]).shape;
  const Stored kept = builder.read(op.inputs[0]);
  const bool is_channels_last =
      shape.size() > 2 && same_strides(shape, kept.strides, channels_last(shape));
  const Dims order = is_channels_last ? channels_last(shape) : row_major(shape);
  const Stored x = convert(builder, kept, {}, order);
  const Stored y = builder.allocate(shape, {}, order);
  const int64_t groups = op.get(attr::kGroups), pixels = product(shape) / (shape[0] * shape[1]);
  const double eps = op.get(attr::kEps);
  const std::vector<float> weight = parameter(builder, op, 1, shape[1], 1.0f),
                           bias = parameter(builder, op, 2, shape[1], 0.0f);
  if (is_channels_last) {
    add_kernel(builder, "group_norm",
               PixelGroupNorm{shape[0], pixels, shape[1], groups, eps, weight, bias}, {x.place},
               y.place);
  } else {
    RowNorm norm;
    norm.rows = shape[0] * groups;
    norm.width = shape[1] / groups * pixels;
    norm.eps = eps;
    norm.run_length = pixels;
    norm.groups = groups;
    norm.weight = weight;
    norm.bias = bias;
    add_kernel(builder, "group_norm", std::move(norm), {x.place}, y.place);
  }
  define_real(builder, op.outputs[0], y);
}

// Writes bytes directly if only a quantize reads the result.
void emit_rms_norm(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  const Stored x = to_real(builder, op.inputs[0], row_major(shape));
  RowNorm norm;
  norm.width = product({shape.end() - op.get(attr::kNormalizedDims), shape.end()});
  norm.rows = x.numel() / norm.width;
  norm.eps = op.get(attr::kEps);
  norm.is_centered = false;
  norm.weight = parameter(builder, op, 1, norm.width, 1.0f);
  const std::vector<Follower> all = find_followers(builder, op);
  const bool is_quantized = !all.empty() && all.front().kind == Follower::Kind::kQuantize;
  const int output = absorb_followers(builder, op, {all.data(), is_quantized ? 1U : 0U});
  const Stored y = builder.allocate(shape, builder.output_quant_params(output), row_major(shape));
  norm.to = byte_scale_of(y.quant_params);
  add_kernel(builder, "rms_norm", std::move(norm), {x.place}, y.place);
  if (!y.quant_params.is_integer()) builder.allow_in_place();
  builder.define(output, y);
}

// Works on channels-last images, of bytes or floats.
void emit_upsample(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims in = builder.tensor(op.inputs[0]).shape, out = builder.tensor(op.outputs[0]).shape;
  const Stored kept = builder.read(op.inputs[0]);
  const Stored x = convert(builder, kept, kept.quant_params, channels_last(in));
  const QuantParams wanted = builder.output_quant_params(op.outputs[0]);
  const Stored y = builder.allocate(out, wanted, channels_last(out));
  const Resize mode = *find_resize(op.get(attr::kMode), 2);
  ImageResize resize;
  resize.outer = in[0];
  resize.inner = in[1];
  for (size_t d = 0; d < 2; ++d)
    resize.axes[1 + d] = resize_axis(mode, op.get(attr::kAlignCorners),
                                     resize_scale(op, d, in, out), in[2 + d], out[2 + d]);
  resize.from = byte_scale_of(x.quant_params);
  resize.to = byte_scale_of(wanted);
  add_kernel(builder, "upsample", std::move(resize), {x.place}, y.place);
  builder.define(op.outputs[0], y);
}

void emit_rotary(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  const Dims& factors = builder.tensor(op.inputs[1]).shape;
  if (shape.back() < 4 || factors.size() > shape.size() || factors.back() != shape.back() ||
      builder.tensor(op.inputs[2]).shape != factors)
    throw Refusal{"cosine and sine are not rows like those of the input"};
  const Stored kept = builder.read(op.inputs[0]);
  const bool has_rows = !kept.quant_params.is_integer() && kept.strides.back() == 1;
  const Stored x = has_rows ? kept : to_real(builder, op.inputs[0], row_major(shape));
  const Stored cosine = to_real(builder, op.inputs[1], row_major(factors)),
               sine = to_real(builder, op.inputs[2], row_major(factors));
  Dims strides(shape.size() - factors.size(), 0);
  const Dims rows = row_major(factors);
  for (size_t d = 0; d < factors.size(); ++d)
    strides.push_back(factors[d] == 1 && shape[strides.size()] != 1 ? 0 : rows[d]);
  const Dims order = dense_like(shape, x.strides);
  const Stored y = builder.allocate(shape, {}, order.back() == 1 ? order : row_major(shape));
  add_kernel(builder, "rotary", Rotary(shape, x.strides, strides, y.strides),
             {x.place, cosine.place, sine.place}, y.place);
  define_real(builder, op.outputs[0], y);
}

// Writes the heads of a row next to each other, as the reshape that mostly follows wants them.
void emit_attention(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims &q_shape = builder.tensor(op.inputs[0]).shape,
             &shape = builder.tensor(op.outputs[0]).shape;
  const Stored kept = builder.read(op.inputs[0]);
  const bool has_rows = !kept.quant_params.is_integer() && kept.strides.back() == 1;
  const Stored q = has_rows ? kept : to_real(builder, op.inputs[0], row_major(q_shape));
  std::vector<Place> places = {q.place};
  for (size_t i = 1; i < op.inputs.size(); ++i)
    if (op.has_input(i))
      places.push_back(convert(builder, builder.read(op.inputs[i]),
                               builder.declared_quant_params(op.inputs[i]),
                               row_major(builder.tensor(op.inputs[i]).shape))
                           .place);
  const int64_t width = shape[3], row = shape[1] * width;
  const Stored y = builder.allocate(shape, {}, {shape[2] * row, width, row, 1});
  add_kernel(builder, "attention",
             FloatAttention(builder.program(), op, {q.strides[0], q.strides[1], q.strides[2]},
                            {y.strides[0], y.strides[1], y.strides[2]}),
             std::move(places), y.place);
  define_real(builder, op.outputs[0], y);
}

void emit_recurrent(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& p = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const bool has_cell = op.outputs.size() > 1;
  const int64_t batch = yt.shape[1], width = yt.shape[2],
                hidden = has_cell ? builder.tensor(op.outputs[1]).shape[1] : width;
  const Stored given = to_real(builder, op.inputs[0], row_major(p.shape));
  const Stored h0 = to_real(builder, op.inputs[3], {width, 1});
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const Stored scratch = builder.allocate({batch, hidden}, {}, {hidden, 1});
  std::vector<Place> places = {given.place, h0.place, scratch.place, y.place};
  Stored state;
  if (has_cell) {
    state = builder.allocate({batch, hidden}, {}, {hidden, 1});
    places.insert(places.begin() + 2, to_real(builder, op.inputs[4], {hidden, 1}).place);
    places.push_back(state.place);
  }
  // proving packs no weights, and nothing else can be refused
  if (builder.purpose() == SegmentBuilder::Purpose::kRun)
    builder.add_loop(
        "recurrent",
        layer_loop(std::make_shared<const RecurrentLayer>(builder.program(), op, keep_packed),
                   has_cell),
        places);
  builder.define(op.outputs[0], y);
  if (has_cell) builder.define(op.outputs[1], state);
}

}  // namespace octet::onednn
