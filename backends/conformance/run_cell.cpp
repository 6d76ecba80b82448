// Runs a cell on a backend and on the reference and compares the results.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/conformance/conformance.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/segments.h"

namespace octet::conformance {
namespace {

namespace fs = std::filesystem;

// One step of an inner op, from a tie or fused ops, may be two in the result.
const Tolerance kModelTolerance{"model", 2, 0, "the ops before amplify a step"};
constexpr double kTie = 1e-3;  // steps from the middle between two that count as halfway

// Each op on the first backend that accepts it; null: on the reference.
using Takers = std::vector<const BackendSupport*>;

Program with_segments(Program program, const std::string& backend, const Takers& takers) {
  program.backend = backend;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const std::string name = takers[i] == nullptr ? "reference" : takers[i]->name();
    if (program.segments.empty() || program.segments.back().backend != name) {
      program.segments.emplace_back();
      program.segments.back().backend = name;
    }
    program.segments.back().ops.push_back(static_cast<int>(i));
  }
  connect_segments(program);
  return program;
}

// The program with real results, or nullopt if its last op has none.
std::optional<Program> real_form(Program program) {
  ProgramOp& op = program.ops.back();
  ProgramTensor& y = program.tensor(op.outputs[0]);
  if (!y.qparams || !y.qparams->is_per_tensor()) return std::nullopt;
  const OpContract* contract = find_contract(op.kind);
  if (contract->nature == Nature::kConversion) {
    op.kind = op.is("quantize") ? "copy" : "dequantize";
    op.attributes.clear();
  } else if (contract->nature != Nature::kCompute) {
    return std::nullopt;
  }
  y.dtype = DType::kFloat32;
  y.qparams.reset();
  return program;
}

std::vector<Tensor> run_on_device(const Program& program, const std::vector<Tensor>& inputs,
                                  const std::string& command) {
  std::string path = (fs::temp_directory_path() / "octet-cell-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw Error("conformance", path, "cannot be made");
  const fs::path folder = path;
  const auto write = [&](const std::string& name, const char* bytes, size_t count) {
    std::ofstream(folder / name, std::ios::binary)
        .write(bytes, static_cast<std::streamsize>(count));
  };
  const std::string bytes = program_bytes(program);
  write("program.octet", bytes.data(), bytes.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    write(fmt::format("input_{}.bin", i), reinterpret_cast<const char*>(inputs[i].raw()),
          inputs[i].nbytes());
  const int status = std::system(fmt::format("{} '{}'", command, folder.string()).c_str());
  std::vector<Tensor> outputs;
  std::string problem = status == 0 ? "" : fmt::format("ended with status {}", status);
  for (size_t i = 0; i < program.outputs.size() && problem.empty(); ++i) {
    const ProgramTensor& tensor = program.tensor(program.outputs[i]);
    outputs.push_back(Tensor::zeros(tensor.dtype, tensor.shape));
    const std::string name = fmt::format("output_{}.bin", i);
    std::ifstream file(folder / name, std::ios::binary);
    file.read(reinterpret_cast<char*>(outputs[i].raw()),
              static_cast<std::streamsize>(outputs[i].nbytes()));
    if (!file || file.peek() != std::ifstream::traits_type::eof())
      problem = fmt::format("wrote no {} of {} bytes", name, outputs[i].nbytes());
  }
  fs::remove_all(folder);
  if (!problem.empty()) throw Error("conformance", command, "the device command " + problem);
  return outputs;
}

// What is compared, and the worst so far.
class Comparison {
 public:
  Comparison(CellResult& result, const Tolerance& allowed) : result_(result), allowed_(allowed) {}

  void compare(const Program& program, const std::vector<Tensor>& got,
               const std::vector<Tensor>& want, const std::vector<Tensor>& real, size_t run) {
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string place = fmt::format("run {}, output {}", run, i);
      if (got[i].shape() != want[i].shape() || got[i].dtype() != want[i].dtype())
        return fail(fmt::format("{}: got {}{}, want {}{}", place, octet::name_of(got[i].dtype()),
                                got[i].shape(), octet::name_of(want[i].dtype()), want[i].shape()));
      const ProgramTensor& tensor = program.tensor(program.outputs[i]);
      double greatest = 0;
      for (int64_t j = 0; j < want[i].numel(); ++j)
        if (const double size = std::abs(number_at(want[i], j)); std::isfinite(size))
          greatest = std::max(greatest, size);
      const bool is_float = want[i].dtype() == DType::kFloat32;
      for (int64_t j = 0; j < want[i].numel(); ++j) {
        const double a = number_at(got[i], j), b = number_at(want[i], j);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const bool has_real = !is_float && i < real.size();
        if (has_real && std::isnan(number_at(real[i], j))) continue;  // any integer stands for NaN
        const double unit = is_float ? std::max(greatest, 1e-30) : 1, difference = std::abs(a - b);
        const Outcome outcome =
            is_float ? float_outcome(difference / unit)
            : has_real && difference == 1 && is_tie(tensor, number_at(real[i], j))
                ? Outcome::kTies
                : integer_outcome(difference);
        if (!(difference / unit <= result_.greatest)) result_.greatest = difference / unit;
        if (outcome == Outcome::kWrong)
          return fail(fmt::format("{}, element {} of {}: got {}, want {}", place, j,
                                  want[i].numel(), a, b));
        result_.outcome = std::max(result_.outcome, outcome);
      }
    }
  }

  void fail(std::string detail) {
    if (result_.outcome != Outcome::kWrong) result_.detail = std::move(detail);
    result_.outcome = Outcome::kWrong;
  }

 private:
  static bool is_tie(const ProgramTensor& tensor, double real) {
    const double steps = real / double{tensor.qparams->scale[0]};
    return std::abs(std::abs(steps - std::floor(steps)) - 0.5) < kTie;
  }
  Outcome integer_outcome(double steps) const {
    return steps <= allowed_.steps ? Outcome::kWithin : Outcome::kWrong;
  }
  Outcome float_outcome(double share) const {
    return share <= std::max(allowed_.relative, kFloatTolerance) ? Outcome::kWithin
                                                                 : Outcome::kWrong;
  }

  CellResult& result_;
  const Tolerance& allowed_;
};

// The first that a backend which runs ops of the cell declares for it.
Tolerance tolerance_of(const Supports& supports, const Takers& takers, const Cell& cell) {
  for (const std::shared_ptr<const BackendSupport>& support : supports) {
    if (std::find(takers.begin(), takers.end(), support.get()) == takers.end()) continue;
    for (const Tolerance& tolerance : support->tolerances())
      if (cell.name.starts_with(tolerance.cells + "/")) return tolerance;
  }
  return find_contract(cell.kind) == nullptr ? kModelTolerance : Tolerance{};
}

void run_accepted(const Cell& cell, const CellProgram& made, const Takers& takers,
                  const Supports& supports, const ConformanceOptions& options, CellResult& result) {
  const Tolerance allowed = tolerance_of(supports, takers, cell);
  Comparison comparison(result, allowed);
  Program lowered = with_segments(made.program, options.backend, takers);
  for (const std::shared_ptr<const BackendSupport>& support : supports)
    order_filters(lowered, *support);
  const std::string bytes = program_bytes(lowered);
  lowered = load_program(std::as_bytes(std::span(bytes)));
  Session reference(with_one_segment(made.program, "reference"));
  std::optional<Session> real;
  if (std::optional<Program> program = real_form(made.program))
    real.emplace(with_one_segment(*std::move(program), "reference"));
  const auto compare = [&](const std::vector<Tensor>& got, size_t run) {
    comparison.compare(made.program, got, reference.run(made.runs[run]),
                       real ? real->run(made.runs[run]) : std::vector<Tensor>(), run);
  };
  if (!options.device_command.empty()) {
    if (lowered.symbols.empty())
      compare(run_on_device(lowered, made.runs[0], options.device_command), 0);
  } else {
    Session session(lowered, cell.threads);
    for (size_t run = 0; run < made.runs.size(); ++run) compare(session.run(made.runs[run]), run);
    Session twin = session.duplicate();
    if (!lowered.states.empty()) {
      twin.copy_states(session);
      compare(twin.run(made.runs[0]), 0);
      reference.reset_states();
      if (real) real->reset_states();
      twin.reset_states();
    }
    compare(twin.run(made.runs[0]), 0);
    // A session runs small programs on one thread.
    if (lowered.segments.size() == 1 && lowered.symbols.empty() && lowered.states.empty())
      for (size_t run = 0; run < made.runs.size(); ++run)
        compare(
            run_segment(made.program, lowered.segments[0].backend, made.runs[run], cell.threads),
            run);
  }
  if (result.outcome == Outcome::kWithin && result.detail.empty()) result.detail = allowed.reason;
}

}  // namespace

CellResult run_cell(const Cell& cell, const ConformanceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  result.name = cell.name;
  result.kind = cell.kind;
  CellProgram made;
  try {
    made = cell.make(options.seed);
    const Supports supports = make_supports(options.backend);
    Takers takers;
    std::string reason;
    bool is_taken = false;
    for (const ProgramOp& op : made.program.ops) {
      takers.push_back(nullptr);
      for (const std::shared_ptr<const BackendSupport>& support : supports) {
        const Verdict verdict = ask("conformance", *support, made.program, op);
        if (verdict) takers.back() = support.get();
        if (takers.back() != nullptr) break;
        if (reason.empty()) reason = verdict.reason();
      }
      is_taken |= takers.back() != nullptr;
    }
    if (!is_taken) {
      result.outcome = Outcome::kRefused;
      result.detail = reason;
    } else {
      run_accepted(cell, made, takers, supports, options, result);
    }
  } catch (const std::exception& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.what();
  }
  if (!result.passed()) result.program = to_text(made.program);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace octet::conformance
