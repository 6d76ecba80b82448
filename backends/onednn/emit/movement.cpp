// Emits data movement. Nothing moves where strides can express it (permute, slice, expand, most
// reshapes).
#include <algorithm>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/emitters.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet::onednn {
namespace {

// Converts to the type and scale that the output declares, when they differ (an op that moves and
// requantizes).
void define_moved(SegmentBuilder& builder, int output, const Stored& moved) {
  const QuantParams declared = builder.declared_quant_params(output);
  const bool are_floats = !declared.is_integer() && !moved.quant_params.is_integer();
  if (are_floats || as_unsigned(declared) == as_unsigned(moved.quant_params)) {
    builder.define(output, moved);
  } else {
    builder.define(output, to_dense(builder, moved, builder.output_quant_params(output)));
  }
}

size_t dimension(const ProgramOp& op, const attr::Integer& key, const Dims& shape) {
  const int64_t dim = op.get(key);
  return static_cast<size_t>(wrap_dim(dim, shape.size()));
}

// Finds strides of `shape` over the same memory; false when elements would have to move. Dimensions
// that are contiguous in memory form one run, which the new dimensions split.
bool reshape_strides(const Stored& from, const Dims& shape, Dims& strides) {
  std::vector<std::pair<int64_t, int64_t>> runs;  // elements, innermost stride
  for (size_t i = 0; i < from.shape.size(); ++i) {
    if (from.shape[i] == 1) continue;
    if (!runs.empty() && runs.back().second == from.strides[i] * from.shape[i]) {
      runs.back() = {runs.back().first * from.shape[i], from.strides[i]};
    } else {
      runs.emplace_back(from.shape[i], from.strides[i]);
    }
  }
  strides.assign(shape.size(), 1);
  size_t end = shape.size();
  for (size_t run = runs.size(); run-- > 0;) {
    int64_t left = runs[run].first, step = runs[run].second;
    while (left > 1) {
      while (end > 0 && shape[end - 1] == 1) --end;
      if (end == 0 || left % shape[end - 1] != 0) return false;
      strides[--end] = step;
      step *= shape[end];
      left /= shape[end];
    }
  }
  // For size 1, use the stride of dense memory: oneDNN recognizes memory orders by it.
  for (size_t i = shape.size(); i-- > 0;)
    if (shape[i] == 1) strides[i] = i + 1 < shape.size() ? strides[i + 1] * shape[i + 1] : 1;
  return std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(end),
                     [](int64_t size) { return size == 1; });
}

}  // namespace

void emit_reshape(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  const Stored x = builder.read(op.inputs[0]);
  Dims strides;
  if (reshape_strides(x, shape, strides)) {
    define_moved(builder, op.outputs[0], {x.place, x.quant_params, shape, strides});
    return;
  }
  const Stored plain = convert(builder, x, x.quant_params, row_major(x.shape));
  define_moved(builder, op.outputs[0], {plain.place, plain.quant_params, shape, row_major(shape)});
}

void emit_permute(SegmentBuilder& builder, const ProgramOp& op) {
  const Stored x = builder.read(op.inputs[0]);
  Stored y{x.place, x.quant_params, {}, {}};
  for (int64_t dim : op.get(attr::kDims)) {
    const size_t d = static_cast<size_t>(wrap_dim(dim, x.shape.size()));
    y.shape.push_back(x.shape[d]);
    y.strides.push_back(x.strides[d]);
  }
  define_moved(builder, op.outputs[0], y);
}

void emit_slice(SegmentBuilder& builder, const ProgramOp& op) {
  const Stored x = builder.read(op.inputs[0]);
  const size_t d = dimension(op, attr::kDim, x.shape);
  const int64_t start = op.get(attr::kStart);
  Stored y = x;
  y.shape = builder.tensor(op.outputs[0]).shape;
  y.place.offset +=
      (start < 0 ? start + x.shape[d] : start) * x.strides[d] * bytes_of(x.quant_params.type);
  y.strides[d] *= op.get(attr::kStep);
  define_moved(builder, op.outputs[0], y);
}

void emit_expand(SegmentBuilder& builder, const ProgramOp& op) {
  const Stored x = builder.read(op.inputs[0]);
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  Stored y{x.place, x.quant_params, shape, Dims(shape.size(), 0)};
  const size_t extra = shape.size() - x.shape.size();
  for (size_t i = 0; i < x.shape.size(); ++i)
    y.strides[i + extra] = x.shape[i] == shape[i + extra] ? x.strides[i] : 0;
  const Stored dense = builder.allocate(shape, x.quant_params, row_major(shape));
  add_copy(builder, y, dense);
  define_moved(builder, op.outputs[0], dense);
}

void emit_copy(SegmentBuilder& builder, const ProgramOp& op) {
  define_moved(builder, op.outputs[0], builder.read(op.inputs[0]));
}

// Copies each input into its part of the output, and requantizes it if scales differ.
void emit_cat(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  const size_t d = dimension(op, attr::kDim, shape);
  const QuantParams declared = builder.output_quant_params(op.outputs[0]);
  const QuantParams quant_params =
      declared.is_integer() ? declared : builder.float_form(op.outputs[0]);
  const Stored* largest = &builder.read(op.inputs[0]);
  for (int input : op.inputs)
    if (builder.read(input).numel() > largest->numel()) largest = &builder.read(input);
  const Stored y = builder.allocate(shape, quant_params, dense_like(shape, largest->strides));
  int64_t start = 0;
  for (int input : op.inputs) {
    const Stored& x = builder.read(input);
    Stored part{y.place, quant_params, x.shape, y.strides};
    part.place.offset += start * y.strides[d] * bytes_of(quant_params.type);
    start += x.shape[d];
    if (x.numel() == 0) continue;
    const Stored made = to_dense(builder, x, quant_params);
    if (!builder.place_inside(made, part)) add_copy(builder, made, part);
  }
  builder.define(op.outputs[0], y);
}

void emit_pad(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  const Dims pads = op.get(attr::kPads);
  const QuantParams quant_params = builder.output_quant_params(op.outputs[0]);
  const Stored x = to_dense(builder, builder.read(op.inputs[0]), quant_params);
  const Stored y = builder.allocate(shape, quant_params, dense_like(shape, x.strides));
  Stored inside{y.place, quant_params, x.shape, y.strides};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (pads[2 * i] < 0 || pads[2 * i + 1] < 0) throw Refusal{"negative padding"};
    inside.place.offset += pads[2 * i] * y.strides[i] * bytes_of(quant_params.type);
  }
  add_fill(builder, y, op.get(attr::kValue));
  add_copy(builder, x, inside);
  builder.define(op.outputs[0], y);
}

}  // namespace octet::onednn
