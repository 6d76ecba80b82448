// Compiles the segments, plans the memory between them, runs them.
#include "backends/runtime/session.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/registry.h"
#include "backends/runtime/check_program.h"
#include "core/error.h"
#include "lowering/arena_plan.h"

namespace octet {
namespace {

// "3.2" of "3.2.1".
std::string major_minor(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find('.', first + 1));
}

void check_versions(const Program& program, const Backend& backend) {
  for (const auto& [library, version] : backend.versions()) {
    const auto lowered = program.versions.find(library);
    if (lowered == program.versions.end() || major_minor(lowered->second) == major_minor(version)) continue;
    throw Error("session", library,
                fmt::format("the program was lowered for {} {}, this build has {}; lower the model again", library, lowered->second, version));
  }
}

void check_count(const char* what, size_t got, size_t want) {
  if (got != want)
    throw Error("session", fmt::format("{}s", what), fmt::format("got {} {}s, want {}; give one tensor per {} of the model", got, what, want, what));
}

void check_address(const Program& program, int index, const char* what, size_t position, const void* address) {
  const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
  if (address == nullptr && tensor.numel() != 0)
    throw Error("session", fmt::format("{} {} ({})", what, position, tensor.name),
                fmt::format("got no address, want that of {} bytes", static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype)));
}

// A view of memory that is given for each run.
Tensor unbound(const ProgramTensor& tensor) {
  auto storage = std::make_shared<Storage>();
  storage->size = static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype);
  return Tensor(std::move(storage), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape), 0);
}

// An output that no segment writes into the caller's memory: an input, a constant, or one that was given already.
struct CopiedOutput {
  size_t tensor;
  size_t position;
};

struct CompiledStep {
  std::unique_ptr<CompiledSegment> segment;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

}  // namespace

struct Session::Impl {
  Program program;
  std::vector<CompiledStep> steps;
  std::vector<Tensor> tensors;  // by tensor index: constants and arena views; inputs and outputs are views of the caller's memory
  std::shared_ptr<Storage> arena;
  std::vector<const void*> given_inputs;  // of one run
  std::vector<void*> given_outputs;
  std::vector<CopiedOutput> copied;

  void compile(int threads);
  void plan_memory();
  void plan_outputs();
  void bind(size_t tensor, const void* address) { tensors[tensor].storage()->data = static_cast<std::byte*>(const_cast<void*>(address)); }
};

void Session::Impl::compile(int threads) {
  std::map<std::string, std::unique_ptr<Backend>> backends;
  for (const Segment& segment : program.segments) {
    std::unique_ptr<Backend>& backend = backends[segment.backend];
    if (backend == nullptr) {
      backend = make_backend(segment.backend);
      check_versions(program, *backend);
    }
    CompiledStep step{backend->compile(program, segment, threads), {}, {}};
    for (int index : segment.inputs) step.inputs.push_back(tensors[static_cast<size_t>(index)]);
    for (int index : segment.outputs) step.outputs.push_back(tensors[static_cast<size_t>(index)]);
    steps.push_back(std::move(step));
  }
}

void Session::Impl::plan_memory() {
  tensors.resize(program.tensors.size());
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].role == ProgramTensor::Role::kConstant) tensors[i] = program.tensors[i].data;
  for (const std::vector<int>* given : {&program.inputs, &program.outputs})
    for (int index : *given)
      if (index >= 0 && !tensors[static_cast<size_t>(index)].defined())
        tensors[static_cast<size_t>(index)] = unbound(program.tensors[static_cast<size_t>(index)]);
  std::map<int, size_t> buffer_of;  // tensor index -> buffer
  std::vector<ArenaBuffer> buffers;
  for (size_t step = 0; step < program.segments.size(); ++step) {
    for (int index : program.segments[step].outputs) {
      if (tensors[static_cast<size_t>(index)].defined()) continue;  // the caller's memory
      const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
      buffer_of[index] = buffers.size();
      buffers.push_back({static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype), static_cast<int>(step), static_cast<int>(step)});
    }
    for (int index : program.segments[step].inputs) {
      const auto found = buffer_of.find(index);
      if (found != buffer_of.end()) buffers[found->second].last = static_cast<int>(step);
    }
  }
  const ArenaPlan plan = plan_arena(buffers);
  arena = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(plan.bytes)}).storage();
  for (const auto& [index, buffer] : buffer_of) {
    const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
    auto view = std::make_shared<Storage>();
    view->data = arena->data + plan.offsets[buffer];
    view->size = buffers[buffer].bytes;
    view->owner = arena;
    tensors[static_cast<size_t>(index)] = Tensor(std::move(view), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape), 0);
  }
}

void Session::Impl::plan_outputs() {
  std::set<int> placed(program.inputs.begin(), program.inputs.end());
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const int index = program.outputs[i];
    const bool is_constant = program.tensors[static_cast<size_t>(index)].role == ProgramTensor::Role::kConstant;
    if (is_constant || !placed.insert(index).second) copied.push_back({static_cast<size_t>(index), i});
  }
}

Session::Session(Program program, int threads) : Session(std::move(program), SessionOptions{.threads = threads}) {}

Session::Session(Program program, const SessionOptions& options) : impl_(std::make_unique<Impl>()) {
  OCTET_ASSERT(options.threads >= 1, "threads");
  verify(program);
  check_runnable(program, options.memory_limit);
  impl_->program = std::move(program);
  impl_->plan_memory();
  impl_->plan_outputs();
  impl_->compile(options.threads);
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

void Session::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  const Program& program = impl_->program;
  check_count("input", inputs.size(), program.inputs.size());
  check_count("output", outputs.size(), program.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    check_address(program, program.inputs[i], "input", i, inputs[i]);
    impl_->bind(static_cast<size_t>(program.inputs[i]), inputs[i]);
  }
  std::vector<CopiedOutput>::const_iterator copied = impl_->copied.begin();
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_address(program, program.outputs[i], "output", i, outputs[i]);
    if (copied != impl_->copied.end() && copied->position == i) {
      ++copied;
    } else {
      impl_->bind(static_cast<size_t>(program.outputs[i]), outputs[i]);
    }
  }
  for (CompiledStep& step : impl_->steps) step.segment->run(step.inputs, step.outputs);
  for (const CopiedOutput& copy : impl_->copied) {
    const Tensor& from = impl_->tensors[copy.tensor];
    if (from.numel() != 0) std::memcpy(outputs[copy.position], from.raw(), from.nbytes());
  }
}

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  const Program& program = impl_->program;
  check_count("input", inputs.size(), program.inputs.size());
  std::vector<Tensor> kept;  // contiguous copies, where needed
  for (size_t i = 0; i < inputs.size(); ++i) {
    kept.emplace_back();
    if (program.inputs[i] < 0) continue;
    const ProgramTensor& want = program.tensors[static_cast<size_t>(program.inputs[i])];
    const std::string subject = fmt::format("input {} ({})", i, want.name);
    if (!inputs[i].defined()) throw Error("session", subject, "got no tensor, want one");
    if (inputs[i].dtype() != want.dtype || inputs[i].shape() != want.shape)
      throw Error("session", subject,
                  fmt::format("got {}, want {}[{}]; convert the input", describe(inputs[i]), short_name_of(want.dtype), fmt::join(want.shape, ", ")));
    kept.back() = inputs[i].contiguous();
  }
  std::vector<Tensor> outputs;
  for (int index : program.outputs) {
    const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
    outputs.push_back(Tensor::zeros(tensor.dtype, tensor.shape));
  }
  impl_->given_inputs.clear();
  impl_->given_outputs.clear();
  for (const Tensor& tensor : kept) impl_->given_inputs.push_back(tensor.defined() ? tensor.raw() : nullptr);
  for (const Tensor& tensor : outputs) impl_->given_outputs.push_back(tensor.raw());
  run(impl_->given_inputs, impl_->given_outputs);
  return outputs;
}

const Program& Session::program() const { return impl_->program; }

size_t Session::arena_bytes() const { return impl_->arena->size; }

}  // namespace octet
