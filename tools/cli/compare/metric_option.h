// Reads --metric, which names a custom metric.
#pragma once

#include <string>

#include "annotate/compare/metric.h"
#include "tools/cli/common/options.h"

namespace octet {

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
