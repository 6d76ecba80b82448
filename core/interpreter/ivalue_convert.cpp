#include "core/interpreter/ivalue_convert.h"

#include <type_traits>

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

using c10::IValue;
using c10::TypeKind;

const IValue& lookup(const Value* value, const Frame& frame) {
  const auto found = frame.find(value);
  OCTET_ASSERT(found != frame.end(),
               "%" + value->name() + " is used before its definition or after its last use");
  return found->second;
}

IValue value_or_none(const Value* value, const Frame& frame) {
  return value == nullptr ? IValue() : lookup(value, frame);
}

c10::impl::GenericList any_list() { return c10::impl::GenericList(c10::AnyType::get()); }

template <typename Items, typename Convert>
IValue list_of(const Items& items, const Convert& convert) {
  c10::impl::GenericList list = any_list();
  list.reserve(items.size());
  for (const auto& item : items) list.push_back(convert(item));
  return IValue(list);
}

template <typename T>
inline constexpr bool kIsScalar = std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                                  std::is_same_v<T, bool> || std::is_same_v<T, std::string>;

struct Resolver {
  const Frame& frame;

  template <typename T>
    requires kIsScalar<T>
  IValue operator()(const T& literal) const {
    return IValue(literal);
  }
  template <typename T>
    requires kIsScalar<T>
  IValue operator()(const std::vector<T>& literals) const {
    return list_of(literals, [](const T& item) { return IValue(item); });
  }
  template <typename T>
  IValue operator()(const std::vector<std::vector<T>>& lists) const {
    return list_of(lists, [&](const std::vector<T>& list) { return (*this)(list); });
  }
  IValue operator()(const None&) const { return IValue(); }
  IValue operator()(Value* value) const { return lookup(value, frame); }
  IValue operator()(const std::vector<Value*>& values) const {
    return list_of(values, [&](Value* value) { return value_or_none(value, frame); });
  }
  IValue operator()(const OptionalTensor& tensor) const {
    return value_or_none(tensor.value, frame);
  }
  IValue operator()(const OptionalTensors& tensors) const { return (*this)(tensors.items); }
  IValue operator()(const NestedTensors& lists) const {
    return list_of(lists.items, [&](const std::vector<Value*>& list) { return (*this)(list); });
  }
  IValue operator()(const std::complex<double>& number) const {
    return IValue(c10::complex<double>(number.real(), number.imag()));
  }
  IValue operator()(const SymIntLiteral& literal) const { return IValue(literal.value); }
  IValue operator()(const SymFloatLiteral& literal) const { return IValue(literal.value); }
  IValue operator()(const SymBoolLiteral& literal) const { return IValue(literal.value); }
  IValue operator()(const SymIntList& list) const { return symbols(list.items); }
  IValue operator()(const SymFloatList& list) const { return symbols(list.items); }
  IValue operator()(const SymBoolList& list) const { return symbols(list.items); }
  IValue operator()(DType dtype) const {
    return IValue(static_cast<int64_t>(to_scalar_type(dtype)));
  }
  IValue operator()(MemoryFormat format) const {
    return IValue(static_cast<int64_t>(to_memory_format(format)));
  }
  IValue operator()(Layout layout) const { return IValue(static_cast<int64_t>(to_layout(layout))); }
  IValue operator()(const Device& device) const {
    return IValue(
        c10::Device(device.index ? fmt::format("{}:{}", device.type, *device.index) : device.type));
  }
  IValue operator()(const Subgraph&) const { return IValue(); }
  IValue operator()(const OperatorRef& op) const { return IValue(op.target); }
  IValue operator()(const ArgumentMap& map) const {
    c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [key, item] : map.items) dict.insert(key, resolve(*item, frame));
    return IValue(dict);
  }

  template <typename Item>
  IValue symbols(const std::vector<Item>& items) const {
    return list_of(items, [&](const Item& item) {
      if (Value* const* value = std::get_if<Value*>(&item)) return lookup(*value, frame);
      return IValue(std::get<0>(item));
    });
  }
};

// A tensor that, like a Python scalar, does not determine the dtype of a result.
at::Tensor wrapped_number(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

IValue number_of(const IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().numel() != 1)
    return value;
  const c10::Scalar item = value.toTensor().item();
  return IValue(item);
}

class Coercion {
 public:
  Coercion(const c10::Argument& wanted, const std::string& subject)
      : wanted_(wanted), subject_(subject) {}

  IValue convert(IValue value, const c10::TypePtr& type) const {
    switch (type->kind()) {
      case TypeKind::OptionalType:
        if (value.isNone()) return value;
        return convert(std::move(value), type->expectRef<c10::OptionalType>().getElementType());
      case TypeKind::TensorType:
        if (value.isTensor()) return value;
        if (value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble())
          return wrapped_number(value.toScalar());
        fail(value);
      case TypeKind::ListType:
        return convert_list(value, type->expectRef<c10::ListType>().getElementType());
      case TypeKind::StringType:
        if (value.isString()) return value;
        fail(value);
      case TypeKind::DeviceObjType:
        if (value.isDevice()) return value;
        if (value.isString()) return IValue(c10::Device(value.toStringRef()));
        fail(value);
      case TypeKind::NumberType:
      case TypeKind::IntType:
      case TypeKind::SymIntType:
      case TypeKind::FloatType:
      case TypeKind::SymFloatType:
      case TypeKind::BoolType:
      case TypeKind::SymBoolType:
      case TypeKind::ScalarTypeType:
      case TypeKind::LayoutType:
      case TypeKind::MemoryFormatType: return convert_number(number_of(value), type->kind());
      default: return value;
    }
  }

 private:
  IValue convert_number(const IValue& value, TypeKind kind) const {
    if (kind == TypeKind::NumberType) {
      if (value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble())
        return value;
    } else if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType) {
      if (value.isDouble()) return value;
      if (value.isInt()) return IValue(static_cast<double>(value.toInt()));
      if (value.isBool()) return IValue(value.toBool() ? 1.0 : 0.0);
    } else if (kind == TypeKind::BoolType || kind == TypeKind::SymBoolType) {
      if (value.isBool()) return value;
      if (value.isInt()) return IValue(value.toInt() != 0);
    } else {
      if (value.isInt()) return value;
      if (value.isBool()) return IValue(static_cast<int64_t>(value.toBool()));
    }
    fail(value);
  }

  IValue convert_list(const IValue& value, const c10::TypePtr& element) const {
    // Symbols are plain ints at run time, and so is whatever c10 represents as a number.
    const TypeKind kind = element->kind();
    const bool is_int = kind == TypeKind::SymIntType || kind == TypeKind::ScalarTypeType ||
                        kind == TypeKind::LayoutType || kind == TypeKind::MemoryFormatType;
    c10::impl::GenericList list(is_int ? c10::TypePtr(c10::IntType::get()) : element);
    if (value.isList()) {
      const c10::ArrayRef<IValue> items = value.toListRef();
      list.reserve(items.size());
      for (const IValue& item : items) list.push_back(convert(item, element));
    } else if (value.isTensor() && kind == TypeKind::TensorType) {
      list.push_back(value);
    } else if (value.isInt() || value.isDouble() || value.isBool()) {
      const int count = wanted_.N().value_or(1);
      for (int i = 0; i < count; ++i) list.push_back(convert(value, element));
    } else {
      fail(value);
    }
    return IValue(list);
  }

  [[noreturn]] void fail(const IValue& value) const {
    throw Error(
        "run", subject_,
        fmt::format(
            "argument \"{}\" does not fit the op, got {}, want {}; check the node's arguments",
            wanted_.name(), describe(value), wanted_.real_type()->str()));
  }

  const c10::Argument& wanted_;
  const std::string& subject_;
};

}  // namespace

IValue resolve(const Argument& argument, const Frame& frame) {
  return std::visit(Resolver{frame}, static_cast<const ArgumentVariant&>(argument));
}

bool holds_values(const Argument& argument) {
  bool found = false;
  for_each_value(argument, [&](Value*) { found = true; });
  return found;
}

IValue coerce(IValue value, const c10::Argument& wanted, const std::string& subject) {
  return Coercion(wanted, subject).convert(std::move(value), wanted.real_type());
}

std::string describe(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return "an undefined tensor";
    return fmt::format("{}[{}]", short_name_of(from_scalar_type(tensor.scalar_type())),
                       fmt::join(tensor.sizes(), ", "));
  }
  if (value.isInt()) return fmt::format("int {}", value.toInt());
  if (value.isDouble()) return fmt::format("float {}", value.toDouble());
  if (value.isBool()) return value.toBool() ? "bool true" : "bool false";
  if (value.isString()) return fmt::format("\"{}\"", value.toStringRef());
  if (value.isNone()) return "None";
  if (value.isList()) return fmt::format("a list of {}", value.toListRef().size());
  return value.tagKind();
}

bool to_bool(const IValue& value, const std::string& subject) {
  const IValue number = number_of(value);
  if (number.isBool()) return number.toBool();
  if (number.isInt()) return number.toInt() != 0;
  if (number.isDouble()) return number.toDouble() != 0;
  throw Error("run", subject,
              fmt::format("got {}, want a bool or a tensor with one element", describe(value)));
}

}  // namespace octet
