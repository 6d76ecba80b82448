#include "core/passes/pass_trace.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

namespace octet {
namespace {

std::mutex mutex;  // of both
std::vector<std::string> wanted, ran;

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool traces_all() {
  const char* value = std::getenv("OCTET_DEBUG");
  return value != nullptr && std::string_view(value) == "passes";
}

}  // namespace

void PassTrace::after(std::string_view name) const {
  const bool is_debugged = traces_all();
  bool is_wanted = is_debugged;
  {
    const std::lock_guard lock(mutex);
    if (!holds(ran, name)) ran.emplace_back(name);
    is_wanted = is_wanted || holds(wanted, name);
  }
  if (is_wanted) fmt::print(stderr, "{}: {}\n{}\n", stage_, name, printable(print_()));
  if (!is_debugged) return;
  try {
    verify_();
  } catch (const std::exception& error) {
    throw Error("verify", fmt::format("after {}", name), error.what());
  }
}

PassTrace trace_of(std::string stage, const Graph& graph) {
  return {std::move(stage), [&graph] { return to_text(graph); }, [&graph] { verify(graph); }};
}

void print_after(const std::string& name) {
  const std::lock_guard lock(mutex);
  wanted.push_back(name);
}

std::vector<std::string> names_without_pass() {
  const std::lock_guard lock(mutex);
  std::vector<std::string> names;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(names),
               [](const std::string& name) { return !holds(ran, name); });
  return names;
}

std::vector<std::string> names_of_passes() {
  const std::lock_guard lock(mutex);
  return ran;
}

}  // namespace octet
