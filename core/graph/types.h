// Types of graphs: what is known of a tensor before a run (TensorMeta), and the arguments of nodes
// (Argument). Free of torch.
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

// A size: a number, or an expression of shape symbols as torch writes it (sympy's srepr) with its
// value at export.
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
// torch's serde numbering
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
  std::vector<int64_t> shape() const;  // sizes; the hints of symbolic ones
  bool operator==(const TensorMeta&) const = default;
};
// Contiguous, on the CPU.
TensorMeta make_meta(DType dtype, const std::vector<int64_t>& shape);

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
// Literals with a symbolic tag in the file (as_sym_int holding a plain int), kept apart so that
// writing reproduces the file.
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

// One alternative per argument kind of torch's schema. `Value*` is as_tensor, as_sym_int,
// as_sym_float, as_sym_bool or as_custom_obj, distinguished by Value::kind(); it is never null.
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

// Calls `visit` for each Value in the argument, including nested ones but not those inside
// subgraphs. Null slots are skipped.
void for_each_value(const Argument& argument, const std::function<void(Value*)>& visit);
// Replaces each Value in the argument. Does not maintain users; Node and Graph do when they call
// it.
void rewrite_values(Argument& argument, const std::function<Value*(Value*)>& replace);

enum class ArgumentKind { kUnknown, kPositional, kKeyword };

struct NamedArgument {
  std::string name;  // as in the op's schema: "input", "weight", "stride"
  Argument value;
  ArgumentKind kind = ArgumentKind::kPositional;
};

}  // namespace octet
