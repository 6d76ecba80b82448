// Compiles the segments, plans the memory between them, runs them.
#include "backends/runtime/session.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/registry.h"
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

}  // namespace

struct Session::Impl {
  Program program;
  std::vector<std::unique_ptr<CompiledSegment>> compiled;  // one per segment
  std::vector<Tensor> tensors;                             // by tensor index: constants and arena views; inputs and outputs during a run
  std::vector<bool> is_fresh;                              // by tensor index: a program output that a segment writes, allocated for each run
  std::shared_ptr<Storage> arena;

  void compile(int threads);
  void plan_memory();
  void bind_inputs(const std::vector<Tensor>& inputs);
  void run_segment(size_t index);
};

void Session::Impl::compile(int threads) {
  std::map<std::string, std::unique_ptr<Backend>> backends;
  for (const Segment& segment : program.segments) {
    std::unique_ptr<Backend>& backend = backends[segment.backend];
    if (backend == nullptr) {
      backend = make_backend(segment.backend);
      check_versions(program, *backend);
    }
    compiled.push_back(backend->compile(program, segment, threads));
  }
}

void Session::Impl::plan_memory() {
  tensors.resize(program.tensors.size());
  is_fresh.assign(program.tensors.size(), false);
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].role == ProgramTensor::Role::kConstant) tensors[i] = program.tensors[i].data;
  const std::set<int> outputs(program.outputs.begin(), program.outputs.end());
  std::map<int, size_t> buffer_of;  // tensor index -> buffer
  std::vector<ArenaBuffer> buffers;
  for (size_t step = 0; step < program.segments.size(); ++step) {
    for (int index : program.segments[step].outputs) {
      if (outputs.contains(index)) {
        is_fresh[static_cast<size_t>(index)] = true;
        continue;
      }
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
  const Tensor block = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(plan.bytes)});
  arena = block.storage();
  for (const auto& [index, buffer] : buffer_of) {
    const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
    auto view = std::make_shared<Storage>();
    view->data = arena->data + plan.offsets[buffer];
    view->size = buffers[buffer].bytes;
    view->owner = arena;
    tensors[static_cast<size_t>(index)] = Tensor(std::move(view), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape), 0);
  }
}

void Session::Impl::bind_inputs(const std::vector<Tensor>& inputs) {
  if (inputs.size() != program.inputs.size())
    throw Error("session", "inputs",
                fmt::format("got {} inputs, want {}; give one tensor per input of the model", inputs.size(), program.inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    const size_t index = static_cast<size_t>(program.inputs[i]);
    const ProgramTensor& want = program.tensors[index];
    const std::string subject = fmt::format("input {} ({})", i, want.name);
    if (!inputs[i].defined()) throw Error("session", subject, "got no tensor, want one");
    if (inputs[i].dtype() != want.dtype || inputs[i].shape() != want.shape)
      throw Error("session", subject,
                  fmt::format("got {}, want {}[{}]; convert the input", describe(inputs[i]), short_name_of(want.dtype), fmt::join(want.shape, ", ")));
    tensors[index] = inputs[i].contiguous();
  }
}

void Session::Impl::run_segment(size_t index) {
  const Segment& segment = program.segments[index];
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (int tensor : segment.inputs) inputs.push_back(tensors[static_cast<size_t>(tensor)]);
  for (int tensor : segment.outputs) {
    const size_t slot = static_cast<size_t>(tensor);
    if (is_fresh[slot]) tensors[slot] = Tensor::zeros(program.tensors[slot].dtype, program.tensors[slot].shape);
    outputs.push_back(tensors[slot]);
  }
  compiled[index]->run(inputs, outputs);
}

Session::Session(Program program, int threads) : impl_(std::make_unique<Impl>()) {
  OCTET_ASSERT(threads >= 1, "threads");
  verify(program);
  impl_->program = std::move(program);
  impl_->compile(threads);
  impl_->plan_memory();
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  impl_->bind_inputs(inputs);
  for (size_t i = 0; i < impl_->program.segments.size(); ++i) impl_->run_segment(i);
  std::vector<Tensor> outputs;
  std::set<int> given;
  for (int index : impl_->program.outputs) {
    const size_t slot = static_cast<size_t>(index);
    // What a segment wrote is handed over; inputs, constants and repetitions are copied, so that outputs share memory with nothing.
    outputs.push_back(impl_->is_fresh[slot] && given.insert(index).second ? impl_->tensors[slot] : impl_->tensors[slot].clone());
  }
  for (int index : impl_->program.outputs)
    if (impl_->is_fresh[static_cast<size_t>(index)]) impl_->tensors[static_cast<size_t>(index)] = Tensor();
  for (int index : impl_->program.inputs)
    if (index >= 0) impl_->tensors[static_cast<size_t>(index)] = Tensor();
  return outputs;
}

const Program& Session::program() const { return impl_->program; }

size_t Session::arena_bytes() const { return impl_->arena->size; }

}  // namespace octet
