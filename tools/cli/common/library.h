// Loads shared libraries of users (--library): extensions, which register ops, quantizers,
// observers, derive functions and custom kernels (tools/extension.h), and plug-ins
// (backends/runtime/octet_plugin.h). Also has --allow-op and --metric.
#pragma once

#include <string>
#include <vector>

#include "annotate/compare/metric.h"
#include "tools/cli/common/options.h"

namespace octet {

// Both options. The command must pass `paths` to load_libraries before anything else; --allow-op
// (core/ops/callable_ops.h) needs no call.
Options library_options(std::vector<std::string>& paths);

// Loads the libraries in order; a loaded library stays loaded. Throws Error("library", path, ...)
// for a file that is missing or not a library, whose symbols do not resolve, that was built for
// another Octet or LibTorch, that registers a name that exists, or that registers nothing.
void load_libraries(const std::vector<std::string>& paths);

// OCTET_EXTENSION_VERSION of the command (tools/extension.h), which that of an extension must
// equal. A separate source file has it, since it changes with every public header.
const char* extension_version();

struct NamedMetric {
  std::string name;  // "": none
  Metric measure;
};

// The option --metric; read_metric() reads its text.
Option metric_option(std::string& text);

// text: a registered name, the path of a library that registers one metric and is loaded, or "" for
// none. Throws Error("metric", ...) for unknown names and for libraries that register no metric or
// several, and what load_libraries throws.
NamedMetric read_metric(const std::string& text);

}  // namespace octet
