#include "tools/python/torch/bindings.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/output_file.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/qat.h"
#include "tools/cli/quantize/quantize.h"
#include "tools/cli/quantize/refusals.h"
#include "tools/cli/tune/trials.h"
#include "tools/cli/tune/tuner.h"
#include "tools/page/page.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/data.h"
#include "tools/python/torch/graph.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// next: returns the inputs of the next batch, None after the last.
BatchSource stream_of(const nb::object& next) {
  return [function = held(next)]() -> std::optional<std::vector<c10::IValue>> {
    const nb::gil_scoped_acquire gil;
    const nb::object batch = passing_on([&] { return (*function)(); });
    return batch.is_none() ? std::nullopt : std::optional(values_of(batch));
  };
}

// next: a stream in place of the setting "calibration", or None. kept: the name by which its last
// batches are held afterwards.
Outcome quantize(const nb::dict& settings, const nb::object& next, const std::string& kept) {
  QuantizeRequest request;
  take(settings, options_of(request), "quantize");
  if (!next.is_none()) request.stream = stream_of(next);
  request.kept = kept;
  request.wants_pages = true;
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    QuantizeResult result = quantize_model(request);
    Outcome outcome;
    outcome.report = result.pages->json(result.report, result.figures);
    outcome.page = text_of(result.pages->page(result.report, result.figures));
    outcome.lines = quality_lines(result.figures);
    for (const std::string& low : find_shortcomings(result.weight, result.figures))
      log_warning(low);
    if (request.has_quantized_io()) outcome.io = to_json_text(result.io);
    outcome.graph = handle_of(std::move(result.graph), std::move(sources));
    return outcome;
  });
}

// The observed graph between prepare and convert.
struct Prepared {
  QuantizeFlow flow;
  Report report;
  std::optional<Graph> original;
  std::optional<ObservedGraph> observed;  // none: converted
  bool has_data = false;
  std::vector<std::string> sources;

  ObservedGraph& graph() {
    if (!observed) throw Error("convert", flow.model, "is converted already; call prepare() again");
    return *observed;
  }
};

std::unique_ptr<Prepared> prepare(const nb::dict& settings) {
  auto prepared = std::make_unique<Prepared>();
  take(settings, options_of(prepared->flow), "quantize");
  prepared->sources = sources_of(settings);
  return without_gil([&] {
    prepared->original = read_model(prepared->flow);
    prepared->observed =
        prepare_model(std::move(*clone(*prepared->original)), prepared->flow, prepared->report);
    return std::move(prepared);
  });
}

size_t calibrate_prepared(Prepared& prepared, const std::string& data,
                          std::optional<size_t> max_batches) {
  ObservedGraph& observed = prepared.graph();
  return without_gil([&] {
    Progress progress({{std::string(kCalibrateStage)}});
    const size_t batches =
        calibrate_from_file(observed, sample_data(data, &observed.graph, max_batches),
                            prepared.flow.recorded, progress);
    prepared.has_data = true;
    prepared.sources.push_back(std::filesystem::absolute(data).string());
    return batches;
  });
}

size_t calibrate_stream(Prepared& prepared, const nb::object& next) {
  ObservedGraph& observed = prepared.graph();
  const BatchSource stream = stream_of(next);
  return without_gil([&] {
    const size_t batches = calibrate(observed, stream);
    prepared.has_data = true;
    return batches;
  });
}

void save_state(Prepared& prepared, const std::filesystem::path& path) {
  without_gil([&] {
    check_no_input(path, prepared.sources, "state");
    save_observer_state(prepared.graph(), path);
  });
}

void load_state(Prepared& prepared, const std::filesystem::path& path) {
  without_gil([&] {
    for (const std::string& note : load_observer_states(prepared.graph(), {path}))
      prepared.report.note(note);
    prepared.has_data = true;
    prepared.sources.push_back(std::filesystem::absolute(path).string());
  });
}

Outcome convert_prepared(Prepared& prepared) {
  ObservedGraph& observed = prepared.graph();
  return without_gil([&] {
    if (!prepared.has_data) observe_constants(observed);
    if (!prepared.has_data && needs_calibration(observed))
      throw Error("convert", prepared.flow.model, "was not calibrated; call calibrate() first");
    ReportFile pages("quantize", prepared.flow);
    pages.before_convert(observed, annotations_to_json(observed));
    ObservedGraph taken = std::move(observed);
    prepared.observed.reset();
    Graph graph = convert_pt2e(std::move(taken), {.compat = prepared.flow.compat}, prepared.report);
    pages.after_convert(graph, prepared.report);
    const nlohmann::ordered_json figures =
        quality_json({}, weigh(*prepared.original, graph, prepared.report), 0);
    Outcome outcome;
    outcome.report = pages.json(prepared.report, figures);
    outcome.page = text_of(pages.page(prepared.report, figures));
    outcome.lines = quality_lines(figures);
    outcome.graph = handle_of(std::move(graph), prepared.sources);
    return outcome;
  });
}

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

// The trials, the best of them, and whether it meets the goal.
nlohmann::ordered_json json_of(const Tuned& tuned) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const Trial& trial : tuned.outcome.trials) trials.push_back(to_json(trial));
  return {{"trials", std::move(trials)}, {"best", tuned.outcome.best},
          {"config", tuned.config},      {"reached", tuned.outcome.is_reached},
          {"batches", tuned.batches},    {"trusted", tuned.estimate.is_trusted()}};
}

struct Unlocked {
  Unlocked() { flow_mutex().unlock(); }
  ~Unlocked() { flow_mutex().lock(); }
};

// A function of Python, which may call Octet: other threads still wait for the lock of
// octet/_messages.py.
std::function<double(const Graph&)> function_of_graph(const nb::object& function) {
  return [function = held(function)](const Graph& graph) {
    const Unlocked unlocked;
    const nb::gil_scoped_acquire gil;
    return passing_on(
        [&] { return nb::cast<double>((*function)(handle_of(std::move(*clone(graph)), {}))); });
  };
}

// validate: called with the Graph of each trial, or None. Returns the program, its trials and the
// report.
std::tuple<GraphHandle, std::string, std::string> tune_program(const nb::dict& settings,
                                                               const nb::object& validate) {
  TuneOptions options;
  take(settings, options_of(options), "tune");
  if (!validate.is_none()) options.validate = function_of_graph(validate);
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    const Graph original = read_model(options.flow);
    Tuned tuned = tune(original, options);
    std::string json = text_of(json_of(tuned)),
                report = text_of(tune_report(original, tuned, options));
    return std::tuple(handle_of(std::move(tuned.quantized), std::move(sources)), std::move(json),
                      std::move(report));
  });
}

}  // namespace

void bind_flow(nb::module_& module) {
  nb::class_<Outcome>(module, "Outcome")
      .def_ro("graph", &Outcome::graph)
      .def_ro("report", &Outcome::report)
      .def_ro("page", &Outcome::page)
      .def_ro("lines", &Outcome::lines)
      .def_ro("io", &Outcome::io);
  module.def("quantize", quantize, "settings"_a, "next"_a.none(), "kept"_a);
  nb::class_<Prepared>(module, "Prepared")
      .def("calibrate", calibrate_prepared, "data"_a, "max_batches"_a.none())
      .def("calibrate_stream", calibrate_stream, "next"_a)
      .def("convert", convert_prepared)
      .def("annotations", [](Prepared& prepared) { return annotations_to_json(prepared.graph()); })
      .def("save_state", save_state, "path"_a)
      .def("load_state", load_state, "path"_a);
  module.def("prepare", prepare, "settings"_a);
  module.def(
      "page_html",
      [](const std::string& page) { return page_html(parse_json<nlohmann::ordered_json>(page)); },
      "page"_a);
  module.def("qat", qat, "settings"_a);
  module.def("tune", tune_program, "settings"_a, "validate"_a.none());
}

}  // namespace octet::python
