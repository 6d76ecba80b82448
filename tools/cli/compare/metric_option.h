// --metric: a metric of the user's own.
#pragma once

#include <string>

#include "annotate/compare/metric.h"

namespace CLI {
class App;
}

namespace octet {

struct NamedMetric {
  std::string name;  // "": none
  Metric measure;

  bool is_there() const { return !name.empty(); }
};

// The option; its text goes to `text`, and from there to read_metric.
void add_metric_option(CLI::App& command, std::string& text);

// text: a name that a library has registered, or the path of a library that registers one, which is
// loaded; "": none. Throws Error("metric", ...) for other names and for libraries that register
// none or several, and as load_libraries does.
NamedMetric read_metric(const std::string& text);

}  // namespace octet
