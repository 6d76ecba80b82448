// Compiles the segments, plans the memory between them, and runs them.
//
//   x ──▶ [ segment A ] ── t ──▶ [ segment B ] ──▶ y
//
// t gets a place in one block of memory, the arena (lowering/program/arena_plan.h), which is
// allocated once. x and y get none: each run binds them to the caller's memory, so that A reads and
// B writes it without a copy. An output that no segment writes, such as an input that the program
// returns, is copied at the end of a run.
#include "backends/runtime/compiled_program.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "backends/registry.h"
#include "backends/runtime/plugin_backend.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/user_code.h"
#include "lowering/program/arena_plan.h"
#include "lowering/program/control.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// "3.2" of "3.2.1".
std::string major_minor(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find('.', first + 1));
}

// Not for built-in backends, which check each op against the opened library when they compile.
void check_versions(const Program& program, const Backend& backend) {
  if (is_in_build(backend.name())) return;
  for (const auto& [library, version] : backend.versions()) {
    const auto lowered = program.versions.find(library);
    if (lowered == program.versions.end() || major_minor(lowered->second) == major_minor(version))
      continue;
    throw Error(
        "session", library,
        fmt::format("the program was lowered for {} {}, this build has {}; lower the model again",
                    library, lowered->second, version));
  }
}

void check_address(const Program& program, int index, const char* what, size_t position,
                   const void* address) {
  const ProgramTensor& tensor = program.tensor(index);
  const size_t element = size_of(tensor.dtype);
  if (tensor.numel() == 0 ||
      (address != nullptr && reinterpret_cast<uintptr_t>(address) % element == 0))
    return;
  const std::string subject = fmt::format("{} {} ({})", what, position, tensor.name);
  if (address == nullptr)
    throw Error("session", subject,
                fmt::format("got no address, want that of {} bytes",
                            static_cast<size_t>(tensor.numel()) * element));
  throw Error("session", subject,
              fmt::format("got address {}, want a multiple of {}, the size of an element",
                          fmt::ptr(address), element));
}

// "3 ops (conv, relu, ...)"
std::string ops_text(const Program& program, const Segment& segment) {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(segment.ops.size(), 2); ++i)
    names += (i == 0 ? "" : ", ") + program.ops[static_cast<size_t>(segment.ops[i])].name;
  return fmt::format("{} op{} ({}{})", segment.ops.size(), segment.ops.size() == 1 ? "" : "s",
                     names, segment.ops.size() > 2 ? ", ..." : "");
}

// A view of memory that each run provides.
Tensor unbound(const ProgramTensor& tensor) {
  auto storage = std::make_shared<Storage>();
  storage->size = tensor.nbytes();
  return Tensor(std::move(storage), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape),
                0);
}

bool is_conversion(const ProgramOp& op) {
  return op.is("quantize") || op.is("dequantize") || op.is("requantize");
}

// Ops whose integer input is dequantized by a separate call. Products are excluded, since the input
// may belong to a fused addition; if their integers are unused, the segment warns about it.
std::set<std::string> ops_in_floats(const Program& program,
                                    const std::vector<KernelReport>& kernels) {
  std::set<std::string> others;
  for (const ProgramOp& op : program.ops)
    if (is_conversion(op) || op.macs > 0) others.insert(op.name);
  std::set<std::string> names;
  for (const KernelReport& kernel : kernels) {
    const auto is_other = [&](const std::string& op) { return others.contains(op); };
    if (kernel.what == "dequantize" && std::none_of(kernel.ops.begin(), kernel.ops.end(), is_other))
      names.insert(kernel.ops.begin(), kernel.ops.end());
  }
  return names;
}

}  // namespace

void check_count(const char* what, size_t got, size_t want) {
  if (got != want)
    throw Error("session", fmt::format("{}s", what),
                fmt::format("got {} {}s, want {}; give one tensor per {} of the model", got, what,
                            want, what));
}

void check_backends(const Program& program) {
  const std::vector<std::string> known = backend_names();
  for (const std::string& name : backends_of(program)) {
    const auto lowered = program.versions.find(name);
    const auto hash = program.versions.find(hash_key(name));
    if (hash != program.versions.end() && lowered != program.versions.end() &&
        std::find(known.begin(), known.end(), name) == known.end())
      throw Error("session", name,
                  fmt::format("the program needs this plug-in, version {} ({}), which is not "
                              "loaded; load its library ({})",
                              lowered->second, hash->second, kBackendRemedy));
    check_versions(program, *make_backend(name));
  }
}

CompiledProgram::CompiledProgram(const Program& program, const SessionOptions& options)
    : program_(program) {
  OCTET_ASSERT(program.symbols.empty(), "a program whose sizes are open cannot be compiled");
  plan_memory();
  plan_outputs();
  compile(options);
}

void CompiledProgram::compile(const SessionOptions& options) {
  std::map<std::string, std::unique_ptr<Backend>> backends;
  for (const Segment& segment : program_.segments) {
    Step step;
    if (segment.backend == kControl) {
      step.segment = compile_control(program_, segment, options, bodies_);
    } else {
      std::unique_ptr<Backend>& backend = backends[segment.backend];
      if (backend == nullptr) {
        backend = make_backend(segment.backend);
        check_versions(program_, *backend);
      }
      step.segment =
          in_user_code("session", segment.backend,
                       fmt::format("its compile() of {}", ops_text(program_, segment)),
                       [&] { return backend->compile(program_, segment, options.threads); });
      if (step.segment == nullptr)
        throw Error("session", segment.backend,
                    fmt::format("its compile() of {} returned null; return a segment, or refuse "
                                "the ops in accepts()",
                                ops_text(program_, segment)));
    }
    for (int index : segment.inputs) step.inputs.push_back(tensors_[static_cast<size_t>(index)]);
    for (int index : segment.outputs) step.outputs.push_back(tensors_[static_cast<size_t>(index)]);
    steps_.push_back(std::move(step));
  }
}

void CompiledProgram::plan_memory() {
  tensors_.resize(program_.tensors.size());
  for (int index : program_.results()) {
    const ProgramTensor& tensor = program_.tensor(index);
    if (tensor.is_constant()) tensors_[static_cast<size_t>(index)] = constant_data(tensor);
  }
  for (const std::vector<int>& indices : {program_.given(), program_.results()})
    for (int index : indices)
      if (index >= 0 && !tensors_[static_cast<size_t>(index)].defined())
        tensors_[static_cast<size_t>(index)] = unbound(program_.tensor(index));
  TensorArena arena = allocate_arena(program_, buffers_between_segments(program_));
  arena_ = arena.block;
  for (auto& [index, view] : arena.tensors) tensors_[static_cast<size_t>(index)] = std::move(view);
}

void CompiledProgram::plan_outputs() {
  const std::vector<int> given = program_.given(), results = program_.results();
  std::set<int> placed(given.begin(), given.end());
  for (size_t i = 0; i < results.size(); ++i) {
    const bool is_constant = program_.tensor(results[i]).is_constant();
    is_copied_.push_back(is_constant || !placed.insert(results[i]).second);
    if (is_copied_.back()) copied_.push_back({static_cast<size_t>(results[i]), i});
  }
}

void CompiledProgram::bind(int tensor, const void* address) {
  tensors_[static_cast<size_t>(tensor)].storage()->data =
      static_cast<std::byte*>(const_cast<void*>(address));
}

void CompiledProgram::bind_outputs(std::span<void* const> outputs, std::span<const Tensor> next) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_address(program_, program_.outputs[i], "output", i, outputs[i]);
    if (!is_copied_[i]) bind(program_.outputs[i], outputs[i]);
  }
  for (size_t i = 0; i < next.size(); ++i)
    if (!is_copied_[outputs.size() + i]) bind(program_.states[i].next, next[i].raw());
}

void CompiledProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                          std::span<const Tensor> states, std::span<const Tensor> next) {
  check_count("input", inputs.size(), program_.inputs.size());
  check_count("output", outputs.size(), program_.outputs.size());
  OCTET_ASSERT(states.size() == program_.states.size() && next.size() == states.size(),
               "memory for each state, twice");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program_.inputs[i] < 0) continue;
    check_address(program_, program_.inputs[i], "input", i, inputs[i]);
    bind(program_.inputs[i], inputs[i]);
  }
  for (size_t i = 0; i < states.size(); ++i) bind(program_.states[i].value, states[i].raw());
  bind_outputs(outputs, next);
  for (Step& step : steps_) {
    const std::chrono::steady_clock::time_point start =
        is_timed_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    const Segment& segment = program_.segments[static_cast<size_t>(&step - steps_.data())];
    try {
      step.segment->run(step.inputs, step.outputs);
    } catch (...) {
      if (segment.backend == kControl) throw;  // of SessionOptions::before_round
      in_user_code("session", segment.backend,
                   fmt::format("its run() of {}", ops_text(program_, segment)), [] { throw; });
    }
    if (!is_timed_) continue;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    step.seconds = step.seconds == 0 ? seconds : std::min(step.seconds, seconds);
  }
  for (const CopiedOutput& copy : copied_) {
    const Tensor& from = tensors_[copy.tensor];
    void* to = copy.position < outputs.size() ? outputs[copy.position]
                                              : next[copy.position - outputs.size()].raw();
    if (from.numel() != 0) std::memcpy(to, from.raw(), from.nbytes());
  }
}

std::vector<int64_t> CompiledProgram::output_shape(size_t position) const {
  const int tensor = program_.outputs[position];
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<int>& made = program_.segments[i].outputs;
    const auto found = std::find(made.begin(), made.end(), tensor);
    if (found == made.end()) continue;
    std::vector<int64_t> shape =
        steps_[i].segment->output_shape(static_cast<size_t>(found - made.begin()));
    if (!shape.empty()) return shape;
  }
  return program_.tensor(tensor).shape;
}

std::vector<KernelReport> CompiledProgram::kernels() const {
  std::vector<KernelReport> all;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<KernelReport> told = steps_[i].segment->kernels();
    all.insert(all.end(), told.begin(), told.end());
    // A backend that reports no kernel, or times none, has its segment timed.
    const bool has_times =
        std::ranges::any_of(told, [](const KernelReport& kernel) { return kernel.seconds > 0; });
    if (!told.empty() && (has_times || steps_[i].seconds == 0)) continue;
    KernelReport whole{{}, "segment",        program_.segments[i].backend, "rows -> rows",
                       {}, steps_[i].seconds};
    for (int op : program_.segments[i].ops) whole.ops.push_back(program_.op(op).name);
    all.push_back(std::move(whole));
  }
  add_notes(all);
  return all;
}

void CompiledProgram::add_notes(std::vector<KernelReport>& kernels) const {
  std::map<std::string, std::string> notes;                                  // by op
  const bool has_several = program_.backend.find(',') != std::string::npos;  // reasons name them
  for (const auto& [op, reason] : program_.reasons)
    notes[op] = has_several ? fmt::format("not on {}", reason)
                            : fmt::format("not on {}: {}", program_.backend, reason);
  for (const std::string& op : ops_in_floats(program_, kernels))
    notes.try_emplace(op, "computed in floats: there is no kernel for these integers");
  for (const Warning& warning : merged_warnings())
    for (const std::string& op : warning.ops) notes[op] = warning.cause;
  for (KernelReport& kernel : kernels) {
    std::set<std::string> told;
    for (const std::string& op : kernel.ops) {
      const auto found = notes.find(op);
      if (found != notes.end() && told.insert(found->second).second)
        kernel.note += (kernel.note.empty() ? "" : "; ") + found->second;
    }
  }
}

std::vector<Warning> CompiledProgram::merged_warnings() const {
  std::vector<Warning> all;
  for (const Step& step : steps_)
    for (Warning& warning : step.segment->warnings()) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const Warning& known) {
        return known.cause == warning.cause;
      });
      if (same == all.end())
        all.push_back(std::move(warning));
      else
        same->ops.insert(same->ops.end(), warning.ops.begin(), warning.ops.end());
    }
  return all;
}

std::vector<std::string> CompiledProgram::warnings() const {
  std::vector<std::string> lines;
  for (const Warning& warning : merged_warnings()) {
    const std::string others =
        warning.ops.size() == 1 ? "" : fmt::format(" and {} more", warning.ops.size() - 1);
    constexpr size_t kLongestName = 300;
    lines.push_back(fmt::format("{}{}: {}", short_line(warning.ops.front(), kLongestName), others,
                                warning.cause));
  }
  return lines;
}

void CompiledProgram::time_kernels(bool on) {
  is_timed_ = on;
  for (Step& step : steps_) {
    step.seconds = 0;
    step.segment->time_kernels(on);
  }
}

}  // namespace octet
