#include "core/ops/overloads.h"

#include <algorithm>
#include <map>

#include <ATen/core/dispatch/Dispatcher.h>

#include "core/ops/op_lookup.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

bool is_symbol(const Value* value) {
  return value->kind() == ValueKind::kSymInt || value->kind() == ValueKind::kSymFloat ||
         value->kind() == ValueKind::kSymBool;
}

// By kind only: enough to tell the overloads of one op apart.
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
      place = static_cast<size_t>(std::find_if(schema.arguments.begin(), schema.arguments.end(),
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
  std::sort(found.begin(), found.end());
  // Those of another library's that it has registered itself, too.
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
    return std::find(list.begin(), list.end(), plain) != list.end();
  };
  if (has_plain(fitting) || (fitting.empty() && has_plain(*candidates))) return plain;
  return fitting.size() == 1 ? fitting.front() : "";
}

}  // namespace octet
