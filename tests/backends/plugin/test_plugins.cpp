// Plug-ins (backends/runtime/octet_plugin.h), loaded without LibTorch, through C++ and octet.h.
// ctest runs each test in a separate process, so that others do not see what it loads.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <catch2/catch.hpp>

#include "backends/conformance/conformance.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/load_plugin.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "lowering/program/stored_constant.h"
#include "tests/backends/small_programs.h"

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace octet::test_plugins {
namespace {

const std::string kPlain = OCTET_PLUGINS "/plain.so";
const std::string kMirror = OCTET_PLUGINS "/mirror.so";
const std::string kBad = OCTET_PLUGINS "/bad.so";

// The text of the Error that `action` throws while the variable names a mistake.
std::string error_with(const char* variable, const std::string& mistake,
                       const std::function<void()>& action) {
  ::setenv(variable, mistake.c_str(), 1);
  std::string text = error_of(action);
  ::unsetenv(variable);
  CHECK(text.find('\n') == std::string::npos);
  return text;
}

// x f32[2, 3] -> x + 2 * x -> + a constant -> y, on the backend.
Program additions(const std::string& backend) {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {2, 3};
  const int x = b.input("x", DType::kFloat32, shape);
  const int c = b.constant("c", random_floats(shape, -1, 1, 3));
  const std::vector<int> twice = {x, x};
  const int sum = b.op("add", twice, "sum", DType::kFloat32, shape, {}, {{"alpha", 2.0}});
  const std::vector<int> last = {sum, c};
  b.output(b.op("add", last, "y", DType::kFloat32, shape));
  return with_one_segment(b.finish(), backend);
}

// As lower() does.
Program lowered_for(Program program, const std::string& backend) {
  program.backend = backend;
  program.versions = make_support(backend)->versions();
  return program;
}

std::vector<float> run(const Program& program) {
  return floats_of(Session(program).run({random_floats({2, 3})}).at(0));
}

}  // namespace

TEST_CASE("the C interface loads plug-ins, and names itself as the remedy", "[plugin]") {
  Program program = additions("plain");
  const std::string unnamed = artifact_bytes(program);
  program.versions = {{"plain", "1.2.0"}, {"plain:library", "xxh64 0123456789abcdef"}};
  const std::string bytes = artifact_bytes(program);
  const auto load = [](const std::string& file) {
    return octet_load_memory(file.data(), file.size(), nullptr);
  };
  CHECK(load(bytes) == nullptr);
  CHECK(std::string(octet_last_error()) ==
        "session: plain: the program needs this plug-in, version 1.2.0 (xxh64 0123456789abcdef), "
        "which is not loaded; load its library (octet_load_plugin)");
  CHECK(load(unnamed) == nullptr);
  CHECK_THAT(octet_last_error(),
             EndsWith("load the library that registers it (octet_load_plugin)"));
  const std::string before = octet_backends();
  CHECK(octet_load_plugin(nullptr) == OCTET_FAILED);
  CHECK(std::string(octet_last_error()) == "octet: path: is null, want an address");
  CHECK(octet_load_plugin("/absent/plain.so") == OCTET_FAILED);
  CHECK(std::string(octet_last_error()) == "library: /absent/plain.so: not found; check the path");
  CHECK(octet_load_plugin(kPlain.c_str()) == OCTET_OK);
  CHECK(octet_load_plugin(kPlain.c_str()) == OCTET_OK);
  CHECK(octet_backends() == before + " plain");
  octet_model* const model = load(unnamed);
  REQUIRE(model != nullptr);
  octet_model* const second = octet_duplicate(model);
  const Tensor x = random_floats({2, 3});
  for (octet_model* each : {model, second}) {
    std::vector<float> y(6);
    const void* const inputs[] = {x.raw()};
    void* const outputs[] = {y.data()};
    CHECK(octet_run(each, inputs, outputs) == OCTET_OK);
    CHECK(y == run(additions("reference")));
    octet_free(each);
  }
}

TEST_CASE("exceptions of a plug-in's classes are one line", "[plugin]") {
  const char* const kVariable = "OCTET_MIRROR_FAILS";
  CHECK(error_with(kVariable, "entry", [] { load_plugin(kMirror); }) ==
        "library: " + kMirror + ": its octet_plugin_entry says: there is no mirror on the wall");
  load_plugin(kMirror);
  const auto run_it = [] { run(additions("mirror")); };
  CHECK(error_with(kVariable, "compile_null", run_it) ==
        "session: mirror: its compile() of 2 ops (sum, y) returned null; return a segment, or "
        "refuse the ops in accepts()");
  CHECK(error_with(kVariable, "run", run_it) ==
        "session: mirror: its run() of 2 ops (sum, y) says: mirror: sram: got 2 MB, want at most "
        "1 MB");
  CHECK_THAT(error_with(kVariable, "run_int", run_it),
             EndsWith("says: it threw something that is not a std::exception; throw an "
                      "octet::Error"));
  CHECK(error_of(run_it) == "no Error");
}

TEST_CASE("a plug-in in C runs a file", "[plugin]") {
  CHECK(load_plugin(kPlain) == "plain");
  CHECK(load_plugin(kPlain) == "plain");  // is there already
  CHECK(backend_names().back() == "plain");
  const Program program = lowered_for(additions("plain"), "plain");
  CHECK(program.versions.at("plain") == "1.2.0");
  CHECK_THAT(program.versions.at("plain:library"), StartsWith("xxh64 ") && !Contains("0000000000"));
  CHECK(run(program) == run(additions("reference")));
  CHECK(Session(program).warnings().empty());
  CHECK(make_support("plain")->kinds() == std::vector<std::string_view>{"add"});
  CHECK(make_support("plain")->accepts(two_segments(), two_segments().ops[0]).reason() ==
        "it has no unary");
}

TEST_CASE("a plug-in conforms, in C and with every op in C++", "[plugin]") {
  load_plugin(kPlain);
  load_plugin(kMirror);
  for (const char* name : {"plain", "mirror"}) {
    const conformance::ConformanceOptions options{.backend = name, .is_quick = true};
    size_t exact = 0;
    for (const conformance::CellResult& result : conformance::run_conformance(options)) {
      INFO(result.name << ": " << result.detail);
      CHECK(result.passed());
      CHECK((result.outcome == conformance::Outcome::kExact ||
             result.outcome == conformance::Outcome::kRefused));
      exact += result.outcome == conformance::Outcome::kExact;
    }
    CHECK(exact > (std::string(name) == "plain" ? 0 : 500));
  }
}

TEST_CASE("a file names its plug-in, the version and the library", "[plugin]") {
  load_plugin(kPlain);
  Program program = lowered_for(additions("plain"), "plain");
  const std::string hash = program.versions.at("plain:library");
  program.versions["plain"] = "1.2.9";
  program.versions["plain:library"] = "xxh64 0123456789abcdef";
  const std::vector<std::string> warnings = Session(program).warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "sum and 1 more: the program was lowered with another build of the plug-in plain "
        "(xxh64 0123456789abcdef, here " +
            hash + "); lower the model again");
  program.versions["plain"] = "1.3.0";
  CHECK(error_of([&] { Session session(program); }) ==
        "session: plain: the program was lowered for plain 1.3.0, this build has 1.2.0; lower the "
        "model again");
}

TEST_CASE("what a plug-in's classes say comes through", "[plugin]") {
  load_plugin(kMirror);
  const std::unique_ptr<BackendSupport> support = make_support("mirror");
  CHECK(make_backend("mirror")->versions() ==
        std::map<std::string, std::string>{{"glass", "3.1.4"}, {"mirror", "1.2.0"}});
  CHECK(support->kinds() == make_support("reference")->kinds());
  REQUIRE(support->tolerances().size() == 1);
  CHECK(support->tolerances()[0].relative == 0.5);
  CHECK(support->tolerances()[0].reason == "it is old");
  Session session(additions("mirror"));
  CHECK(session.warnings() == std::vector<std::string>{"sum: it is a mirror"});
  session.time_kernels(true);
  const KernelReport kernel = session.kernels().at(0);
  CHECK(kernel.ops == std::vector<std::string>{"sum"});
  CHECK((kernel.what == "mirrored" && kernel.layout == "rows -> rows" && kernel.seconds == 0.25));
  CHECK(kernel.note == "slow; it is a mirror");

  ::setenv("OCTET_MIRROR_FAILS", "times", 1);
  session.run({random_floats({2, 3})});
  const std::vector<KernelReport> untimed = session.kernels();
  ::unsetenv("OCTET_MIRROR_FAILS");
  REQUIRE(untimed.size() == 2);
  CHECK(untimed[0].seconds == 0);
  CHECK((untimed[1].what == "segment" && untimed[1].kernel == "mirror" && untimed[1].seconds > 0));

  Program program = additions("mirror");
  program.versions["glass"] = "3.2.0";
  CHECK_THAT(error_of([&] { Session other(program); }),
             Contains("was lowered for glass 3.2.0, this build has 3.1.4"));
}

TEST_CASE("the cost of transfers and the sizes that a run decides cross the C interface",
          "[plugin]") {
  load_plugin(kMirror);
  const TransferCost cost = make_support("mirror")->transfer_cost();
  CHECK(cost.macs_per_segment == 1000);
  CHECK(cost.macs_per_byte == 2);
  const Program program = additions("mirror");
  Session session(program);
  const std::vector<Tensor> inputs = {random_floats({2, 3})};
  CHECK(session.run(inputs)[0].shape() == std::vector<int64_t>{2, 3});
  ::setenv("OCTET_MIRROR_FAILS", "row", 1);
  CHECK(session.run(inputs)[0].shape() == std::vector<int64_t>{1, 3});
  ::unsetenv("OCTET_MIRROR_FAILS");
  CHECK(
      error_with("OCTET_MIRROR_FAILS", "rows", [&] { session.run(inputs); }) ==
      "session: mirror: its output_shape() gives output 0 the size 9 in dimension 0, want 0 to 2");
}

TEST_CASE("a file with a custom op names the plug-in that it lacks", "[plugin]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  b.output(b.op("custom", {x}, "y", DType::kFloat32, {2, 3}, {},
                {{"custom_op", std::string("acme.swish.default")}}));
  Program program = with_one_segment(b.finish(), "absent_npu");
  program.versions = {{"absent_npu", "1.2.0"}, {"absent_npu:library", "xxh64 0123456789abcdef"}};
  CHECK(error_of([&] { Session session(program); }) ==
        "session: absent_npu: the program needs this plug-in, version 1.2.0 (xxh64 "
        "0123456789abcdef), which is not loaded; load its library (--library, "
        "octet::register_backend)");
}

TEST_CASE("a plug-in gets constants as the file stores them, in C as floats", "[plugin]") {
  load_plugin(kMirror);
  load_plugin(kPlain);
  const TensorQParams halves{{0.5f}, {1}};
  for (const char* name : {"mirror", "plain"}) {
    Program program = additions(name);
    const std::vector<int8_t> values = {1, 2, 3, 4, 5, -6};
    ProgramTensor constant = constant_tensor(
        "c", stored_constant(Tensor::from<int8_t>(DType::kInt8, {2, 3}, values), halves));
    for (ProgramTensor& tensor : program.tensors)
      if (tensor.is_constant()) tensor = constant;
    Program expected = program;
    expected.segments[0].backend = "reference";
    CHECK(run(program) == run(expected));
  }
}

TEST_CASE("an op that a plug-in's Octet does not know is refused", "[plugin]") {
  load_plugin(kMirror);
  const std::unique_ptr<BackendSupport> support = make_support("mirror");
  Program program = additions("mirror");
  program.ops[0].attributes["carefully"] = true;
  CHECK_THAT(support->accepts(program, program.ops[0]).reason(),
             StartsWith("the plug-in's Octet does not know this op: ") && Contains("carefully"));
  program.ops[0].kind = "telepathy";
  CHECK(support->accepts(program, program.ops[0]).reason() ==
        "the plug-in's Octet does not know ops of the kind telepathy");
  program = additions("mirror");
  program.tensors[0].dtype = DType::kComplex64;
  CHECK(support->accepts(program, program.ops[0]).reason() ==
        "x is complex64, which plug-ins do not know");
}

TEST_CASE("a faulty table of a plug-in is one line", "[plugin]") {
  const std::pair<const char*, const char*> kMistakes[] = {
      {"null", "its octet_plugin_entry returned NULL without a message"},
      {"null_with_message", "its octet_plugin_entry says: there is no NPU here"},
      {"small", "its table has the size 8, want sizeof(octet_plugin), which is"},
      {"huge", "its table has the size 18446744073709551615, want sizeof(octet_plugin)"},
      {"interface", "it has version 99 of the plug-in interface, this Octet has 1; build it"},
      {"no_name", "its table has no name; only later members may be NULL"},
      {"empty_name", "name in its table has no characters, want 1 to 64"},
      {"long_name", "name in its table has too many characters, want 1 to 64"},
      {"odd_name", "its backend \"a b\": is not a valid backend name"},
      {"garbage_name", "is not a valid backend name"},
      {"taken", "its backend reference: is already a backend"},
      {"reserved", "its backend control: is already a backend"},
      {"no_version", "its table has no version"},
      {"empty_version", "version in its table has no characters"},
      {"no_accepts", "its table has no accepts"},
      {"no_compile", "its table has no compile"},
      {"no_run", "its table has no run"},
      {"no_destroy", "its table has no destroy"},
      {"null_list", "its table has no tolerances"},
      {"endless_list", "kinds in its table has 18446744073709551615 entries, want at most"},
      {"null_in_list", "its table has no versions"},
  };
  const std::vector<std::string> before = backend_names();
  for (const auto& [mistake, message] : kMistakes) {
    INFO(mistake);
    CHECK_THAT(error_with("OCTET_BAD_PLUGIN", mistake, [] { load_plugin(kBad); }),
               StartsWith("library: " + kBad + ": ") && Contains(message));
  }
  CHECK(backend_names() == before);
  CHECK(load_plugin(kBad) == "bad");  // without a mistake
}

TEST_CASE("mistakes of a plug-in's functions are one line", "[plugin]") {
  load_plugin(kBad);
  const Program program = additions("bad");
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"status", "got status 77, want OCTET_PLUGIN_OK or OCTET_PLUGIN_FAILED"},
      {"silent", "it failed without a message"},
      {"lines", "out of SRAM"},
      {"unterminated", "xxxxxxxxxx"}};
  for (const auto& [way, message] : ways)
    for (const char* function : {"compile", "run"}) {
      INFO(function << " " << way);
      CHECK_THAT(
          error_with("OCTET_BAD_PLUGIN", function + ("_" + way), [&] { run(program); }),
          StartsWith("session: bad: its ") && Contains("() of 2 ops (sum, y) says: " + message));
    }
  CHECK_THAT(error_with("OCTET_BAD_PLUGIN", "compile_null", [&] { run(program); }),
             Contains("its compile() of 2 ops (sum, y) returned null"));
  CHECK(error_with("OCTET_BAD_PLUGIN", "accepts_no_reason", [&] {
          if (make_support("bad")->accepts(program, program.ops[0]).reason().empty())
            throw Error("test", "accepts", "refuses without a reason");  // lower() reports it
        }) == "test: accepts: refuses without a reason");
  Session session(program);
  CHECK(session.kernels().size() == 1);
  ::setenv("OCTET_BAD_PLUGIN", "endless_kernels", 1);
  CHECK_THROWS_WITH(session.kernels(), Contains("never returns NULL"));
  ::unsetenv("OCTET_BAD_PLUGIN");
}

TEST_CASE("tables of older and newer plug-ins load", "[plugin]") {
  for (const std::string age : {"old", "first", "new"}) {
    const std::string copy = temporary_file(age + ".so").string();
    std::filesystem::copy_file(kBad, copy, std::filesystem::copy_options::overwrite_existing);
    CHECK(error_with("OCTET_BAD_PLUGIN", age, [&] { load_plugin(copy); }) == "no Error");
    // only a new one says that its results have no rows
    CHECK(run(additions(age)).size() == (age == "new" ? 0 : 6));
    CHECK(make_support(age)->transfer_cost().macs_per_segment == (age == "new" ? 7 : 0));
    CHECK(make_support(age)->transfer_cost().macs_per_byte == 0);
    const KernelReport kernel = Session(additions(age)).kernels().at(0);
    CHECK(kernel.what == (age == "old" ? "segment" : ""));  // an old one has no kernel()
    std::filesystem::remove(copy);
  }
}

TEST_CASE("files that are not plug-ins", "[plugin]") {
  const std::string text = temporary_file("text.so").string();
  write_bytes(text, std::string(2000, 'x'));
  CHECK_THAT(error_of([&] { load_plugin(text); }),
             StartsWith("library: " + text + ": cannot be loaded: ") &&
                 EndsWith("; give a shared library that is built for this machine"));
  std::filesystem::remove(text);
  CHECK(error_of([] { load_plugin(OCTET_PLUGINS); }) ==
        "library: " OCTET_PLUGINS ": is a folder; name the shared library in it");
}

TEST_CASE("threads load a plug-in at once, and run it", "[plugin]") {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (std::vector<float>& result : results)
    threads.emplace_back([&result] {
      load_plugin(kMirror);
      for (int i = 0; i < 20; ++i) result = run(additions("mirror"));
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) CHECK(result == run(additions("reference")));
}

TEST_CASE("a forked process runs the plug-ins of its parent", "[plugin]") {
  load_plugin(kMirror);
  Session session(additions("mirror"), 2);
  const Tensor x = random_floats({2, 3});
  const std::vector<float> want = floats_of(session.run({x}).at(0));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    const bool is_same = floats_of(session.run({x}).at(0)) == want;
    _exit(is_same && run(additions("mirror")) == want ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

}  // namespace octet::test_plugins
