// Encodes arguments, dtypes and sizes in torch's program schema. encode_graph.cpp encodes graphs.
#include "core/pt2/schema.h"

#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// Replaces -inf until restore_minus_infinity(). A program that contains this number is refused.
constexpr double kMinusInfinity = -1.0715086071862673e-299;

schema::F64 encode_float(double from, const std::string& subject) {
  if (from == kMinusInfinity)
    throw Error("pt2", subject,
                fmt::format("the number {} is reserved and cannot be written", from));
  schema::F64 result;
  result.set(std::isinf(from) && from < 0 ? kMinusInfinity : from);
  return result;
}

std::vector<schema::TensorArgument> encode_tensors(const std::vector<Value*>& values) {
  std::vector<schema::TensorArgument> result;
  for (const Value* value : values) result.push_back(name_argument<schema::TensorArgument>(*value));
  return result;
}

schema::OptionalTensorArgument encode_optional(const Value* value) {
  schema::OptionalTensorArgument result;
  if (value == nullptr) {
    result.set_as_none(true);
  } else {
    result.set_as_tensor(name_argument<schema::TensorArgument>(*value));
  }
  return result;
}

schema::SymInt encode_dim(const Dim& from) {
  schema::SymInt result;
  if (!from.is_symbolic()) {
    result.set_as_int(from.value);
    return result;
  }
  schema::SymExpr symbol;
  symbol.set_expr_str(from.expr);
  if (from.value != -1) {
    schema::SymExprHint hint;
    hint.set_as_int(from.value);
    symbol.set_hint(std::optional(hint));
  }
  result.set_as_expr(std::move(symbol));
  return result;
}

schema::Device encode_device(const Device& from) {
  schema::Device result;
  result.set_type(from.type);
  result.set_index(from.index);
  return result;
}

// The schema's type of a symbol, or of a number with a symbolic tag.
template <typename T>
using SchemaOf =
    std::conditional_t<std::is_same_v<T, int64_t>, schema::SymIntArgument,
                       std::conditional_t<std::is_same_v<T, double>, schema::SymFloatArgument,
                                          schema::SymBoolArgument>>;

// Converts each alternative of Argument into the schema's; the overloads are the table.
class Encoder {
 public:
  explicit Encoder(const std::string& subject) : subject_(subject) {}
  schema::Argument take() { return std::move(out_); }

  void operator()(const None&) { out_.set_as_none(true); }
  void operator()(Value* value) { encode_value(*value); }
  void operator()(const std::vector<Value*>& values) {
    out_.set_as_tensors(encode_tensors(values));
  }
  void operator()(const OptionalTensor& from) {
    out_.set_as_optional_tensor(encode_optional(from.value));
  }
  void operator()(const OptionalTensors& from) {
    std::vector<schema::OptionalTensorArgument> items;
    for (const Value* value : from.items) items.push_back(encode_optional(value));
    out_.set_as_optional_tensors(std::move(items));
  }
  void operator()(const NestedTensors& from) {
    std::vector<std::vector<schema::TensorArgument>> items;
    for (const std::vector<Value*>& list : from.items) items.push_back(encode_tensors(list));
    out_.set_as_nested_tensors(std::move(items));
  }
  void operator()(int64_t value) { out_.set_as_int(value); }
  void operator()(const std::vector<int64_t>& values) { out_.set_as_ints(values); }
  void operator()(const std::vector<std::vector<int64_t>>& values) {
    out_.set_as_int_lists(values);
  }
  void operator()(double value) { out_.set_as_float(encode_float(value, subject_)); }
  void operator()(const std::vector<double>& values) { out_.set_as_floats(encode_floats(values)); }
  void operator()(const std::vector<std::vector<double>>& lists) {
    std::vector<std::vector<schema::F64>> items;
    for (const std::vector<double>& list : lists) items.push_back(encode_floats(list));
    out_.set_as_float_lists(std::move(items));
  }
  void operator()(bool value) { out_.set_as_bool(value); }
  void operator()(const std::vector<bool>& values) { out_.set_as_bools(values); }
  void operator()(const std::string& value) { out_.set_as_string(value); }
  void operator()(const std::vector<std::string>& values) { out_.set_as_strings(values); }
  void operator()(const std::complex<double>& value) {
    schema::ComplexValue result;
    result.set_real(encode_float(value.real(), subject_));
    result.set_imag(encode_float(value.imag(), subject_));
    out_.set_as_complex(std::move(result));
  }
  void operator()(const SymIntLiteral& from) {
    out_.set_as_sym_int(encode_item(std::variant<int64_t, Value*>(from.value)));
  }
  void operator()(const SymFloatLiteral& from) {
    out_.set_as_sym_float(encode_item(std::variant<double, Value*>(from.value)));
  }
  void operator()(const SymBoolLiteral& from) {
    out_.set_as_sym_bool(encode_item(std::variant<bool, Value*>(from.value)));
  }
  void operator()(const SymIntList& from) {
    out_.set_as_sym_ints(encode_items<schema::SymIntArgument>(from.items));
  }
  void operator()(const SymFloatList& from) {
    out_.set_as_sym_floats(encode_items<schema::SymFloatArgument>(from.items));
  }
  void operator()(const SymBoolList& from) {
    out_.set_as_sym_bools(encode_items<schema::SymBoolArgument>(from.items));
  }
  void operator()(DType from) {
    out_.set_as_scalar_type(static_cast<schema::ScalarType>(schema_number(from)));
  }
  void operator()(MemoryFormat from) {
    out_.set_as_memory_format(static_cast<schema::MemoryFormat>(schema_number(from)));
  }
  void operator()(Layout from) {
    out_.set_as_layout(static_cast<schema::Layout>(schema_number(from)));
  }
  void operator()(const Device& from) { out_.set_as_device(encode_device(from)); }
  void operator()(const Subgraph& from) {
    schema::ForwardRef<schema::Graph> body;
    body.emplace(encode_graph(*from.graph, subject_));
    schema::GraphArgument result;
    result.set_name(from.name);
    result.set_graph(std::move(body));
    out_.set_as_graph(std::move(result));
  }
  void operator()(const OperatorRef& from) { out_.set_as_operator(from.target); }
  void operator()(const ArgumentMap& from) {
    std::unordered_map<std::string, schema::ForwardRef<schema::Argument>> items;
    for (const auto& [key, item] : from.items) items[key].emplace(encode_argument(*item, subject_));
    out_.set_as_string_to_argument(std::move(items));
  }

 private:
  std::vector<schema::F64> encode_floats(const std::vector<double>& from) const {
    std::vector<schema::F64> result;
    for (double value : from) result.push_back(encode_float(value, subject_));
    return result;
  }
  template <typename T>
  SchemaOf<T> encode_item(const std::variant<T, Value*>& from) const {
    SchemaOf<T> result;
    if (Value* const* value = std::get_if<Value*>(&from))
      result.set_as_name((*value)->name());
    else if constexpr (std::is_same_v<T, int64_t>)
      result.set_as_int(std::get<T>(from));
    else if constexpr (std::is_same_v<T, double>)
      result.set_as_float(encode_float(std::get<T>(from), subject_));
    else
      result.set_as_bool(std::get<T>(from));
    return result;
  }
  template <typename To, typename Items>
  std::vector<To> encode_items(const Items& from) const {
    std::vector<To> result;
    for (const auto& item : from) result.push_back(encode_item(item));
    return result;
  }
  void encode_value(Value& value) {
    switch (value.kind()) {
      case ValueKind::kTensor:
      case ValueKind::kToken:
        out_.set_as_tensor(name_argument<schema::TensorArgument>(value));
        return;
      case ValueKind::kSymInt:
        out_.set_as_sym_int(encode_item(std::variant<int64_t, Value*>(&value)));
        return;
      case ValueKind::kSymFloat:
        out_.set_as_sym_float(encode_item(std::variant<double, Value*>(&value)));
        return;
      case ValueKind::kSymBool:
        out_.set_as_sym_bool(encode_item(std::variant<bool, Value*>(&value)));
        return;
      case ValueKind::kCustomObj: out_.set_as_custom_obj(encode_custom_object(value)); return;
      case ValueKind::kNone:
        throw Error("pt2", subject_,
                    fmt::format("%{} is a literal input and cannot be an argument", value.name()));
    }
  }

  const std::string& subject_;
  schema::Argument out_;
};

}  // namespace

schema::Argument encode_argument(const Argument& from, const std::string& subject) {
  Encoder encoder(subject);
  std::visit(encoder, static_cast<const ArgumentVariant&>(from));
  return encoder.take();
}

schema::CustomObjArgument encode_custom_object(const Value& value) {
  schema::CustomObjArgument result = name_argument<schema::CustomObjArgument>(value);
  result.set_class_fqn(value.class_fqn);
  return result;
}

schema::TensorMeta encode_meta(const TensorMeta& from) {
  schema::TensorMeta result;
  std::vector<schema::SymInt> sizes;
  std::vector<schema::SymInt> strides;
  for (const Dim& size : from.sizes) sizes.push_back(encode_dim(size));
  for (const Dim& stride : from.strides) strides.push_back(encode_dim(stride));
  result.set_dtype(static_cast<schema::ScalarType>(schema_number(from.dtype)));
  result.set_sizes(std::move(sizes));
  result.set_strides(std::move(strides));
  result.set_storage_offset(encode_dim(from.storage_offset));
  result.set_requires_grad(from.requires_grad);
  result.set_device(encode_device(from.device));
  result.set_layout(static_cast<schema::Layout>(schema_number(from.layout)));
  return result;
}

schema::ConstantValue encode_constant(const Argument& literal, const std::string& subject) {
  schema::ConstantValue result;
  if (literal.is_none())
    result.set_as_none(true);
  else if (const int64_t* integer = literal.find<int64_t>())
    result.set_as_int(*integer);
  else if (const double* number = literal.find<double>())
    result.set_as_float(encode_float(*number, subject));
  else if (const bool* flag = literal.find<bool>())
    result.set_as_bool(*flag);
  else if (const std::string* text = literal.find<std::string>())
    result.set_as_string(*text);
  else
    throw Error(
        "pt2", subject,
        "a constant input is neither None, int, float, bool nor string and cannot be written");
  return result;
}

void restore_minus_infinity(nlohmann::json& text) {
  if (text.is_number_float()) {
    if (text.get<double>() == kMinusInfinity) text = "-Infinity";
  } else if (text.is_structured()) {
    for (nlohmann::json& item : text) restore_minus_infinity(item);
  }
}

}  // namespace octet
