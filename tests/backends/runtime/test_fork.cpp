// A forked process runs the models of its parent, and its own, with one thread. Not under the
// thread sanitizer, which forbids threads after a fork.
#if !defined(__SANITIZE_THREAD__)
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "tests/backends/small_programs.h"

namespace octet::test_fork {
namespace {

constexpr int64_t kRows = 256, kColumns = 128;

// x f32[256, 128] -> three linears -> added to the state, which becomes y: enough work for the
// threads of every backend.
Program linears(const std::string& backend) {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {kRows, kColumns};
  const int total = b.state("total", DType::kFloat32, shape);
  int x = b.input("x", DType::kFloat32, shape);
  for (const char* name : {"a", "b", "c"}) {
    const int w = b.constant(std::string(name) + "_w", random_floats({kColumns, kColumns}));
    const std::vector<int> inputs = {x, w, -1};
    x = b.op("linear", inputs, name, DType::kFloat32, shape);
  }
  const std::vector<int> summands = {total, x};
  const int y = b.op("add", summands, "y", DType::kFloat32, shape);
  b.output(y);
  b.becomes(total, y);
  return with_one_segment(b.finish(), backend);
}

using Floats = std::vector<float>;

bool run(octet_model* model, const Tensor& x, Floats& y) {
  y.assign(kRows * kColumns, 0);
  const void* const inputs[] = {x.raw()};
  void* const outputs[] = {y.data()};
  return octet_run(model, inputs, outputs) == OCTET_OK;
}

bool warns_of_fork(const octet_model* model) {
  for (size_t i = 0; octet_warning(model, i) != nullptr; ++i)
    if (std::strcmp(octet_warning(model, i),
                    "threads: this process is a fork, and runs the model with one thread") == 0)
      return true;
  return false;
}

octet_model* load(const std::string& bytes, int threads) {
  octet_options options{};
  options.size = sizeof(options);
  options.threads = threads;
  return octet_load_memory(bytes.data(), bytes.size(), &options);
}

// What is wrong in a process that has the model from its parent; 0: nothing. `want`: of its next
// run, and `first` of the first one of a model; has_threads: the model had several in the parent.
int fault_in_child(octet_model* model, const std::string& bytes, const Tensor& x,
                   const Floats& want, const Floats& first, bool has_threads) {
  Floats y;
  if (!run(model, x, y)) return 1;
  if (y != want) return 2;
  if (warns_of_fork(model) != has_threads) return 3;
  octet_model* const second = octet_duplicate(model);
  octet_model* const own = load(bytes, 2);
  if (second == nullptr || own == nullptr) return 4;
  if (!run(second, x, y) || y != first) return 5;
  if (!run(own, x, y) || y != first) return 6;
  if (warns_of_fork(own) != has_threads) return 7;
  for (octet_model* const each : {model, second, own}) octet_free(each);
  return 0;
}

}  // namespace

TEST_CASE("a forked process runs the models of its parent, whose states are kept, with one thread",
          "[backends][fork]") {
  const Tensor x = random_floats({kRows, kColumns}, -1, 1, 7);
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    const std::string bytes = artifact_bytes(linears(backend));
    octet_model* const one = load(bytes, 1);
    octet_model* const model = load(bytes, 2);
    REQUIRE((one != nullptr && model != nullptr));
    Floats first, second, y;
    REQUIRE((run(one, x, first) && run(one, x, second)));
    octet_free(one);
    REQUIRE(run(model, x, y));
    CHECK(y == first);
    if (warns_of_fork(model)) FAIL("warns of a fork before there is one");
    const bool has_threads = octet_warning(model, 0) == nullptr;  // else there is one CPU
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(300);  // a hang is a failure
      _exit(fault_in_child(model, bytes, x, second, first, has_threads));
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(run(model, x, y));
    CHECK(y == second);
    octet_free(model);
  }
}

}  // namespace octet::test_fork
#endif
