#include "backends/kernels/int16_terms.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/number_types.h"
#include "core/base/shape.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// As RealLimits, with the real limits of an integer output turned into integers: rounding keeps the
// order of reals.
RealLimits limits_of(std::optional<double> low, std::optional<double> high, const RealForm& y) {
  RealLimits limits;
  if (y.dtype == DType::kFloat32) {
    limits.low = low.value_or(limits.low);
    limits.high = high.value_or(limits.high);
    return limits;
  }
  const IntegerRange range = integer_range(y.dtype);
  const double inverse = 1.0 / static_cast<double>(y.scale);
  const auto steps = [&](std::optional<double> real, int64_t otherwise) {
    if (!real) return static_cast<int32_t>(otherwise);
    const double q = std::nearbyint(*real * inverse) + y.zero_point;
    return static_cast<int32_t>(
        std::clamp(q, static_cast<double>(range.min), static_cast<double>(range.max)));
  };
  limits.least = steps(low, range.min);
  limits.most = steps(high, range.max);
  return limits;
}

RealLimits post_limits(const ProgramOp& op, const RealForm& y) {
  return limits_of(op.find(attr::kPostMin), op.find(attr::kPostMax), y);
}

float at_or_first(const std::vector<float>& values, size_t i) {
  return values[values.size() == 1 ? 0 : i];
}
int32_t zero_at(const TensorQParams& q, size_t i) {
  return q.zero_point.empty() ? 0 : q.zero_point[q.zero_point.size() == 1 ? 0 : i];
}

// weights [outputs, depth, kernel] as [outputs, kernel, depth], minus their zero points.
std::vector<int16_t> ordered_weights(const ProgramTensor& w, int64_t outputs, int64_t depth,
                                     int64_t taps) {
  const Tensor data = constant_data(w).contiguous();
  std::vector<int16_t> ordered(static_cast<size_t>(outputs * depth * taps));
  visit_integer_type(data.dtype(), [&](auto* type) {
    const auto* from = data.data<std::remove_pointer_t<decltype(type)>>();
    for (int64_t o = 0; o < outputs; ++o) {
      const int32_t zero = zero_at(*w.qparams, static_cast<size_t>(o));
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t tap = 0; tap < taps; ++tap)
          ordered[static_cast<size_t>((o * taps + tap) * depth + k)] =
              static_cast<int16_t>(static_cast<int32_t>(from[(o * depth + k) * taps + tap]) - zero);
    }
  });
  return ordered;
}

// In real units, in double.
std::vector<double> bias_of(const Program& program, const ProgramOp& op, int64_t outputs) {
  std::vector<double> bias(static_cast<size_t>(outputs), 0.0);
  if (!op.has_input(2)) return bias;
  const ProgramTensor& tensor = program.input(op, 2);
  const Tensor data = constant_data(tensor).contiguous();
  for (size_t i = 0; i < bias.size(); ++i)
    bias[i] = is_float32(tensor)
                  ? double{data.data<float>()[i]}
                  : (static_cast<double>(data.data<int32_t>()[i]) - zero_at(*tensor.qparams, i)) *
                        double{at_or_first(tensor.qparams->scale, i)};
  return bias;
}

std::vector<Int16Pool::Window> windows_of(const ProgramOp& op, size_t d, int64_t in, int64_t out) {
  std::vector<Int16Pool::Window> windows;
  const bool is_window = op.is("max_pool") || op.is("avg_pool");
  const Shape kernel = is_window ? op.get(attr::kKernelSize) : Shape{},
              stride = is_window ? op.get(attr::kStride, kernel) : Shape{},
              padding = is_window ? op.get(attr::kPadding, Shape(kernel.size(), 0)) : Shape{};
  const bool counts_padding = op.is("avg_pool") && op.get(attr::kCountIncludePad);
  for (int64_t o = 0; o < out; ++o) {
    if (!is_window) {
      const int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
      windows.push_back({begin, end, end - begin});
      continue;
    }
    const int64_t first = o * stride[d] - padding[d];
    const int64_t begin = std::max<int64_t>(first, 0), end = std::min(first + kernel[d], in);
    windows.push_back(
        {begin, end,
         counts_padding ? std::min(first + kernel[d], in + padding[d]) - first : end - begin});
  }
  return windows;
}

}  // namespace

RealForm real_form(const ProgramTensor& tensor) {
  if (is_float32(tensor)) return {};
  return {tensor.dtype, tensor.qparams->scale[0], zero_at(*tensor.qparams, 0)};
}

Int16ProductTerms int16_product_terms(const Program& program, const ProgramOp& op,
                                      const RealForm& x, const RealForm& y) {
  const ProgramTensor& w = program.input(op, 1);
  const Shape &in = program.input(op, 0).shape, &out = program.output(op).shape;
  Int16ProductTerms t;
  t.x = x;
  t.y = y;
  t.limits = post_limits(op, y);
  t.outputs = w.shape[0];
  if (op.is("conv")) {
    const size_t spatial = in.size() - 2, lead = 2 - spatial;
    const Shape ones(spatial, 1), zeros(spatial, 0), stride = op.get(attr::kStride, ones),
                                                     dilation = op.get(attr::kDilation, ones),
                                                     padding = op.get(attr::kPadding, zeros);
    t.images = in[0];
    t.channels = in[1];
    t.groups = op.get(attr::kGroups);
    t.height = spatial == 1 ? 1 : in[2];
    t.width = in.back();
    t.out_height = spatial == 1 ? 1 : out[2];
    t.out_width = out.back();
    for (size_t d = 0; d < spatial; ++d) {
      t.kernel[lead + d] = w.shape[2 + d];
      t.stride[lead + d] = stride[d];
      t.dilation[lead + d] = dilation[d];
      t.padding[lead + d] = padding[d];
    }
  } else {
    t.channels = in.back();
    t.width = t.out_width = product(in) / std::max<int64_t>(in.back(), 1);
  }
  t.weights = ordered_weights(w, t.outputs, t.channels / t.groups, t.kernel[0] * t.kernel[1]);
  t.bias = bias_of(program, op, t.outputs);
  for (size_t o = 0; o < t.bias.size(); ++o)
    t.scale.push_back(double{x.scale} * double{at_or_first(w.qparams->scale, o)});
  return t;
}

Int16Map int16_map(const Program& program, const ProgramOp& op, const RealForm& x,
                   const RealForm& y) {
  Int16Map map;
  map.count = program.output(op).numel();
  map.x = x;
  map.y = y;
  map.is_double = op.is("clamp");
  if (op.is("unary")) map.function = find_float_function(op);
  map.limits =
      map.is_double ? limits_of(op.find(attr::kMin), op.find(attr::kMax), y) : limits_of({}, {}, y);
  // the program's integers, when the backend stores others
  const int32_t shift =
      y.dtype == DType::kFloat32 ? 0 : y.zero_point - real_form(program.output(op)).zero_point;
  if (const auto least = op.find(attr::kQuantMin))
    map.limits.least = static_cast<int32_t>(*least) + shift;
  if (const auto most = op.find(attr::kQuantMax))
    map.limits.most = static_cast<int32_t>(*most) + shift;
  return map;
}

Int16Binary int16_binary(const Program& program, const ProgramOp& op,
                         std::span<const Int16Place> inputs, const Int16Place& output) {
  struct Row {
    OpKind kind;
    Int16Arithmetic op;
  };
  constexpr Row kRows[] = {
      {"add", Int16Arithmetic::kAdd},         {"sub", Int16Arithmetic::kAdd},
      {"mul", Int16Arithmetic::kMul},         {"div", Int16Arithmetic::kDiv},
      {"minimum", Int16Arithmetic::kMinimum}, {"maximum", Int16Arithmetic::kMaximum}};
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& each) { return op.is(each.kind); });
  OCTET_ASSERT(row != std::end(kRows), op.kind);
  Int16Binary binary;
  binary.op = row->op;
  if (row->op == Int16Arithmetic::kAdd)
    binary.factor = op.is("sub") ? -op.get(attr::kAlpha) : op.get(attr::kAlpha);
  binary.a = inputs[0].form;
  binary.b = inputs[1].form;
  binary.y = output.form;
  binary.limits = post_limits(op, output.form);
  const Shape& shape = program.output(op).shape;
  const auto broadcast = [&](size_t i) {
    const Shape& own = program.input(op, i).shape;
    Shape strides(shape.size(), 0);
    const size_t lead = shape.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d)
      strides[lead + d] = own[d] == 1 ? 0 : inputs[i].strides[d];
    return strides;
  };
  binary.walk = plan_walk(shape, output.strides, broadcast(0), broadcast(1));
  return binary;
}

Int16Pool int16_pool(const Program& program, const ProgramOp& op, const RealForm& x,
                     const RealForm& y) {
  const Shape &in = program.input(op, 0).shape, &out = program.output(op).shape;
  const bool is_mean = op.is("mean"), is_image = in.size() == 4;
  Int16Pool pool;
  pool.x = x;
  pool.y = y;
  pool.limits = op.is("max_pool") ? limits_of({}, {}, y) : post_limits(op, y);
  pool.images = in[0];
  pool.channels = in[1];
  pool.height = is_image ? in[2] : 1;
  pool.width = in.back();
  pool.lines = is_image ? windows_of(op, 0, in[2], is_mean ? 1 : out[2])
                        : std::vector<Int16Pool::Window>{{0, 1, 1}};
  pool.columns = windows_of(op, is_image ? 1 : 0, in.back(), is_mean ? 1 : out.back());
  pool.is_average = !op.is("max_pool");
  if (op.is("avg_pool")) pool.divisor = static_cast<double>(op.get(attr::kDivisorOverride));
  return pool;
}

}  // namespace octet
