// Prints a Graph as text.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/ops/op_schema.h"
#include "core/text/text.h"
#include "core/text/words.h"

namespace octet {
namespace {

using namespace text_words;

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
}

std::string name_text(const Value* value) {
  if (value == nullptr) return "None";
  return "%" + (is_plain_name(value->name()) ? value->name() : quote(value->name()));
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string bool_text(bool value) { return value ? "True" : "False"; }

template <typename Items, typename ItemText>
std::string list_text(std::string_view prefix, const Items& items, const ItemText& item_text) {
  std::string out(prefix);
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    out += item_text(item);
  }
  return out + "]";
}

std::string dim_text(const Dim& dim) {
  return dim.is_symbolic() ? fmt::format("{{{}: {}}}", quote(dim.expr), dim.value)
                           : fmt::format("{}", dim.value);
}

std::string dims_text(const std::vector<Dim>& dims) {
  std::string out;
  for (const Dim& dim : dims) out += (out.empty() ? "" : ",") + dim_text(dim);
  return out;
}

std::string meta_text(const TensorMeta& meta, bool grad_by_default) {
  std::string out = fmt::format("{}[{}]", short_name_of(meta.dtype), dims_text(meta.sizes));
  if (meta.strides != make_meta(meta.dtype, meta.shape()).strides)
    out += "{" + dims_text(meta.strides) + "}";
  if (meta.storage_offset != Dim{}) out += "@" + dim_text(meta.storage_offset);
  if (meta.device != Device{})
    out += " on " + quote(meta.device.index
                              ? fmt::format("{}:{}", meta.device.type, *meta.device.index)
                              : meta.device.type);
  if (meta.layout != Layout::kStrided)
    out += fmt::format(" layout.{}", word_of(kLayouts, meta.layout));
  if (meta.requires_grad != grad_by_default) out += meta.requires_grad ? " grad" : " nograd";
  return out;
}

// "" for a tensor without meta.
std::string type_text(const Value& value, bool grad_by_default = false) {
  switch (value.kind()) {
    case ValueKind::kTensor: return value.meta ? meta_text(*value.meta, grad_by_default) : "";
    case ValueKind::kCustomObj: return "object " + quote(value.class_fqn);
    case ValueKind::kToken: return "token";
    case ValueKind::kNone: return "none";
    default: break;
  }
  std::string out(word_of(kSymbolKinds, value.kind()));
  if (value.symbol.empty() && !value.has_symbol_hint) return out;
  out += "{" + quote(value.symbol);
  if (value.has_symbol_hint) {
    const bool is_float = value.kind() == ValueKind::kSymFloat;
    out += ": " +
           (is_float ? float_text(value.symbol_hint_float) : fmt::format("{}", value.symbol_hint));
  }
  return out + "}";
}

class Printer {
 public:
  explicit Printer(const TextOptions& options) : options_(options) {}

  std::string graph(const Graph& graph, const std::string& indent) const {
    std::string out = "(";
    for (const GraphInput& input : graph.inputs())
      out += (out.size() == 1 ? "" : ", ") + input_text(input, indent);
    out += "):\n";
    for (const Node* node : graph.nodes())
      out += indent + "  " + this->node(*node, indent + "  ") + "\n";
    std::string outputs;
    for (const GraphOutput& output : graph.outputs())
      outputs += (outputs.empty() ? "" : ", ") + output_text(output, indent);
    return out + indent + "  return (" + outputs + ")";
  }

  std::string node(const Node& node, const std::string& indent) const {
    std::string out;
    for (const ResultSlot& slot : node.results())
      out += (out.empty() ? "" : ", ") + result_text(slot, indent);
    if (!node.results().empty()) out += " = ";
    out += node.target() + "(" + arguments_text(node, indent) + ")";
    const Value* only = node.outputs().size() == 1 ? node.outputs().front() : nullptr;
    if (node.name() != default_node_name(node.target(), only))
      out += " as " + (is_plain_name(node.name()) ? node.name() : quote(node.name()));
    return out;
  }

 private:
  std::string typed_name(const Value* value, bool grad_by_default = false) const {
    if (value == nullptr) return "None";
    const std::string type = options_.types ? type_text(*value, grad_by_default) : "";
    return name_text(value) + (type.empty() ? "" : ": " + type);
  }

  std::string input_text(const GraphInput& input, const std::string& indent) const {
    const std::string name = name_text(input.value);
    switch (input.kind) {
      case InputKind::kUserInput:
        if (input.value->kind() == ValueKind::kNone)
          return name + " = input " + argument_text(input.constant, indent);
        return typed_name(input.value);
      case InputKind::kConstant: return name + " = const " + argument_text(input.constant, indent);
      case InputKind::kToken: return typed_name(input.value);
      default: break;
    }
    const bool is_local = input.kind == InputKind::kBuffer && !input.persistent;
    const bool has_grad = input.kind == InputKind::kParameter;
    const std::string type = options_.types ? type_text(*input.value, has_grad) : "";
    return fmt::format("{} = {} {}{}", name, is_local ? kLocalBuffer : word_of(kInputs, input.kind),
                       quote(input.fqn), type.empty() ? "" : ": " + type);
  }

  std::string output_text(const GraphOutput& output, const std::string& indent) const {
    for (const OutputWord& row : kOutputs) {
      if (row.kind != output.kind) continue;
      return fmt::format("{}{} {}", row.word,
                         row.has_target ? " " + quote(output.target) + " =" : "",
                         argument_text(output.value, indent));
    }
    return argument_text(output.value, indent);
  }

  std::string result_text(const ResultSlot& slot, const std::string& indent) const {
    const auto item = [&](const Value* value) { return typed_name(value); };
    switch (slot.kind) {
      case ResultSlot::Kind::kSingle: return typed_name(slot.values.front());
      case ResultSlot::Kind::kList: return list_text("", slot.values, item);
      case ResultSlot::Kind::kOptionalList: return list_text("optional", slot.values, item);
      case ResultSlot::Kind::kLiteral:
        return "literal(" + argument_text(slot.literal, indent) + ")";
    }
    return {};
  }

  // Omits the name of an argument that is the next one of the schema; arguments without a name in
  // torch keep none.
  std::string arguments_text(const Node& node, const std::string& indent) const {
    const OpSchema* schema = find_op_schema(node.target());
    std::string out;
    size_t position = 0;
    for (const NamedArgument& argument : node.arguments()) {
      const bool is_next = schema != nullptr && position < schema->arguments.size() &&
                           schema->arguments[position].name == argument.name &&
                           !schema->arguments[position].kwarg_only &&
                           argument.kind != ArgumentKind::kKeyword;
      position = is_next ? position + 1 : std::string::npos;
      if (!out.empty()) out += ", ";
      if (!is_next && !argument.name.empty())
        out += (is_plain_name(argument.name) ? argument.name : quote(argument.name)) + "=";
      out += argument_text(argument.value, indent);
    }
    return out;
  }

  std::string argument_text(const Argument& argument, const std::string& indent) const;

  TextOptions options_;
};

template <typename List>
bool all_symbols(const List& list, ValueKind kind) {
  bool any = false;
  for (const auto& item : list.items) {
    const auto* value = std::get_if<Value*>(&item);
    if (value != nullptr && (*value)->kind() != kind) return false;
    any |= value != nullptr;
  }
  return any;
}

std::string Printer::argument_text(const Argument& argument, const std::string& indent) const {
  const auto int_text = [](int64_t number) { return fmt::format("{}", number); };
  const auto ints_text = [&](const std::vector<int64_t>& list) {
    return list_text("", list, int_text);
  };
  const auto floats_text = [&](const std::vector<double>& list) {
    return list_text(list.empty() ? "floats" : "", list, float_text);
  };
  const auto value_list = [&](const std::vector<Value*>& list) {
    return list_text("", list, name_text);
  };
  const auto symbols_text = [&](std::string_view prefix, const auto& list,
                                const auto& literal_text) {
    return list_text(prefix, list.items, [&](const auto& item) {
      if (const auto* value = std::get_if<Value*>(&item)) return name_text(*value);
      return literal_text(std::get<0>(item));
    });
  };
  return std::visit(
      [&](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, None>)
          return "None";
        else if constexpr (std::is_same_v<T, Value*>)
          return name_text(value);
        else if constexpr (std::is_same_v<T, std::vector<Value*>>) {
          const bool is_plain = !value.empty() && std::ranges::all_of(value, [](const Value* v) {
            return v->kind() == ValueKind::kTensor;
          });
          return list_text(is_plain ? "" : "values", value, name_text);
        } else if constexpr (std::is_same_v<T, OptionalTensor>)
          return "optional(" + name_text(value.value) + ")";
        else if constexpr (std::is_same_v<T, OptionalTensors>) {
          const bool is_plain = std::ranges::find(value.items, nullptr) != value.items.end();
          return list_text(is_plain ? "" : "optionals", value.items, name_text);
        } else if constexpr (std::is_same_v<T, NestedTensors>)
          return list_text("nested", value.items, value_list);
        else if constexpr (std::is_same_v<T, int64_t>)
          return int_text(value);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return ints_text(value);
        else if constexpr (std::is_same_v<T, std::vector<std::vector<int64_t>>>)
          return list_text(value.empty() ? "int_lists" : "", value, ints_text);
        else if constexpr (std::is_same_v<T, double>)
          return float_text(value);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return floats_text(value);
        else if constexpr (std::is_same_v<T, std::vector<std::vector<double>>>)
          return list_text("float_lists", value, floats_text);
        else if constexpr (std::is_same_v<T, bool>)
          return bool_text(value);
        else if constexpr (std::is_same_v<T, std::vector<bool>>)
          return list_text(value.empty() ? "bools" : "", value, bool_text);
        else if constexpr (std::is_same_v<T, std::string>)
          return quote(value);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return list_text(value.empty() ? "strings" : "", value, quote);
        else if constexpr (std::is_same_v<T, std::complex<double>>)
          return fmt::format("complex({}, {})", float_text(value.real()), float_text(value.imag()));
        else if constexpr (std::is_same_v<T, SymIntLiteral>)
          return fmt::format("sym({})", value.value);
        else if constexpr (std::is_same_v<T, SymFloatLiteral>)
          return fmt::format("sym({})", float_text(value.value));
        else if constexpr (std::is_same_v<T, SymBoolLiteral>)
          return fmt::format("sym({})", bool_text(value.value));
        else if constexpr (std::is_same_v<T, SymIntList>)
          return symbols_text(all_symbols(value, ValueKind::kSymInt) ? "" : "sym_ints", value,
                              int_text);
        else if constexpr (std::is_same_v<T, SymFloatList>)
          return symbols_text("sym_floats", value, float_text);
        else if constexpr (std::is_same_v<T, SymBoolList>)
          return symbols_text("sym_bools", value, bool_text);
        else if constexpr (std::is_same_v<T, DType>)
          return std::string(short_name_of(value));
        else if constexpr (std::is_same_v<T, MemoryFormat>)
          return fmt::format("memory_format.{}", word_of(kMemoryFormats, value));
        else if constexpr (std::is_same_v<T, Layout>)
          return fmt::format("layout.{}", word_of(kLayouts, value));
        else if constexpr (std::is_same_v<T, Device>)
          return fmt::format(
              "device({})",
              quote(value.index ? fmt::format("{}:{}", value.type, *value.index) : value.type));
        else if constexpr (std::is_same_v<T, Subgraph>)
          return "graph " + quote(value.name) + " " + graph(*value.graph, indent + "  ");
        else if constexpr (std::is_same_v<T, OperatorRef>)
          return fmt::format("op({})", quote(value.target));
        else {
          static_assert(std::is_same_v<T, ArgumentMap>);
          std::string out;
          for (const auto& [key, item] : value.items)
            out += (out.empty() ? "" : ", ") + quote(key) + ": " + argument_text(*item, indent);
          return "{" + out + "}";
        }
      },
      static_cast<const ArgumentVariant&>(argument));
}

}  // namespace

std::string to_text(const Graph& graph, const TextOptions& options) {
  return "graph" + Printer(options).graph(graph, "") + "\n";
}

std::string to_text(const Node& node) { return Printer({}).node(node, ""); }

}  // namespace octet
