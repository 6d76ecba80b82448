// What a program knows of a tensor before it runs. Free of torch.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/dtype.h"

namespace octet {

// A size that is a number, or an expression of shape symbols as torch writes it (sympy's srepr)
// with the value seen at export.
struct Dim {
  int64_t value = 0;  // when symbolic: the hint, or -1 when there is none
  std::string expr;   // "" when the size is a number
  bool is_symbolic() const { return !expr.empty(); }
  bool operator==(const Dim&) const = default;
};

struct Device {
  std::string type = "cpu";
  std::optional<int64_t> index;
  bool operator==(const Device&) const = default;
};

// torch's serde numbering
enum class Layout {
  kUnknown,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kMkldnn,
  kStrided
};
// likewise
enum class MemoryFormat { kUnknown, kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

struct TensorMeta {
  DType dtype = DType::kFloat32;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
  Dim storage_offset;
  bool requires_grad = false;
  Device device;
  Layout layout = Layout::kStrided;

  bool is_static() const;              // no symbolic size
  std::vector<int64_t> shape() const;  // sizes; a symbolic one gives its hint
  bool operator==(const TensorMeta&) const = default;
};
// Contiguous, on the CPU.
TensorMeta make_meta(DType dtype, const std::vector<int64_t>& shape);

// What a node is called with: a Value, a literal, or a list of them. Free of torch.

class Graph;
class Value;

struct None {
  bool operator==(const None&) const = default;
};
// An int, float or bool list that may hold symbols: each element a number or a
// SymInt/SymFloat/SymBool value.
struct SymIntList {
  std::vector<std::variant<int64_t, Value*>> items;
  bool operator==(const SymIntList&) const = default;
};
struct SymFloatList {
  std::vector<std::variant<double, Value*>> items;
  bool operator==(const SymFloatList&) const = default;
};
struct SymBoolList {
  std::vector<std::variant<bool, Value*>> items;
  bool operator==(const SymBoolList&) const = default;
};
struct OptionalTensors {
  std::vector<Value*> items;
  bool operator==(const OptionalTensors&) const = default;
};  // null: None
struct OptionalTensor {
  Value* value = nullptr;
  bool operator==(const OptionalTensor&) const = default;
};  // as_optional_tensor
struct NestedTensors {
  std::vector<std::vector<Value*>> items;
  bool operator==(const NestedTensors&) const = default;
};
struct OperatorRef {
  std::string target;
  bool operator==(const OperatorRef&) const = default;
};
struct Subgraph {
  std::string name;
  std::shared_ptr<Graph> graph;
  bool operator==(const Subgraph&) const = default;
};
struct Argument;
struct ArgumentMap {
  std::map<std::string, std::shared_ptr<Argument>> items;
  bool operator==(const ArgumentMap&) const = default;
};
// Literals behind a symbolic tag in the file (as_sym_int holding a plain int), kept apart so that
// writing gives the same file.
struct SymIntLiteral {
  int64_t value = 0;
  bool operator==(const SymIntLiteral&) const = default;
};
struct SymFloatLiteral {
  double value = 0;
  bool operator==(const SymFloatLiteral&) const = default;
};
struct SymBoolLiteral {
  bool value = false;
  bool operator==(const SymBoolLiteral&) const = default;
};

// One alternative for each argument kind of torch's schema. `Value*` stands for as_tensor,
// as_sym_int, as_sym_float, as_sym_bool and as_custom_obj, told apart by Value::kind(); it is never
// null.
using ArgumentVariant =
    std::variant<None, Value*, std::vector<Value*>, OptionalTensor, OptionalTensors, NestedTensors,
                 int64_t, std::vector<int64_t>, std::vector<std::vector<int64_t>>, double,
                 std::vector<double>, std::vector<std::vector<double>>, bool, std::vector<bool>,
                 std::string, std::vector<std::string>, std::complex<double>, SymIntLiteral,
                 SymFloatLiteral, SymBoolLiteral, SymIntList, SymFloatList, SymBoolList, DType,
                 MemoryFormat, Layout, Device, Subgraph, OperatorRef, ArgumentMap>;

struct Argument : ArgumentVariant {
  using ArgumentVariant::ArgumentVariant;
  using ArgumentVariant::operator=;
  Argument() : ArgumentVariant(None{}) {}
  Argument(const char* text) : ArgumentVariant(std::string(text)) {}
  Argument(int value) : ArgumentVariant(int64_t{value}) {}

  bool is_none() const { return std::holds_alternative<None>(*this); }
  template <typename T>
  const T* find() const {
    return std::get_if<T>(static_cast<const ArgumentVariant*>(this));
  }
  // the single Value of a Value* or OptionalTensor argument, else null
  Value* value_or_null() const;
};

// Calls `visit` on each Value slot of the argument, nested ones included (not those inside
// subgraphs). Slots that hold null are skipped.
void for_each_value(const Argument& argument, const std::function<void(Value*)>& visit);
// The same with the right to change the slot. Does not maintain users; Node and Graph do when they
// call it.
void rewrite_values(Argument& argument, const std::function<Value*(Value*)>& replace);

enum class ArgumentKind { kUnknown, kPositional, kKeyword };

struct NamedArgument {
  std::string name;  // of the op's schema: "input", "weight", "stride"
  Argument value;
  ArgumentKind kind = ArgumentKind::kPositional;
};

}  // namespace octet
