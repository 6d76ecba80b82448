// The C interface when an allocation, a mapping or a write fails: every call gives a status and one
// line of text, works when called again, and leaves nothing in memory or on disk. Every fault is
// tried, or a sample where there are very many (all with [long]).
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "lowering/program/artifact.h"
#include "tests/backends/scratch_folder.h"
#include "tests/backends/small_programs.h"
#include "tests/faults/fault_shim.h"
#include "tests/fuzz/seed_programs.h"

namespace octet::test_runtime_faults {
namespace {

struct Fault {
  fault_kind kind = FAULT_NONE;
  long nth = 0;
  bool all = false;
};

// Functions of oneDNN that do not survive a failed allocation inside them.
constexpr const char* kFaultsOfOneDnn[] = {
    // An exception leaves a block allocated that only oneDNN knows.
    "dnnl_primitive_create",
    // Implementations that run another primitive copy the map of arguments
    // (brgemm_deconvolution_fwd_t::execute). Where that throws, the map is freed twice.
    "dnnl_primitive_execute",
};

bool is_fault_of_onednn(const std::string& report) {
  return std::any_of(std::begin(kFaultsOfOneDnn), std::end(kFaultsOfOneDnn),
                     [&](const char* name) { return report.find(name) != std::string::npos; });
}

// Uses a file from octet_load to octet_free, and watches the calls.
class Use {
 public:
  Use(std::filesystem::path path, octet_options options)
      : path_(std::move(path)), options_(options) {
    options_.size = sizeof(options_);
    error_.reserve(4096);  // before counting starts
    Model model(octet_load(path_.c_str(), &options_));
    INFO(octet_last_error());
    REQUIRE(model.get() != nullptr);
    note_shapes(model.get());
    if (is_open_) REQUIRE(octet_bind(model.get(), shapes_.data()) == OCTET_OK);
    note_sizes(model.get());
    for (int i = 0; i < 3; ++i) watched({});  // the first ones fill caches that stay
    want_ = outputs_;
  }

  long calls(fault_kind kind) { return watched({kind, 0, false}); }

  // What is wrong in a run with the fault, or "".
  std::string check(const Fault& fault) {
    error_.clear();
    wrong_.clear();
    const long before = fault_live_blocks();
    watched(fault);
    const long left = fault_live_blocks() - before;
    // The C library keeps what it allocated for a thread that ended, or not, as the threads race.
    if (options_.threads < 2 && left != 0) note(fmt::format("{} blocks left", left));
    if (outputs_ != want_) note("other outputs");
    return wrong_;
  }

  // As above, in a separate process, which may crash: then the signal, and where the fault was.
  // "" also for what oneDNN does wrong.
  std::string check_apart(const Fault& fault, const std::filesystem::path& report) {
    const int file = ::open(report.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    REQUIRE(file >= 0);
    const pid_t child = fork();
    if (child == 0) {
      for (const int number : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(number, SIG_DFL);
      ::close(STDERR_FILENO);  // the C library says why it aborts
      fault_report_to(file);
      const std::string wrong = check(fault);
      const bool is_written = ::write(file, wrong.data(), wrong.size()) >= 0;
      ::_exit(is_written && wrong.empty() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ::close(file);
    std::string text = read_bytes(report);
    std::filesystem::remove(report);
    if (text.starts_with("hit")) ++failures_;
    if (status == 0 || is_fault_of_onednn(text)) return "";
    return fmt::format("status {}, {}", status, text);
  }

  int failures() const { return failures_; }

 private:
  struct Free {
    void operator()(octet_model* model) const { octet_free(model); }
  };
  using Model = std::unique_ptr<octet_model, Free>;

  void note_shapes(const octet_model* model) {
    octet_tensor_info info{};
    info.size = sizeof(info);
    sizes_.resize(octet_input_count(model));
    for (size_t i = 0; i < sizes_.size(); ++i) {
      REQUIRE(octet_input(model, i, &info) == OCTET_OK);
      for (int d = 0; d < info.rank; ++d) {
        const bool is_open = info.shape[d] < 0;
        is_open_ |= is_open;
        sizes_[i].push_back(is_open ? info.min_shape[d] : info.shape[d]);
      }
    }
    for (const std::vector<int64_t>& sizes : sizes_) shapes_.push_back(sizes.data());
  }

  void note_sizes(const octet_model* model) {
    octet_tensor_info info{};
    info.size = sizeof(info);
    for (size_t i = 0; i < octet_input_count(model); ++i) {
      REQUIRE(octet_input(model, i, &info) == OCTET_OK);
      inputs_.emplace_back(info.bytes + 1);
    }
    for (size_t i = 0; i < octet_output_count(model); ++i) {
      REQUIRE(octet_output(model, i, &info) == OCTET_OK);
      outputs_.emplace_back(info.bytes + 1);
    }
    for (std::vector<std::byte>& input : inputs_) given_.push_back(input.data());
    for (std::vector<std::byte>& output : outputs_) wanted_.push_back(output.data());
  }

  // Calls, and after a failure once more without the fault.
  template <typename Call>
  void call(const Call& call) {
    if (call()) return;
    seen_ = std::max(seen_, fault_end());
    const char* error = octet_last_error();
    const bool is_line = *error != '\0' && std::strchr(error, '\n') == nullptr;
    error_ = error;
    ++failures_;
    if (!is_line) note("not one line");
    if (!call()) note("fails once more");
  }

  void note(const std::string& what) { wrong_ += fmt::format("{} ({}); ", what, error_); }

  octet_status run(octet_model* model) { return octet_run(model, given_.data(), wanted_.data()); }

  // Returns how many calls of the fault's kind there were.
  long watched(const Fault& fault) {
    octet_model *model = nullptr, *copy = nullptr;
    for (std::vector<std::byte>& output : outputs_)
      std::fill(output.begin(), output.end(), std::byte{0});
    octet_tensor_info info{};
    info.size = sizeof(info);
    int64_t shape[8];
    seen_ = 0;
    fault_begin(fault.kind, fault.nth, fault.all ? 1 : 0);
    call([&] { return (model = octet_load(path_.c_str(), &options_)) != nullptr; });
    if (is_open_) call([&] { return octet_bind(model, shapes_.data()) == OCTET_OK; });
    for (size_t i = 0; i < outputs_.size(); ++i)
      call([&] { return octet_output(model, i, &info) == OCTET_OK; });
    for (int i = 0; i < 2; ++i) call([&] { return run(model) == OCTET_OK; });
    for (size_t i = 0; i < outputs_.size(); ++i)
      call([&] { return octet_output_shape(model, i, shape) == OCTET_OK; });
    octet_warning(model, 0);
    call([&] { return octet_reset_states(model) == OCTET_OK; });
    call([&] { return (copy = octet_duplicate(model)) != nullptr; });
    octet_free(model);
    if (is_open_) call([&] { return octet_bind(copy, shapes_.data()) == OCTET_OK; });
    call([&] { return run(copy) == OCTET_OK; });
    octet_free(copy);
    return std::max(seen_, fault_end());
  }

  std::filesystem::path path_;
  octet_options options_;
  bool is_open_ = false;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<const int64_t*> shapes_;
  std::vector<std::vector<std::byte>> inputs_, outputs_, want_;
  std::vector<const void*> given_;
  std::vector<void*> wanted_;
  long seen_ = 0;
  int failures_ = 0;
  std::string error_, wrong_;
};

// 1 to `calls`, or about `most` of them.
std::vector<long> some_of(long calls, long most) {
  std::vector<long> chosen;
  std::mt19937 random(static_cast<unsigned>(calls));
  const long step = std::max(calls / most, 1L);
  for (long first = 1; first <= calls; first += step)
    chosen.push_back(step == 1 ? first
                               : std::min(first + static_cast<long>(random()) % step, calls));
  return chosen;
}

void check_faults(const Program& program, fault_kind kind, long most, octet_options options = {}) {
  const Folder folder("octet_faults");
  std::filesystem::create_directories(folder.path());
  const std::filesystem::path path = folder.path() / "program.octet";
  save_program(program, path);
  Use use(path, options);
  const long calls = use.calls(kind);
  const bool is_apart = kind == FAULT_ALLOC && program.segments.front().backend == "onednn";
  for (const bool all : {false, true})
    for (long nth : some_of(calls, most)) {
      CAPTURE(kind, nth, all);
      const Fault fault{kind, nth, all};
      CHECK((is_apart ? use.check_apart(fault, folder.path() / "report") : use.check(fault)) == "");
      CHECK(folder.files().size() == 1);
    }
  CHECK((use.failures() > 0 || calls == 0));
}

void check_seeds(const std::string& backend, long most) {
  for (const fuzz::SeedProgram& seed : fuzz::seed_programs()) {
    if (seed.program.segments.empty() || seed.program.segments.front().backend != backend) continue;
    CAPTURE(seed.name);
    check_faults(seed.program, FAULT_ALLOC, most);
  }
}

// x f32[2, 256] -> a linear layer whose weights XNNPACK packs into a large block.
Program large_linear(const std::string& backend) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 256}),
            w = b.constant("w", random_floats({128, 256}));
  const std::vector<int> inputs = {x, w, -1};
  b.output(b.op("linear", inputs, "y", DType::kFloat32, {2, 128}));
  return with_one_segment(b.finish(), backend);
}

bool has_backend(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("each allocation fails once, and from there on, on the reference", "[faults]") {
  check_seeds("reference", 100);
}

TEST_CASE("each allocation fails once, and from there on, on XNNPACK", "[faults]") {
  check_seeds("xnnpack", 100);
  if (has_backend("xnnpack")) check_faults(large_linear("xnnpack"), FAULT_ALLOC, 1000);
}

TEST_CASE("each allocation fails once, and from there on, on XNNPACK with two threads",
          "[faults]") {
  octet_options options{};
  options.threads = 2;
  if (has_backend("xnnpack")) check_faults(large_linear("xnnpack"), FAULT_ALLOC, 1000, options);
}

TEST_CASE("each allocation fails once, and from there on, on oneDNN", "[faults][onednn]") {
  check_seeds("onednn", 100);
}

TEST_CASE("each allocation, on every backend", "[faults][long]") {
  for (const char* backend : {"reference", "xnnpack", "onednn"}) check_seeds(backend, 4000);
}

TEST_CASE("each mapping fails once, and from there on", "[faults]") {
  for (const std::string& backend : backend_names())
    check_faults(large_linear(backend), FAULT_MAP, 1000);
}

TEST_CASE("each write, fsync and rename of a cache fails, and models load as without",
          "[faults][onednn]") {
  if (!has_backend("onednn")) return;
  const Program program = large_linear("onednn");
  for (const fault_kind kind : {FAULT_WRITE, FAULT_SYNC, FAULT_RENAME})
    for (long nth = 1, calls = 1; nth <= calls; ++nth) {
      CAPTURE(kind, nth);
      const Folder folder("octet_fault_cache");
      const std::filesystem::path path = folder.path() / "program.octet",
                                  cache = folder.path() / "cache";
      std::filesystem::create_directories(folder.path());
      save_program(program, path);
      octet_options options{};
      options.size = sizeof(options);
      options.cache_folder = cache.c_str();
      fault_begin(kind, nth, 0);
      octet_model* model = octet_load(path.c_str(), &options);
      calls = fault_end();
      CHECK(model != nullptr);
      CHECK((octet_warning(model, 0) != nullptr) == (nth <= calls));
      octet_free(model);
      CHECK(std::distance(std::filesystem::directory_iterator(cache), {}) ==
            (nth <= calls ? 0 : 1));
    }
}

TEST_CASE("each write, fsync and rename of a file fails, and the file stays as it was",
          "[faults]") {
  const Folder folder("octet_fault_files");
  std::filesystem::create_directories(folder.path());
  const std::filesystem::path path = folder.path() / "program.octet";
  const Program program = large_linear("reference");
  for (const fault_kind kind : {FAULT_WRITE, FAULT_SYNC, FAULT_RENAME})
    for (long nth = 1, calls = 1; nth <= calls; ++nth) {
      CAPTURE(kind, nth);
      write_bytes(path, "before");
      fault_begin(kind, nth, 0);
      const std::string error = error_of([&] { save_program(program, path); });
      calls = fault_end();
      if (nth > calls) {
        CHECK(error == "no Error");
        CHECK(read_bytes(path) == program_bytes(program));
      } else {
        CHECK_THAT(error, Catch::Matchers::Contains("cannot be written"));
        CHECK(read_bytes(path) == "before");
      }
      CHECK(folder.files().size() == 1);
    }
}

}  // namespace octet::test_runtime_faults
