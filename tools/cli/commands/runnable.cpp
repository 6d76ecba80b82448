#include "tools/cli/commands/runnable.h"

#include <algorithm>
#include <random>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/program/artifact.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

Tensor example_tensor(DType dtype, const std::vector<int64_t>& shape, std::mt19937& random) {
  Tensor tensor = Tensor::zeros(dtype, shape);
  if (dtype == DType::kFloat32) {
    std::normal_distribution<float> normal;
    float* data = tensor.data<float>();
    for (int64_t i = 0, n = tensor.numel(); i < n; ++i) data[i] = normal(random);
  }
  return tensor;
}

class InterpretedProgram : public Runnable {
 public:
  explicit InterpretedProgram(const std::string& path)
      : path_(path), graph_(read_pt2(path)), interpreter_(verified(graph_)) {}

  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) override {
    return interpreter_.run(inputs);
  }

  void reset_states() override { interpreter_.reset(); }
  int threads() const override { return at::get_num_threads(); }

  std::vector<c10::IValue> example_inputs() const override {
    std::mt19937 random(0);
    std::vector<c10::IValue> inputs;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.kind == InputKind::kConstant) {
        throw Error("bench", "%" + input.value->name(),
                    "is an input that is not a tensor; give --inputs");
      }
      if (input.kind != InputKind::kUserInput) continue;
      if (!input.value->meta)
        throw Error("bench", "%" + input.value->name(), "has no recorded shape; give --inputs");
      inputs.emplace_back(
          to_aten(example_tensor(input.value->meta->dtype, input.value->meta->shape(), random)));
    }
    return inputs;
  }

  std::unique_ptr<Runnable> duplicate() const override {
    return std::make_unique<InterpretedProgram>(path_);
  }

  std::vector<KernelReport> explain(const std::vector<c10::IValue>&) override {
    throw Error(
        "explain", "the program",
        "is interpreted op by op and has no kernels; give an .octet program, from `octet lower`");
  }

 private:
  static const Graph& verified(const Graph& graph) {
    verify(graph);
    return graph;
  }
  std::string path_;
  Graph graph_;
  Interpreter interpreter_;
};

class LoweredProgram : public Runnable {
 public:
  LoweredProgram(const std::string& path, const SessionOptions& options)
      : session_(load_program(path), options) {
    print_warnings();
  }

  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) override {
    std::vector<c10::IValue> outputs = run_session(session_, inputs);
    if (!has_printed_) print_warnings();
    return outputs;
  }

  void reset_states() override { session_.reset_states(); }
  int threads() const override { return session_.threads(); }

  std::vector<c10::IValue> example_inputs() const override {
    std::mt19937 random(0);
    const Program& program = session_.program();
    std::vector<c10::IValue> inputs;
    for (int index : program.inputs) {
      if (index < 0) {
        inputs.emplace_back();
        continue;
      }
      const ProgramTensor& tensor = program.tensor(index);
      inputs.emplace_back(to_aten(example_tensor(tensor.dtype, tensor.shape, random)));
    }
    return inputs;
  }

  std::unique_ptr<Runnable> duplicate() const override {
    return std::unique_ptr<Runnable>(new LoweredProgram(session_.duplicate()));
  }

  std::vector<KernelReport> explain(const std::vector<c10::IValue>& inputs) override {
    constexpr int kRuns = 20;
    run(inputs);
    session_.time_kernels(true);
    for (int i = 0; i < kRuns; ++i) run(inputs);
    const std::vector<KernelReport> kernels = session_.kernels();
    session_.time_kernels(false);
    return kernels;
  }

 private:
  explicit LoweredProgram(Session session) : session_(std::move(session)), has_printed_(true) {}

  // Prints warnings once, after the first compilation: on loading or, for open sizes, in the first
  // run.
  void print_warnings() {
    if (session_.compiled_count() == 0) return;
    has_printed_ = true;
    for (const std::string& warning : session_.warnings()) log_warning(warning);
  }

  Session session_;
  bool has_printed_ = false;
};

// CLI11 would take -1 and numbers beyond 64 bits for the largest limit.
std::string fault_of_bytes(const std::string& text) {
  constexpr size_t kDigits = 15;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && digits <= kDigits) return "";
  return fmt::format("got {}, want a number of bytes, as 300M", text);
}

}  // namespace

std::unique_ptr<Runnable> load_runnable(const std::string& path, const SessionOptions& options) {
  at::set_num_threads(options.threads);
  if (has_suffix(path, ".octet")) return std::make_unique<LoweredProgram>(path, options);
  if (has_suffix(path, ".pt2")) {
    if (options.memory_limit != 0 || options.loop_limit != 0)
      throw Error("run", path,
                  "is interpreted, got --memory-limit or --loop-limit, which only .octet programs "
                  "take; lower it first");
    return std::make_unique<InterpretedProgram>(path);
  }
  throw Error(
      "run", path,
      "is neither .pt2 nor .octet; give a program that torch.export.save or `octet lower` wrote");
}

void add_session_options(CLI::App& command, SessionOptions& options) {
  command.add_option_function<std::string>(
      "--cache", [&options](const std::string& folder) { options.cache_folder = folder; },
      "A folder where packed weights are kept for the next start (.octet on oneDNN)");
  command
      .add_option("--memory-limit", options.memory_limit,
                  "Bytes that inputs, outputs, states and intermediates may take, as 300M; by "
                  "default what the machine has (.octet)")
      ->option_text("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(fault_of_bytes, ""));  // runs first
  command
      .add_option("--loop-limit", options.loop_limit,
                  "How often a loop may run its body in one run; without limit by default (.octet)")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace octet
