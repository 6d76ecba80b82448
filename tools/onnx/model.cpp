#include "tools/onnx/model.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

struct TypeRow {
  DType dtype;
  OnnxType type;
};
constexpr TypeRow kTypes[] = {
    {DType::kFloat32, OnnxType::kFloat},     {DType::kUInt8, OnnxType::kUInt8},
    {DType::kInt8, OnnxType::kInt8},         {DType::kUInt16, OnnxType::kUInt16},
    {DType::kInt16, OnnxType::kInt16},       {DType::kInt32, OnnxType::kInt32},
    {DType::kInt64, OnnxType::kInt64},       {DType::kBool, OnnxType::kBool},
    {DType::kFloat16, OnnxType::kFloat16},   {DType::kFloat64, OnnxType::kDouble},
    {DType::kUInt32, OnnxType::kUInt32},     {DType::kUInt64, OnnxType::kUInt64},
    {DType::kBFloat16, OnnxType::kBFloat16},
};

template <typename T>
std::string elements_text(const OnnxInitializer& constant) {
  const T* first = constant.data.data<T>();
  std::vector<T> values(first, first + constant.data.numel());
  const std::string list = fmt::format("{}", fmt::join(values, ", "));
  return short_name_of(constant.type) + (constant.shape.empty() ? " " + list : "[" + list + "]");
}

std::string constant_text(const OnnxInitializer& constant) {
  constexpr int64_t kMost = 8;
  if (constant.shape.size() <= 1 && constant.data.numel() <= kMost) {
    if (constant.type == OnnxType::kInt64) return elements_text<int64_t>(constant);
    if (constant.type == OnnxType::kInt32) return elements_text<int32_t>(constant);
    if (constant.type == OnnxType::kFloat) return elements_text<float>(constant);
    if (constant.type == OnnxType::kInt8) return elements_text<int8_t>(constant);
    if (constant.type == OnnxType::kUInt8) return elements_text<uint8_t>(constant);
  }
  return fmt::format("@{}: {}[{}]", constant.name, short_name_of(constant.type),
                     fmt::join(constant.shape, ", "));
}

struct AttributeText {
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(float value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(const std::vector<int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::vector<std::string>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const Tensor& tensor) const { return describe(tensor); }
  std::string operator()(const std::shared_ptr<OnnxGraph>&) const { return "..."; }
};

std::string value_text(const OnnxValue& value) {
  std::vector<std::string> dims;
  for (const OnnxDim& dim : value.dims)
    dims.push_back(dim.name.empty() ? fmt::format("{}", dim.value) : dim.name);
  return fmt::format("%{}: {}[{}]", value.name, short_name_of(value.type), fmt::join(dims, ", "));
}

std::string values_text(const std::vector<OnnxValue>& values) {
  std::vector<std::string> texts;
  for (const OnnxValue& value : values) texts.push_back(value_text(value));
  return fmt::format("({})", fmt::join(texts, ", "));
}

using Constants = std::map<std::string, const OnnxInitializer*>;

std::string graph_text(const OnnxGraph& graph, const Constants& constants,
                       const std::string& indent) {
  std::string text = values_text(graph.inputs) + ":\n";
  for (const OnnxNode& node : graph.nodes) {
    std::vector<std::string> arguments, results, attributes;
    std::string bodies;
    for (const std::string& name : node.inputs) {
      const auto constant = constants.find(name);
      arguments.push_back(name.empty()                  ? "-"
                          : constant == constants.end() ? "%" + name
                                                        : constant_text(*constant->second));
    }
    for (const std::string& name : node.outputs) results.push_back(name.empty() ? "-" : "%" + name);
    for (const auto& [key, value] : node.attributes) {
      attributes.push_back(key + "=" + std::visit(AttributeText(), value));
      if (const auto* body = std::get_if<std::shared_ptr<OnnxGraph>>(&value))
        bodies += indent + "  " + key + " " + graph_text(**body, constants, indent + "  ");
    }
    text += fmt::format("{}{} = {}({})", indent, fmt::join(results, ", "), node.op,
                        fmt::join(arguments, ", "));
    if (!attributes.empty()) text += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
    text += "\n" + bodies;
  }
  return text + indent + "return " + values_text(graph.outputs) + "\n";
}

}  // namespace

OnnxType onnx_type_of(DType dtype, const std::string& subject) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.type;
  throw Error(
      "onnx", subject,
      fmt::format("has dtype {}, which ONNX's operators do not take; export the program with "
                  "reals of 16 or 32 bits",
                  name_of(dtype)));
}

std::string short_name_of(OnnxType type) {
  if (type == OnnxType::kInt4) return "i4";
  if (type == OnnxType::kUInt4) return "u4";
  const auto row = std::ranges::find_if(
      kTypes, [&](const TypeRow& candidate) { return candidate.type == type; });
  OCTET_ASSERT(row != std::end(kTypes), "a type without a row");
  return std::string(short_name_of(row->dtype));
}

std::string to_text(const OnnxModel& model) {
  Constants constants;
  for (const OnnxInitializer& constant : model.initializers) constants[constant.name] = &constant;
  return fmt::format("opset {} ", model.opset) + graph_text(model, constants, "  ");
}

}  // namespace octet
