// --metric: a metric of the user's own.
#pragma once

#include <string>

#include "annotate/compare/metric.h"
#include "tools/cli/common/options.h"

namespace octet {

struct NamedMetric {
  std::string name;  // "": none
  Metric measure;
};

// The option; read_metric() takes its text.
Option metric_option(std::string& text);

// text: a name that a library has registered, or the path of a library that registers one, which is
// loaded; "": none. Throws Error("metric", ...) for other names and for libraries that register
// none or several, and as load_libraries does.
NamedMetric read_metric(const std::string& text);

}  // namespace octet
