#include "tests/backends/small_programs.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "backends/conformance/program_builder.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"

namespace octet {

Program two_segments() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  const std::vector<int> of_x = {x};
  const int e = b.op("unary", of_x, "e", DType::kFloat32, {2, 3}, {}, {{"fn", std::string("exp")}});
  const std::vector<int> of_e = {e};
  const int y = b.op("unary", of_e, "y", DType::kFloat32, {2, 3}, {}, {{"fn", std::string("neg")}});
  b.output(y);
  Program program = b.finish();
  program.backend = "reference";
  program.segments = {{"reference", {0}, {x}, {e}}, {"reference", {1}, {e}, {y}}};
  return program;
}

Program with_constants() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {2, 5}, quantized(0.1f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {4, 5}),
                           per_channel({0.1f, 0.2f, 1e-7f, 0.3f}, 0));
  const int bias = b.constant("bias", random_floats({4}));
  const std::vector<int> inputs = {x, w, bias};
  b.output(b.op("linear", inputs, "y", DType::kInt8, {2, 4}, quantized(0.7f, -5),
                {{"post_min", 0.0}, {"post_max", INFINITY}}));
  return with_one_segment(b.finish(), "reference");
}

Program small_conv(const std::string& backend) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {1, 4, 6, 6}, quantized(0.1f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {8, 4, 3, 3}, 1, -127),
                           per_channel(random_scales(8), 0));
  const int bias = b.constant("bias", random_floats({8}));
  const std::vector<int> inputs = {x, w, bias};
  const int y = b.op("conv", inputs, "y", DType::kInt8, {1, 8, 6, 6}, quantized(0.2f, -5),
                     {{"stride", ints({1, 1})},
                      {"padding", ints({1, 1})},
                      {"dilation", ints({1, 1})},
                      {"groups", int64_t{1}}});
  const std::vector<int> of_y = {y};
  b.output(b.op("max_pool", of_y, "z", DType::kInt8, {1, 8, 3, 3}, quantized(0.2f, -5),
                {{"kernel_size", ints({2, 2})}, {"stride", ints({2, 2})}}));
  return with_one_segment(b.finish(), backend);
}

Program integer_network() {
  ProgramBuilder b;
  const DType u8 = DType::kUInt8;
  const auto conv = [&](const std::string& name, int x, int64_t size, int64_t kernel) {
    const int w =
        b.constant(name + "_w", random_integers(DType::kInt8, {16, 16, kernel, kernel}, 1, -127),
                   per_channel(random_scales(16), 0));
    const std::vector<int> inputs = {x, w, -1};
    const std::vector<int64_t> padding(2, kernel / 2);
    return b.op("conv", inputs, name, u8, {1, 16, size, size}, quantized(0.2f, 100),
                {{"stride", ints({1, 1})}, {"padding", ints(padding)}});
  };
  const int first = conv("first", b.input("x", u8, {1, 16, 8, 8}, quantized(0.1f, 3)), 8, 3);
  const std::vector<int> of_first = {first};
  const int pool = b.op("max_pool", of_first, "pool", u8, {1, 16, 4, 4}, quantized(0.2f, 100),
                        {{"kernel_size", ints({2, 2})}, {"stride", ints({2, 2})}});
  const std::vector<int> summands = {conv("second", pool, 4, 3), conv("third", pool, 4, 1)};
  const int sum = b.op("add", summands, "sum", u8, {1, 16, 4, 4}, quantized(0.2f, 100));
  const std::vector<int> parts = {pool, sum};
  const int cat =
      b.op("cat", parts, "cat", u8, {1, 32, 4, 4}, quantized(0.2f, 100), {{"dim", int64_t{1}}});
  const std::vector<int> of_cat = {cat};
  const int mean = b.op("mean", of_cat, "mean", u8, {1, 32, 1, 1}, quantized(0.1f, 90),
                        {{"dims", ints({2, 3})}, {"keepdim", true}});
  const std::vector<int> of_mean = {mean};
  const int flat = b.op("reshape", of_mean, "flat", u8, {1, 32}, quantized(0.1f, 90));
  const int w = b.constant("w", random_integers(DType::kInt8, {10, 32}, 2, -127),
                           per_channel(random_scales(10), 0));
  const std::vector<int> of_flat = {flat, w, -1};
  b.output(b.op("linear", of_flat, "y", u8, {1, 10}, quantized(0.1f, 128)));
  return with_one_segment(b.finish(), "onednn");
}

namespace {

void open_first(ProgramTensor& tensor, const SizeExpr& size) {
  tensor.sizes.assign(tensor.shape.begin(), tensor.shape.end());
  tensor.sizes[0] = size;
}

}  // namespace

Program open_conv(const std::string& backend) {
  Program program = small_conv(backend);
  program.symbols = {{"n", 1, 16, 1}};
  for (ProgramTensor& tensor : program.tensors)
    if (!tensor.is_constant()) open_first(tensor, SizeExpr::symbol("n"));
  return program;
}

Program open_dynamic_linears(const std::string& backend) {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {2, 5, 40}, narrow = {2, 5, 24};
  const auto linear = [&](int x, const std::string& name) {
    const int64_t in = name == "y" ? 24 : 40;
    const int w = b.constant(
        "w" + name,
        StoredConstant{
            random_integers(DType::kInt8, {24, in}, static_cast<uint32_t>(name[0]), -127),
            Tensor::from<float>(DType::kFloat32, {24, 1}, random_scales(24)), Tensor()});
    return b.op("linear", {x, w, b.constant("b" + name, random_floats({24}))}, name,
                DType::kFloat32, narrow);
  };
  const int x = b.input("x", DType::kFloat32, shape);
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, shape, {},
                     {{"mapping", std::string("asymmetric")}, {"blocks", ints({2, 5, 1})}});
  const int sum = b.op("add", {linear(q, "a"), linear(q, "c")}, "sum", DType::kFloat32, narrow);
  b.output(linear(b.op("fake_quantize_dynamic", {sum}, "r", DType::kFloat32, narrow, {},
                       {{"mapping", std::string("least_error")}}),
                  "y"));
  Program program = with_one_segment(b.finish(), backend);
  program.symbols = {{"n", 1, 16, 2}};
  for (ProgramTensor& tensor : program.tensors)
    if (!tensor.is_constant()) open_first(tensor, SizeExpr::symbol("n"));
  program.ops[0].sizes["blocks"] = {SizeExpr::symbol("n"), 5, 1};
  return program;
}

Program open_attention(const std::string& backend, DType dtype) {
  constexpr DType kF32 = DType::kFloat32;
  ProgramBuilder b;
  const std::vector<int64_t> shape = {2, 6, 24};
  const std::optional<TensorQParams> q =
      dtype == kF32 ? std::nullopt : std::optional(quantized(0.03f, 120));
  const std::vector<int> norm_inputs = {b.input("x", dtype, shape, q),
                                        b.constant("w", random_floats({24})),
                                        b.constant("b", random_floats({24}, -1, 1, 2))};
  const int norm = b.op("layer_norm", norm_inputs, "norm", dtype, shape, q);
  const std::vector<int> of_norm = {norm};
  const int turned =
      b.op("permute", of_norm, "turned", dtype, {2, 24, 6}, q, {{"dims", ints({0, 2, 1})}});
  const std::vector<int> factors = {norm, turned};
  const std::vector<int> scores = {b.op("matmul", factors, "scores", kF32, {2, 6, 6})};
  std::vector<int> weighted = {b.op("softmax", scores, "shares", kF32, {2, 6, 6}),
                               b.op("layer_norm", norm_inputs, "values", kF32, shape)};
  const std::vector<int> mixed = {b.op("matmul", weighted, "mixed", kF32, shape)};
  b.output(b.op("unary", mixed, "y", kF32, shape, {}, {{"fn", std::string("gelu")}}));
  Program program = with_one_segment(b.finish(), backend);
  program.symbols = {{"n", 0, 16, 2}};
  for (ProgramTensor& tensor : program.tensors)
    if (!tensor.is_constant()) open_first(tensor, SizeExpr::symbol("n"));
  return program;
}

Program open_columns() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 4});
  const int y = b.input("y", DType::kFloat32, {2, 3});
  const std::vector<int> of_x = {x};
  const int last = b.op("slice", of_x, "last", DType::kFloat32, {2, 1}, {},
                        {{"dim", int64_t{1}}, {"start", int64_t{3}}, {"step", int64_t{1}}});
  const int sum = b.op("add", {x, x}, "sum", DType::kFloat32, {2, 4});
  for (int index : {last, sum, y}) b.output(index);
  Program program = with_one_segment(b.finish(), "reference");
  program.segments[0].inputs = {x};
  program.segments[0].outputs = {last, sum};
  const SizeExpr n = SizeExpr::symbol("n"), m = SizeExpr::symbol("m"), k = SizeExpr::symbol("k");
  program.symbols = {{"n", 1, 8, 2}, {"m", 2, 9, 4}, {"k", 0, 5, 1}};
  const auto open = [&](int index, const SizeExpr& columns) {
    program.tensor(index).sizes = {n, columns};
  };
  open(x, m);
  open(y, SizeExpr(2) * k + SizeExpr(1));
  open(last, 1);
  open(sum, m);
  program.ops[0].sizes["start"] = {m - SizeExpr(1)};
  return program;
}

Program with_states() {
  constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64;
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 3});
  const int begin = b.constant("begin", random_floats({2, 3})),
            one = b.constant("one", Tensor::from<int64_t>(kI64, {}, std::vector<int64_t>{1}));
  const int total = b.state("total", kF32, {2, 3}, begin), last = b.state("last", kF32, {2, 3}),
            count = b.state("count", kI64, {}), first = b.state("first", kF32, {2, 3}, begin),
            second = b.state("second", kF32, {2, 3});
  const int sum = b.op("add", {total, x}, "sum", kF32, {2, 3});
  b.becomes(total, sum);
  b.becomes(last, x);
  b.becomes(count, b.op("add", {count, one}, "counted", kI64, {}));
  b.becomes(first, second);
  b.becomes(second, first);
  for (int index : {sum, last, count, first}) b.output(index);
  return with_one_segment(b.finish(), "reference");
}

namespace {

// x -> x + x or -x.
Program branch(bool doubles, const std::string& backend) {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  const Attributes neg = {{"fn", std::string("neg")}};
  b.output(doubles ? b.op("add", {x, x}, "y", DType::kFloat32, {2, 3})
                   : b.op("unary", {x}, "y", DType::kFloat32, {2, 3}, {}, neg));
  return with_one_segment(b.finish(), backend);
}

// count, x -> count < 3; x is not read.
Program is_less_than_three() {
  ProgramBuilder b;
  const int count = b.input("count", DType::kInt64, {});
  const int limit =
      b.constant("limit", Tensor::from<int64_t>(DType::kInt64, {}, std::vector<int64_t>{3}));
  const Attributes less = {{"fn", std::string("lt")}};
  b.output(b.op("binary", {count, limit}, "less", DType::kBool, {}, {}, less));
  Program program = with_one_segment(b.finish(), "reference");
  program.inputs.push_back(-1);
  return program;
}

// count, x -> count + 1, x + x.
Program one_round() {
  ProgramBuilder b;
  const int count = b.input("count", DType::kInt64, {}), x = b.input("x", DType::kFloat32, {2, 3});
  const int one =
      b.constant("one", Tensor::from<int64_t>(DType::kInt64, {}, std::vector<int64_t>{1}));
  b.output(b.op("add", {count, one}, "counted", DType::kInt64, {}));
  b.output(b.op("add", {x, x}, "doubled", DType::kFloat32, {2, 3}));
  return with_one_segment(b.finish(), "reference");
}

// sum, row -> sum + row, twice.
Program add_row(const std::string& backend) {
  ProgramBuilder b;
  const int sum = b.input("sum", DType::kFloat32, {3}), row = b.input("row", DType::kFloat32, {3});
  const int next = b.op("add", {sum, row}, "next", DType::kFloat32, {3});
  b.output(next);
  b.output(next);
  return with_one_segment(b.finish(), backend);
}

}  // namespace

Program with_bodies(const std::string& backend) {
  constexpr DType kF32 = DType::kFloat32;
  ProgramBuilder b;
  const int yes = b.input("yes", DType::kBool, {}), x = b.input("x", kF32, {2, 3}),
            begin = b.input("begin", DType::kInt64, {});
  const int zeros = b.constant("zeros", Tensor::zeros(kF32, {3}));
  const Attributes branches = {
      {"bodies", ints({b.body(branch(true, backend)), b.body(branch(false, backend))})}};
  b.output(b.op("cond", {yes, x}, "chosen", kF32, {2, 3}, {}, branches));
  const Attributes rounds = {{"bodies", ints({b.body(is_less_than_three()), b.body(one_round())})}};
  b.output(b.op("while_loop", {begin, x}, "count", DType::kInt64, {}, {}, rounds));
  b.output(b.second_output("grown", {2, 3}));
  const Attributes walk = {
      {"bodies", ints({b.body(add_row(backend))})}, {"carried", int64_t{1}}, {"rows", int64_t{1}}};
  b.output(b.op("scan", {zeros, x}, "sum", kF32, {3}, {}, walk));
  b.output(b.second_output("sums", {2, 3}));
  Program program = b.finish();
  program.backend = backend;
  const auto outputs = [&](int op) { return program.op(op).outputs; };
  program.segments = {{"control", {0}, {yes, x}, outputs(0)},
                      {"control", {1}, {begin, x}, outputs(1)},
                      {"control", {2}, {x}, outputs(2)}};
  return program;
}

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("octet_test_" + std::to_string(::getpid()) + "_" + name);
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

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

std::string fault_of(Program program, const std::function<void(Program&)>& change) {
  change(program);
  try {
    verify(program);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

std::vector<float> floats_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

}  // namespace octet
