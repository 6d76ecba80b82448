#include "tools/python/runtime/model.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/filesystem.h>

#include "core/base/cpus.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

// Lets Python's signal handlers run several times per second, so that Ctrl-C ends a loop. Only the
// main thread runs them.
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

LoweredFile file_of(const Tensor& bytes) {
  LoweredFile file;
  file.program = load_program(std::span<const std::byte>(bytes.raw(), bytes.nbytes()),
                              {.call_spec = &file.call_spec});
  return file;
}

}  // namespace

Model::Model(LoweredFile file, SessionOptions options)
    : program_(std::move(file.program)),
      call_spec_text_(std::move(file.call_spec)),
      options_(completed(std::move(options))),
      process_(getpid()),
      live_(new Live{Session(program_, options_), {}}) {}

Model::Model(const Model& other, Session session)
    : sources(other.sources),
      bytes_(other.bytes_),
      program_(other.program_),
      call_spec_text_(other.call_spec_text_),
      options_(other.options_),
      process_(getpid()),
      live_(new Live{std::move(session), {}}),
      was_forked_(other.was_forked_) {}

Model::Model(const Tensor& bytes, SessionOptions options)
    : Model(file_of(bytes), std::move(options)) {
  bytes_ = bytes;
}

Model::Model(std::string_view bytes, SessionOptions options)
    : Model(copy_of(bytes), std::move(options)) {}

Model::~Model() { leave_to_parent(); }

// Leaks the session in a forked process, because its destructor would wait for threads that exist
// only in the parent.
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

nb::object Model::call_spec() {
  if (!call_spec_.is_valid() && call_spec_text_.empty()) call_spec_ = nb::none();
  if (!call_spec_.is_valid())
    call_spec_ = nb::module_::import_("octet_runtime._call_spec")
                     .attr("CallSpec")(call_spec_text_.c_str(), program_.inputs.size(),
                                       program_.outputs.size());
  return call_spec_;
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

void Model::copy_states(Model& from) {
  if (&from == this) return;
  const std::scoped_lock lock(live_->mutex, from.live_->mutex);
  live_->session.copy_states(from.live_->session);
}

void Model::truncate_states(int64_t count) {
  with_session([&](Session& session) { session.truncate_states(count); });
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
    lines.push_back("threads: this process is a fork, and runs the model with one thread");
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

namespace {

constexpr int kMostThreads = 1024;

[[noreturn]] void raise_type(const std::string& text) {
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

// Reads a session option from Python; false if it has another type.
bool take(nb::handle given, std::filesystem::path& option) { return nb::try_cast(given, option); }
bool take(nb::handle given, size_t& option) { return nb::try_cast(given, option); }
bool take(nb::handle given, int& option) {
  if (nb::try_cast(given, option)) return true;
  option = std::numeric_limits<int>::max();  // for integers beyond the type
  return nb::isinstance<nb::int_>(given);
}

const char* type_of(const std::filesystem::path&) { return "str or os.PathLike"; }
const char* type_of(size_t) { return "int from 0"; }
const char* type_of(int) { return "int"; }

nb::object to_python(const std::filesystem::path& option) {
  return option.empty() ? nb::none() : nb::cast(option);
}
template <typename Number>
nb::object to_python(Number option) {
  return nb::cast(option);
}

std::string signature_of(const char* name, const std::filesystem::path&) {
  return fmt::format("{}: str | os.PathLike | None = None", name);
}
std::string signature_of(const char* name, int) {
  return fmt::format("{}: int | None = None", name);
}
std::string signature_of(const char* name, size_t option) {
  return fmt::format("{}: int = {}", name, option);
}

}  // namespace

SessionOptions session_options_of(const nb::dict& given, const char* stage) {
  SessionOptions options{.threads = 0};
  size_t known = 0;
  std::vector<std::string> names;
  visit_options(
      [&](const char* name, const char*, auto& option) {
        names.emplace_back(name);
        if (!given.contains(name)) return;
        ++known;
        const nb::object value = given[name];
        if (!value.is_none() && !take(value, option))
          raise_type(
              fmt::format("{}: got {}, want {}", name, nb::repr(value).c_str(), type_of(option)));
      },
      options);
  if (known < given.size())
    raise_type(
        fmt::format("unexpected keyword argument; the options are {}", fmt::join(names, ", ")));
  if (given.contains("threads") && !nb::object(given["threads"]).is_none() &&
      (options.threads < 1 || options.threads > kMostThreads))
    throw Error(stage, "threads",
                fmt::format("is {}, want 1 to {}, or None for all CPUs",
                            nb::repr(nb::object(given["threads"])).c_str(), kMostThreads));
  if (options.cached_shapes == 0) throw Error(stage, "cached_shapes", "is 0, want at least 1");
  return options;
}

nb::dict dict_of(const SessionOptions& options) {
  nb::dict dict;
  visit_options(
      [&](const char* name, const char*, const auto& option) { dict[name] = to_python(option); },
      options);
  return dict;
}

std::vector<std::string> session_arguments() {
  std::vector<std::string> rows;
  const SessionOptions defaults;
  visit_options([&](const char* name, const char*,
                    const auto& option) { rows.push_back(signature_of(name, option)); },
                defaults);
  return rows;
}

}  // namespace octet::python
