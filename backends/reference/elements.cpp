// Reads and stores elements, and checks index tensors.
#include "backends/reference/elements.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet::reference {
namespace {

// Reads bools as bytes, because files may hold values other than 0 and 1.
template <typename Visit>
void visit_whole_type(DType dtype, const Visit& visit) {
  visit_integer_type(dtype == DType::kBool ? DType::kUInt8 : dtype, visit);
}

constexpr double kTwoTo63 = 9223372036854775808.0;

// Truncates to int64 with saturation; NaN becomes `fallback`.
int64_t saturated(double value, int64_t fallback) {
  if (std::isnan(value)) return fallback;
  if (value < -kTwoTo63) return INT64_MIN;
  return value >= kTwoTo63 ? INT64_MAX : static_cast<int64_t>(value);
}

}  // namespace

bool is_whole(const ProgramTensor& tensor) {
  return !tensor.qparams && (tensor.dtype == DType::kBool ||
                             (is_integer(tensor.dtype) && tensor.dtype != DType::kUInt64));
}

bool is_all_whole(const KernelCall& call, size_t first) {
  for (size_t i = first; i < call.input_count(); ++i)
    if (call.op.has_input(i) && !is_whole(call.input(i))) return false;
  return is_whole(call.output());
}

template <>
Buffer<int64_t> elements<int64_t>(const KernelCall& call, size_t input) {
  const Tensor& tensor = call.inputs[input];
  Buffer<int64_t> values(static_cast<size_t>(tensor.numel()));
  const bool is_bool = tensor.dtype() == DType::kBool;
  visit_whole_type(tensor.dtype(), [&](auto* type) {
    const auto* data = tensor.data<std::remove_pointer_t<decltype(type)>>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = is_bool ? int64_t{data[i] != 0} : static_cast<int64_t>(data[i]);
  });
  return values;
}

template <>
Buffer<double> elements<double>(const KernelCall& call, size_t input) {
  const Reals<double> values = doubles(call, input);
  return Buffer<double>(values.data(), values.data() + values.size());
}

template <>
void store_elements<int64_t>(const KernelCall& call, std::span<const int64_t> values,
                             size_t output) {
  const Tensor& out = call.outputs[output];
  OCTET_ASSERT(static_cast<int64_t>(values.size()) == out.numel(),
               call.op.name + ": element count");
  const bool is_bool = out.dtype() == DType::kBool;
  const bool is_clamped = call.op.has(attr::kPostMin) || call.op.has(attr::kPostMax);
  const int64_t low = is_clamped ? least_integer(call.op, attr::kPostMin) : INT64_MIN,
                high = is_clamped ? greatest_integer(call.op, attr::kPostMax) : INT64_MAX;
  visit_whole_type(out.dtype(), [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    E* data = out.data<E>();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t value = std::min(std::max(values[i], low), high);
      data[i] = is_bool ? static_cast<E>(value != 0) : static_cast<E>(value);
    }
  });
}

template <>
void store_elements<double>(const KernelCall& call, std::span<const double> values, size_t output) {
  store<double>(call, values, output);
}

int64_t least_integer(const ProgramOp& op, const attr::Real& key, int64_t absent) {
  const auto found = op.attributes.find(key.name);
  if (found == op.attributes.end()) return absent;
  if (const int64_t* whole = std::get_if<int64_t>(&found->second)) return *whole;
  return saturated(std::ceil(op.get(key)), INT64_MIN);
}

int64_t greatest_integer(const ProgramOp& op, const attr::Real& key) {
  const auto found = op.attributes.find(key.name);
  if (found == op.attributes.end()) return INT64_MAX;
  if (const int64_t* whole = std::get_if<int64_t>(&found->second)) return *whole;
  return saturated(std::floor(op.get(key)), INT64_MAX);
}

bool is_stored_alike(const ProgramTensor& a, const ProgramTensor& b) {
  if (a.dtype != b.dtype) return false;
  return !a.qparams || !b.qparams || (a.qparams == b.qparams && a.qparams->is_per_tensor());
}

Sizes read_indices(const KernelCall& call, size_t input, int64_t size, IndexRange range) {
  Sizes indices = elements<int64_t>(call, input);
  const int64_t lowest = range == IndexRange::kFromEnd ? -size : 0;
  for (int64_t& index : indices) {
    if (index < lowest || index >= size)
      throw Error("run", call.op.name,
                  fmt::format("index {} is outside of a dimension of {} elements; check the input",
                              index, size));
    if (index < 0) index += size;
  }
  return indices;
}

Verdict check_index_dtype(const Program& program, const ProgramOp& op, size_t input) {
  const ProgramTensor& indices = *find_input(program, op, input);
  if (!indices.qparams && (indices.dtype == DType::kInt64 || indices.dtype == DType::kInt32))
    return Verdict::accept();
  return Verdict::refuse(fmt::format("{} wants int64 or int32 in input {}, got {}", op.kind, input,
                                     name_of(indices.dtype)));
}

Verdict check_index_output(const Program& program, const ProgramOp& op, size_t output) {
  const ProgramTensor& indices = program.output(op, output);
  if (indices.dtype == DType::kInt64) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} returns indices as int64, but its output is {}", op.kind,
                                     name_of(indices.dtype)));
}

Verdict check_output_shape(const Program& program, const ProgramOp& op, size_t output,
                           const std::vector<int64_t>& want) {
  const std::vector<int64_t>& got = program.output(op, output).shape;
  if (got == want) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("output shape {}, want {}", shape_text(got), shape_text(want)));
}

Verdict check_same_shape(const Program& program, const ProgramOp& op) {
  return check_output_shape(program, op, 0, program.input(op, 0).shape);
}

Verdict check_bias(const Program& program, const ProgramOp& op, int64_t channels) {
  const ProgramTensor* bias = find_input(program, op, 2);
  if (bias == nullptr || bias->shape == std::vector<int64_t>{channels}) return Verdict::accept();
  return Verdict::refuse(fmt::format("bias {}, want [{}]", shape_text(bias->shape), channels));
}

std::optional<DimSplit> find_split(const ProgramOp& op, const std::vector<int64_t>& shape) {
  const std::optional<size_t> dim = find_dim(op.get(attr::kDim), std::max<size_t>(shape.size(), 1));
  if (!dim) return std::nullopt;
  return split_at(shape, *dim);
}

}  // namespace octet::reference
