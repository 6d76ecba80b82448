#include "tools/cli/common/library.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/runtime/load_plugin.h"
#include "backends/runtime/open_library.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/ops/callable_ops.h"

namespace octet {
namespace {

constexpr const char* kHowTo =
    "write its registrations with OCTET_EXTENSION() of tools/extension.h";

constexpr const char* kBuildAgain = "build it again against this Octet";

// The parts of `version` ("octet 0.1.0, torch 2.13.0, ...") that the other one lacks; if it lacks
// none, the whole.
std::string differing_parts(const std::string& version, const std::string& other) {
  const std::vector<std::string> all = CLI::detail::split(other, ',');
  std::vector<std::string> parts;
  for (std::string& part : CLI::detail::split(version, ','))
    if (std::ranges::find(all, part) == all.end()) parts.push_back(CLI::detail::trim_copy(part));
  return parts.empty() ? version : fmt::format("{}", fmt::join(parts, ", "));
}

// Returns false if the library has no entry point.
bool call_entry_point(const OpenedLibrary& library, const std::string& shown) {
  void (*const enter)() = find_function<void()>(library, "octet_register");
  if (enter == nullptr) return false;
  const char* (*const version)() = find_function<const char*()>(library, "octet_extension_version");
  if (version == nullptr)
    throw Error("library", shown,
                fmt::format("has octet_register but not octet_extension_version; {}", kHowTo));
  const std::string got = first_line(version()), want = extension_version();
  if (got != want)
    throw Error("library", shown,
                fmt::format("is built for another Octet, got {}, want {}; {}",
                            differing_parts(got, want), differing_parts(want, got), kBuildAgain));
  try {
    enter();
  } catch (const std::exception& error) {
    throw Error("library", shown,
                fmt::format("its octet_register says: {}", first_line(error.what())));
  }
  return true;
}

size_t op_count() { return c10::Dispatcher::singleton().getAllOpNames().size(); }

void load_library(const std::string& shown) {
  static std::set<void*> loaded;
  const size_t ops = op_count();
  const OpenedLibrary library = open_library(shown);
  if (!loaded.insert(library.handle).second) return;
  const bool is_plugin = find_symbol(library, kPluginEntry) != nullptr;
  if (is_plugin) load_plugin(shown);
  if (!call_entry_point(library, shown) && !is_plugin && !library.was_open && op_count() == ops)
    throw Error("library", shown,
                fmt::format("registers nothing, neither an op with TORCH_LIBRARY nor anything in "
                            "octet_register; {}",
                            kHowTo));
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".so");
}

// Remembers what a library registered, because loading it again registers nothing.
const std::vector<std::string>& metrics_of_library(const std::string& path) {
  static std::map<std::string, std::vector<std::string>> known;
  const auto found = known.find(path);
  if (found != known.end()) return found->second;
  const size_t before = metric_names().size();
  load_libraries({path});
  const std::vector<std::string> all = metric_names();
  return known[path] = {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

}  // namespace

Options library_options(std::vector<std::string>& paths) {
  return {
      Option{
          "library", &paths,
          "A shared library with custom ops, quantizers, observers, kernels or a backend; may be "
          "given several times"}
          .repeated()
          .for_command(),
      Option{"allow_op", TextValue{allow_op},
             "An op that the program may call although it does more than compute, like "
             "aten.from_file: only for files that you trust; may be given several times"}
          .repeated()
          .for_command(),
  };
}

void load_libraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) load_library(path);
}

Option metric_option(std::string& text) {
  return Option{"metric", &text,
                "A custom metric: a shared library that registers one, or the name of one that a "
                "--library registers"}
      .of_kind(Option::Kind::kFunction);
}

NamedMetric read_metric(const std::string& text) {
  if (text.empty()) return {};
  if (!is_path(text)) return {text, find_metric(text)};
  const std::vector<std::string>& names = metrics_of_library(text);
  if (names.size() == 1) return {names.front(), find_metric(names.front())};
  if (names.empty() && !metric_names().empty())
    throw Error("metric", text,
                fmt::format("registers no metric; name an existing one: {}",
                            fmt::join(metric_names(), ", ")));
  if (names.empty())
    throw Error("metric", text,
                "registers no metric; call octet::register_metric in the OCTET_EXTENSION() of "
                "tools/extension.h");
  throw Error("metric", text,
              fmt::format("registers {} metrics; give it as --library, and one of {} as --metric",
                          names.size(), fmt::join(names, ", ")));
}

}  // namespace octet
