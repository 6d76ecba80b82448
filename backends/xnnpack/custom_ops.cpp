// The table of ops with custom kernels, and the rows that copy elements or look up bytes in tables.
#include "backends/xnnpack/custom_ops.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/native_ops.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "lowering/program/real_functions.h"
#include "lowering/program/resize_scale.h"

namespace octet::xnnpack {

std::vector<int64_t> strides_in(const std::vector<int64_t>& shape, Order order) {
  if (order == Order::kRowMajor) return contiguous_strides(shape);
  std::vector<int64_t> moved{shape[0]};
  moved.insert(moved.end(), shape.begin() + 2, shape.end());
  moved.push_back(shape[1]);
  const std::vector<int64_t> strides = contiguous_strides(moved);
  std::vector<int64_t> result{strides[0], strides.back()};
  result.insert(result.end(), strides.begin() + 1, strides.end() - 1);
  return result;
}

namespace {

using Shape = std::vector<int64_t>;

// Makes a negative dimension positive; -1 when there is no such dimension.
int64_t from_front(int64_t dim, size_t rank) {
  const std::optional<size_t> found = find_dim(dim, rank);
  return found ? static_cast<int64_t>(*found) : -1;
}

bool is_byte(const ProgramTensor& tensor) {
  return tensor.dtype == DType::kInt8 || tensor.dtype == DType::kUInt8;
}

constexpr IntegerRange kSignedBytes{-128, 127};

// Maps each signed byte of x to one of y by applying `function` to the real value, in float as
// backends/reference does. range: of the signed bytes of y.
template <typename Function>
ByteTable table_of(const ProgramTensor& x, const ProgramTensor& y, const Function& function,
                   const IntegerRange& range = kSignedBytes) {
  ByteTable table{};
  const float inverse = static_cast<float>(1.0 / double{y.qparams->scale[0]}),
              zero_point = static_cast<float>(signed_zero_point(y)),
              low = static_cast<float>(range.min), high = static_cast<float>(range.max);
  for (int q = -128; q < 128; ++q) {
    const float real = static_cast<float>(q - signed_zero_point(x)) * x.qparams->scale[0];
    const float step =
        std::nearbyint(static_cast<float>(function(double{real})) * inverse) + zero_point;
    table[static_cast<uint8_t>(q)] = static_cast<uint8_t>(
        static_cast<int8_t>(std::min(std::max(std::isnan(step) ? zero_point : step, low), high)));
  }
  return table;
}

// ---- checks: they run after check_activations, so counts, shapes and attributes fit

Verdict check_nothing(const Program&, const ProgramOp&) { return Verdict::accept(); }

// A step of more than the whole dimension would overflow the strides.
Verdict check_custom_slice(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const int64_t dim = from_front(op.get(attr::kDim), in.size());
  if (op.get(attr::kStep) > in[static_cast<size_t>(dim)])
    return Verdict::refuse("slice out of range");
  return check_same_qparams(program, op);
}

Verdict check_custom_cat(const Program& program, const ProgramOp& op) {
  const ProgramTensor& out = program.output(op);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ProgramTensor& in = program.input(op, i);
    if (in.dtype != out.dtype && !(is_byte(in) && is_byte(out)))
      return Verdict::refuse("inputs and output are not all integer or all float");
  }
  return Verdict::accept();
}

Verdict check_cat_of_one_form(const Program& program, const ProgramOp& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!(real_form(program.input(op, i)) == real_form(program.output(op))))
      return Verdict::refuse("inputs and output differ in dtype, scale or zero point");
  return Verdict::accept();
}

Verdict check_custom_requantize(const Program& program, const ProgramOp& op) {
  return is_byte(program.input(op, 0)) && is_byte(program.output(op))
             ? Verdict::accept()
             : Verdict::refuse("a table takes 8-bit integers");
}

Verdict check_custom_unary(const Program& program, const ProgramOp& op) {
  if (Verdict bytes = check_custom_requantize(program, op); !bytes) return bytes;
  if (find_real_function(op.get(attr::kFn)) == nullptr)
    return Verdict::refuse(fmt::format("unknown function {}", op.get(attr::kFn)));
  return Verdict::accept();
}

// Accepts whole factors only: each pixel becomes a block of equal pixels.
Verdict check_custom_upsample(const Program& program, const ProgramOp& op) {
  const Shape& in = program.input(op, 0).shape;
  const Shape& out = program.output(op).shape;
  if (op.get(attr::kMode) != "nearest" || in.size() != 4)
    return Verdict::refuse("only nearest neighbors of a 2-D image are copies");
  for (size_t d = 0; d < 2; ++d) {
    if (out[2 + d] % in[2 + d] != 0)
      return Verdict::refuse("the output's size is not a multiple of the input's");
    for (int64_t i = 0; i < out[2 + d]; ++i)  // in float, as backends/reference does
      if (std::floor(static_cast<float>(i) * static_cast<float>(resize_scale(op, d, in, out))) !=
          static_cast<float>(i / (out[2 + d] / in[2 + d])))
        return Verdict::refuse("the scale does not match the sizes");
  }
  return check_same_qparams(program, op);
}

Verdict check_custom_softmax(const Program& program, const ProgramOp& op) {
  const ProgramTensor& in = program.input(op, 0);
  return is_byte(in) && is_byte(program.output(op)) && !in.shape.empty()
             ? Verdict::accept()
             : Verdict::refuse("its softmax takes 8-bit integers");
}

// ---- copies

struct InputCopy : CopyTerms {
  size_t input;
};

// Copies an input to the whole output, dimension by dimension.
InputCopy plain_copy(const Program& program, const ProgramOp& op, size_t i, Order from, Order to) {
  const ProgramTensor& in = program.input(op, i);
  const ProgramTensor& out = program.output(op);
  InputCopy copy{};
  copy.input = i;
  copy.shape = out.shape;
  copy.from_strides = strides_in(in.shape, from);
  copy.to_strides = strides_in(out.shape, to);
  copy.element_size = size_of(out.dtype);
  return copy;
}

// Both are row-major.
std::vector<InputCopy> reshape_copies(const Program& program, const ProgramOp& op,
                                      std::span<const Order>, Order) {
  InputCopy result{};
  result.shape = {program.output(op).numel()};
  result.from_strides = result.to_strides = {1};
  result.element_size = size_of(program.output(op).dtype);
  return {result};
}

std::vector<InputCopy> copy_copies(const Program& program, const ProgramOp& op,
                                   std::span<const Order> from, Order to) {
  return {plain_copy(program, op, 0, from[0], to)};
}

std::vector<InputCopy> permute_copies(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  const Shape of_input = result.from_strides, dims = op.get(attr::kDims);
  for (size_t d = 0; d < dims.size(); ++d)
    result.from_strides[d] = of_input[static_cast<size_t>(from_front(dims[d], dims.size()))];
  return {result};
}

std::vector<InputCopy> slice_copies(const Program& program, const ProgramOp& op,
                                    std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  int64_t& stride =
      result.from_strides[static_cast<size_t>(from_front(op.get(attr::kDim), result.shape.size()))];
  result.from_offset = op.get(attr::kStart) * stride;
  stride *= op.get(attr::kStep);
  return {result};
}

std::vector<InputCopy> expand_copies(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  Shape& strides = result.from_strides;
  strides.insert(strides.begin(), result.shape.size() - strides.size(), 0);
  const Shape in = padded_shape(program.input(op, 0).shape, strides.size());
  for (size_t d = 0; d < in.size(); ++d) strides[d] = in[d] == 1 ? 0 : strides[d];
  return {result};
}

std::vector<InputCopy> cat_copies(const Program& program, const ProgramOp& op,
                                  std::span<const Order> from, Order to) {
  const ProgramTensor& out = program.output(op);
  const size_t dim = static_cast<size_t>(from_front(op.get(attr::kDim), out.shape.size()));
  std::vector<InputCopy> copies;
  int64_t offset = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ProgramTensor& in = program.input(op, i);
    InputCopy copy = plain_copy(program, op, i, from[i], to);
    copy.shape = in.shape;
    copy.to_offset = offset * copy.to_strides[dim];
    if (is_byte(in) && (in.qparams->scale != out.qparams->scale ||
                        signed_zero_point(in) != signed_zero_point(out)))
      copy.table = table_of(in, out, [](double real) { return real; });
    offset += in.shape[dim];
    copies.push_back(std::move(copy));
  }
  return copies;
}

std::vector<InputCopy> unary_copies(const Program& program, const ProgramOp& op,
                                    std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  const RealFunction& function = *find_real_function(op.get(attr::kFn));
  const double alpha = op.get(attr::kAlpha, function.alpha), threshold = op.get(attr::kThreshold);
  result.table = table_of(program.input(op, 0), program.output(op),
                          [&](double real) { return function.value(real, alpha, threshold); });
  return {result};
}

std::vector<InputCopy> requantize_copies(const Program& program, const ProgramOp& op,
                                         std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  const ProgramTensor& out = program.output(op);
  const int64_t shift = signed_zero_point(out) - out.qparams->zero_point[0];
  const IntegerRange range{op.get(attr::kQuantMin, kSignedBytes.min - shift) + shift,
                           op.get(attr::kQuantMax, kSignedBytes.max - shift) + shift};
  result.table = table_of(program.input(op, 0), out, [](double real) { return real; }, range);
  return {result};
}

std::vector<InputCopy> upsample_copies(const Program& program, const ProgramOp& op,
                                       std::span<const Order> from, Order to) {
  InputCopy result = plain_copy(program, op, 0, from[0], to);
  CopyTerms& copy = result;
  const Shape& in = program.input(op, 0).shape;
  const int64_t high = copy.shape[2] / in[2], wide = copy.shape[3] / in[3];
  const Shape f = copy.from_strides, t = copy.to_strides;
  copy.shape = {in[0], in[1], in[2], high, in[3], wide};
  copy.from_strides = {f[0], f[1], f[2], 0, f[3], 0};
  copy.to_strides = {t[0], t[1], t[2] * high, t[2], t[3] * wide, t[3]};
  return {result};
}

template <std::vector<InputCopy> (*copies)(const Program&, const ProgramOp&, std::span<const Order>,
                                           Order)>
std::vector<CustomStep> copied(const Program& program, const ProgramOp& op,
                               std::span<const Order> from, Order to, pthreadpool_t) {
  std::vector<CustomStep> steps;
  for (const InputCopy& copy : copies(program, op, from, to))
    steps.push_back({{copy.input}, StridedCopy(copy)});
  return steps;
}

std::vector<CustomStep> softmax_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t) {
  const ProgramTensor& in = program.input(op, 0);
  const ProgramTensor& out = program.output(op);
  ByteSoftmax softmax(in.qparams->scale[0], out.qparams->scale[0], signed_zero_point(out));
  const Shape from_strides = strides_in(in.shape, from[0]), to_strides = strides_in(out.shape, to);
  const size_t dim = static_cast<size_t>(from_front(op.get(attr::kDim), in.shape.size()));
  for (size_t d = 0; d < in.shape.size(); ++d) {
    if (d == dim) continue;
    softmax.shape.push_back(in.shape[d]);
    softmax.from_strides.push_back(from_strides[d]);
    softmax.to_strides.push_back(to_strides[d]);
  }
  softmax.size = in.shape[dim];
  softmax.from_step = from_strides[dim];
  softmax.to_step = to_strides[dim];
  return {{{0}, softmax}};
}

struct CustomOp {
  OpKind kind;
  CheckOp* check;
  MakeSteps* steps;
  CustomOrders orders;
};

constexpr CustomOrders kAny = {};
constexpr CustomOrders kMakesBytes = {Order::kRowMajor, Order::kBytes};
constexpr CustomOrders kReadsBytes = {Order::kBytes, Order::kRowMajor};
constexpr CustomOrders kMakesPixels = {Order::kChannelsLast, Order::kPixelBytes};
constexpr CustomOrders kReadsPixels = {Order::kPixelBytes, Order::kChannelsLast};
constexpr CustomOrders kChannelsLast = {Order::kChannelsLast, Order::kChannelsLast};
constexpr CustomOrders kPlain = {Order::kRowMajor, Order::kRowMajor};
constexpr CustomOrders kAgree = {{}, {}, true};

// If a kind has several rows, the first that accepts the op applies; when none does, the last gives
// the reason.
constexpr CustomOp kCustomOps[] = {
    {"permute", check_same_qparams, copied<permute_copies>, kAny},
    {"slice", check_custom_slice, copied<slice_copies>, kAny},
    {"expand", check_same_qparams, copied<expand_copies>, kAny},
    {"cat", check_custom_cat, copied<cat_copies>, kAny},
    {"unary", check_custom_unary, copied<unary_copies>, kAny},
    {"unary", check_float_map, float_map_steps, kAgree},
    {"requantize", check_custom_requantize, copied<requantize_copies>, kAny},
    {"upsample", check_custom_upsample, copied<upsample_copies>, kAny},
    {"upsample", check_resize_by_channels, resize_steps, kChannelsLast},
    {"upsample", check_nothing, resize_steps, kAgree},
    {"softmax", check_custom_softmax, softmax_steps, kAny},
    {"softmax", check_float_softmax, float_softmax_steps, kAgree},
    {"layer_norm", check_norm, layer_norm_steps, kPlain},
    {"rms_norm", check_norm, layer_norm_steps, kPlain},
    {"group_norm", check_norm, group_norm_steps, kPlain},
    {"batch_norm", check_norm, batch_norm_steps, kAgree},
    {"mean", check_reduction, reduction_steps, kPlain},
    {"reduce", check_reduction, reduction_steps, kPlain},
    {"rotary", check_rotary, rotary_steps, kPlain},
    {"matmul", check_matmul, matmul_steps, kPlain},
    {"attention", FloatAttention::check, attention_steps, kPlain},
    {"recurrent", RecurrentLayer::check, recurrent_steps, kPlain},
    {"fake_quantize_dynamic", check_row_quantize, row_quantize_steps, kMakesBytes},
    {"fake_quantize_dynamic", check_pixel_quantize, pixel_quantize_steps, kMakesPixels},
    {"fake_quantize_dynamic", check_whole_quantize, fake_quantize_steps, kAgree},
    {"fake_quantize_dynamic", check_fake_quantize, fake_quantize_steps, kPlain},
    {"linear", check_row_product, row_linear_steps, kReadsBytes},
    {"linear", check_weight_linear, weight_linear_steps, kPlain},
    {"linear", check_byte_linear, byte_linear_steps, kPlain},
    {"conv", check_row_product, pixel_conv_steps, kReadsPixels},
    {"conv", check_byte_conv_3d, byte_conv_steps, kPlain},
    {"conv", check_byte_conv, byte_conv_steps, kChannelsLast},
};

// The ops that move int16 elements; backends/kernels has all others (int16_steps).
constexpr CustomOp kInt16Moves[] = {
    {"permute", check_same_qparams, copied<permute_copies>, kAny},
    {"slice", check_custom_slice, copied<slice_copies>, kAny},
    {"expand", check_same_qparams, copied<expand_copies>, kAny},
    {"cat", check_cat_of_one_form, copied<cat_copies>, kAny},
    {"reshape", check_same_qparams, copied<reshape_copies>, kPlain},
    {"copy", check_same_qparams, copied<copy_copies>, kAny},
    {"upsample", check_custom_upsample, copied<upsample_copies>, kAny},
};

CustomOrders int16_orders(Int16Order order) {
  if (order == Int16Order::kChannelsLast) return kChannelsLast;
  return order == Int16Order::kRows ? kPlain : kAgree;
}

// The first row that accepts an op, or the reason of the last.
struct Found {
  Verdict verdict;
  MakeSteps* steps = nullptr;
  CustomOrders orders = {};
};

Found find_custom(const Program& program, const ProgramOp& op) {
  const bool is_int16 = has_int16(program, op);
  Found found{is_int16 ? check_int16(program, op)
                       : Verdict::refuse(fmt::format("XNNPACK has no {}", op.kind))};
  if (is_int16 && found.verdict) return {found.verdict, int16_steps, int16_orders(int16_order(op))};
  for (const CustomOp& row : is_int16 ? std::span<const CustomOp>(kInt16Moves) : kCustomOps) {
    if (!op.is(row.kind)) continue;
    found = {row.check(program, op), row.steps, row.orders};
    if (found.verdict) break;
  }
  return found;
}

Found require_custom(const Program& program, const ProgramOp& op) {
  Found found = find_custom(program, op);
  OCTET_ASSERT(found.verdict, op.kind + " has no custom kernel");
  return found;
}

}  // namespace

std::vector<std::string_view> custom_kinds() {
  std::vector<std::string_view> kinds;
  for (const CustomOp& row : kCustomOps) kinds.push_back(row.kind.name);
  return kinds;
}

Verdict check_custom(const Program& program, const ProgramOp& op) {
  const bool is_known =
      has_int16(program, op) || std::any_of(std::begin(kCustomOps), std::end(kCustomOps),
                                            [&](const CustomOp& row) { return op.is(row.kind); });
  if (!is_known) return Verdict::refuse(fmt::format("XNNPACK has no {}", op.kind));
  Verdict verdict = check_activations(program, op);
  return verdict ? find_custom(program, op).verdict : verdict;
}

CustomOrders custom_orders(const Program& program, const ProgramOp& op) {
  return require_custom(program, op).orders;
}

std::vector<CustomStep> custom_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t pool) {
  return require_custom(program, op).steps(program, op, from, to, pool);
}

}  // namespace octet::xnnpack
