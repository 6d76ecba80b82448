#include "backends/kernels/int16_ops.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet {
namespace {

bool is_product(const ProgramOp& op) { return op.is("conv") || op.is("linear"); }

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
  const std::vector<int64_t>& in = program.input(op, 0).shape;
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
  const Int16Pool pool = int16_pool(program, op, {}, {});
  return is_filled(pool.lines) && is_filled(pool.columns)
             ? Verdict::accept()
             : Verdict::refuse("a window has no element of its input");
}

Verdict check_max_pool(const Program& program, const ProgramOp& op) {
  const ProgramTensor &x = program.input(op, 0), &y = program.output(op);
  if (op.outputs.size() != 1) return Verdict::refuse("it returns indices");
  if (x.dtype != DType::kInt16 || !(real_form(x) == real_form(y)))
    return Verdict::refuse("its input and output differ in dtype, scale or zero point");
  const std::vector<int64_t> dilation = op.get(attr::kDilation, {});
  if (std::any_of(dilation.begin(), dilation.end(), [](int64_t step) { return step != 1; }))
    return Verdict::refuse("its window is dilated");
  return check_pool(program, op);
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
    case Family::kProduct: return Int16Product(int16_product_terms(program, op, x, y));
    case Family::kMap: return int16_map(program, op, x, y);
    case Family::kBinary: return int16_binary(program, op, inputs, output);
    case Family::kPool: break;
  }
  return int16_pool(program, op, x, y);
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
