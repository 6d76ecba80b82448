// Sessions: checks of inputs, memory between segments, outputs that no segment makes; artifacts and their damage.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/error.h"
#include "lowering/arena_plan.h"
#include "lowering/artifact.h"
#include "tests/backends/program_builder.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

// x -> exp -> neg -> y, one segment per op.
Program two_segments() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  const int e = b.op("unary",
                     {
                         x
  },
                     "e", DType::kFloat32, {2, 3}, {}, {{"fn", std::string("exp")}});
  const int y = b.op("unary",
                     {
                         e
  },
                     "y", DType::kFloat32, {2, 3}, {}, {{"fn", std::string("neg")}});
  b.output(y);
  Program program = b.finish();
  program.backend = "reference";
  program.segments = {
      {"reference", {0}, {x}, {e}},
      {"reference", {1}, {e}, {y}}
  };
  return program;
}

// A linear layer with a constant weight, and qparams with an awkward scale.
Program with_constants() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {2, 5}, quantized(0.1f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {4, 5}), per_channel({0.1f, 0.2f, 1e-7f, 0.3f}, 0));
  const int bias = b.constant("bias", random_floats({4}));
  const int y = b.op("linear",
                     {
                         x, w, bias
  },
                     "y", DType::kInt8, {2, 4}, quantized(0.7f, -5), {{"post_min", 0.0}, {"post_max", INFINITY}});
  b.output(y);
  return with_one_segment(b.finish(), "reference");
}

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("octet_test_" + std::to_string(::getpid()) + "_" + name);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no Error";
}

}  // namespace

TEST_CASE("a session runs segments in order and plans the memory between them", "[backends][session]") {
  Session session(two_segments());
  const Tensor x = random_floats({2, 3});
  const std::vector<Tensor> y = session.run({x});
  REQUIRE(y.size() == 1);
  for (int i = 0; i < 6; ++i) CHECK(y[0].data<float>()[i] == Approx(-std::exp(x.data<float>()[i])));
  CHECK(session.arena_bytes() == 64);
  CHECK(session.run({x})[0].raw() != y[0].raw());
}

TEST_CASE("a session names the input that does not fit", "[backends][session]") {
  Session session(two_segments());
  CHECK_THAT(error_of([&] { session.run({}); }), Contains("got 0 inputs, want 1"));
  CHECK_THAT(error_of([&] { session.run({random_floats({3, 2})}); }), Contains("input 0 (x): got f32[3, 2], want f32[2, 3]"));
  CHECK_THAT(error_of([&] { session.run({Tensor()}); }), Contains("got no tensor"));
}

TEST_CASE("a program may return inputs, constants and one value twice", "[backends][session]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2});
  const int c = b.constant("c", random_floats({2}));
  const int y = b.op("add", {x, c}, "y", DType::kFloat32, {2});
  for (int index : {x, c, y, y}) b.output(index);
  Program program = b.finish();
  program.segments = {
      {"reference", {0}, {x}, {y}}
  };
  Session session(program);
  const Tensor input = random_floats({2});
  const std::vector<Tensor> outputs = session.run({input});
  REQUIRE(outputs.size() == 4);
  CHECK(outputs[0].raw() != input.raw());
  CHECK(outputs[2].raw() != outputs[3].raw());
  CHECK(outputs[2].data<float>()[1] == outputs[0].data<float>()[1] + outputs[1].data<float>()[1]);
}

TEST_CASE("a program for a backend that is not in this build is refused", "[backends][session]") {
  Program program = two_segments();
  program.segments[0].backend = "unheard_of";
  CHECK_THAT(error_of([&] { Session session(program); }), Contains("unheard_of: is not in this build, want one of"));
}

TEST_CASE("a program lowered for another minor version of a library is refused", "[backends][session]") {
  for (const std::string& name : backend_names()) {
    for (const auto& [library, version] : make_backend(name)->versions()) {
      Program program = two_segments();
      program.segments[0].backend = name;
      program.versions[library] = "0.0.7";
      CHECK_THAT(error_of([&] { Session session(program); }), Contains("was lowered for " + library + " 0.0.7, this build has " + version));
    }
  }
}

TEST_CASE("the arena reuses memory of buffers that are dead", "[backends][session]") {
  const ArenaPlan plan = plan_arena({
      {100, 0, 1},
      {64,  1, 2},
      {100, 2, 3},
      {10,  0, 3}
  });
  CHECK(plan.offsets[0] == plan.offsets[2]);
  CHECK(plan.bytes == 128 + 64 + 64);
}

TEST_CASE("an artifact reads back equal and runs the same", "[backends][artifact]") {
  const std::filesystem::path path = temporary_file("round_trip.octet");
  const Program program = with_constants();
  save_program(program, path);
  const Program loaded = load_program(path);
  CHECK(to_text(loaded) == to_text(program));
  CHECK(loaded.tensors[1].qparams == program.tensors[1].qparams);
  CHECK(reinterpret_cast<uintptr_t>(loaded.tensors[1].data.raw()) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(loaded.tensors[2].data.raw()) % 64 == 0);
  const Tensor x = random_integers(DType::kInt8, {2, 5}, 7);
  const Tensor want = Session(program).run({x})[0];
  const Tensor got = Session(loaded).run({x})[0];
  CHECK(std::memcmp(got.raw(), want.raw(), want.nbytes()) == 0);
  std::filesystem::remove(path);
}

TEST_CASE("damaged artifacts give one-line errors", "[backends][artifact]") {
  const std::filesystem::path path = temporary_file("damaged.octet");
  save_program(with_constants(), path);
  const std::string good = read_file(path);
  const auto error_with = [&](const std::string& bytes) {
    write_file(path, bytes);
    return error_of([&] { load_program(path); });
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    return bytes.replace(at, from.size(), to);
  };
  CHECK_THAT(error_with(""), Contains("has 0 bytes, want at least 8"));
  CHECK_THAT(error_with(good.substr(0, 20)), Contains("its header claims"));
  CHECK_THAT(error_with(good.substr(0, good.size() - 8)), Contains("bytes of data"));
  CHECK_THAT(error_with(std::string(8, '\0')), Contains("not JSON"));
  CHECK_THAT(error_with(replaced("\"version\":\"1\"", "\"version\":\"9\"")), Contains("has format version 9, want 1"));
  CHECK_THAT(error_with(replaced("\"format\":\"octet\"", "\"format\":\"tensr\"")), Contains("holds tensors but no program"));
  CHECK_THAT(error_with(replaced("\"dtype\":\"I8\"", "\"dtype\":\"U8\"")), Contains("dtype or shape differ"));
  CHECK_THAT(error_with(replaced("\\\"outputs\\\":[3]", "\\\"outputs\\\":[9]")), Contains("contradicts itself"));
  CHECK_THAT(error_with(replaced("\\\"macs\\\":0", "\\\"macs\\\":{")), Contains("malformed"));
  CHECK_THAT(error_of([&] { load_program("/nonexistent/x.octet"); }), Contains("cannot be opened"));
  CHECK_THAT(error_of([&] { save_program(with_constants(), "/nonexistent/x.octet"); }), Contains("cannot be written"));
  std::filesystem::remove(path);
}

TEST_CASE("no flipped byte in an artifact crashes loading or running", "[backends][artifact]") {
  const std::filesystem::path path = temporary_file("flipped.octet");
  save_program(with_constants(), path);
  const std::string good = read_file(path);
  const Tensor x = random_integers(DType::kInt8, {2, 5}, 7);
  int refused = 0;
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 7)));
    write_file(path, bytes);
    try {
      Session(load_program(path)).run({x});
    } catch (const Error&) {
      ++refused;
    } catch (const InternalError&) {
      ++refused;  // an attribute of another type
    }
  }
  CHECK(refused > 100);
  std::filesystem::remove(path);
}
