// Emits transposed convolutions with byte tiles. The outputs o = phase (mod stride) form a
// convolution of stride 1 with every stride-th kernel element in reverse order; each phase is one
// step that writes every stride-th pixel.
//
// Example: kernel w0 w1 w2, stride 2. Input i adds x[i] * w[k] to output 2 * i + k:
//
//   y[0] = x0 w0                 y[1] = x0 w1
//   y[2] = x1 w0 + x0 w2         y[3] = x1 w1
//   y[4] = x2 w0 + x1 w2         y[5] = x2 w1
//
// So phase 0 is a convolution with the kernel (w2, w0), phase 1 one with the kernel (w1). Dumoulin
// and Visin, "A guide to convolution arithmetic for deep learning", 2016, draw such convolutions.
#include <algorithm>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/byte_conv.h"
#include "backends/onednn/emit/emitters.h"

namespace octet::onednn {
namespace {

// One dimension of one phase. Element j of its kernel is element first_tap - j * tap_step of the
// full kernel.
struct Phase {
  int64_t outputs = 0;
  int64_t taps = 1;
  int64_t first_tap = -1;  // -1: none, and the only tap is 0
  int64_t tap_step = 0;
  int64_t dilation = 1;
  int64_t padding = 0;  // before the first element; may be negative
};

// Output o sums x[i] * w[k] over i * stride - padding + k * dilation = o. dilation: 1 is dense.
Phase phase_of(int64_t index, int64_t out_size, int64_t kernel, int64_t stride, int64_t dilation,
               int64_t padding) {
  Phase phase;
  phase.outputs = index < out_size ? (out_size - index + stride - 1) / stride : 0;
  const int64_t residue = (index + padding) % stride;  // of k * dilation
  std::vector<int64_t> taps;
  for (int64_t k = 0; k < kernel; ++k)
    if (k * dilation % stride == residue) taps.push_back(k);
  if (taps.empty()) return phase;
  phase.taps = std::ssize(taps);
  phase.first_tap = taps.back();
  phase.tap_step = taps.size() > 1 ? taps[1] - taps[0] : 1;
  phase.dilation = std::max<int64_t>(phase.tap_step * dilation / stride, 1);
  phase.padding =
      (taps.back() * dilation - residue) / stride - (index + padding - residue) / stride;
  return phase;
}

// [in, outputs of a group, kernel...] to [outputs, in of a group, kernel of the phases...].
Tensor weights_of_phases(const Tensor& weights, int64_t groups,
                         const std::array<int64_t, 3>& kernel, const std::array<Phase, 3>& phases) {
  const Tensor data = weights.contiguous();
  const int64_t in = data.shape()[0] / groups, out = data.shape()[1];
  Tensor packed = Tensor::zeros(DType::kInt8,
                                {groups * out, in, phases[0].taps, phases[1].taps, phases[2].taps});
  int8_t* to = packed.data<int8_t>();
  const bool is_empty =
      phases[0].first_tap < 0 || phases[1].first_tap < 0 || phases[2].first_tap < 0;
  if (is_empty) return packed;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i) {
        const int8_t* from =
            data.data<int8_t>() + ((group * in + i) * out + o) * kernel[0] * kernel[1] * kernel[2];
        for (int64_t d = 0; d < phases[0].taps; ++d)
          for (int64_t h = 0; h < phases[1].taps; ++h)
            for (int64_t w = 0; w < phases[2].taps; ++w) {
              const auto tap = [&](size_t axis, int64_t j) {
                return phases[axis].first_tap - j * phases[axis].tap_step;
              };
              *to++ = from[(tap(0, d) * kernel[1] + tap(1, h)) * kernel[2] + tap(2, w)];
            }
      }
  return packed;
}

// One phase as a convolution. weights: undefined when proving.
struct Part {
  ByteConvShape shape;
  Tensor weights;
};

// nullopt when a phase has no kernel.
std::optional<std::vector<Part>> plan_phases(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& x = builder.tensor(op.inputs[0]).shape;
  const Dims& w = builder.tensor(op.inputs[1]).shape;
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const Geometry g = conv_geometry(op, x, w, y, true);
  const int64_t groups = op.get(attr::kGroups);
  const std::array<int64_t, 3> kernel = spatial(w, 2, 1), size = spatial(x, 2, 1),
                               out_size = spatial(y, 2, 1), stride = spatial(g.stride, 0, 1),
                               padding = spatial(g.padding_begin, 0, 0);
  std::array<int64_t, 3> dilation = spatial(g.dilation, 0, 0);
  for (int64_t& one : dilation) ++one;
  std::vector<Part> parts;
  for (int64_t index = 0; index < stride[0] * stride[1] * stride[2]; ++index) {
    const std::array<int64_t, 3> at = {index / stride[2] / stride[1], index / stride[2] % stride[1],
                                       index % stride[2]};
    std::array<Phase, 3> phases;
    ByteConvShape shape{x[0], groups, w[0] / groups, w[1], size};
    shape.y_size = out_size;
    shape.y_step = stride;
    shape.y_first = at;
    for (size_t axis = 0; axis < 3; ++axis) {
      phases[axis] = phase_of(at[axis], out_size[axis], kernel[axis], stride[axis], dilation[axis],
                              padding[axis]);
      shape.out_size[axis] = phases[axis].outputs;
      shape.kernel[axis] = phases[axis].taps;
      shape.dilation[axis] = phases[axis].dilation;
      shape.padding[axis] = phases[axis].padding;
    }
    if (product(Dims(shape.out_size.begin(), shape.out_size.end())) == 0) continue;
    if (!has_byte_conv(shape)) return std::nullopt;
    const bool is_run = builder.purpose() == SegmentBuilder::Purpose::kRun;
    parts.push_back({shape, is_run ? weights_of_phases(builder.tensor(op.inputs[1]).data, groups,
                                                       kernel, phases)
                                   : Tensor()});
  }
  return parts;
}

}  // namespace

bool emit_transposed_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& x = builder.tensor(op.inputs[0]).shape;
  const Dims& w = builder.tensor(op.inputs[1]).shape;
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const int64_t outputs = w[1] * op.get(attr::kGroups);
  const Arithmetic plan = plan_arithmetic(builder, op, outputs, false, Sums::kExact);
  if (!plan.is_integer) return false;
  const std::optional<std::vector<Part>> parts = plan_phases(builder, op);
  if (!parts) return false;
  const Dims outputs_first = {outputs, product(w) / outputs};
  std::optional<ByteConvOutput> output =
      byte_output(plan, plan.y, clamp_of(op), nullptr, outputs_first, false);
  if (!output) return false;
  const Stored from = convert(builder, builder.read(op.inputs[0]), plan.x, channels_last(x));
  const Stored to = builder.allocate(y, plan.y, channels_last(y));
  for (const Part& part : *parts) {
    // The zero point term differs per phase, since each reads different kernel elements.
    if (part.weights.defined()) output->start = zero_point_start(plan.x.zero_point, part.weights);
    add_byte_conv(builder, "transposed convolution", part.shape, part.weights, *output,
                  {builder.saturation().highest_byte(op.inputs[0]), output->scales.padding},
                  from.place, to.place, nullptr);
  }
  define_result(builder, op.outputs[0], to);
  return true;
}

}  // namespace octet::onednn
