#include "tools/cli/commands/requests.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "annotate/compare/compare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "lowering/program/artifact.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/compare/border.h"
#include "tools/cli/compare/report.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/qat.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report_file.h"

namespace octet {
namespace {

constexpr const char* kCompareStage = "compare";
constexpr const char* kLoweredStage = "lowered";

// This process's batches (round-robin), with progress.
BatchSource batches_of(const SampleData& data, Progress& progress, Processes& processes,
                       const char* stage) {
  const size_t step = processes.count();
  return [=, &progress, &processes, source = source_of(data, processes.rank(), step),
          next = processes.rank()]() mutable -> std::optional<std::vector<c10::IValue>> {
    if (next < step) progress.begin(stage);
    progress.advance(std::min(next, data.size()), data.size());
    if (next < data.size()) processes.check_others();
    next += step;
    return source();
  };
}

bool is_lowered(const std::string& file) { return has_suffix(file, ".octet"); }

void check_files(const CompareRequest& options) {
  // The second file may be a checkpoint of training, which may have any name.
  for (const std::string& file : options.files)
    if (!is_lowered(file) && !has_suffix(file, ".pt2") && &file != &options.files[1])
      throw Error("compare", file,
                  "is neither .pt2 nor .octet; give a program that torch.export.save, `octet "
                  "quantize` or `octet lower` wrote");
  if (options.files.size() == 3 && (is_lowered(options.files[0]) || is_lowered(options.files[1]) ||
                                    !is_lowered(options.files[2])))
    throw Error("compare", "the programs",
                "want FLOAT.pt2 QUANTIZED.pt2 LOWERED.octet when there are three; put them in this "
                "order");
  if (options.files.size() == 2 && is_lowered(options.files[0]) && !is_lowered(options.files[1]))
    throw Error("compare", "the programs",
                "the first is lowered, the second is not; put the .pt2 first");
  if (!options.metric.empty() && is_lowered(options.files[1]))
    throw Error("compare", "--metric",
                "applies to two .pt2, but one of the programs is lowered; compare FLOAT.pt2 "
                "QUANTIZED.pt2 with it");
  if (options.max_steps && !is_lowered(options.files.back()))
    throw Error("compare", "--max-steps",
                "applies to a lowered program; name the .octet last, or leave it out");
  for (const std::string& path : options.outputs) check_writable(path);
}

// Throws Error if the programs differ more than the options allow.
void check_limits(const CompareRequest& options, const ComparisonReport& report) {
  const auto check_outputs = [&](const ErrorStats& error, const char* which) {
    const double ratio = error.sqnr_db();
    if (options.min_sqnr && !(ratio >= *options.min_sqnr))
      throw Error("compare", which,
                  fmt::format("have {:.1f} dB, want at least {:.1f} (--min-sqnr)", ratio,
                              *options.min_sqnr));
  };
  if (report.subject != nullptr) check_outputs(report.comparison.outputs, "the outputs");
  if (!report.lowered) return;
  check_outputs(report.lowered->outputs, "the lowered outputs");
  if (!options.max_steps) return;
  for (const LoweredOp& op : report.lowered->ops)
    if (op.is_integer && op.error.has_data() && !(op.error.largest <= *options.max_steps))
      throw Error("compare", op.name,
                  fmt::format("is {:.0f} steps off on {}, want at most {:.0f} (--max-steps)",
                              op.error.largest, op.backend, *options.max_steps));
}

// Owns the graphs that the report points to.
struct Compared {
  std::optional<Graph> reference, subject;  // of .pt2 files
  SampleData data;
  ComparisonReport report;
};

// Reads a program, or the program in a checkpoint of training that started from the first file.
Graph read_subject(const CompareRequest& options) {
  const std::string& file = options.files[1];
  return has_suffix(file, ".pt2") ? read_pt2(file) : read_trained(file, options.files[0]);
}

void compare_graphs(Compared& compared, const BatchSource& data, const NamedMetric& metric,
                    bool has_page) {
  ComparisonReport& report = compared.report;
  report.subject = &*compared.subject;
  report.metric = metric.name;
  report.comparison = shadow(*compared.reference, *compared.subject, data,
                             {.metric = metric.measure, .values = has_page, .bodies = true});
  report.weights = compare_weights(*compared.reference, *compared.subject);
}

// Compares two .pt2 files, optionally with the lowered program of the second; a .pt2 and the
// program lowered from it; or two lowered programs.
void compare_files(Compared& compared, const CompareRequest& options, Processes& processes) {
  const std::vector<std::string>& files = options.files;
  std::vector<Progress::Stage> stages;
  if (processes.rank() == 0) stages = {{kCompareStage, 3}, {kLoweredStage, 2}};
  Progress progress(stages);
  const BatchSource lowered_data = batches_of(compared.data, progress, processes, kLoweredStage);
  std::optional<LoweredComparison>& lowered = compared.report.lowered;
  if (is_lowered(files[0])) {
    lowered = compare_lowered(load_program(files[0]), load_program(files[1]), lowered_data);
    return;
  }
  std::unique_ptr<Graph> as_it_was;  // the graph that was lowered
  if (!is_lowered(files[1])) {
    give_float_border(*compared.reference);
    compared.subject = read_subject(options);
    if (is_lowered(files.back())) as_it_was = clone(*compared.subject);
    give_float_border(*compared.subject);
    compare_graphs(compared, batches_of(compared.data, progress, processes, kCompareStage),
                   read_metric(options.metric), !options.outputs.empty());
  }
  if (is_lowered(files.back()))
    lowered = compare_lowered(as_it_was ? *as_it_was : *compared.reference,
                              load_program(files.back()), lowered_data);
}

BatchOutputs outputs_of(const std::string& file, const std::optional<Graph>& graph) {
  if (is_lowered(file))
    return [session = std::make_shared<Session>(load_program(file))](
               size_t, const std::vector<c10::IValue>& inputs) {
      return run_session(*session, inputs);
    };
  return [interpreter = std::make_shared<Interpreter>(*graph)](
             size_t, const std::vector<c10::IValue>& inputs) { return interpreter->run(inputs); };
}

// Throws Error if the last program gives too many samples another class than the first, or, with
// labels, a wrong one.
void check_drop(const CompareRequest& options, const Compared& compared) {
  if (!options.max_drop) return;
  SampleData data = compared.data;
  data.labels = options.labels;
  Progress progress({{kEvaluateStage}});
  const std::string& last = options.files.back();
  const Quality quality = evaluate(outputs_of(options.files[0], compared.reference),
                                   outputs_of(last, compared.subject), data, progress);
  if (!quality.same_top1)
    throw Error("compare", "--max-drop",
                "applies to classes, but the first output is not floats [samples, classes]; leave "
                "it out");
  const double drop =
      quality.accuracy ? *quality.float_accuracy - *quality.accuracy : 1 - *quality.same_top1;
  if (!(drop <= *options.max_drop))
    throw Error("compare", "the classes",
                fmt::format("{} {:.2f} % of the samples, want at most {:.2f} (--max-drop)",
                            quality.accuracy ? "are wrong for another" : "differ for", 100 * drop,
                            100 * *options.max_drop));
}

void write_comparison(const std::string& path, const nlohmann::ordered_json& json) {
  if (has_suffix(path, ".csv"))
    write_text_file(path, compare_csv(json));
  else
    write_page_file(path, json);
}

void read_data(Compared& compared, const CompareRequest& options, size_t processes) {
  if (!is_lowered(options.files[0])) compared.reference = read_pt2(options.files[0]);
  compared.data = sample_data(options.inputs, compared.reference ? &*compared.reference : nullptr,
                              options.batches);
  if (compared.data.size() < processes)
    throw Error("compare", options.inputs,
                fmt::format("{} batches for {} processes; start at most one per batch",
                            compared.data.size(), processes));
}

void compare(CompareRequest& options) {
  Processes processes;
  Compared compared;
  const std::vector<std::string> parts = processes.gather([&] {
    check_files(options);
    load_libraries(options.libraries);
    read_data(compared, options, processes.count());
    compare_files(compared, options, processes);
    return processes.count() == 1 ? std::string() : pack_sums(compared.report);
  });
  if (processes.rank() != 0) return;
  for (size_t i = 1; i < parts.size(); ++i) add_sums(compared.report, parts[i]);
  compared.report.title = options.files.back();
  compared.report.subtitle = "beside " + options.files.front();
  const nlohmann::ordered_json json = compare_json(compared.report);
  for (const std::string& path : options.outputs) write_comparison(path, json);
  for (const std::string& line : compare_table(json, options.top)) print_text(line + "\n");
  check_limits(options, compared.report);
  check_drop(options, compared);
}

}  // namespace

Options options_of(CompareRequest& request) {
  return joined({
      {
          Option{"files", &request.files,
                 "FLOAT.pt2 QUANTIZED.pt2 [LOWERED.octet], PROGRAM.pt2 LOWERED.octet, two .octet "
                 "of one model, or FLOAT.pt2 and a file of `octet qat --checkpoint`"}
              .positional()
              .required()
              .counted(2, 3),
          Option{"inputs", &request.inputs, "torch.save of a list of input tuples"}
              .required()
              .for_command(),
          Option{"output", &request.outputs,
                 "Write the result to a file too: F.html (a page that works offline), F.json, "
                 "F.csv, or F.model-explorer.json to overlay on the graph in Model Explorer; may "
                 "be given several times"}
              .repeated()
              .ends_in({".html", ".json", ".csv"})
              .output(),
          Option{"top", &request.top, "How many ops the table shows, worst first"}.for_command(),
          Option{"batches", &request.batches, "Use only the first batches of the data"}
              .positive()
              .for_command(),
          Option{"min_sqnr", &request.min_sqnr,
                 "Exit with 1 if outputs have a lower SQNR than this, in dB"}
              .for_command(),
          Option{"max_steps", &request.max_steps,
                 "Exit with 1 if an op of the lowered program is more quantization steps off than "
                 "this"}
              .not_negative()
              .for_command(),
          Option{"max_drop", &request.max_drop,
                 "Exit with 1 if a larger share of the samples loses its class: that of the first "
                 "program, or of --labels"}
              .between(0, 1)
              .for_command(),
          Option{"labels", &request.labels, "torch.save of the class of each sample"}
              .file()
              .needs("max_drop")
              .for_command(),
      },
      library_options(request.libraries),
      {metric_option(request.metric)},
  });
}

void add_compare_command(CLI::App& app) {
  add_command<CompareRequest>(
      app, "compare",
      "Show op by op how far a quantized program is from its float program, and a lowered one from "
      "both; mpirun shares the data among processes",
      compare);
}

}  // namespace octet
