#include "lowering/program/custom_kernel.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

std::map<std::string, CustomKernel>& kernels() {
  static std::map<std::string, CustomKernel> all;
  return all;
}

// Whether the name has the form namespace.name.overload.
bool is_full_name(const std::string& op) {
  const size_t first = op.find('.');
  const size_t last = op.rfind('.');
  return first != std::string::npos && first != last && first > 0 && last > first + 1 &&
         last + 1 < op.size() && op.find(':') == std::string::npos &&
         std::count(op.begin(), op.end(), '.') == 2;
}

}  // namespace

void register_custom_kernel(const std::string& op, CustomKernel kernel) {
  if (!is_full_name(op))
    throw Error("library", fmt::format("\"{}\"", op),
                "is not a valid op name, want namespace.name.overload, such as acme.swish.default");
  if (!kernel) throw Error("library", op, "got no kernel; register a function");
  if (!kernels().emplace(op, std::move(kernel)).second)
    throw Error("library", op, "already has a kernel; register only one");
}

const CustomKernel* find_custom_kernel(const std::string& op) {
  const auto found = kernels().find(op);
  return found == kernels().end() ? nullptr : &found->second;
}

std::vector<std::string> custom_kernel_names() {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels()) names.push_back(name);
  return names;
}

}  // namespace octet
