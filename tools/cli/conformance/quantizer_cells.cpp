#include "tools/cli/conformance/quantizer_cells.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/conformance/closeness.h"
#include "tools/cli/conformance/file_cells.h"
#include "tools/cli/conformance/float_program.h"
#include "tools/cli/conformance/judge_cell.h"
#include "tools/cli/conformance/taken.h"

namespace octet::conformance {
namespace {

// The least signal-to-noise ratio of a cell's results, in dB. Noise adds up along a network.
constexpr double kLeastOfLayers = 15, kLeastOfNetworks = 10;

double least_decibels(const std::string& kind) {
  return kind == "network" || kind == "random" || kind == "file" ? kLeastOfNetworks
                                                                 : kLeastOfLayers;
}

void check(FloatProgram program, const Graph& original, const QuantizerOfCells& quantizer,
           const ConformanceOptions& options, CellResult& result) {
  CheckedQuantizer checked(quantizer.make, quantizer.make_twin, options.seed);
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(program.graph), checked, report);
  const std::map<std::string, Wanted> wanted = wanted_ops(observed);
  calibrate(observed, program.batches);
  const Graph quantized = convert_pt2e(std::move(observed), {}, report);
  const Supports supports = make_supports(options.backend);
  const Program lowered = lower(quantized, supports, {}, report);
  result.left_float = find_left_float(lowered, supports);
  if (wanted.empty()) {
    result.outcome = Outcome::kRefused;
    result.detail = report.entries().empty() ? "no op is annotated" : report.entries()[0].reason;
    return;
  }
  if (const std::string fault = find_untaken(lowered, supports, wanted); !fault.empty())
    throw Error("conformance", "taken", fault);
  const Batches want = run_all(program.batches, interpreted(original));
  const double least = least_decibels(result.kind);
  check_close("the outputs of the q/dq graph", want,
              run_all(program.batches, interpreted(quantized)), least);
  Session session(lowered, 1);
  const Batches got = run_all(program.batches, [&](const std::vector<c10::IValue>& batch) {
    return run_session(session, batch);
  });
  check_close("the lowered outputs", want, got, least);
}

// A file has too many ops to print.
std::string text_of(const GraphCell& cell, const FloatProgram& program) {
  return cell.file.empty() ? to_text(program.graph) : cell.file;
}

}  // namespace

CellResult run_graph_cell(const GraphCell& cell, const QuantizerOfCells& quantizer,
                          const ConformanceOptions& options) {
  return judge_cell(cell.name, cell.kind, [&](CellResult& result) {
    result.outcome = Outcome::kPassed;
    FloatProgram program = float_program(cell, options.seed);
    result.program = text_of(cell, program);
    const std::unique_ptr<Graph> original = clone(program.graph);
    run_if_lowerable(*original, result,
                     [&] { check(std::move(program), *original, quantizer, options, result); });
  });
}

std::vector<CellResult> run_quantizer_conformance(
    const QuantizerOfCells& quantizer, const ConformanceOptions& options, const std::string& models,
    const std::function<void(const CellResult&)>& done) {
  return run_jobs(quantizer_jobs(quantizer, options, models), options.timeout, done);
}

std::vector<Job> quantizer_jobs(const QuantizerOfCells& quantizer,
                                const ConformanceOptions& options, const std::string& models) {
  make_supports(options.backend);  // throws for an unknown name
  std::vector<GraphCell> cells = graph_cells();
  if (!models.empty()) add_files(cells, models);
  std::vector<Job> jobs;
  for (const GraphCell& cell : cells)
    jobs.push_back({cell.name, cell.kind,
                    [cell, quantizer, &options] {
                      at::set_num_threads(1);  // as many processes as CPUs run cells
                      return run_graph_cell(cell, quantizer, options);
                    },
                    [cell, &options] { return text_of(cell, float_program(cell, options.seed)); }});
  return chosen(std::move(jobs), options);
}

}  // namespace octet::conformance
