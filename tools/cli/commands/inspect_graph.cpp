#include "tools/cli/commands/inspect_graph.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/convert/quantized_io.h"
#include "annotate/graph/float_ops.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/interpreter/inputs.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json reference(const Value* value) {
  return value == nullptr ? Json(nullptr) : Json("%" + value->name());
}

Json to_json(const Argument& argument);

struct ArgumentToJson {
  Json operator()(const None&) const { return nullptr; }
  Json operator()(Value* value) const { return reference(value); }
  Json operator()(const std::vector<Value*>& values) const { return references(values); }
  Json operator()(const OptionalTensor& value) const { return reference(value.value); }
  Json operator()(const OptionalTensors& values) const { return references(values.items); }
  Json operator()(const NestedTensors& lists) const {
    Json result = Json::array();
    for (const std::vector<Value*>& list : lists.items) result.push_back(references(list));
    return result;
  }
  Json operator()(double value) const { return number(value); }
  Json operator()(const std::vector<double>& values) const { return numbers(values); }
  Json operator()(const std::vector<std::vector<double>>& lists) const {
    Json result = Json::array();
    for (const std::vector<double>& list : lists) result.push_back(numbers(list));
    return result;
  }
  Json operator()(const std::complex<double>& value) const {
    return Json::array({number(value.real()), number(value.imag())});
  }
  Json operator()(const SymIntLiteral& value) const { return value.value; }
  Json operator()(const SymFloatLiteral& value) const { return number(value.value); }
  Json operator()(const SymBoolLiteral& value) const { return value.value; }
  Json operator()(const SymIntList& list) const { return symbols(list.items); }
  Json operator()(const SymFloatList& list) const { return symbols(list.items); }
  Json operator()(const SymBoolList& list) const { return symbols(list.items); }
  Json operator()(DType dtype) const { return fmt::format("torch.{}", name_of(dtype)); }
  Json operator()(MemoryFormat format) const {
    constexpr std::string_view kNames[] = {"unknown", "contiguous_format", "channels_last",
                                           "channels_last_3d", "preserve_format"};
    return fmt::format("torch.{}", kNames[static_cast<size_t>(format)]);
  }
  Json operator()(Layout layout) const {
    constexpr std::string_view kNames[] = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                           "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
    return fmt::format("torch.{}", kNames[static_cast<size_t>(layout)]);
  }
  Json operator()(const Device& device) const {
    return device.index ? fmt::format("{}:{}", device.type, *device.index) : device.type;
  }
  Json operator()(const Subgraph& subgraph) const { return "graph " + subgraph.name; }
  Json operator()(const OperatorRef& op) const { return op.target; }
  Json operator()(const ArgumentMap& map) const {
    Json result = Json::object();
    for (const auto& [key, value] : map.items) result[key] = to_json(*value);
    return result;
  }
  template <typename T>
  Json operator()(const T& plain) const {
    return plain;
  }  // int, bool, string and lists of them

 private:
  static Json references(const std::vector<Value*>& values) {
    Json result = Json::array();
    for (const Value* value : values) result.push_back(reference(value));
    return result;
  }
  static Json numbers(const std::vector<double>& values) {
    Json result = Json::array();
    for (double value : values) result.push_back(number(value));
    return result;
  }
  template <typename T>
  static Json symbols(const std::vector<std::variant<T, Value*>>& items) {
    Json result = Json::array();
    for (const auto& item : items) {
      if (const T* literal = std::get_if<T>(&item)) {
        result.push_back(*literal);
      } else {
        result.push_back(reference(std::get<Value*>(item)));
      }
    }
    return result;
  }
};

Json to_json(const Argument& argument) {
  return std::visit(ArgumentToJson(), static_cast<const ArgumentVariant&>(argument));
}

Json shape_json(const TensorMeta& meta) {
  Json shape = Json::array();
  for (const Dim& dim : meta.sizes)
    shape.push_back(dim.is_symbolic() ? Json(dim.expr) : Json(dim.value));
  return shape;
}

Json value_json(const Value& value) {
  Json result = {{"name", value.name()}};
  result["dtype"] = value.meta ? Json(name_of(value.meta->dtype)) : Json(nullptr);
  result["shape"] = value.meta ? shape_json(*value.meta) : Json(nullptr);
  return result;
}

Json node_json(const Node& node) {
  Json args = Json::object();
  for (const NamedArgument& argument : node.arguments())
    args[argument.name] = to_json(argument.value);
  const std::vector<Value*> outputs = node.outputs();
  const bool has_meta = !outputs.empty() && outputs.front()->meta;
  const std::vector<ModuleFrame> stack = module_stack(node);
  return {{"name", node.name()},
          {"target", node.target()},
          {"args", args},
          {"dtype", has_meta ? Json(name_of(outputs.front()->meta->dtype)) : Json(nullptr)},
          {"shape", has_meta ? shape_json(*outputs.front()->meta) : Json(nullptr)},
          {"module", stack.empty() ? "" : stack.back().path}};
}

// "s77" for a size that is open, "?" for a formula.
std::string size_text(const Dim& dim) {
  if (!dim.is_symbolic()) return std::to_string(dim.value);
  const std::string name = symbol_name(dim.expr);
  return name.empty() ? "?" : name;
}

std::string type_text(const Value* value) {
  if (value == nullptr || !value->meta) return "";
  std::vector<std::string> sizes;
  for (const Dim& dim : value->meta->sizes) sizes.push_back(size_text(dim));
  return fmt::format("{}[{}]", short_name_of(value->meta->dtype), fmt::join(sizes, ", "));
}

// Lines like "size s77: 1 to 64, dimension 0 of input 0 (%x)".
std::string sizes_text(const Graph& graph) {
  std::string text;
  for (const auto& [name, range] : graph.range_constraints) {
    const std::string origin = origin_of_symbol(graph, name);
    if (origin.empty()) continue;
    const int64_t least = range.min.value_or(0);
    const std::string limits =
        range.max ? fmt::format("{} to {}", least, *range.max) : fmt::format("at least {}", least);
    text += fmt::format("size {}: {}, {}\n", name, limits, origin);
  }
  return text;
}

using Row = std::vector<std::string>;

std::string args_text(const Node& node, ArgumentKind kind) {
  std::vector<std::string> parts;
  for (const NamedArgument& argument : node.arguments()) {
    if ((argument.kind == ArgumentKind::kKeyword) != (kind == ArgumentKind::kKeyword)) continue;
    std::string text = dump_json(to_json(argument.value));
    std::erase(text, '"');
    parts.push_back(kind == ArgumentKind::kKeyword ? argument.name + ": " + text : text);
  }
  return kind == ArgumentKind::kKeyword ? fmt::format("{{{}}}", fmt::join(parts, ", "))
                                        : fmt::format("({})", fmt::join(parts, ", "));
}

std::string render(const std::vector<Row>& rows) {
  constexpr size_t kWidest = 72;  // longer cells shift the remainder of their line
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::min(kWidest, std::max(widths[i], row[i].size()));
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string to_table(const Graph& graph) {
  std::vector<Row> rows = {{"opcode", "name", "target", "args", "kwargs", "type"}};
  for (const GraphInput& input : graph.inputs()) {
    const bool is_attribute = !input.fqn.empty();
    rows.push_back({is_attribute ? "get_attr" : "placeholder", input.value->name(),
                    is_attribute ? input.fqn : input.value->name(), "()", "{}",
                    type_text(input.value)});
  }
  for (const Node* node : graph.nodes()) {
    const std::vector<Value*> outputs = node->outputs();
    std::string type = outputs.empty() ? "" : type_text(outputs.front());
    if (outputs.size() > 1) type += fmt::format(" and {} more", outputs.size() - 1);
    rows.push_back({"call_function", node->name(), node->target(),
                    args_text(*node, ArgumentKind::kPositional),
                    args_text(*node, ArgumentKind::kKeyword), type});
  }
  std::vector<std::string> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    std::string text = dump_json(to_json(output.value));
    std::erase(text, '"');
    outputs.push_back(text);
  }
  rows.push_back(
      {"output", "output", "output", fmt::format("({})", fmt::join(outputs, ", ")), "{}", ""});
  return render(rows) + sizes_text(graph);
}

nlohmann::ordered_json to_json(const Graph& graph) {
  Json nodes = Json::array(), inputs = Json::array(), outputs = Json::array();
  int quantized = 0;
  for (const Node* node : graph.nodes()) {
    nodes.push_back(node_json(*node));
    const std::vector<Value*> values = node->inputs();
    if (std::any_of(values.begin(), values.end(), is_dequantized)) ++quantized;
  }
  for (const GraphInput& input : graph.inputs())
    if (input.kind == InputKind::kUserInput) inputs.push_back(value_json(*input.value));
  for (const GraphOutput& output : graph.outputs()) {
    const Value* value = output.value.value_or_null();
    outputs.push_back(value == nullptr ? to_json(output.value) : value_json(*value));
  }
  Json result = {{"nodes", nodes},
                 {"inputs", inputs},
                 {"outputs", outputs},
                 {"quantized_ops", quantized},
                 {"float_ops", find_float_ops(graph).size()}};
  if (const std::optional<std::string> text = stored_quantized_io(graph)) {
    const Json io = parse_json<Json>(*text, nullptr, false);
    if (io.is_discarded())
      throw Error("inspect", graph.source,
                  "the extra file quantized_io.json is not JSON; quantize the model again");
    result["quantized_io"] = io;
  }
  return result;
}

}  // namespace octet
