#include "tools/python/runtime/model.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/cpus.h"
#include "lowering/program/artifact.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

// Lets Python's signal handlers run, some times a second, so that Ctrl-C ends a loop. It is the
// main thread that has them.
void check_signals() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause(100);
  thread_local Clock::time_point last = {};
  const Clock::time_point now = Clock::now();
  if (now - last < kPause) return;
  last = now;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

SessionOptions completed(SessionOptions options) {
  if (options.threads == 0) options.threads = default_threads();
  options.before_round = check_signals;
  return options;
}

Tensor copy_of(std::string_view bytes) {
  Tensor copy = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(copy.raw(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace

Model::Model(Program program, SessionOptions options)
    : program_(std::move(program)),
      options_(completed(std::move(options))),
      process_(getpid()),
      live_(new Live{Session(program_, options_), {}}) {}

Model::Model(const Model& other, Session session)
    : sources(other.sources),
      bytes_(other.bytes_),
      program_(other.program_),
      options_(other.options_),
      process_(getpid()),
      live_(new Live{std::move(session), {}}),
      was_forked_(other.was_forked_) {}

Model::Model(const Tensor& bytes, SessionOptions options)
    : Model(load_program(std::span<const std::byte>(bytes.raw(), bytes.nbytes())),
            std::move(options)) {
  bytes_ = bytes;
}

Model::Model(std::string_view bytes, SessionOptions options)
    : Model(copy_of(bytes), std::move(options)) {}

Model::~Model() { leave_to_parent(); }

// What waits for threads that this process has not is not ended here.
void Model::leave_to_parent() {
  if (process_ == getpid()) return;
  (void)live_.release();
}

void Model::enter_process() {
  if (process_ == getpid()) return;
  SessionOptions alone = options_;
  alone.threads = 1;
  std::unique_ptr<Live> own(new Live{Session(program_, alone), {}});
  leave_to_parent();
  live_ = std::move(own);
  was_forked_ = options_.threads > 1;
  process_ = getpid();
}

template <typename Action>
auto Model::with_session(const Action& action) {
  const std::lock_guard lock(live_->mutex);
  return action(live_->session);
}

std::vector<Tensor> Model::run(const std::vector<Tensor>& inputs) {
  return with_session([&](Session& session) { return session.run(inputs); });
}

void Model::reset_states() {
  with_session([](Session& session) { session.reset_states(); });
}

std::unique_ptr<Model> Model::duplicate() {
  return with_session([&](Session& session) {
    return std::unique_ptr<Model>(new Model(*this, session.duplicate()));
  });
}

std::vector<std::string> Model::warnings() {
  std::vector<std::string> lines =
      with_session([](Session& session) { return session.warnings(); });
  if (was_forked_)
    lines.push_back("threads: this process was forked off, and runs the model with one thread");
  return lines;
}

std::vector<KernelReport> Model::time_kernels(const std::vector<Tensor>& inputs, int runs) {
  return with_session([&](Session& session) {
    session.run(inputs);
    session.time_kernels(true);
    for (int i = 0; i < runs; ++i) session.run(inputs);
    std::vector<KernelReport> kernels = session.kernels();
    session.time_kernels(false);
    return kernels;
  });
}

}  // namespace octet::python
