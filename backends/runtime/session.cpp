// Holds one compiled program, or with open sizes the most recently used ones.
#include "backends/runtime/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backends/kernels/isa.h"
#include "backends/reference/scratch.h"
#include "backends/registry.h"
#include "backends/runtime/check_program.h"
#include "backends/runtime/compiled_program.h"
#include "backends/runtime/last_logits.h"
#include "backends/runtime/state_memory.h"
#include "backends/runtime/thread_choice.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "lowering/program/control.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/packed_cache.h"
#include "lowering/program/specialize.h"
#include "lowering/program/stored_constant.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns a different address in each thread.
const void* this_thread() {
  thread_local const char place = 0;
  return &place;
}

bool has_shapes(const Program& program, std::span<const int64_t* const> shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    const std::vector<int64_t>& want = program.tensor(program.inputs[i]).shape;
    if (!std::equal(want.begin(), want.end(), shapes[i])) return false;
  }
  return true;
}

std::vector<std::string> backends_with_channels_last(const Program& program) {
  std::vector<std::string> names;
  for (const std::string& name : backends_of(program))
    if (make_backend(name)->takes_channels_last()) names.push_back(name);
  return names;
}

void clean_bool_constants(Program& program) {
  for (ProgramTensor& tensor : program.tensors)
    if (tensor.is_constant()) tensor.data = with_true_bools(tensor.data);
  for (Program& body : program.bodies) clean_bool_constants(body);
}

bool is_empty(const Program& program, const Segment& segment) {
  const auto has_empty = [&](const std::vector<int>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](int index) { return index >= 0 && program.tensor(index).numel() == 0; });
  };
  return std::any_of(segment.ops.begin(), segment.ops.end(), [&](int index) {
    return has_empty(program.op(index).inputs) || has_empty(program.op(index).outputs);
  });
}

// Libraries refuse tensors without elements, such as an empty batch. The reference backend runs
// each op that check_runnable accepts, except ATen ops, which their backend runs at any size.
void run_empty_segments_on_reference(Program& program) {
  for (Program& body : program.bodies) run_empty_segments_on_reference(body);
  const auto is_aten = [&](int index) { return program.op(index).is("aten"); };
  bool changes = false;
  for (Segment& segment : program.segments) {
    if (segment.backend == kControl || !is_empty(program, segment) ||
        std::any_of(segment.ops.begin(), segment.ops.end(), is_aten))
      continue;
    segment.backend = "reference";
    changes = true;
  }
  if (changes) restore_row_major(program, backends_with_channels_last(program));
}

// Formulas in a damaged file may agree only at the sizes that it was lowered at.
void verify_at(const Program& program, const SymbolValues& values) {
  try {
    verify(program);
  } catch (const InternalError& error) {
    throw Error("session", describe(values),
                fmt::format("the program contradicts itself at these sizes: {}; lower the model "
                            "again",
                            error.what()));
  }
}

// Keeps the first elements of a row-major tensor, as a tensor of that shape.
void shrink(Tensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape() == shape) return;
  Tensor first = Tensor::zeros(tensor.dtype(), shape);
  if (first.numel() != 0) std::memcpy(first.raw(), tensor.raw(), first.nbytes());
  tensor = std::move(first);
}

// What packed weights depend on besides the weights.
std::string made_for(const Program& program) {
  std::map<std::string, std::string> versions = {{"octet", OCTET_VERSION}};
  for (const std::string& name : backends_of(program))
    versions.merge(make_backend(name)->versions());
  std::string text;
  for (const auto& [library, version] : versions) text += fmt::format("{} {}, ", library, version);
  return text + "CPU with " + usable_isas();
}

}  // namespace

struct Session::Impl {
  struct Entry {
    SymbolValues values;
    Program program;  // at these values
    size_t bytes;     // used by `compiled`
    std::unique_ptr<CompiledProgram> compiled;
    int threads = 0;  // that it is compiled for

    Entry(SymbolValues given, Program fixed)
        : values(std::move(given)), program(std::move(fixed)), bytes(held_bytes(program)) {}
    void compile(const SessionOptions& options) {
      compiled = std::make_unique<CompiledProgram>(program, options);
      threads = options.threads;
    }
  };

  SessionOptions options;
  std::unique_ptr<PackedCache> cache;  // null without a folder
  std::string thread_warning;          // empty: none
  ThreadChoice choice{CpuTime()};      // for several threads
  bool is_timed = false;               // kernel by kernel
  std::optional<Program> open;         // with open sizes
  // most recently used first; exactly one without open sizes
  std::list<Entry> entries;
  std::vector<const int64_t*> given_shapes;  // of one run
  std::vector<const void*> given_inputs;
  std::vector<void*> given_outputs;
  StateMemory states;
  std::vector<const void*> checked_inputs;  // of one run
  reference::ScratchPool scratch;           // of all segments on the reference
  std::vector<Tensor> bools;                // by input: copies, if bytes other than 0 and 1 occur

  const Program& program() const { return open ? *open : entries.front().program; }
  int threads() const;  // of the next run
  void compile(SymbolValues values);
  void make_room(const Program& wanted);
  // Adds an entry at the front. `fixed` has been checked.
  void add_entry(SymbolValues values, Program fixed);
  // Compiles for the thread count of the next run.
  void compile(Entry& entry);
  void leave_threads_to_parent();
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);
  std::span<const void* const> with_true_bools(std::span<const void* const> inputs);
  void check_tensor(size_t position, const Tensor& tensor) const;
};

int Session::Impl::threads() const {
  return options.threads > 1 && choice.uses_threads() ? options.threads : 1;
}

// Moves the entry of these values to the front, or adds one and drops the least recently used.
void Session::Impl::compile(SymbolValues values) {
  choice.forget_runs();
  const std::list<Entry>::iterator found = std::find_if(
      entries.begin(), entries.end(), [&](const Entry& entry) { return entry.values == values; });
  if (found != entries.end()) return entries.splice(entries.begin(), entries, found);
  Program fixed = specialize(*open, values);
  verify_at(fixed, values);
  check_runnable(fixed, options.memory_limit, "give inputs of other sizes");
  run_empty_segments_on_reference(fixed);
  make_room(fixed);
  add_entry(std::move(values), std::move(fixed));
}

// Drops compiled programs, least recently used first, until this one fits.
void Session::Impl::make_room(const Program& wanted) {
  const size_t limit =
      options.cached_bytes == 0 ? allowed_bytes(options.memory_limit) : options.cached_bytes;
  size_t bytes = options.cached_bytes == 0 ? peak_bytes(wanted) : held_bytes(wanted);
  for (const Entry& entry : entries) bytes = saturating_add(bytes, entry.bytes);
  while (!entries.empty() && (entries.size() >= options.cached_shapes || bytes > limit)) {
    bytes -= entries.back().bytes;
    entries.pop_back();
  }
}

void Session::Impl::add_entry(SymbolValues values, Program fixed) {
  entries.emplace_front(std::move(values), std::move(fixed));
  try {
    compile(entries.front());
  } catch (...) {
    entries.pop_front();
    throw;
  }
  if (cache != nullptr) cache->save();
}

void Session::Impl::compile(Entry& entry) {
  const PackedCache::Use use(cache.get());
  const double start = now();
  SessionOptions now_wanted = options;
  now_wanted.threads = threads();
  entry.compile(now_wanted);
  choice.set_price(now() - start);
  entry.compiled->time_kernels(is_timed);
}

void Session::Impl::leave_threads_to_parent() {
  options.threads = 1;
  thread_warning = "threads: this process is a fork, and runs the model with one thread";
}

// Copies bool inputs that have bytes other than 0 and 1.
std::span<const void* const> Session::Impl::with_true_bools(std::span<const void* const> inputs) {
  const Program& bound = entries.front().program;
  checked_inputs.assign(inputs.begin(), inputs.end());
  bools.resize(inputs.size());
  for (size_t i = 0; i < std::min(inputs.size(), bound.inputs.size()); ++i) {
    if (bound.inputs[i] < 0 || inputs[i] == nullptr) continue;
    const ProgramTensor& tensor = bound.tensor(bound.inputs[i]);
    if (tensor.dtype != DType::kBool) continue;
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(inputs[i]),
                                           static_cast<size_t>(tensor.numel()));
    if (are_bools(bytes)) continue;
    if (!bools[i].defined() || bools[i].shape() != tensor.shape)
      bools[i] = Tensor::zeros(DType::kBool, tensor.shape);
    copy_as_bools(bytes, bools[i].raw());
    checked_inputs[i] = bools[i].raw();
  }
  return checked_inputs;
}

// A run that throws leaves the states as they were.
void Session::Impl::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  const reference::ScratchPool::Use use(scratch);
  if (options.threads > 1 && is_forked_child()) leave_threads_to_parent();
  const bool chooses = options.threads > 1 && !is_timed;
  double start = chooses ? now() : 0;
  if (chooses && choice.is_due(start)) choice.look(start, this_thread(), cpu_time());
  Entry& entry = entries.front();
  if (entry.threads != threads()) {
    compile(entry);
    start = now();
  }
  {
    const reference::StateJournal::Use journal(states.journal());
    entry.compiled->run(with_true_bools(inputs), outputs, states.values(), states.next());
  }
  states.advance();
  if (!chooses) return;
  const double end = now();
  choice.note_run(end, end - start);
}

void Session::Impl::check_tensor(size_t position, const Tensor& tensor) const {
  const ProgramTensor& want = program().tensor(program().inputs[position]);
  const std::string subject = fmt::format("input {} ({})", position, want.name);
  if (!tensor.defined()) throw Error("session", subject, "got no tensor, want one");
  const bool fits = want.sizes.empty() ? tensor.shape() == want.shape
                                       : tensor.shape().size() == want.shape.size();
  if (tensor.dtype() != want.dtype || !fits)
    throw Error("session", subject,
                fmt::format("got {}, want {}[{}]; {}", describe(tensor), short_name_of(want.dtype),
                            to_text(shape_range(program(), want)),
                            tensor.dtype() != want.dtype ? "convert the input to that dtype"
                            : want.sizes.empty()
                                ? "give that shape, or export the program with dynamic shapes"
                                : "give that shape"));
}

Session::Session(Program program, int threads)
    : Session(std::move(program), SessionOptions{.threads = threads}) {}

Session::Session(Program program, const SessionOptions& options) : impl_(std::make_unique<Impl>()) {
  OCTET_ASSERT(options.threads >= 1 && options.cached_shapes >= 1, "threads and cached_shapes");
  verify(program);
  check_backends(program);  // first: check_runnable asks a backend about custom ops
  check_runnable(program, options.memory_limit);
  restore_row_major(program, backends_with_channels_last(program));
  clean_bool_constants(program);
  impl_->options = options;
  // 0 in a duplicate, whose program has the change.
  if (const size_t count = std::exchange(impl_->options.logits_to_keep, 0);
      count != 0 && !keep_last_logits(program, std::min<size_t>(count, kLargestSize)))
    throw Error("session", "logits_to_keep",
                fmt::format("is {}, and the first output does not come from a linear over all "
                            "positions; leave it 0",
                            count));
  if (const int cpus = options.threads == 1 ? 1 : usable_cpus(); options.threads > cpus) {
    impl_->options.threads = cpus;
    impl_->thread_warning =
        fmt::format("threads: {} are wanted, and this process may use {} CPU{}; {} run{}",
                    options.threads, cpus, cpus == 1 ? "" : "s", cpus, cpus == 1 ? "s" : "");
  }
  if (impl_->options.threads > 1 && is_forked_child()) impl_->leave_threads_to_parent();
  if (is_too_small_for_threads(program)) impl_->options.threads = 1;
  if (const int wanted = impl_->options.threads; wanted > 1)
    impl_->choice = ThreadChoice(cpu_time(), [wanted] { return are_cpus_taken(wanted); });
  if (!options.cache_folder.empty() && !program.checksum.empty())
    impl_->cache = std::make_unique<PackedCache>(options.cache_folder, program.checksum,
                                                 made_for(program), program.file);
  if (program.symbols.empty()) {
    impl_->add_entry({}, std::move(program));
  } else {
    impl_->open = std::move(program);
  }
  impl_->states.add_states(this->program());
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session Session::duplicate() const { return Session(program(), impl_->options); }

void Session::bind(std::span<const int64_t* const> shapes) {
  check_count("input", shapes.size(), program().inputs.size());
  if (!impl_->entries.empty() && has_shapes(impl_->entries.front().program, shapes)) return;
  impl_->compile(bind_symbols(program(), shapes, "session"));
}

void Session::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (impl_->entries.empty()) impl_->compile(hints_of(program()));
  impl_->run(inputs, outputs);
}

void Session::reset_states() { impl_->states.reset(program()); }

void Session::copy_states(const Session& from) { impl_->states.copy(from.impl_->states); }

void Session::truncate_states(int64_t count) { impl_->states.truncate(program(), count); }

std::vector<Tensor> Session::run(const std::vector<Tensor>& inputs) {
  check_count("input", inputs.size(), program().inputs.size());
  std::vector<Tensor> kept;  // contiguous copies, where needed
  impl_->given_shapes.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    kept.emplace_back();
    impl_->given_shapes.push_back(nullptr);
    if (program().inputs[i] < 0) continue;
    impl_->check_tensor(i, inputs[i]);
    impl_->given_shapes.back() = inputs[i].shape().data();
    kept.back() = inputs[i].contiguous();
  }
  if (impl_->open) bind(impl_->given_shapes);
  const Program& bound = bound_program();
  std::vector<Tensor> outputs;
  for (int index : bound.outputs) {
    const ProgramTensor& tensor = bound.tensor(index);
    outputs.push_back(Tensor::zeros(tensor.dtype, tensor.shape));
  }
  impl_->given_inputs.clear();
  impl_->given_outputs.clear();
  for (const Tensor& tensor : kept)
    impl_->given_inputs.push_back(tensor.defined() ? tensor.raw() : nullptr);
  for (const Tensor& tensor : outputs) impl_->given_outputs.push_back(tensor.raw());
  run(impl_->given_inputs, impl_->given_outputs);
  for (size_t i = 0; i < outputs.size(); ++i) shrink(outputs[i], output_shape(i));
  return outputs;
}

std::vector<int64_t> Session::output_shape(size_t output) const {
  OCTET_ASSERT(output < program().outputs.size(), "an output of the program");
  return impl_->entries.empty() ? program().tensor(program().outputs[output]).shape
                                : impl_->entries.front().compiled->output_shape(output);
}

const Program& Session::program() const { return impl_->program(); }

const Program& Session::bound_program() const {
  return impl_->entries.empty() ? program() : impl_->entries.front().program;
}

size_t Session::arena_bytes() const {
  return impl_->entries.empty() ? 0 : impl_->entries.front().compiled->arena_bytes();
}

int Session::threads() const { return impl_->threads(); }

std::vector<KernelReport> Session::kernels() const {
  return impl_->entries.empty() ? std::vector<KernelReport>()
                                : impl_->entries.front().compiled->kernels();
}

std::vector<std::string> Session::warnings() const {
  std::vector<std::string> lines;
  if (!impl_->entries.empty()) lines = impl_->entries.front().compiled->warnings();
  if (!impl_->thread_warning.empty()) lines.push_back(impl_->thread_warning);
  if (impl_->cache != nullptr && !impl_->cache->warning().empty())
    lines.push_back(impl_->cache->warning());
  return lines;
}

void Session::time_kernels(bool on) {
  impl_->is_timed = on;
  if (!impl_->entries.empty()) impl_->entries.front().compiled->time_kernels(on);
}

size_t Session::compiled_count() const { return impl_->entries.size(); }

}  // namespace octet
