// Checks, and turns attributes and constants into the terms of kernels.
#include "backends/kernels/int16_ops.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/number_types.h"
#include "core/base/shape.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

bool is_product(const ProgramOp& op) { return op.is("conv") || op.is("linear"); }

bool is_float32(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }

// ---- checks

Verdict check_activation(const ProgramTensor& tensor) {
  if (is_float32(tensor)) return Verdict::accept();
  const bool fits = tensor.dtype == DType::kInt16 || tensor.dtype == DType::kInt8 ||
                    tensor.dtype == DType::kUInt8;
  if (!fits)
    return Verdict::refuse(fmt::format("{} is {}, want int16, int8, uint8 or float32 next to int16",
                                       tensor.name, name_of(tensor.dtype)));
  if (!tensor.qparams || !tensor.qparams->is_per_tensor())
    return Verdict::refuse(fmt::format("{} has no single scale", tensor.name));
  return Verdict::accept();
}

Verdict check_weight(const ProgramTensor& w) {
  const bool fits = w.dtype == DType::kInt16 || w.dtype == DType::kInt8 || w.dtype == DType::kUInt8;
  if (!w.is_constant() || !fits || !w.qparams || w.numel() == 0)
    return Verdict::refuse("its weight is not a constant of int8, uint8 or int16 with scales");
  if (!w.qparams->is_per_tensor() && w.qparams->axis != 0)
    return Verdict::refuse(
        fmt::format("its weight is quantized along axis {}, want 0", w.qparams->axis));
  if (w.dtype == DType::kInt16 &&
      std::any_of(w.qparams->zero_point.begin(), w.qparams->zero_point.end(),
                  [](int32_t zero) { return zero != 0; }))
    return Verdict::refuse("its int16 weight has zero points");
  return Verdict::accept();
}

Verdict check_product(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = program.input(op, 0);
  const size_t rank = x.shape.size();
  if (is_float32(x)) return Verdict::refuse("its input is float32 and its weight int16");
  if (op.is("conv") && rank != 3 && rank != 4)
    return Verdict::refuse(
        fmt::format("its input has rank {}, want [N, C, 1 or 2 spatial dimensions]", rank));
  if (Verdict weight = check_weight(program.input(op, 1)); !weight) return weight;
  if (!op.has_input(2)) return Verdict::accept();
  const ProgramTensor& bias = program.input(op, 2);
  const bool fits = is_float32(bias) || (bias.dtype == DType::kInt32 && bias.qparams);
  return bias.is_constant() && fits
             ? Verdict::accept()
             : Verdict::refuse("its bias is not a constant of float32 or int32 with scales");
}

Verdict check_nothing(const Program&, const ProgramOp&) { return Verdict::accept(); }

Verdict check_unary(const Program&, const ProgramOp& op) {
  return find_float_function(op)
             ? Verdict::accept()
             : Verdict::refuse(fmt::format("unknown function {}", op.get(attr::kFn)));
}

Verdict check_image(const Program& program, const ProgramOp& op) {
  const size_t rank = program.input(op, 0).shape.size();
  return rank == 3 || rank == 4
             ? Verdict::accept()
             : Verdict::refuse(fmt::format(
                   "its input has rank {}, want [N, C, 1 or 2 spatial dimensions]", rank));
}

bool is_spatial_mean(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  std::vector<char> is_reduced(in.size());
  for (int64_t dim : op.get(attr::kDims))
    is_reduced[static_cast<size_t>(wrap_dim(dim, in.size()))] = true;
  for (size_t d = 0; d < in.size(); ++d)
    if (static_cast<bool>(is_reduced[d]) != (d >= 2)) return false;
  return true;
}

Verdict check_mean(const Program& program, const ProgramOp& op) {
  if (Verdict image = check_image(program, op); !image) return image;
  return is_spatial_mean(program, op)
             ? Verdict::accept()
             : Verdict::refuse("it does not average over all spatial dimensions");
}

Int16Pool pool_of(const Program& program, const ProgramOp& op);

bool is_filled(const std::vector<Int16Pool::Window>& windows) {
  return std::all_of(windows.begin(), windows.end(),
                     [](const Int16Pool::Window& window) { return window.begin < window.end; });
}

Verdict check_pool(const Program& program, const ProgramOp& op) {
  if (Verdict image = check_image(program, op); !image) return image;
  const size_t rank = program.input(op, 0).shape.size();
  const size_t spatial =
      op.get(op.is("adaptive_avg_pool") ? attr::kOutputSize : attr::kKernelSize).size();
  if (spatial + 2 != rank)
    return Verdict::refuse(
        fmt::format("its window has {} dimensions and its input rank {}", spatial, rank));
  const Int16Pool pool = pool_of(program, op);
  return is_filled(pool.lines) && is_filled(pool.columns)
             ? Verdict::accept()
             : Verdict::refuse("a window has no element of its input");
}

Verdict check_max_pool(const Program& program, const ProgramOp& op) {
  const ProgramTensor &x = program.input(op, 0), &y = program.output(op);
  if (op.outputs.size() != 1) return Verdict::refuse("it returns indices");
  if (x.dtype != DType::kInt16 || !(real_form(x) == real_form(y)))
    return Verdict::refuse("its input and output differ in dtype, scale or zero point");
  const Shape dilation = op.get(attr::kDilation, {});
  if (std::any_of(dilation.begin(), dilation.end(), [](int64_t step) { return step != 1; }))
    return Verdict::refuse("its window is dilated");
  return check_pool(program, op);
}

// ---- terms

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

Int16ProductTerms product_terms(const Program& program, const ProgramOp& op, const RealForm& x,
                                const RealForm& y) {
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

Int16Map map_of(const Program& program, const ProgramOp& op, const RealForm& x, const RealForm& y) {
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

Int16Binary binary_of(const Program& program, const ProgramOp& op,
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

Int16Pool pool_of(const Program& program, const ProgramOp& op) {
  const Shape &in = program.input(op, 0).shape, &out = program.output(op).shape;
  const bool is_mean = op.is("mean"), is_image = in.size() == 4;
  Int16Pool pool;
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

// ---- the table

enum class Family { kProduct, kMap, kBinary, kPool };

struct Int16Op {
  OpKind kind;
  Verdict (*check)(const Program& program, const ProgramOp& op);
  Family family;
  Int16Order order;
};

constexpr Int16Op kInt16Ops[] = {
    {"conv", check_product, Family::kProduct, Int16Order::kChannelsLast},
    {"linear", check_product, Family::kProduct, Int16Order::kRows},
    {"add", check_nothing, Family::kBinary, Int16Order::kDense},
    {"sub", check_nothing, Family::kBinary, Int16Order::kDense},
    {"mul", check_nothing, Family::kBinary, Int16Order::kDense},
    {"div", check_nothing, Family::kBinary, Int16Order::kDense},
    {"minimum", check_nothing, Family::kBinary, Int16Order::kDense},
    {"maximum", check_nothing, Family::kBinary, Int16Order::kDense},
    {"clamp", check_nothing, Family::kMap, Int16Order::kDense},
    {"unary", check_unary, Family::kMap, Int16Order::kDense},
    {"quantize", check_nothing, Family::kMap, Int16Order::kDense},
    {"dequantize", check_nothing, Family::kMap, Int16Order::kDense},
    {"requantize", check_nothing, Family::kMap, Int16Order::kDense},
    {"max_pool", check_max_pool, Family::kPool, Int16Order::kChannelsLast},
    {"avg_pool", check_pool, Family::kPool, Int16Order::kChannelsLast},
    {"adaptive_avg_pool", check_pool, Family::kPool, Int16Order::kChannelsLast},
    {"mean", check_mean, Family::kPool, Int16Order::kChannelsLast},
};

const Int16Op* find_int16_op(const ProgramOp& op) {
  for (const Int16Op& row : kInt16Ops)
    if (op.is(row.kind)) return &row;
  return nullptr;
}

}  // namespace

RealForm real_form(const ProgramTensor& tensor) {
  if (is_float32(tensor)) return {};
  return {tensor.dtype, tensor.qparams->scale[0], zero_at(*tensor.qparams, 0)};
}

std::vector<size_t> int16_inputs(const ProgramOp& op) {
  if (is_product(op)) return {0};
  std::vector<size_t> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.has_input(i)) inputs.push_back(i);
  return inputs;
}

bool has_int16(const Program& program, const ProgramOp& op) {
  const auto is_int16 = [&](int index) {
    return index >= 0 && program.tensor(index).dtype == DType::kInt16;
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_int16) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_int16);
}

Verdict check_int16(const Program& program, const ProgramOp& op) {
  const Int16Op* row = find_int16_op(op);
  if (row == nullptr) return Verdict::refuse(fmt::format("{} has no int16 kernel", op.kind));
  for (size_t i : int16_inputs(op))
    if (Verdict input = check_activation(program.input(op, i)); !input) return input;
  const ProgramTensor& y = program.output(op);
  if (Verdict output = check_activation(y); !output) return output;
  if (y.numel() == 0) return Verdict::refuse(fmt::format("{} is empty", y.name));
  return row->check(program, op);
}

Int16Order int16_order(const ProgramOp& op) { return find_int16_op(op)->order; }

namespace {

using AnyInt16 = std::variant<Int16Product, Int16Map, Int16Binary, Int16Pool>;

AnyInt16 make_int16(const Program& program, const ProgramOp& op, std::span<const Int16Place> inputs,
                    const Int16Place& output) {
  const RealForm &x = inputs[0].form, &y = output.form;
  switch (find_int16_op(op)->family) {
    case Family::kProduct: return Int16Product(product_terms(program, op, x, y));
    case Family::kMap: return map_of(program, op, x, y);
    case Family::kBinary: return binary_of(program, op, inputs, output);
    case Family::kPool: break;
  }
  Int16Pool pool = pool_of(program, op);
  pool.x = x;
  pool.y = y;
  pool.limits = op.is("max_pool") ? limits_of({}, {}, y) : post_limits(op, y);
  return pool;
}

}  // namespace

Int16Kernel::Int16Kernel(const Program& program, const ProgramOp& op,
                         std::span<const Int16Place> inputs, const Int16Place& output)
    : kernel_(make_int16(program, op, inputs, output)) {}

void Int16Kernel::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                      const Parallel& parallel) const {
  std::visit([&](const auto& kernel) { kernel.run(from, to, scratch, parallel); }, kernel_);
}

int64_t Int16Kernel::scratch_bytes() const {
  const Int16Product* product = std::get_if<Int16Product>(&kernel_);
  return product == nullptr ? 0 : product->scratch_bytes();
}

}  // namespace octet
