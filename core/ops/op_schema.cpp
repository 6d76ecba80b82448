#include "core/ops/op_schema.h"

#include <algorithm>
#include <mutex>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include "core/ops/op_lookup.h"

namespace octet {
namespace {

constexpr const char* kOwnNamespaces[] = {kOwnQuantizedDecomposed, kOwnTorchao};

std::string_view without_prefix(std::string_view own) {
  return own.substr(std::string_view("octet_").size());
}

Argument to_argument(const c10::IValue& value) {
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return value.toStringRef();
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  return None{};
}

std::string type_name(const c10::Argument& argument) {
  std::string text = argument.real_type()->str();
  if (argument.N().has_value()) {
    const size_t bracket = text.rfind("[]");
    if (bracket != std::string::npos) text.insert(bracket + 1, std::to_string(*argument.N()));
  }
  return text;
}

std::unique_ptr<OpSchema> read_schema(const c10::FunctionSchema& source) {
  auto schema = std::make_unique<OpSchema>();
  schema->name = without_own_namespace(source.name());
  schema->overload = source.overload_name();
  for (const c10::Argument& argument : source.arguments()) {
    SchemaArgument row;
    row.name = argument.name();
    row.type = type_name(argument);
    row.kwarg_only = argument.kwarg_only();
    row.is_write = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    row.has_default = argument.default_value().has_value();
    if (row.has_default) row.default_value = to_argument(*argument.default_value());
    schema->arguments.push_back(std::move(row));
  }
  for (const c10::Argument& result : source.returns()) schema->returns.push_back(type_name(result));
  return schema;
}

bool is_symbol(const Value* value) {
  return value->kind() == ValueKind::kSymInt || value->kind() == ValueKind::kSymFloat ||
         value->kind() == ValueKind::kSymBool;
}

// Compares kinds only, which suffices to distinguish the overloads of one op.
bool fits(std::string_view type, const Argument& argument) {
  const bool wants_tensor = type.starts_with("Tensor");
  const bool wants_list = type.find('[') != std::string_view::npos;
  if (argument.is_none()) return type.ends_with('?');
  if (const auto* value = argument.find<Value*>())
    return !wants_list && wants_tensor != is_symbol(*value);
  if (argument.find<std::vector<Value*>>() != nullptr ||
      argument.find<OptionalTensors>() != nullptr)
    return wants_tensor && wants_list;
  if (wants_tensor || type.starts_with("Dimname") || type.starts_with("Generator")) return false;
  if (const auto* ints = argument.find<std::vector<int64_t>>()) return wants_list || ints->empty();
  if (argument.find<std::vector<double>>() != nullptr || argument.find<SymIntList>() != nullptr ||
      argument.find<std::vector<bool>>() != nullptr)
    return wants_list;
  const bool wants_text = type.starts_with("str");
  if (argument.find<std::string>() != nullptr) return wants_text;
  if (argument.find<double>() != nullptr)
    return type.starts_with("Scalar") || type.starts_with("float");
  return !wants_text && !wants_list;
}

bool fits(const OpSchema& schema, const std::vector<NamedArgument>& arguments) {
  std::vector<bool> given(schema.arguments.size(), false);
  for (size_t i = 0; i < arguments.size(); ++i) {
    size_t place = i;
    if (!arguments[i].name.empty())
      place = static_cast<size_t>(std::ranges::find_if(schema.arguments,
                                                       [&](const SchemaArgument& argument) {
                                                         return argument.name == arguments[i].name;
                                                       }) -
                                  schema.arguments.begin());
    if (place >= given.size() || given[place] ||
        !fits(schema.arguments[place].type, arguments[i].value))
      return false;
    given[place] = true;
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i] && !schema.arguments[i].has_default) return false;
  return true;
}

}  // namespace

std::optional<c10::OperatorHandle> find_operator(std::string_view target) {
  register_quantized_decomposed();
  register_torchao_ops();
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const std::string_view library = target.substr(0, first);
  const std::string overload(target.substr(last + 1));
  const auto find = [&](std::string_view name_space) {
    return c10::Dispatcher::singleton().findSchema(
        {fmt::format("{}::{}", name_space, target.substr(first + 1, last - first - 1)),
         overload == "default" ? "" : overload});
  };
  for (const char* own : kOwnNamespaces)
    if (library == without_prefix(own))
      if (const std::optional<c10::OperatorHandle> op = find(own)) return op;
  return find(library);
}

std::string without_own_namespace(std::string name) {
  for (const char* own : kOwnNamespaces)
    if (name.starts_with(fmt::format("{}::", own))) return std::string(without_prefix(name));
  return name;
}

const SchemaArgument* OpSchema::find(std::string_view argument_name) const {
  for (const SchemaArgument& argument : arguments)
    if (argument.name == argument_name) return &argument;
  return nullptr;
}

bool OpSchema::is_mutable() const {
  return std::ranges::any_of(arguments,
                             [](const SchemaArgument& argument) { return argument.is_write; });
}

const OpSchema* find_op_schema(std::string_view target) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<OpSchema>, std::less<>> cache;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto cached = cache.find(target);
  if (cached != cache.end()) return cached->second.get();
  // A miss is not cached: a library may register the op later.
  const std::optional<c10::OperatorHandle> op = find_operator(target);
  if (!op) return nullptr;
  return cache.emplace(std::string(target), read_schema(op->schema())).first->second.get();
}

std::vector<std::string> overloads_of(std::string_view op) {
  static const std::multimap<std::string, std::string> kAll = [] {
    std::multimap<std::string, std::string> all;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      std::string base = without_own_namespace(name.name);
      if (const size_t colons = base.find("::"); colons != std::string::npos)
        base.replace(colons, 2, ".");
      all.emplace(base, base + "." + (name.overload_name.empty() ? "default" : name.overload_name));
    }
    return all;
  }();
  std::vector<std::string> found;
  const auto [first, last] = kAll.equal_range(std::string(op));
  for (auto it = first; it != last; ++it) found.push_back(it->second);
  std::ranges::sort(found);
  // Another library's ops may be registered twice: by Octet and by the library.
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string choose_overload(std::string_view op, const std::vector<NamedArgument>& arguments,
                            std::vector<std::string>* candidates) {
  *candidates = overloads_of(op);
  std::vector<std::string> fitting;
  for (const std::string& candidate : *candidates) {
    const OpSchema* schema = find_op_schema(candidate);
    if (schema != nullptr && fits(*schema, arguments)) fitting.push_back(candidate);
  }
  const std::string plain = std::string(op) + ".default";
  const auto has_plain = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, plain) != list.end();
  };
  if (has_plain(fitting) || (fitting.empty() && has_plain(*candidates))) return plain;
  return fitting.size() == 1 ? fitting.front() : "";
}

}  // namespace octet
