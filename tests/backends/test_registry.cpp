// Backends from outside of the tree, in a separate process, because registering one changes the
// list that other tests go through.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

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

namespace {

struct RaisingSegment : CompiledSegment {
  void run(std::span<const Tensor>, std::span<Tensor>) override { throw 7; }
};

// Its name, and what compile() does.
class OtherBackend : public AnswerBackend {
 public:
  using Compile = std::function<std::unique_ptr<CompiledSegment>()>;
  OtherBackend(std::string name, Compile compile)
      : name_(std::move(name)), compile_(std::move(compile)) {}
  std::string name() const override { return name_; }
  std::unique_ptr<CompiledSegment> compile(const Program&, const Segment&, int) const override {
    return compile_();
  }

 private:
  std::string name_;
  Compile compile_;
};

// What a session says of a backend that is registered as `name`.
std::string message_of(const std::string& name, const BackendMaker& make) {
  register_backend(name, make, [] { return std::make_unique<AnswerSupport>(); });
  Program program = two_segments();
  program.segments[1].backend = name;
  return error_of([&] { Session(program).run({random_floats({2, 3})}); });
}

}  // namespace

TEST_CASE("mistakes of a backend are one line that names it and the ops", "[registry]") {
  const auto compiles = [](const std::string& name, const OtherBackend::Compile& compile) {
    return message_of(name, [=] { return std::make_unique<OtherBackend>(name, compile); });
  };
  CHECK_THAT(
      compiles(
          "no_sram",
          []() -> std::unique_ptr<CompiledSegment> { throw std::runtime_error("out of SRAM"); }),
      Contains("session: no_sram: its compile() of 1 op (") && EndsWith(") says: out of SRAM"));
  CHECK_THAT(compiles("number", []() -> std::unique_ptr<CompiledSegment> { throw 7; }),
             Contains("session: number: its compile() of 1 op (") &&
                 Contains("threw something that is not a std::exception"));
  CHECK_THAT(compiles("null", [] { return nullptr; }),
             Contains("session: null: its compile() of 1 op (") && Contains("returned null"));
  CHECK_THAT(compiles("raising", [] { return std::make_unique<RaisingSegment>(); }),
             Contains("session: raising: its run() of 1 op (") && Contains("threw something"));
  CHECK_THAT(message_of("nothing", [] { return nullptr; }),
             Contains("backend: nothing: the function that makes its backend returned null"));
  CHECK_THAT(message_of("alias", [] { return std::make_unique<AnswerBackend>(); }),
             Contains("backend: alias: its backend says that its name() is \"answer\", want"));
}

}  // namespace octet::test_registry
