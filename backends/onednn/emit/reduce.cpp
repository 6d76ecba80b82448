// Reductions, and normalization by the statistics of groups of channels: own loops on floats;
// integers on either side are converted.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/ops.h"
#include "backends/onednn/kernels/isa.h"
#include "core/base/shape.h"

namespace octet::onednn {
namespace {

constexpr int64_t kLanes = 32;  // partial results, so that the compiler may vectorise

// ---- reductions

struct Sum {
  static constexpr float kStart = 0;
  [[gnu::always_inline]] static float combine(float a, float b) { return a + b; }
};
struct Product {
  static constexpr float kStart = 1;
  [[gnu::always_inline]] static float combine(float a, float b) { return a * b; }
};
struct Greatest {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  // a NaN is taken when it is met, and stays
  [[gnu::always_inline]] static float combine(float a, float b) { return b > a || b != b ? b : a; }
};
struct Least {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  [[gnu::always_inline]] static float combine(float a, float b) { return b < a || b != b ? b : a; }
};

// y of one row of `count` elements.
template <typename Function>
[[gnu::always_inline]] inline float reduce_row(const float* x, int64_t count) {
  float partial[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) partial[k] = Function::kStart;
  for (int64_t i = 0; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) partial[k] = Function::combine(partial[k], x[i + k]);
  for (int64_t i = count / kLanes * kLanes; i < count; ++i)
    partial[0] = Function::combine(partial[0], x[i]);
  float result = partial[0];
  for (int64_t k = 1; k < kLanes; ++k) result = Function::combine(result, partial[k]);
  return result;
}

// y[inner] of x[count, inner].
template <typename Function>
[[gnu::always_inline]] inline void reduce_columns(const float* x, float* __restrict y,
                                                  int64_t count, int64_t inner) {
  for (int64_t j = 0; j < inner; ++j) y[j] = Function::kStart;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < inner; ++j) y[j] = Function::combine(y[j], x[i * inner + j]);
}

struct Split {
  int64_t outer = 1, count = 1, inner = 1;
};

template <typename Function>
Loop reduction_loop(const Split& split, float low, float high) {
  return [=](std::byte* const* arguments) {
    for_parts(split.outer, split.count * split.inner, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t i = first; i < last; ++i) {
          const float* x =
              reinterpret_cast<const float*>(arguments[0]) + i * split.count * split.inner;
          float* y = reinterpret_cast<float*>(arguments[1]) + i * split.inner;
          if (split.inner == 1) {
            y[0] = reduce_row<Function>(x, split.count);
          } else {
            reduce_columns<Function>(x, y, split.count, split.inner);
          }
          for (int64_t j = 0; j < split.inner; ++j)
            y[j] = y[j] < low ? low : y[j] > high ? high : y[j];
        }
      });
    });
  };
}

struct Reduction {
  const char* name;
  Loop (*loop)(const Split& split, float low, float high);
};
constexpr Reduction kReductions[] = {
    {"sum", reduction_loop<Sum>},
    {"prod", reduction_loop<Product>},
    {"max", reduction_loop<Greatest>},
    {"min", reduction_loop<Least>},
};

std::vector<char> reduced_dimensions(const ProgramOp& op, size_t rank) {
  const Dims dims = op.integers("dims");
  std::vector<char> is_reduced(rank, dims.empty());
  for (int64_t dim : dims) is_reduced[static_cast<size_t>(wrap_dim(dim, rank))] = true;
  return is_reduced;
}

// The reduced dimensions as one, when nothing else lies between them in memory; else with an order
// in which they are innermost.
struct ReductionPlan {
  Split split;
  Dims strides;  // of x
};

ReductionPlan plan_reduction(const Dims& shape, const std::vector<char>& is_reduced) {
  ReductionPlan plan{{}, row_major(shape)};
  bool is_broken = false, is_after = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (is_reduced[d]) {
      is_broken = is_broken || is_after;
      plan.split.count *= shape[d];
    } else {
      is_after = is_after || plan.split.count > 1;
      (is_after ? plan.split.inner : plan.split.outer) *= shape[d];
    }
  }
  if (!is_broken) return plan;
  plan.split.outer *= plan.split.inner;
  plan.split.inner = 1;
  int64_t step = 1;
  for (const bool turn : {true, false})
    for (size_t d = shape.size(); d-- > 0;)
      if (static_cast<bool>(is_reduced[d]) == turn) {
        plan.strides[d] = step;
        step *= shape[d];
      }
  return plan;
}

// ---- group_norm

struct Groups {
  int64_t batch, channels, pixels;
  int64_t groups;
  float eps;
  bool is_channels_last;
  int64_t size() const { return channels / groups; }
};

// The factor and shift of each channel of [first, last), groups whole, from sums and squares of x
// less `centers`, one entry for each channel.
void finish_channels(const Groups& g, int64_t group, float mean, float variance,
                     const float* weight, const float* bias, float* factor, float* shift) {
  const float inverse = 1.0f / std::sqrt(variance + g.eps);
  for (int64_t c = group * g.size(); c < (group + 1) * g.size(); ++c) {
    factor[c] = inverse * weight[c];
    shift[c] = bias[c] - mean * factor[c];
  }
}

[[gnu::always_inline]] inline float sum_of(const float* x, int64_t count) {
  return reduce_row<Sum>(x, count);
}

[[gnu::always_inline]] inline float squares_of(const float* x, int64_t count, float center) {
  float partial[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) partial[k] += (x[i + k] - center) * (x[i + k] - center);
  for (int64_t i = count / kLanes * kLanes; i < count; ++i)
    partial[0] += (x[i] - center) * (x[i] - center);
  return sum_of(partial, kLanes);
}

// One group of one batch entry, row-major: its elements are one run.
[[gnu::always_inline]] inline void norm_plain(const Groups& g, const float* x, float* __restrict y,
                                              int64_t group, const float* weight, const float* bias,
                                              float* factor, float* shift) {
  const int64_t count = g.size() * g.pixels;
  const float mean = sum_of(x, count) / static_cast<float>(count);
  finish_channels(g, group, mean, squares_of(x, count, mean) / static_cast<float>(count), weight,
                  bias, factor, shift);
  for (int64_t c = 0; c < g.size(); ++c) {
    const float k = factor[group * g.size() + c], s = shift[group * g.size() + c];
    for (int64_t i = c * g.pixels; i < (c + 1) * g.pixels; ++i) y[i] = x[i] * k + s;
  }
}

// Groups [first, last) of one batch entry, channels innermost: sums per channel, then per group. x
// and y: pixel 0, channel 0.
[[gnu::always_inline]] inline void norm_channels_last(const Groups& g, const float* x,
                                                      float* __restrict y, int64_t first,
                                                      int64_t last, const float* weight,
                                                      const float* bias, float* __restrict factor,
                                                      float* __restrict shift) {
  const int64_t begin = first * g.size(), end = last * g.size();
  const float count = static_cast<float>(g.size() * g.pixels);
  for (int64_t c = begin; c < end; ++c) factor[c] = shift[c] = 0;
  for (int64_t i = 0; i < g.pixels; ++i)
    for (int64_t c = begin; c < end; ++c) factor[c] += x[i * g.channels + c];
  for (int64_t group = first; group < last; ++group) {
    float* sums = factor + group * g.size();
    const float mean = sum_of(sums, g.size()) / count;
    for (int64_t c = 0; c < g.size(); ++c) sums[c] = mean;
  }
  for (int64_t i = 0; i < g.pixels; ++i)
    for (int64_t c = begin; c < end; ++c)
      shift[c] += (x[i * g.channels + c] - factor[c]) * (x[i * g.channels + c] - factor[c]);
  for (int64_t group = first; group < last; ++group) {
    const float mean = factor[group * g.size()];
    finish_channels(g, group, mean, sum_of(shift + group * g.size(), g.size()) / count, weight,
                    bias, factor, shift);
  }
  for (int64_t i = 0; i < g.pixels; ++i)
    for (int64_t c = begin; c < end; ++c)
      y[i * g.channels + c] = x[i * g.channels + c] * factor[c] + shift[c];
}

// arguments: x, y, weight, bias, and room for a factor and a shift of each channel of each batch
// entry
Loop group_norm_loop(const Groups& g) {
  return [g](std::byte* const* arguments) {
    const auto at = [&](size_t i) { return reinterpret_cast<float*>(arguments[i]); };
    const int64_t entry = g.channels * g.pixels;
    for_parts(g.batch * g.groups, g.size() * g.pixels, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t i = first; i < last;) {
          const int64_t n = i / g.groups, group = i % g.groups;
          float* factor = at(4) + 2 * n * g.channels;
          const int64_t next = g.is_channels_last ? std::min(last, (n + 1) * g.groups) : i + 1;
          if (g.is_channels_last) {
            norm_channels_last(g, at(0) + n * entry, at(1) + n * entry, group, group + next - i,
                               at(2), at(3), factor, factor + g.channels);
          } else {
            const int64_t offset = n * entry + group * g.size() * g.pixels;
            norm_plain(g, at(0) + offset, at(1) + offset, group, at(2), at(3), factor,
                       factor + g.channels);
          }
          i = next;
        }
      });
    });
  };
}

}  // namespace

void emit_reduce(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const std::string name = op.text("fn", "");
  const Reduction* reduction = std::find_if(std::begin(kReductions), std::end(kReductions),
                                            [&](const Reduction& row) { return name == row.name; });
  if (reduction == std::end(kReductions))
    throw Refusal{fmt::format("the reduction {} is unknown here", name)};
  const ReductionPlan plan = plan_reduction(xt.shape, reduced_dimensions(op, xt.shape.size()));
  const Stored x = to_real(builder, op.inputs[0], plan.strides);
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const float infinity = std::numeric_limits<float>::infinity();
  const Clamp clamp = clamp_of(op);
  builder.add_loop(
      reduction->name,
      reduction->loop(plan.split, clamp.min ? static_cast<float>(*clamp.min) : -infinity,
                      clamp.max ? static_cast<float>(*clamp.max) : infinity),
      {x.place, y.place});
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
  const Groups groups = {shape[0],
                         shape[1],
                         product(shape) / (shape[0] * shape[1]),
                         op.integer("groups", 1),
                         static_cast<float>(op.real("eps", 1e-5)),
                         is_channels_last};
  const Stored room = builder.allocate({shape[0], 2 * shape[1]}, {}, {2 * shape[1], 1});
  builder.add_loop(
      "group_norm", group_norm_loop(groups),
      {x.place, y.place, builder.add_floats(parameter(builder, op, 1, shape[1], 1.0f)).place,
       builder.add_floats(parameter(builder, op, 2, shape[1], 0.0f)).place, room.place});
  define_real(builder, op.outputs[0], y);
}

}  // namespace octet::onednn
