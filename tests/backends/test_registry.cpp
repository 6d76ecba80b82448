// Backends from outside of the tree, in a separate process, because registering one changes the
// list that other tests go through.
#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "backends/conformance/program_builder.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace octet::test_registry {
namespace {

constexpr float kAnswer = 42;

class AnswerSegment : public CompiledSegment {
 public:
  void run(std::span<const Tensor>, std::span<Tensor> outputs) override {
    for (Tensor& output : outputs)
      std::fill_n(output.data<float>(), static_cast<size_t>(output.numel()), kAnswer);
  }
};

class AnswerBackend : public Backend {
 public:
  std::string name() const override { return "answer"; }
  std::map<std::string, std::string> versions() const override { return {{"deep", "4.2.0"}}; }
  std::unique_ptr<CompiledSegment> compile(const Program&, const Segment&, int) const override {
    return std::make_unique<AnswerSegment>();
  }
};

class AnswerSupport : public BackendSupport {
 public:
  std::string name() const override { return "answer"; }
  std::map<std::string, std::string> versions() const override { return {{"deep", "4.2.0"}}; }
  Verdict accepts(const Program&, const ProgramOp&) const override { return Verdict::accept(); }
};

void register_as(const std::string& name) {
  register_backend(
      name, [] { return std::make_unique<AnswerBackend>(); },
      [] { return std::make_unique<AnswerSupport>(); });
}

}  // namespace

TEST_CASE("a file for a registered backend runs on it, and says so where it is absent",
          "[registry]") {
  Program program = two_segments();
  program.segments[1].backend = "answer";
  const std::string path = std::string(OCTET_BINARY_DIR) + "/answer.octet";
  save_program(program, path);
  CHECK_THAT(
      error_of([&] { Session session(load_program(path)); }),
      Contains("backend: answer: is not in this build, want one of") &&
          Contains("load the library that registers it (--library, octet::register_backend)"));

  register_as("answer");
  CHECK(backend_names().back() == "answer");
  CHECK(make_support("answer")->versions().at("deep") == "4.2.0");
  Session session(load_program(path));
  const std::vector<Tensor> y = session.run({random_floats({2, 3})});
  CHECK(y.at(0).data<float>()[5] == kAnswer);

  program.versions["deep"] = "4.1.9";
  CHECK_THAT(error_of([&] { Session other(program); }),
             Contains("was lowered for deep 4.1.9, this build has 4.2.0"));
}

TEST_CASE("a backend needs a unique name and both halves", "[registry]") {
  CHECK_THAT(error_of([] { register_as("reference"); }),
             Contains("library: reference: is already a backend"));
  register_as("twice");
  CHECK_THAT(error_of([] { register_as("twice"); }),
             Contains("library: twice: is already a backend"));
  for (const char* name : {"", "a b", "a/b", "a.b"})
    CHECK_THAT(error_of([&] { register_as(name); }), Contains("is not a valid backend name"));
  CHECK_THAT(error_of([] { register_backend("half", nullptr, nullptr); }),
             Contains("library: half: got no backend or no support"));
}

}  // namespace octet::test_registry
