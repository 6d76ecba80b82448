#include "tools/cli/compare/metric_option.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "tools/cli/common/library.h"

namespace octet {
namespace {

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
