#include "tools/cli/conformance/quantizer_cells.h"

#include <chrono>
#include <cmath>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/metric.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/conformance/float_program.h"
#include "tools/cli/conformance/taken.h"

namespace octet::conformance {
namespace {

// The least signal-to-noise ratio of a cell's results, in dB. Noise adds up along a network.
constexpr double kLeastOfLayers = 15, kLeastOfNetworks = 10;

double least_decibels(const std::string& kind) {
  return kind == "network" || kind == "random" ? kLeastOfNetworks : kLeastOfLayers;
}

using Batches = std::vector<std::vector<c10::IValue>>;

// The ratio of the worst floating-point output; infinite without one.
double least_sqnr(const std::vector<std::vector<c10::IValue>>& want,
                  const std::vector<std::vector<c10::IValue>>& got) {
  double least = INFINITY;
  for (size_t output = 0; output < want[0].size(); ++output) {
    ErrorStats sum;
    for (size_t batch = 0; batch < want.size(); ++batch)
      if (want[batch][output].isTensor() && want[batch][output].toTensor().is_floating_point())
        sum.merge(compare_tensors(want[batch][output].toTensor(), got[batch][output].toTensor()));
    if (sum.has_data() && (sum.signal > 0 || sum.strange > 0))
      least = std::min(least, sum.sqnr_db());
  }
  return least;
}

template <typename Run>
Batches run_all(const Batches& batches, const Run& run) {
  Batches outputs;
  for (const std::vector<c10::IValue>& batch : batches) {
    std::vector<c10::IValue> copy;
    for (const c10::IValue& input : batch) copy.emplace_back(input.toTensor().clone());
    outputs.push_back(run(copy));
  }
  return outputs;
}

void check_close(const char* which, const Batches& want, const Batches& got, double least) {
  if (const double ratio = least_sqnr(want, got); !(ratio >= least))
    throw Error("conformance", "close",
                fmt::format("{} have {:.1f} dB to the float program's, want at least {}", which,
                            ratio, least));
}

void check(FloatProgram program, const QuantizerOfCells& quantizer,
           const ConformanceOptions& options, CellResult& result) {
  const std::unique_ptr<Graph> original = clone(program.graph);
  CheckedQuantizer checked(quantizer.make, quantizer.make_twin, options.seed);
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(program.graph), checked, report);
  const std::map<std::string, Wanted> wanted = wanted_ops(observed);
  calibrate(observed, program.batches);
  const Graph quantized = convert_pt2e(std::move(observed), {}, report);
  const std::unique_ptr<BackendSupport> support = make_support(options.backend);
  const Program lowered = lower(quantized, *support, {}, report);
  result.left_float = find_left_float(lowered, *support);
  if (wanted.empty()) {
    result.outcome = Outcome::kRefused;
    result.detail = report.entries().empty() ? "no op is annotated" : report.entries()[0].reason;
    return;
  }
  if (const std::string fault = find_untaken(lowered, wanted); !fault.empty())
    throw Error("conformance", "taken", fault);
  const auto interpret = [](const Graph& graph) {
    return [interpreter = std::make_shared<Interpreter>(graph)](
               const std::vector<c10::IValue>& batch) { return interpreter->run(batch); };
  };
  const Batches want = run_all(program.batches, interpret(*original));
  const double least = least_decibels(result.kind);
  check_close("the outputs of the q/dq graph", want, run_all(program.batches, interpret(quantized)),
              least);
  Session session(lowered, 1);
  const Batches got = run_all(program.batches, [&](const std::vector<c10::IValue>& batch) {
    return run_session(session, batch);
  });
  check_close("the lowered outputs", want, got, least);
}

}  // namespace

CellResult run_graph_cell(const GraphCell& cell, const QuantizerOfCells& quantizer,
                          const ConformanceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  result.name = cell.name;
  result.kind = cell.kind;
  result.outcome = Outcome::kPassed;
  std::string text;
  try {
    FloatProgram program = float_program(cell, options.seed);
    text = to_text(program.graph);
    check(std::move(program), quantizer, options, result);
  } catch (const Error& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.stage() == "conformance" ? error.without_stage() : error.what();
  } catch (const std::exception& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.what();
  }
  if (!result.passed()) result.program = text;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<Job> quantizer_jobs(const QuantizerOfCells& quantizer,
                                const ConformanceOptions& options) {
  make_support(options.backend);  // throws for an unknown name
  std::vector<Job> jobs;
  for (const GraphCell& cell : graph_cells())
    jobs.push_back({cell.name, cell.kind,
                    [cell, quantizer, &options] {
                      at::set_num_threads(1);  // as many processes as CPUs run cells
                      return run_graph_cell(cell, quantizer, options);
                    },
                    [cell, &options] { return to_text(float_program(cell, options.seed).graph); }});
  return chosen(std::move(jobs), options);
}

}  // namespace octet::conformance
