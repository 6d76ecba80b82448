#include "tools/python/torch/search.h"

#include <string>
#include <utility>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/qat.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/tune/trial_file.h"
#include "tools/cli/tune/tuner.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

Outcome qat(const nb::dict& settings) {
  QatRequest request;
  take(settings, options_of(request), "train");
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    Processes processes;
    QatResult result = train_model(request, processes, /*wants_pages=*/true).value();
    return Outcome{.graph = handle_of(std::move(result.graph), std::move(sources)),
                   .report = result.pages->json(result.report, result.figures),
                   .page = text_of(result.pages->page(result.report, result.figures)),
                   .lines = quality_lines(result.figures),
                   .io = ""};
  });
}

// The trials, the best of them, and whether it is good enough.
nlohmann::ordered_json json_of(const Tuned& tuned) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const Trial& trial : tuned.outcome.trials) trials.push_back(to_json(trial));
  return {{"trials", std::move(trials)}, {"best", tuned.outcome.best},
          {"config", tuned.config},      {"reached", tuned.outcome.is_reached},
          {"batches", tuned.batches},    {"trusted", tuned.estimate.is_trusted()}};
}

std::pair<GraphHandle, std::string> tune_program(const nb::dict& settings) {
  TuneOptions options;
  take(settings, options_of(options), "tune");
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    Tuned tuned = tune(read_model(options.flow), options);
    std::string json = text_of(json_of(tuned));
    return std::pair(handle_of(std::move(tuned.quantized), std::move(sources)), std::move(json));
  });
}

}  // namespace

void bind_search(nb::module_& module) {
  module.def("qat", qat, "settings"_a);
  module.def("tune", tune_program, "settings"_a);
}

}  // namespace octet::python
