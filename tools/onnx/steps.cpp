#include "tools/onnx/steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/shape.h"
#include "lowering/import/size.h"
#include "tools/onnx/sizes.h"

namespace octet {
namespace {

using SizeItem = std::variant<int64_t, Value*>;

std::vector<SizeItem> size_items(const Node& node, const char* name, int64_t fallback) {
  const Argument* argument = node.find_argument(name);
  if (argument != nullptr && argument->find<SymIntList>() != nullptr)
    return argument->find<SymIntList>()->items;
  if (argument != nullptr && argument->find<Value*>() != nullptr)
    return {*argument->find<Value*>()};
  std::vector<SizeItem> items;
  for (int64_t value : node.ints_or(name, {fallback})) items.push_back(value);
  return items;
}

}  // namespace

std::string OnnxSteps::op(const char* type, Names inputs, OnnxAttributes attributes) {
  return exporter.emit(node, type, std::move(inputs), std::move(attributes), 1).outputs[0];
}

Names OnnxSteps::ops(const char* type, size_t results, Names inputs, OnnxAttributes attributes) {
  return exporter.emit(node, type, std::move(inputs), std::move(attributes), results).outputs;
}

// ---- arguments

Value* OnnxSteps::value(std::initializer_list<const char*> names) const {
  for (const char* name : names)
    if (Value* found = node.find_input(name)) return found;
  return nullptr;
}

std::string OnnxSteps::input(std::initializer_list<const char*> names) {
  Value* found = value(names);
  return found == nullptr ? "" : exporter.name_of(found);
}

std::string OnnxSteps::operand(const char* name, DType dtype) {
  if (Value* found = node.find_input(name)) return cast(found, dtype);
  if (!has(name)) return "";
  const Argument& argument = *node.find_argument(name);
  if (const bool* flag = argument.find<bool>()) return number(*flag ? 1 : 0, dtype);
  return number(node.float_or(name, 0), dtype);
}

std::string OnnxSteps::cast(Value* value, DType dtype) {
  if (value->kind() == ValueKind::kSymInt)
    return cast(squeeze(exporter.name_of(value), {0}), dtype);
  const std::string name = exporter.name_of(value);
  return OnnxSteps::dtype(value) == dtype ? name : cast(name, dtype);
}

std::string OnnxSteps::cast(const std::string& name, DType dtype) {
  return op("Cast", {name}, {{"to", static_cast<int64_t>(onnx_type_of(dtype, subject_of(node)))}});
}

std::string OnnxSteps::text(const char* name) const {
  const Argument* argument = node.find_argument(name);
  const std::string* found = argument == nullptr ? nullptr : argument->find<std::string>();
  return found == nullptr ? "" : *found;
}

bool OnnxSteps::has(const char* name) const {
  const Argument* argument = node.find_argument(name);
  return argument != nullptr && !argument->is_none() &&
         (argument->find<OptionalTensor>() == nullptr || argument->value_or_null() != nullptr);
}

std::vector<Value*> OnnxSteps::list(const char* name) const {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr) return {};
  if (const OptionalTensors* optional = argument->find<OptionalTensors>()) return optional->items;
  if (const std::vector<Value*>* values = argument->find<std::vector<Value*>>()) return *values;
  return {};
}

// ---- what is known of values

const TensorMeta& OnnxSteps::meta(const Value* value) {
  if (!value->meta)
    throw Error("onnx", "%" + value->name(),
                "has no recorded shape; export the program with torch.export");
  return *value->meta;
}

size_t OnnxSteps::dim_of(const Value* value, int64_t dim) const {
  const std::optional<size_t> found = find_dim(dim, std::max<size_t>(rank(value), 1));
  if (!found)
    throw Error("onnx", subject_of(node),
                fmt::format("has dim {}, want one of {} dimensions", dim, rank(value)));
  return *found;
}

std::optional<int64_t> OnnxSteps::fixed_size(const Value* value, size_t dim) {
  const Dim& size = meta(value).sizes.at(dim);
  if (!size.is_symbolic()) return size.value;
  refuse("along a dimension whose size is not fixed");
  return std::nullopt;
}

std::optional<std::vector<int64_t>> OnnxSteps::fixed_shape(const Value* value) {
  if (meta(value).is_static()) return meta(value).shape();
  refuse("of a shape that is not fixed");
  return std::nullopt;
}

// ---- constants

std::string OnnxSteps::constant(const std::string& name, Tensor data) {
  return exporter.add_initializer(node.name() + "_" + name, std::move(data));
}

std::string OnnxSteps::filled(double value, const std::vector<int64_t>& shape, DType dtype) {
  if (dtype == DType::kFloat32) {
    Tensor data = Tensor::zeros(dtype, shape);
    std::fill_n(data.data<float>(), data.numel(), static_cast<float>(value));
    return constant("filled", std::move(data));
  }
  return op("Expand", {number(value, dtype), ints(shape)});
}

// ---- sizes

std::string OnnxSteps::size(const char* name, int64_t fallback) {
  const SizeItem item = size_items(node, name, fallback).at(0);
  if (const int64_t* value = std::get_if<int64_t>(&item)) return ints({*value});
  return exporter.name_of(std::get<Value*>(item));
}

std::string OnnxSteps::sizes(const char* name, int64_t minus_one) {
  const std::vector<SizeItem> items = size_items(node, name, 0);
  std::vector<int64_t> numbers;
  Names parts;
  const auto flush = [&] {
    if (!numbers.empty()) parts.push_back(ints(numbers));
    numbers.clear();
  };
  for (const SizeItem& item : items) {
    if (const int64_t* value = std::get_if<int64_t>(&item)) {
      numbers.push_back(*value == -1 ? minus_one : *value);
      continue;
    }
    flush();
    parts.push_back(exporter.name_of(std::get<Value*>(item)));
  }
  if (parts.empty()) return ints(numbers);
  flush();
  return parts.size() == 1 ? parts[0] : op("Concat", parts, {{"axis", int64_t{0}}});
}

std::string OnnxSteps::shape(const std::string& name, size_t dim) {
  const int64_t start = static_cast<int64_t>(dim);
  return op("Shape", {name}, {{"start", start}, {"end", start + 1}});
}

std::string OnnxSteps::reshaped(const std::string& name, const Value* from, const Value* like) {
  const std::vector<Dim>& sizes = meta(like).sizes;
  std::vector<int64_t> target;
  size_t open = 0;
  bool has_zero = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_kept = from != nullptr && d < rank(from) && meta(from).sizes[d] == sizes[d];
    if (!sizes[d].is_symbolic()) {
      has_zero |= sizes[d].value == 0;
      target.push_back(sizes[d].value);
    } else if (is_kept) {
      target.push_back(0);
    } else {
      target.push_back(-1);
      ++open;
    }
  }
  const bool is_fixed = meta(like).is_static();
  if (is_fixed && has_zero) return op("Reshape", {name, ints(target)}, {{"allowzero", int64_t{1}}});
  if (is_fixed || (open <= 1 && !has_zero)) return op("Reshape", {name, ints(target)});
  Names parts;
  for (const Dim& size : sizes) {
    const std::string subject = "%" + like->name();
    parts.push_back(size_tensor(
        exporter, size.is_symbolic() ? parse_size(size.expr, subject) : SizeExpr(size.value),
        subject));
  }
  return op("Reshape", {name, op("Concat", parts, {{"axis", int64_t{0}}})});
}

// ---- steps

std::string OnnxSteps::unsqueeze(const std::string& name, std::vector<int64_t> axes) {
  return axes.empty() ? name : op("Unsqueeze", {name, ints(axes)});
}

std::string OnnxSteps::squeeze(const std::string& name, std::vector<int64_t> axes) {
  return axes.empty() ? name : op("Squeeze", {name, ints(axes)});
}

std::string OnnxSteps::transpose(const std::string& name, std::vector<int64_t> dims) {
  return op("Transpose", {name}, {{"perm", std::move(dims)}});
}

std::string OnnxSteps::reshape(const std::string& name, const std::vector<int64_t>& shape) {
  return op("Reshape", {name, ints(shape)});
}

// The axes of ReduceSum are an input; those of the others are from opset 18 on.
std::string OnnxSteps::reduce(const char* type, const std::string& name,
                              const std::vector<int64_t>& axes, bool keepdim) {
  OnnxAttributes attributes = {{"keepdims", int64_t{keepdim}}};
  if (exporter.opset() >= 18 || std::string(type) == "ReduceSum")
    return op(type, {name, axes.empty() ? "" : ints(axes)}, std::move(attributes));
  if (!axes.empty()) attributes.emplace_back("axes", axes);
  return op(type, {name}, std::move(attributes));
}

std::vector<int64_t> as_many(std::vector<int64_t> values, size_t count) {
  if (values.size() == 1) values.resize(count, values[0]);
  return values;
}

}  // namespace octet
