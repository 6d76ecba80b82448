#include "tools/cli/conformance/quantizer_cells.h"

#include <cmath>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/conformance/file_cells.h"
#include "tools/cli/conformance/judge_cell.h"
#include "tools/cli/conformance/taken.h"

namespace octet::conformance {
namespace {

// ---- the program of a cell, with weights and data

struct FloatProgram {
  Graph graph;  // with the types of all values
  std::vector<std::vector<c10::IValue>> batches;
};

constexpr size_t kBatches = 4;
constexpr double kLeast = 1e-3;  // greatest magnitude of a tensor that has not vanished
constexpr uint32_t kTries = 8;

at::Tensor random_constant(const std::string& fqn, const Tensor& like, at::Generator& generator) {
  const auto ends_in = [&](const char* name) { return fqn.ends_with(name); };
  const std::vector<int64_t> shape = like.shape();
  if (ends_in(".var")) return at::rand(shape, generator).add(0.5);
  const at::Tensor normal = at::randn(shape, generator);
  if (shape.size() < 2) return ends_in(".weight") ? normal.mul(0.2).add(1) : normal.mul(0.1);
  const double fan_in = static_cast<double>(like.numel()) / static_cast<double>(shape[0]);
  return normal.div(std::sqrt(std::max(fan_in, 1.0)));
}

// Sets the types that the text leaves out. Returns whether a tensor vanishes.
bool infer_types(Graph& graph, const std::vector<c10::IValue>& inputs) {
  std::unordered_map<const Value*, TensorMeta> types;
  bool vanishes = false;
  InterpreterOptions options;
  options.after_node = [&](const Node& node, const std::vector<c10::IValue>& results) {
    const std::vector<Value*> outputs = node.outputs();
    for (const c10::IValue& result : results)
      if (result.isTensor() && result.toTensor().is_floating_point())
        vanishes |= !(result.toTensor().abs().max().item<double>() >= kLeast);
    for (size_t i = 0; i < outputs.size() && i < results.size(); ++i)
      if (outputs[i] != nullptr && !outputs[i]->meta && results[i].isTensor())
        types[outputs[i]] = make_meta(from_scalar_type(results[i].toTensor().scalar_type()),
                                      results[i].toTensor().sizes().vec());
  };
  Interpreter(graph, options).run(inputs);
  for (const Node* node : graph.nodes())
    for (Value* output : node->outputs())
      if (const auto found = types.find(output); found != types.end()) output->meta = found->second;
  return vanishes;
}

void add_batches(FloatProgram& program, const at::Generator& generator) {
  CellInputs inputs(program.graph, generator);
  for (size_t batch = 0; batch < kBatches; ++batch) program.batches.push_back(inputs.next());
}

// As float_program(), with the first numbers. `vanishes`: whether they make a tensor vanish.
FloatProgram filled_program(const std::string& text, uint32_t seed, bool& vanishes) {
  FloatProgram program{parse_graph(text), {}};
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (auto& [fqn, constant] : program.graph.constants)
    constant.tensor = from_aten(random_constant(fqn, constant.tensor, generator));
  add_batches(program, generator);
  vanishes = infer_types(program.graph, program.batches[0]);
  return program;
}

// Parses the graph of a cell and fills its constants with random numbers like those of a trained
// network: products keep the magnitude of their inputs. Integers in the data are below 10. Tries
// other numbers if a tensor vanishes, as after a relu of negative numbers: no scale suits it. The
// same seed gives the same bits.
//
// The program of a file keeps its constants.
FloatProgram float_program(const GraphCell& cell, uint32_t seed) {
  if (!cell.file.empty()) {
    FloatProgram program{read_pt2(cell.file), {}};
    verify(program.graph);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    add_batches(program, generator);
    return program;
  }
  bool vanishes = true;
  for (uint32_t i = 0; i + 1 < kTries; ++i) {
    const uint32_t other = seed + i * 7919;
    if (FloatProgram program = filled_program(cell.text(other), other, vanishes); !vanishes)
      return program;
  }
  return filled_program(cell.text(seed), seed, vanishes);
}

// ---- its checks

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
