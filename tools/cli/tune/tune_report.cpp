// Writes the result of tuning as a report of `octet compare`.
#include <algorithm>
#include <utility>

#include "annotate/compare/compare.h"
#include "tools/cli/common/library.h"
#include "tools/cli/compare/report.h"
#include "tools/cli/tune/trials.h"
#include "tools/cli/tune/tuner.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// The number of calibration batches for the report.
constexpr size_t kReportBatches = 4;

}  // namespace

nlohmann::ordered_json tune_report(const Graph& original, const Tuned& tuned,
                                   const TuneOptions& options) {
  SampleData data = sample_data(options.data.calibration, &original, options.data.max_batches);
  data.end = std::min(data.end, kReportBatches);
  ComparisonReport report{.title = options.flow.model,
                          .subtitle = options.flow.quantizer + ", tuned",
                          .subject = &tuned.quantized,
                          .metric = options.validate ? "" : tuned.metric};
  report.comparison = shadow(original, tuned.quantized, source_of(data),
                             {.metric = read_metric(options.metric).measure, .values = true});
  report.weights = compare_weights(original, tuned.quantized);
  Json json = compare_json(report);
  json["kind"] = "tune";
  json["trials"] = Json::array();
  for (const Trial& trial : tuned.outcome.trials) json["trials"].push_back(to_json(trial));
  json["pareto"] = Json::array();
  for (size_t index : pareto_front(tuned.outcome.trials)) {
    Json point = to_json(tuned.outcome.trials[index]);
    point["chosen"] = index == tuned.outcome.best;
    json["pareto"].push_back(std::move(point));
  }
  return json;
}

}  // namespace octet
