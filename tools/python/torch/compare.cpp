#include "tools/python/torch/bindings.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/compare/compare.h"
#include "core/base/json_text.h"
#include "tools/cli/commands/requests.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/compare/border.h"
#include "tools/cli/compare/report.h"
#include "tools/python/runtime/model.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/graph.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

constexpr const char* kStage = "compare";

// subject: null when only a lowered program is compared; model: null for none.
std::string compare_programs(const Graph& reference, const Graph* subject, const Model* model,
                             const std::string& inputs, const CompareRequest& request) {
  ComparisonReport report{
      .title = "quantized", .subtitle = "beside the float program", .metric = request.metric};
  const Metric measure = request.metric.empty() ? Metric() : find_metric(request.metric);
  Progress progress({{kStage}});
  progress.begin(kStage);
  const SampleData data = sample_data(inputs, &reference);
  std::unique_ptr<Graph> as_reference, as_subject;
  if (subject != nullptr) {
    as_reference = clone(reference);
    give_float_border(*as_reference);
    as_subject = clone(*subject);
    give_float_border(*as_subject);
    report.subject = as_subject.get();
    report.comparison =
        shadow(*as_reference, *as_subject, source_of(data),
               {.metric = measure, .values = true, .bodies = true, .progress = [&](size_t done) {
                  progress.advance(done, data.size());
                }});
    report.weights = compare_weights(*as_reference, *as_subject);
  }
  if (model != nullptr)
    report.lowered = compare_lowered(subject != nullptr ? *subject : reference, model->program(),
                                     source_of(data));
  return dump_json(compare_json(report), -1, true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void bind_compare(nb::module_& module) {
  module.def(
      "compare",
      [](const GraphHandle& reference, const GraphHandle* subject, const Model* model,
         const std::string& data, const nb::dict& settings) {
        CompareRequest request;
        take(settings, options_of(request), kStage);
        return without_gil([&] {
          return compare_programs(*reference.graph,
                                  subject == nullptr ? nullptr : subject->graph.get(), model, data,
                                  request);
        });
      },
      "reference"_a, "subject"_a.none(), "model"_a.none(), "data"_a, "settings"_a);
  module.def(
      "compare_table",
      [](const std::string& json, size_t top) {
        return compare_table(parse_json<nlohmann::ordered_json>(json), top);
      },
      "json"_a, "top"_a);
  module.def(
      "compare_csv",
      [](const std::string& json) { return compare_csv(parse_json<nlohmann::ordered_json>(json)); },
      "json"_a);
}

}  // namespace octet::python
