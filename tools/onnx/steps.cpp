#include "tools/onnx/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/shape.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"

namespace octet {

std::vector<SizeExpr> sizes_of(const ProgramTensor& tensor) {
  return tensor.sizes.empty() ? std::vector<SizeExpr>(tensor.shape.begin(), tensor.shape.end())
                              : tensor.sizes;
}

std::vector<int64_t> counted(size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// ---- tensors

std::string OnnxSteps::x(size_t i) {
  if (!has(i)) return "";
  const int index = source.inputs[i];
  std::string& known = writer.scope().names[static_cast<size_t>(index)];
  if (known.empty() && in(i).stored)
    if (const std::optional<std::string> name = stored_name(*this, in(i))) known = *name;
  return writer.name_of(index);
}

std::string OnnxSteps::x(size_t i, DType dtype) {
  if (!has(i) || in(i).dtype == dtype) return x(i);
  const ProgramTensor& tensor = in(i);
  const bool is_number = tensor.is_constant() && tensor.shape.empty() &&
                         has_constant_values(tensor.dtype) && has_constant_values(dtype);
  if (!is_number) return cast(x(i), dtype);
  double value = constant_values(constant_data(tensor))[0];
  if (dtype == DType::kBool) value = value != 0;
  return number(is_floating_point(dtype) ? value : std::trunc(value), dtype);
}

const ProgramOp* OnnxSteps::producer(size_t i, const char* kind) const {
  if (!has(i)) return nullptr;
  const ProgramOp* op = writer.scope().producers[static_cast<size_t>(source.inputs[i])];
  return op != nullptr && op->kind == kind ? op : nullptr;
}

const ProgramTensor* OnnxSteps::find_constant(size_t i) const {
  return has(i) && in(i).is_constant() ? &in(i) : nullptr;
}

int64_t OnnxSteps::dim(size_t rank) const {
  return wrap_dim(source.get(attr::kDim), std::max<size_t>(rank, 1));
}

std::vector<int64_t> OnnxSteps::dims() const {
  std::vector<int64_t> dims = source.get(attr::kDims);
  if (dims.empty()) return counted(rank());
  for (int64_t& dim : dims) dim = wrap_dim(dim, std::max<size_t>(rank(), 1));
  return dims;
}

// ---- nodes

std::string OnnxSteps::cast(const std::string& name, DType dtype) {
  return op("Cast", {name}, {{"to", static_cast<int64_t>(onnx_type_of(dtype, "%" + source.name))}});
}

std::string OnnxSteps::unsqueeze(const std::string& name, std::vector<int64_t> axes) {
  return axes.empty() ? name : op("Unsqueeze", {name, ints(axes)});
}

std::string OnnxSteps::squeeze(const std::string& name, std::vector<int64_t> axes) {
  return axes.empty() ? name : op("Squeeze", {name, ints(axes)});
}

std::string OnnxSteps::transpose(const std::string& name, std::vector<int64_t> dims) {
  if (std::ranges::is_sorted(dims)) return name;
  return op("Transpose", {name}, {{"perm", std::move(dims)}});
}

std::string OnnxSteps::reshape(const std::string& name, const std::vector<int64_t>& shape) {
  return op("Reshape", {name, ints(shape)});
}

std::string OnnxSteps::concat(Names parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : op("Concat", std::move(parts), {{"axis", axis}});
}

std::string OnnxSteps::slice(const std::string& name, const std::string& start,
                             const std::string& end, int64_t dim, int64_t step) {
  return op("Slice", {name, start, end, ints({dim}), step == 1 ? "" : ints({step})});
}

// The axes of ReduceSum are an input; those of other reductions are from opset 18 on.
std::string OnnxSteps::reduce(const char* type, const std::string& name,
                              const std::vector<int64_t>& axes, bool keepdim) {
  OnnxAttributes attributes = {{"keepdims", int64_t{keepdim}}};
  if (writer.opset() >= 18 || std::string(type) == "ReduceSum")
    return op(type, {name, axes.empty() ? "" : ints(axes)}, std::move(attributes));
  if (!axes.empty()) attributes.emplace_back("axes", axes);
  return op(type, {name}, std::move(attributes));
}

// ---- constants

std::string OnnxSteps::floats(const std::string& name, const std::vector<int64_t>& shape,
                              const std::vector<float>& values) {
  return constant(name, Tensor::from<float>(DType::kFloat32, shape, values));
}

std::string OnnxSteps::filled(double value, const std::vector<int64_t>& shape, DType dtype) {
  if (dtype == DType::kFloat32)
    return floats(
        "filled", shape,
        std::vector<float>(static_cast<size_t>(product(shape)), static_cast<float>(value)));
  return op("Expand", {number(value, dtype), ints(shape)});
}

// ---- sizes

std::string OnnxSteps::sizes(const std::vector<SizeExpr>& sizes) {
  Names parts;
  std::vector<int64_t> numbers;
  const auto flush = [&] {
    if (!numbers.empty()) parts.push_back(ints(numbers));
    numbers.clear();
  };
  for (const SizeExpr& item : sizes) {
    if (item.is_number()) {
      numbers.push_back(item.number());
      continue;
    }
    flush();
    parts.push_back(size(item));
  }
  if (parts.empty()) return ints(numbers);
  flush();
  return concat(parts, 0);
}

SizeExpr OnnxSteps::size_attribute(const attr::Integer& key) const {
  const auto formula = source.sizes.find(key);
  return formula == source.sizes.end() ? SizeExpr(source.get(key)) : formula->second.at(0);
}

std::string OnnxSteps::shape(const std::string& name, size_t dim) {
  const int64_t start = static_cast<int64_t>(dim);
  return op("Shape", {name}, {{"start", start}, {"end", start + 1}});
}

namespace {

// The dimensions of size 1 that `wide` has in addition to `narrow`; nullopt if they differ
// otherwise.
std::optional<std::vector<int64_t>> find_ones(const std::vector<SizeExpr>& wide,
                                              const std::vector<SizeExpr>& narrow) {
  std::vector<int64_t> ones;
  size_t next = 0;
  for (size_t d = 0; d < wide.size(); ++d) {
    if (next < narrow.size() && wide[d] == narrow[next])
      ++next;
    else if (wide[d] == SizeExpr(1))
      ones.push_back(static_cast<int64_t>(d));
    else
      return std::nullopt;
  }
  return next == narrow.size() ? std::optional(ones) : std::nullopt;
}

}  // namespace

std::string OnnxSteps::reshaped(const std::string& name, const ProgramTensor& from,
                                const ProgramTensor& like) {
  const std::vector<SizeExpr> source_sizes = sizes_of(from), wanted = sizes_of(like);
  if (const auto dropped = find_ones(source_sizes, wanted)) return squeeze(name, *dropped);
  if (const auto added = find_ones(wanted, source_sizes)) return unsqueeze(name, *added);
  std::vector<int64_t> target;
  size_t open = 0;
  bool has_zero = false;
  for (size_t d = 0; d < wanted.size(); ++d) {
    const bool is_kept = d < source_sizes.size() && source_sizes[d] == wanted[d];
    open += !wanted[d].is_number() && !is_kept;
    has_zero |= wanted[d] == SizeExpr(0);
    target.push_back(wanted[d].is_number() ? wanted[d].number() : is_kept ? 0 : -1);
  }
  if (has_zero && !is_symbolic(wanted))
    return op("Reshape", {name, ints(target)}, {{"allowzero", int64_t{1}}});
  if (open <= 1 && !has_zero) return op("Reshape", {name, ints(target)});
  return op("Reshape", {name, sizes(wanted)}, {{"allowzero", int64_t{1}}});
}

}  // namespace octet
