// Decodes arguments, dtypes and sizes of torch's program schema. decode_graph.cpp decodes graphs.
#include "core/pt2/schema.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

[[noreturn]] void fail(const Graph& graph, const std::string& where, const std::string& message) {
  throw Error("pt2", graph.source, where + ": " + message);
}

std::string_view describe_kind(ValueKind kind) {
  constexpr std::string_view kWords[] = {"a tensor",      "an int symbol",   "a float symbol",
                                         "a bool symbol", "a custom object", "a token",
                                         "a literal"};
  return kWords[static_cast<size_t>(kind)];
}

// The value `name`, which must be defined already.
Value* use(const Graph& graph, const std::string& name, ValueKind kind, const std::string& where) {
  Value* value = graph.find_value(name);
  if (value == nullptr)
    fail(graph, where, fmt::format("uses %{} before it is defined; the file is damaged", name));
  if (value->kind() != kind && value->kind() != ValueKind::kToken)
    fail(graph, where,
         fmt::format("uses %{} as {}, got {}; the file is damaged", name, describe_kind(kind),
                     describe_kind(value->kind())));
  return value;
}

template <typename Enum, typename Number>
Enum known(const std::optional<Enum>& found, Number number, const Graph& graph,
           const std::string& where, std::string_view what) {
  if (!found)
    fail(graph, where,
         fmt::format("unknown {}, got number {}; the file is damaged or of a newer torch", what,
                     static_cast<int>(number)));
  return *found;
}

DType decode_dtype(schema::ScalarType from, const Graph& graph, const std::string& where) {
  return known(find_dtype_by_schema(static_cast<int>(from)), from, graph, where, "dtype");
}
Layout decode_layout(schema::Layout from, const Graph& graph, const std::string& where) {
  return known(find_layout_by_schema(static_cast<int>(from)), from, graph, where, "layout");
}

Dim decode_dim(const schema::SymInt& from) {
  if (from.tag() == schema::SymInt::Tag::AS_INT) return {from.get_as_int(), ""};
  const schema::SymExpr& symbol = from.get_as_expr();
  const bool has_hint =
      symbol.get_hint() && symbol.get_hint()->tag() == schema::SymExprHint::Tag::AS_INT;
  return {has_hint ? symbol.get_hint()->get_as_int() : -1, symbol.get_expr_str()};
}

bool is_symbol(ValueKind kind) {
  return kind == ValueKind::kSymInt || kind == ValueKind::kSymFloat || kind == ValueKind::kSymBool;
}

std::vector<Value*> use_tensors(const std::vector<schema::TensorArgument>& from, const Graph& graph,
                                const std::string& where, ListItems items = ListItems::kTensors) {
  std::vector<Value*> values;
  for (const schema::TensorArgument& tensor : from) {
    const Value* known = graph.find_value(tensor.get_name());
    const bool may_be =
        items == ListItems::kOperands && known != nullptr && is_symbol(known->kind());
    values.push_back(
        use(graph, tensor.get_name(), may_be ? known->kind() : ValueKind::kTensor, where));
  }
  return values;
}

Value* use_optional(const schema::OptionalTensorArgument& from, const Graph& graph,
                    const std::string& where) {
  if (from.tag() == schema::OptionalTensorArgument::Tag::AS_NONE) return nullptr;
  return use(graph, from.get_as_tensor().get_name(), ValueKind::kTensor, where);
}

std::vector<double> plain(const std::vector<schema::F64>& from) {
  std::vector<double> result;
  for (const schema::F64& value : from) result.push_back(value.get());
  return result;
}

// ---- symbols: a name, or a number with a symbolic tag

using SymIntItem = std::variant<int64_t, Value*>;
using SymFloatItem = std::variant<double, Value*>;
using SymBoolItem = std::variant<bool, Value*>;

SymIntItem decode_item(const schema::SymIntArgument& from, const Graph& graph,
                       const std::string& where) {
  if (from.tag() == schema::SymIntArgument::Tag::AS_INT) return from.get_as_int();
  return use(graph, from.get_as_name(), ValueKind::kSymInt, where);
}
SymFloatItem decode_item(const schema::SymFloatArgument& from, const Graph& graph,
                         const std::string& where) {
  if (from.tag() == schema::SymFloatArgument::Tag::AS_FLOAT) return from.get_as_float().get();
  return use(graph, from.get_as_name(), ValueKind::kSymFloat, where);
}
SymBoolItem decode_item(const schema::SymBoolArgument& from, const Graph& graph,
                        const std::string& where) {
  if (from.tag() == schema::SymBoolArgument::Tag::AS_BOOL) return from.get_as_bool();
  return use(graph, from.get_as_name(), ValueKind::kSymBool, where);
}

// Literal: SymIntLiteral, SymFloatLiteral, SymBoolLiteral.
template <typename Literal, typename From>
Argument decode_symbol(const From& from, const Graph& graph, const std::string& where) {
  const auto item = decode_item(from, graph, where);
  if (Value* const* value = std::get_if<Value*>(&item)) return *value;
  return Literal{std::get<0>(item)};
}
template <typename List, typename From>
Argument decode_symbols(const std::vector<From>& from, const Graph& graph,
                        const std::string& where) {
  List list;
  for (const From& item : from) list.items.push_back(decode_item(item, graph, where));
  return list;
}

Argument decode_optional_tensors(const std::vector<schema::OptionalTensorArgument>& from,
                                 const Graph& graph, const std::string& where) {
  OptionalTensors list;
  for (const schema::OptionalTensorArgument& item : from)
    list.items.push_back(use_optional(item, graph, where));
  return list;
}

Argument decode_map(
    const std::unordered_map<std::string, schema::ForwardRef<schema::Argument>>& from,
    const Graph& graph, const std::string& where) {
  ArgumentMap map;
  for (const auto& [key, item] : from)
    map.items[key] = std::make_shared<Argument>(decode_argument(*item, graph, where));
  return map;
}

Argument decode_device(const schema::Device& from) {
  return Device{from.get_type(), from.get_index()};
}

Argument decode_nested_tensors(const std::vector<std::vector<schema::TensorArgument>>& from,
                               const Graph& graph, const std::string& where) {
  NestedTensors nested;
  for (const std::vector<schema::TensorArgument>& list : from)
    nested.items.push_back(use_tensors(list, graph, where));
  return nested;
}

Argument decode_float_lists(const std::vector<std::vector<schema::F64>>& from) {
  std::vector<std::vector<double>> lists;
  for (const std::vector<schema::F64>& list : from) lists.push_back(plain(list));
  return lists;
}

Argument decode_memory_format(schema::MemoryFormat from, const Graph& graph,
                              const std::string& where) {
  return known(find_memory_format_by_schema(static_cast<int>(from)), from, graph, where,
               "memory format");
}

// Kinds that do not refer to values.
Argument decode_literal(const schema::Argument& from, const Graph& graph,
                        const std::string& where) {
  using Tag = schema::Argument::Tag;
  switch (from.tag()) {
    case Tag::AS_NONE:
      from.get_as_none();
      return None{};  // the getter throws when the file had no known kind
    case Tag::AS_INT: return from.get_as_int();
    case Tag::AS_INTS: return from.get_as_ints();
    case Tag::AS_INT_LISTS: return from.get_as_int_lists();
    case Tag::AS_FLOAT: return from.get_as_float().get();
    case Tag::AS_FLOATS: return plain(from.get_as_floats());
    case Tag::AS_FLOAT_LISTS: return decode_float_lists(from.get_as_float_lists());
    case Tag::AS_BOOL: return from.get_as_bool();
    case Tag::AS_BOOLS: return from.get_as_bools();
    case Tag::AS_STRING: return from.get_as_string();
    case Tag::AS_STRINGS: return from.get_as_strings();
    case Tag::AS_COMPLEX:
      return std::complex<double>(from.get_as_complex().get_real().get(),
                                  from.get_as_complex().get_imag().get());
    case Tag::AS_SCALAR_TYPE: return decode_dtype(from.get_as_scalar_type(), graph, where);
    case Tag::AS_MEMORY_FORMAT:
      return decode_memory_format(from.get_as_memory_format(), graph, where);
    case Tag::AS_LAYOUT: return decode_layout(from.get_as_layout(), graph, where);
    case Tag::AS_DEVICE: return decode_device(from.get_as_device());
    case Tag::AS_OPERATOR: return OperatorRef{from.get_as_operator()};
    default:
      fail(graph, where,
           "has a kind that schema version 8 does not have; the file is damaged or of a newer "
           "torch");
  }
}

}  // namespace

Argument decode_argument(const schema::Argument& from, const Graph& graph, const std::string& where,
                         ListItems items) {
  using Tag = schema::Argument::Tag;
  switch (from.tag()) {
    case Tag::AS_TENSOR:
      return use(graph, from.get_as_tensor().get_name(), ValueKind::kTensor, where);
    case Tag::AS_TENSORS: return use_tensors(from.get_as_tensors(), graph, where, items);
    case Tag::AS_OPTIONAL_TENSOR:
      return OptionalTensor{use_optional(from.get_as_optional_tensor(), graph, where)};
    case Tag::AS_OPTIONAL_TENSORS:
      return decode_optional_tensors(from.get_as_optional_tensors(), graph, where);
    case Tag::AS_NESTED_TENSORS:
      return decode_nested_tensors(from.get_as_nested_tensors(), graph, where);
    case Tag::AS_SYM_INT: return decode_symbol<SymIntLiteral>(from.get_as_sym_int(), graph, where);
    case Tag::AS_SYM_INTS: return decode_symbols<SymIntList>(from.get_as_sym_ints(), graph, where);
    case Tag::AS_SYM_FLOAT:
      return decode_symbol<SymFloatLiteral>(from.get_as_sym_float(), graph, where);
    case Tag::AS_SYM_FLOATS:
      return decode_symbols<SymFloatList>(from.get_as_sym_floats(), graph, where);
    case Tag::AS_SYM_BOOL:
      return decode_symbol<SymBoolLiteral>(from.get_as_sym_bool(), graph, where);
    case Tag::AS_SYM_BOOLS:
      return decode_symbols<SymBoolList>(from.get_as_sym_bools(), graph, where);
    case Tag::AS_CUSTOM_OBJ:
      return use(graph, from.get_as_custom_obj().get_name(), ValueKind::kCustomObj, where);
    case Tag::AS_GRAPH:
      return Subgraph{from.get_as_graph().get_name(),
                      decode_subgraph(*from.get_as_graph().get_graph(), graph.source)};
    case Tag::AS_STRING_TO_ARGUMENT:
      return decode_map(from.get_as_string_to_argument(), graph, where);
    default: return decode_literal(from, graph, where);
  }
}

TensorMeta decode_meta(const schema::TensorMeta& from, const Graph& graph,
                       const std::string& where) {
  TensorMeta meta;
  meta.dtype = decode_dtype(from.get_dtype(), graph, where);
  for (const schema::SymInt& size : from.get_sizes()) meta.sizes.push_back(decode_dim(size));
  for (const schema::SymInt& stride : from.get_strides())
    meta.strides.push_back(decode_dim(stride));
  if (meta.sizes.size() != meta.strides.size())
    fail(graph, where,
         fmt::format("got {} sizes and {} strides; the file is damaged", meta.sizes.size(),
                     meta.strides.size()));
  meta.storage_offset = decode_dim(from.get_storage_offset());
  meta.requires_grad = from.get_requires_grad();
  meta.device = {from.get_device().get_type(), from.get_device().get_index()};
  meta.layout = decode_layout(from.get_layout(), graph, where);
  return meta;
}

}  // namespace octet
