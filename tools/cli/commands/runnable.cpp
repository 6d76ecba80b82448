#include "tools/cli/commands/runnable.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/inputs.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/program/artifact.h"
#include "lowering/program/program_json.h"
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

// The name of a session's option in the command, as "memory-limit".
std::string name_in_command(std::string name) {
  if (name == "cache_folder") return "cache";
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Option session_option(const std::string& name, const std::string& help, int& threads) {
  return Option{name, &threads, help}.between(1, 1024).without_default();
}

Option session_option(const std::string& name, const std::string& help, size_t& number) {
  const bool is_size = name == "memory-limit";
  Option option{name, &number, help + (is_size ? " (.octet); also as 300M" : " (.octet)")};
  option.is_size = is_size;
  return number == 0 ? std::move(option).not_negative().without_default()
                     : std::move(option).positive();
}

Option session_option(const std::string& name, const std::string& help,
                      std::filesystem::path& path) {
  return Option{name, TextValue{[&path](const std::string& text) { path = text; }},
                help + " (.octet)"};
}

constexpr size_t kDeepestSpec = 1000;  // nested containers of arguments in JSON

using Literals = std::vector<std::pair<size_t, c10::IValue>>;  // positions and values

// Inserts the literals if `inputs` has only the others of `count` inputs.
std::vector<c10::IValue> with_literals(std::vector<c10::IValue> inputs, const Literals& literals,
                                       size_t count) {
  if (inputs.size() + literals.size() != count) return inputs;
  for (const auto& [position, literal] : literals)
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(position), literal);
  return inputs;
}

// The literals among the inputs of a lowered program, as None: it has their values inside.
Literals literals_of(const std::string& call_spec, size_t count) {
  Literals literals;
  if (call_spec.empty() || nests_deeper(call_spec, kDeepestSpec)) return literals;
  const auto spec = parse_json<nlohmann::json>(call_spec, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec.contains("inputs")) return literals;
  const nlohmann::json& inputs = spec["inputs"];
  if (!inputs.is_array() || inputs.size() != count) return literals;
  for (size_t i = 0; i < count; ++i)
    if (!inputs[i].is_null()) literals.emplace_back(i, c10::IValue());
  return literals;
}

class InterpretedProgram : public Runnable {
 public:
  explicit InterpretedProgram(const std::string& path)
      : path_(path),
        graph_(read_pt2(path)),
        literals_(literal_inputs(graph_)),
        interpreter_(verified(graph_)) {}

  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) override {
    return interpreter_.run(with_literals(inputs, literals_, caller_inputs(graph_).size()));
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names;
    for (const GraphInput* input : caller_inputs(graph_))
      if (!is_literal(*input)) names.push_back(input->value->name());
    return names;
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

  size_t constant_bytes() const override { return 0; }

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
  Literals literals_;
  Interpreter interpreter_;
};

class LoweredProgram : public Runnable {
 public:
  LoweredProgram(const std::string& path, const SessionOptions& options)
      : session_(load_program(path, {.call_spec = &call_spec_}), options),
        literals_(literals_of(call_spec_, session_.program().inputs.size())) {
    print_warnings();
  }

  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) override {
    std::vector<c10::IValue> outputs =
        run_session(session_, with_literals(inputs, literals_, session_.program().inputs.size()));
    if (!has_printed_) print_warnings();
    return outputs;
  }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names;
    for (int index : session_.program().inputs)
      names.push_back(index < 0 ? std::string() : session_.program().tensor(index).name);
    for (auto literal = literals_.rbegin(); literal != literals_.rend(); ++literal)
      names.erase(names.begin() + static_cast<std::ptrdiff_t>(literal->first));
    return names;
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
    return std::unique_ptr<Runnable>(new LoweredProgram(session_.duplicate(), literals_));
  }

  size_t constant_bytes() const override { return octet::constant_bytes(session_.bound_program()); }

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
  LoweredProgram(Session session, Literals literals)
      : session_(std::move(session)), literals_(std::move(literals)), has_printed_(true) {}

  // Prints warnings once, after the first compilation: on loading or, for open sizes, in the first
  // run.
  void print_warnings() {
    if (session_.compiled_count() == 0) return;
    has_printed_ = true;
    for (const std::string& warning : session_.warnings()) log_warning(warning);
  }

  std::string call_spec_;  // before session_, which is loaded with it
  Session session_;
  Literals literals_;
  bool has_printed_ = false;
};

}  // namespace

Option program_option(std::string& file) {
  return Option{"file", &file, "The program, .pt2 or .octet"}.positional().required();
}

Options session_options(SessionOptions& session) {
  Options options;
  visit_options(
      [&](const char* name, std::string help, auto& value) {
        help[0] = static_cast<char>(std::toupper(help[0]));
        options.push_back(session_option(name_in_command(name), help, value));
      },
      session);
  return options;
}

std::unique_ptr<Runnable> load_runnable(const std::string& path, const SessionOptions& options) {
  at::set_num_threads(options.threads);
  if (has_suffix(path, ".octet")) return std::make_unique<LoweredProgram>(path, options);
  if (!has_suffix(path, ".pt2"))
    throw Error("run", path,
                "is neither .pt2 nor .octet; give a program that torch.export.save or `octet "
                "lower` wrote");
  const SessionOptions defaults{.threads = options.threads};
  visit_options(
      [&](const char* name, const char*, const auto& value, const auto& standard) {
        if (value != standard)
          throw Error("run", path,
                      fmt::format("is interpreted, got --{}, which only .octet programs take; "
                                  "lower it first",
                                  name_in_command(name)));
      },
      options, defaults);
  return std::make_unique<InterpretedProgram>(path);
}

}  // namespace octet
