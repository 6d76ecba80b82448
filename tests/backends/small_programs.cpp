// See the header.
#include "tests/backends/small_programs.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "lowering/artifact.h"
#include "tests/backends/program_builder.h"

namespace octet {

Program two_segments() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  const std::vector<int> of_x = {x};
  const int e = b.op("unary", of_x, "e", DType::kFloat32,
                     {
                         2, 3
  },
                     {}, {{"fn", std::string("exp")}});
  const std::vector<int> of_e = {e};
  const int y = b.op("unary", of_e, "y", DType::kFloat32,
                     {
                         2, 3
  },
                     {}, {{"fn", std::string("neg")}});
  b.output(y);
  Program program = b.finish();
  program.backend = "reference";
  program.segments = {
      {"reference", {0}, {x}, {e}},
      {"reference", {1}, {e}, {y}}
  };
  return program;
}

Program with_constants() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {2, 5}, quantized(0.1f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {4, 5}), per_channel({0.1f, 0.2f, 1e-7f, 0.3f}, 0));
  const int bias = b.constant("bias", random_floats({4}));
  const std::vector<int> inputs = {x, w, bias};
  b.output(b.op("linear", inputs, "y", DType::kInt8,
                {
                    2, 4
  },
                quantized(0.7f, -5), {{"post_min", 0.0}, {"post_max", INFINITY}}));
  return with_one_segment(b.finish(), "reference");
}

Program small_conv(const std::string& backend) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {1, 4, 6, 6}, quantized(0.1f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {8, 4, 3, 3}, 1, -127), per_channel(random_scales(8), 0));
  const int bias = b.constant("bias", random_floats({8}));
  const std::vector<int> inputs = {x, w, bias};
  const int y = b.op("conv", inputs, "y", DType::kInt8,
                     {
                         1, 8, 6, 6
  },
                     quantized(0.2f, -5), {{"stride", ints({1, 1})}, {"padding", ints({1, 1})}, {"dilation", ints({1, 1})}, {"groups", int64_t{1}}});
  const std::vector<int> of_y = {y};
  b.output(b.op("max_pool", of_y, "z", DType::kInt8,
                {
                    1, 8, 3, 3
  },
                quantized(0.2f, -5), {{"kernel_size", ints({2, 2})}, {"stride", ints({2, 2})}}));
  return with_one_segment(b.finish(), backend);
}

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("octet_test_" + std::to_string(::getpid()) + "_" + name);
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string artifact_bytes(const Program& program) {
  const std::filesystem::path path = temporary_file("artifact.octet");
  save_program(program, path);
  std::string bytes = read_bytes(path);
  std::filesystem::remove(path);
  return bytes;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no Error";
}

}  // namespace octet
