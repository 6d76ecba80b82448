#include "tools/cli/conformance/file_cells.h"

#include <algorithm>
#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "lowering/program/symbols.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/conformance/judge_cell.h"

namespace octet::conformance {
namespace {

namespace fs = std::filesystem;

// Kernels round ties differently, which the layers after them amplify.
constexpr double kLeastSqnr = 20;

std::string name_of_file(const fs::path& file) { return "file/" + file.stem().string(); }

// One more than the exported sizes, or one less where that is the most.
SymbolValues other_sizes(const Program& program) {
  SymbolValues values = hints_of(program);
  for (const ShapeSymbol& symbol : program.symbols)
    values[symbol.name] =
        symbol.hint < symbol.max ? symbol.hint + 1 : std::max(symbol.min, symbol.hint - 1);
  return values;
}

// Two at the exported sizes; where sizes are open, one at others, and a further one at the first.
Batches random_batches(const Graph& graph, const Program& program, uint32_t seed) {
  std::vector<SymbolValues> sizes(2, hints_of(program));
  if (!program.symbols.empty()) {
    sizes.push_back(other_sizes(program));
    sizes.push_back(hints_of(program));
  }
  CellInputs inputs(graph, at::detail::createCPUGenerator(seed));
  Batches batches;
  for (const SymbolValues& of_batch : sizes)
    batches.push_back(inputs.next([&](size_t input, const TensorMeta& meta) {
      // the program does not have what it does not read, which has no open sizes
      if (program.inputs[input] < 0) return meta.shape();
      const ProgramTensor& tensor = program.tensor(program.inputs[input]);
      return tensor.sizes.empty() ? tensor.shape : evaluate(tensor.sizes, of_batch);
    }));
  return batches;
}

bool runs_on(const Program& program, const Supports& supports) {
  return std::ranges::any_of(program.segments, [&](const Segment& segment) {
    return std::ranges::any_of(
        supports, [&](const auto& support) { return support->name() == segment.backend; });
  });
}

void run_file(const Graph& graph, const ConformanceOptions& options, CellResult& result) {
  const Supports supports = make_supports(options.backend);
  Report report;
  const Program lowered = lower(graph, supports, {}, report);
  if (!runs_on(lowered, supports)) {
    result.outcome = Outcome::kRefused;
    result.detail = lowered.reasons.empty() ? "it has no ops" : lowered.reasons.begin()->second;
    return;
  }
  const std::string bytes = program_bytes(lowered);
  Session session(load_program(std::as_bytes(std::span(bytes))), 1);
  const Batches batches = random_batches(graph, lowered, options.seed);
  const auto run_in = [](Session& runs) {
    return [&runs](const std::vector<c10::IValue>& batch) { return run_session(runs, batch); };
  };
  const Batches want = run_all(batches, interpreted(graph));
  const Batches got = run_all(batches, run_in(session));
  check_close("the outputs", want, got, kLeastSqnr);
  Session other = session.duplicate();
  check_close("the outputs of a duplicate", {want[0]}, run_all({batches[0]}, run_in(other)),
              kLeastSqnr);
  const double ratio = least_sqnr(want, got);
  result.outcome = std::isinf(ratio) ? Outcome::kExact : Outcome::kWithin;
  if (result.outcome == Outcome::kWithin)
    result.detail = fmt::format("{:.0f} dB to the program in LibTorch", ratio);
}

}  // namespace

std::vector<fs::path> model_files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure))
    if (entry.path().extension() == ".pt2") files.push_back(entry.path());
  if (failure)
    throw Error("conformance", folder,
                fmt::format("cannot be read: {}; name a folder of .pt2 files", failure.message()));
  if (files.empty())
    throw Error("conformance", folder,
                "has no .pt2 files; put programs there that torch.export.save wrote");
  std::ranges::sort(files);
  return files;
}

void run_if_lowerable(const Graph& graph, CellResult& result, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error&) {
    try {
      Report report;
      lower(graph, make_supports("reference"), {}, report);
    } catch (const Error& error) {
      result.outcome = Outcome::kRefused;
      result.detail = error.what();
      return;
    }
    throw;
  }
}

CellResult run_file_cell(const fs::path& file, const ConformanceOptions& options) {
  return judge_cell(name_of_file(file), "file", [&](CellResult& result) {
    result.program = file.string();
    const Graph graph = read_pt2(file);
    verify(graph);
    run_if_lowerable(graph, result, [&] { run_file(graph, options, result); });
  });
}

std::vector<Job> file_jobs(const std::string& folder, const ConformanceOptions& options) {
  std::vector<Job> jobs;
  for (const fs::path& file : model_files(folder))
    jobs.push_back({name_of_file(file), "file",
                    [file, &options] {
                      at::set_num_threads(1);  // as many processes as CPUs run cells
                      return run_file_cell(file, options);
                    },
                    [file] { return file.string(); }});
  return jobs;
}

void add_files(std::vector<GraphCell>& cells, const std::string& folder) {
  for (const fs::path& file : model_files(folder))
    cells.push_back({.name = name_of_file(file), .kind = "file", .file = file.string()});
}

}  // namespace octet::conformance
