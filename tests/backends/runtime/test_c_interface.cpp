// The C interface: what it reports, its answers to misuse, the example in C, and the dependencies
// of the shared library.
#include <sys/wait.h>

#include <cstdio>
#include <cstring>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "core/base/printable.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

// What the command prints, and its exit status.
struct Printed {
  std::string text;
  int status;
};

Printed run_command(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char block[4096];
  while (const size_t count = std::fread(block, 1, sizeof(block), pipe)) text.append(block, count);
  return {text, WEXITSTATUS(::pclose(pipe))};
}

// A file that exists as long as this object.
struct File {
  File(const std::string& name, const std::string& bytes) : path(temporary_file(name)) {
    write_bytes(path, bytes);
  }
  ~File() { std::filesystem::remove(path); }
  const std::filesystem::path path;
};

octet_tensor_info info_of(octet_status (*ask)(const octet_model*, size_t, octet_tensor_info*),
                          const octet_model* model, size_t index) {
  octet_tensor_info info{};
  info.size = sizeof(info);
  REQUIRE(ask(model, index, &info) == OCTET_OK);
  return info;
}

}  // namespace

TEST_CASE("C: names of a file are shortened and printable in texts", "[backends][c]") {
  std::string name;
  while (name.size() < 1000000) name += "\x1b[31m\r\x07name\xe2\x80\xae\xff";
  Program program = two_segments();
  program.tensor(program.inputs[0]).name = name;
  const auto check_text = [](const std::string& text, const char* wanted) {
    CHECK(text.size() < 20000);
    CHECK_THAT(text, Contains(wanted) && Contains("\\x1b[31m"));
    CHECK(printable_line(text) == text);
  };
  // The file's JSON replaces what is not UTF-8, so the session is asked as well.
  check_text(error_of([&] { Session(program).run({random_floats({2, 2})}); }), "give that shape");
  const std::string bytes = artifact_bytes(program);
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  INFO(octet_last_error());
  REQUIRE(model != nullptr);
  const void* const inputs[] = {nullptr};
  float y[6];
  void* const outputs[] = {y};
  CHECK(octet_run(model, inputs, outputs) == OCTET_FAILED);
  check_text(octet_last_error(), "got no address, want that of 24 bytes");
  octet_free(model);
  program.op(1).kind = name;
  const std::string other = artifact_bytes(program);
  CHECK(octet_load_memory(other.data(), other.size(), nullptr) == nullptr);
  check_text(octet_last_error(), "lower the model again");
}

TEST_CASE(
    "C: a model loads from a file and from memory, tells its inputs and outputs, and runs on every "
    "backend",
    "[backends][c]") {
  const Tensor x = random_integers(DType::kInt8, {1, 4, 6, 6}, 7);
  for (const std::string& backend : backend_names()) {
    const Tensor want = Session(small_conv(backend)).run({x})[0];
    const std::string bytes = artifact_bytes(small_conv(backend));
    const File file("c.octet", bytes);
    octet_options options{};
    options.size = sizeof(options);
    options.threads = OCTET_DEFAULT_THREADS;
    for (octet_model* model : {octet_load(file.path.c_str(), nullptr),
                               octet_load_memory(bytes.data(), bytes.size(), &options)}) {
      INFO(octet_last_error());
      REQUIRE(model != nullptr);
      CHECK(octet_input_count(model) == 1);
      CHECK(octet_output_count(model) == 1);
      const octet_tensor_info input = info_of(octet_input, model, 0),
                              output = info_of(octet_output, model, 0);
      CHECK_THAT(input.name, Equals("x"));
      CHECK(input.dtype == OCTET_INT8);
      CHECK(std::vector<int64_t>(input.shape, input.shape + input.rank) == x.shape());
      CHECK(input.bytes == 144);
      CHECK(input.scale == 0.1f);
      CHECK(input.zero_point == 3);
      CHECK_THAT(output.name, Equals("z"));
      CHECK(output.bytes == want.nbytes());
      std::vector<std::byte> got(output.bytes);
      const void* const inputs[] = {x.raw()};
      void* const outputs[] = {got.data()};
      REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
      CHECK(std::memcmp(got.data(), want.raw(), got.size()) == 0);
      octet_free(model);
    }
  }
}

TEST_CASE("C: a duplicate runs without the model that it came from", "[backends][c]") {
  const Tensor x = random_integers(DType::kInt8, {1, 4, 6, 6}, 7);
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    const Tensor want = Session(small_conv(backend)).run({x})[0];
    const std::string bytes = artifact_bytes(small_conv(backend));
    octet_model* first = octet_load_memory(bytes.data(), bytes.size(), nullptr);
    REQUIRE(first != nullptr);
    octet_model* second = octet_duplicate(first);
    REQUIRE(second != nullptr);
    octet_free(first);
    std::vector<std::byte> got(want.nbytes());
    const void* const inputs[] = {x.raw()};
    void* const outputs[] = {got.data()};
    REQUIRE(octet_run(second, inputs, outputs) == OCTET_OK);
    CHECK(std::memcmp(got.data(), want.raw(), got.size()) == 0);
    octet_free(second);
  }
  CHECK(octet_duplicate(nullptr) == nullptr);
  CHECK_THAT(octet_last_error(), Equals("octet: model: is null, want an address"));
  CHECK(octet_warning(nullptr, 0) == nullptr);
}

TEST_CASE("C: misuse gives a status and a text, never a crash", "[backends][c]") {
  CHECK(octet_load("/nonexistent/x.octet", nullptr) == nullptr);
  CHECK_THAT(octet_last_error(), Equals("artifact: /nonexistent/x.octet: cannot be opened (No such "
                                        "file or directory); check the path"));
  CHECK(octet_load(nullptr, nullptr) == nullptr);
  CHECK_THAT(octet_last_error(), Equals("octet: path: is null, want an address"));
  const octet_options unset{};
  CHECK(octet_load("x.octet", &unset) == nullptr);
  CHECK_THAT(octet_last_error(),
             Equals("octet: octet_options: its member size is 0, want sizeof(octet_options)"));
  for (int threads : {-2, 1025}) {
    octet_options many{};
    many.size = sizeof(many);
    many.threads = threads;
    CHECK(octet_load("x.octet", &many) == nullptr);
    CHECK(octet_last_error() == "octet: octet_options: threads is " + std::to_string(threads) +
                                    ", want 0 to 1024, or OCTET_DEFAULT_THREADS");
  }
  CHECK(octet_load_memory("octet", 5, nullptr) == nullptr);
  CHECK_THAT(octet_last_error(),
             Equals("artifact: memory: has 5 bytes, want at least 8; the file is cut off"));

  const std::string bytes = artifact_bytes(with_constants());
  octet_options small{};
  small.size = sizeof(small);
  small.memory_limit = 10;
  CHECK(octet_load_memory(bytes.data(), bytes.size(), &small) == nullptr);
  CHECK_THAT(octet_last_error(), Contains("needs 354 bytes at once, want at most 10"));
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  CHECK_THAT(octet_last_error(), Equals(""));
  octet_tensor_info info{};
  CHECK(octet_input(model, 0, &info) == OCTET_FAILED);
  info.size = sizeof(info);
  CHECK(octet_output(model, 1, &info) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Equals("octet: index: got 1, want less than 1"));
  CHECK(octet_run(model, nullptr, nullptr) == OCTET_FAILED);
  const void* const nothing[] = {nullptr};
  char y[8];
  void* const outputs[] = {y};
  CHECK(octet_run(model, nothing, outputs) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(),
             Equals("session: input 0 (x): got no address, want that of 10 bytes"));
  octet_free(model);
  octet_free(nullptr);
  CHECK(octet_run(nullptr, nothing, outputs) == OCTET_FAILED);
  CHECK(octet_input_count(nullptr) == 0);
}

TEST_CASE("C: an address that is not a multiple of the element's size is refused",
          "[backends][c]") {
  const std::string bytes = artifact_bytes(two_segments());
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  alignas(4) char x[28] = {}, y[28] = {};
  const auto run = [&](const char* input, char* output) {
    const void* const inputs[] = {input};
    void* const outputs[] = {output};
    return octet_run(model, inputs, outputs);
  };
  CHECK(run(x, y) == OCTET_OK);
  CHECK(run(x + 1, y) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("session: input 0 (x): got address 0x") &&
                                     Contains(", want a multiple of 4, the size of an element"));
  CHECK(run(x, y + 2) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("session: output 0 (y): got address 0x"));
  octet_free(model);
}

TEST_CASE("C: text generation refuses what it cannot do", "[backends][c]") {
  CHECK(octet_load_tokenizer("/nonexistent/t.json") == nullptr);
  CHECK_THAT(octet_last_error(), Contains("tokenizer: /nonexistent/t.json: cannot be "));
  CHECK(octet_load_tokenizer(nullptr) == nullptr);
  const File file("t.json",
                  R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  octet_tokenizer* tokenizer = octet_load_tokenizer(file.path.c_str());
  INFO(octet_last_error());
  REQUIRE(tokenizer != nullptr);
  const std::string bytes = artifact_bytes(with_constants());
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  const octet_take_token take = [](void*, int64_t, const char*) { return 0; };
  CHECK(octet_generate(model, nullptr, "a", nullptr, take, nullptr) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Equals("octet: tokenizer: is null, want an address"));
  CHECK(octet_generate(model, tokenizer, "a", nullptr, nullptr, nullptr) == OCTET_FAILED);
  CHECK(octet_generate(model, tokenizer, "a", nullptr, take, nullptr) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("generate: model: its inputs are"));
  octet_free_tokenizer(tokenizer);
  octet_free_tokenizer(nullptr);
  octet_free(model);
}

TEST_CASE("C: structs of an older header are filled up to their size", "[backends][c]") {
  const std::string bytes = artifact_bytes(with_constants());
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  octet_tensor_info info{};
  info.size = offsetof(octet_tensor_info, scale);
  info.scale = 5;
  REQUIRE(octet_input(model, 0, &info) == OCTET_OK);
  CHECK(info.bytes == 10);
  CHECK(info.scale == 5);
  octet_free(model);
  CHECK(octet_abi_version() == OCTET_ABI_VERSION);
  CHECK_THAT(octet_backends(), Contains("reference"));
}

TEST_CASE("C: the example runs a file, on the shared library alone", "[backends][c][native]") {
  const Tensor x = random_integers(DType::kInt8, {2, 5}, 7);
  const Tensor want = Session(with_constants()).run({x})[0];
  const File file("example.octet", artifact_bytes(with_constants()));
  const File input("example.raw", std::string(reinterpret_cast<const char*>(x.raw()), x.nbytes()));
  const std::string example = OCTET_EXAMPLE;
  const Printed printed =
      run_command(example + " " + file.path.string() + " " + input.path.string() + " 2>/dev/null");
  CHECK(printed.status == 0);
  CHECK(printed.text == std::string(reinterpret_cast<const char*>(want.raw()), want.nbytes()));
  const Printed failed = run_command(example + " /nonexistent.octet 2>&1");
  CHECK(failed.status == 1);
  CHECK_THAT(failed.text, Equals("example: artifact: /nonexistent.octet: cannot be opened (No such "
                                 "file or directory); check the path\n"));
}

TEST_CASE(
    "the shared runtime depends on neither LibTorch nor Python, and shows its interface alone",
    "[backends][c][native]") {
  const std::string needed = run_command("ldd " OCTET_RUNTIME).text;
  CHECK_THAT(needed, Contains("libc.so"));
  for (const char* name : {"libtorch", "libc10", "libpython"}) CHECK_THAT(needed, !Contains(name));
  const std::string symbols = run_command("nm -D --defined-only " OCTET_RUNTIME).text;
  CHECK_THAT(symbols, Contains(" octet_load\n"));
  CHECK_THAT(symbols, Contains("_ZN5octet7SessionC1"));
  for (const char* name : {"nlohmann", "reference", "xnn_"}) CHECK_THAT(symbols, !Contains(name));
}
