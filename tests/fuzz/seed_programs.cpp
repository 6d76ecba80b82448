#include "tests/fuzz/seed_programs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/stored_constant.h"
#include "tests/backends/counted_rows.h"
#include "tests/backends/small_programs.h"

namespace octet::fuzz {
namespace {

constexpr DType kF32 = DType::kFloat32, kI8 = DType::kInt8, kU8 = DType::kUInt8;

TensorQParams step(float scale = 0.1f) { return quantized(scale, 3); }

// Convolutions, integer and float, followed by poolings.
Program convolutions() {
  ProgramBuilder b;
  const int x = b.input("x", kU8, {1, 4, 6, 6}, step());
  const int w = b.constant("w", random_integers(kI8, {8, 2, 3, 3}, 1, -127),
                           per_channel(random_scales(8), 0));
  const int bias = b.constant("bias", random_floats({8}));
  const Attributes window = {{"stride", ints({1, 1})},
                             {"padding", ints({1, 1})},
                             {"dilation", ints({1, 1})},
                             {"groups", int64_t{2}},
                             {"post_min", 0.0}};
  const int y = b.op("conv", {x, w, bias}, "y", kU8, {1, 8, 6, 6}, step(), window);
  const Attributes pool = {
      {"kernel_size", ints({2, 2})}, {"stride", ints({2, 2})}, {"padding", ints({0, 0})}};
  const int max = b.op("max_pool", {y}, "max", kU8, {1, 8, 3, 3}, step(), pool);
  const int average = b.op("avg_pool", {y}, "average", kU8, {1, 8, 3, 3}, step(), pool);
  const int sum = b.op("add", {max, average}, "sum", kU8, {1, 8, 3, 3}, step(0.2f));
  const int real = b.op("dequantize", {sum}, "real", kF32, {1, 8, 3, 3});
  const int wt = b.constant("wt", random_floats({8, 2, 2, 2}));
  const int up = b.op("conv_transpose", {real, wt}, "up", kF32, {1, 2, 6, 6}, {},
                      {{"stride", ints({2, 2})}, {"output_padding", ints({0, 0})}});
  b.output(b.op("adaptive_avg_pool", {up}, "z", kF32, {1, 2, 2, 3}, {},
                {{"output_size", ints({2, 3})}}));
  const int angles = b.constant("angles", random_floats({6, 6}));
  b.output(b.op("rotary", {up, angles, angles}, "turned", kF32, {1, 2, 6, 6}));
  b.output(b.op("mean", {up}, "m", kF32, {1, 2}, {}, {{"dims", ints({2, 3})}, {"keepdim", false}}));
  return b.finish();
}

Program matrices() {
  ProgramBuilder b;
  const int x = b.input("x", kI8, {3, 8}, step());
  const int w =
      b.constant("w", random_integers(kI8, {6, 8}, 1, -127), per_channel(random_scales(6), 0));
  const int bias = b.constant("bias", random_integers(DType::kInt32, {6}, 3, -100, 100),
                              per_channel(random_scales(6, 0.0001f, 0.001f), 0));
  const int y = b.op("linear", {x, w, bias}, "y", kI8, {3, 6}, step(), {{"post_max", 6.0}});
  const int t = b.op("permute", {y}, "t", kI8, {6, 3}, step(), {{"dims", ints({1, 0})}});
  const int scores = b.op("matmul", {y, t}, "scores", kF32, {3, 3});
  const int soft = b.op("softmax", {scores}, "soft", kF32, {3, 3}, {}, {{"dim", int64_t{-1}}});
  const int dynamic = b.op("fake_quantize_dynamic", {soft}, "dynamic", kF32, {3, 3}, {},
                           {{"blocks", ints({3, 1})}, {"mapping", std::string("symmetric")}});
  const int gain = b.constant("gain", random_floats({3})),
            shift = b.constant("shift", random_floats({3}));
  const int norm = b.op("layer_norm", {dynamic, gain, shift}, "norm", kF32, {3, 3}, {},
                        {{"normalized_dims", int64_t{1}}, {"eps", 1e-5}});
  const int scaled = b.op("rms_norm", {norm, gain}, "scaled", kF32, {3, 3}, {},
                          {{"normalized_dims", int64_t{1}}, {"eps", 1e-6}});
  b.output(b.op("batch_norm", {scaled, shift, gain}, "z", kF32, {3, 3}, {}, {{"eps", 1e-3}}));
  return b.finish();
}

Program movements() {
  ProgramBuilder b;
  const int x = b.input("x", kI8, {2, 3, 4}, step());
  const int part = b.op("slice", {x}, "part", kI8, {2, 3, 2}, step(),
                        {{"dim", int64_t{2}}, {"start", int64_t{1}}, {"step", int64_t{2}}});
  const int both = b.op("cat", {x, part}, "both", kI8, {2, 3, 6}, step(), {{"dim", int64_t{2}}});
  const int padded = b.op("pad", {both}, "padded", kI8, {2, 4, 6}, step(),
                          {{"pads", ints({0, 0, 0, 1, 1, -1})}, {"value", 0.5}});
  const int shaped = b.op("reshape", {padded}, "shaped", kI8, {1, 2, 4, 6}, step());
  const int wide = b.op("expand", {shaped}, "wide", kI8, {2, 2, 4, 6}, step());
  const int real = b.op("cast", {wide}, "real", kF32, {2, 2, 4, 6});
  b.output(b.op("upsample", {real}, "z", kF32, {2, 2, 8, 6}, {},
                {{"mode", std::string("bilinear")},
                 {"align_corners", true},
                 {"scales", std::vector<double>{3.0 / 7, 1}}}));
  const int rows = b.input("rows", DType::kInt64, {2, 2});
  const int table =
      b.constant("table", random_integers(kI8, {5, 3}), per_channel(random_scales(5), 0));
  b.output(b.op("embedding", {table, rows}, "found", kF32, {2, 2, 3}));
  return b.finish();
}

Program functions() {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 5});
  const int flag = b.input("flag", DType::kBool, {5});
  int y = x;
  for (const char* name : {"sigmoid", "tanh", "hardswish", "hardsigmoid", "silu", "gelu",
                           "gelu_tanh", "leaky_relu", "elu", "abs", "sqrt"})
    y = b.op("unary", {y}, name, kF32, {2, 5}, {}, {{"fn", std::string(name)}});
  const int slope = b.constant("slope", random_floats({5}));
  int z = b.op("prelu", {y, slope}, "prelu", kF32, {2, 5});
  for (const char* kind : {"sub", "mul", "div", "minimum", "maximum"})
    z = b.op(kind, {z, slope}, kind, kF32, {2, 5});
  const int chosen = b.op("where", {flag, z, y}, "chosen", kF32, {2, 5});
  const int clamped =
      b.op("clamp", {chosen}, "clamped", kF32, {2, 5}, {}, {{"min", -1.0}, {"max", 2.0}});
  const int integers =
      b.op("quantize", {clamped}, "integers", kI8, {2, 5}, step(), {{"quant_min", int64_t{-127}}});
  b.output(b.op("requantize", {integers}, "again", kU8, {2, 5}, step(0.3f)));
  b.output(b.op("copy", {x}, "same", kF32, {2, 5}));
  return b.finish();
}

// An LSTM with integer weights, and what reads statistics of its input.
Program recurrences() {
  ProgramBuilder b;
  const int gates = b.input("gates", kF32, {2, 1, 16}),
            state = b.constant("state", random_floats({1, 4}));
  const Tensor scale = Tensor::from<float>(kF32, {16, 1}, random_scales(16));
  const int weights = b.constant(
      "weights", StoredConstant{random_integers(kI8, {16, 4}, 1, -127), scale, Tensor()});
  const int y = b.op("recurrent", {gates, weights, -1, state, state}, "y", kF32, {2, 1, 4}, {},
                     {{"cell", std::string("lstm")}, {"reverse", true}});
  b.output(b.second_output("last", {1, 4}));
  const int image = b.op("reshape", {y}, "image", kF32, {1, 4, 1, 2});
  const int even = b.op("group_norm", {image, b.constant("factor", random_floats({4})), -1}, "even",
                        kF32, {1, 4, 1, 2}, {}, {{"groups", int64_t{2}}, {"eps", 1e-5}});
  const Attributes twice = {{"mode", std::string("bilinear")},
                            {"align_corners", false},
                            {"scales", std::vector<double>{0.5, 0.5}}};
  const int larger = b.op("upsample", {even}, "larger", kF32, {1, 4, 2, 4}, {}, twice);
  b.output(b.op("reduce", {larger}, "least", kF32, {1, 4}, {},
                {{"fn", std::string("min")}, {"dims", ints({2, 3})}, {"keepdim", false}}));
  return b.finish();
}

// An LSTM whose outputs are projected to fewer elements than its cells have.
Program projections() {
  ProgramBuilder b;
  const int gates = b.input("gates", kF32, {2, 1, 16}),
            weights = b.constant("weights", random_floats({16, 2})),
            bias = b.constant("bias", random_floats({16})),
            state = b.constant("state", random_floats({1, 2})),
            cells = b.constant("cells", random_floats({1, 4})),
            fewer = b.constant("fewer", random_floats({2, 4}));
  const std::vector<int> inputs = {gates, weights, bias, state, cells, fewer};
  b.output(b.op("recurrent", inputs, "y", kF32, {2, 1, 2}, {}, {{"cell", std::string("lstm")}}));
  b.output(b.second_output("last", {1, 4}));
  return b.finish();
}

// The size of an input as a number to calculate with.
Program sizes() {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 3});
  const std::vector<int> none;
  const int n = b.op("size", none, "n", DType::kInt64, {}, {}, {{"value", int64_t{2}}});
  b.output(b.op("binary", {x, n}, "y", kF32, {2, 3}, {}, {{"fn", std::string("pow")}}));
  Program program = b.finish();
  program.symbols = {{"n", 1, 8, 2}};
  for (int index : {x, program.outputs[0]})
    program.tensor(index).sizes = {SizeExpr::symbol("n"), SizeExpr(3)};
  program.ops[0].sizes["value"] = {SizeExpr::symbol("n")};
  return program;
}

// n rows (1 to 4, lowered at 2) copied into caches of keys and values at the positions `at`, and
// attention over the caches: of floats, or of int8 with a scale for each row.
Program caches(bool is_integer) {
  constexpr int64_t kPositions = 6, kWidth = 8;
  ProgramBuilder b;
  const int q = b.input("q", kF32, {1, 4, 2, kWidth}),
            rows = b.input("rows", kF32, {1, 2, 2, kWidth}), at = b.input("at", DType::kInt64, {2}),
            mask = b.input("mask", kF32, {2, kPositions});
  std::vector<int> integers, open = {q, rows, at, mask};
  const auto put = [&](const std::string& name, int values, DType dtype, int64_t width) {
    const std::vector<int64_t> shape = {1, 2, kPositions, width};
    const int state = b.state(name, dtype, shape);
    const std::vector<int> inputs = {state, values, -1, -1, at};
    const int now = b.op("index_put", inputs, name + "_now", dtype, shape);
    b.becomes(state, now);
    if (dtype == kI8) integers.insert(integers.end(), {state, now});
    return now;
  };
  std::vector<int> attended = {q, -1, -1, mask, -1, -1};
  for (const size_t i : {1, 2}) {
    const std::string name = i == 1 ? "keys" : "values";
    int given = rows;
    if (is_integer) {
      given = b.op("quantize_dynamic", {rows}, name + "_rows", kI8, {1, 2, 2, kWidth}, {},
                   {{"quant_min", int64_t{-127}}});
      const int scale = b.second_output(name + "_scale", {1, 2, 2, 1});
      integers.push_back(given);
      open.insert(open.end(), {given, scale});
      attended[i + 3] = put(name + "_scales", scale, kF32, 1);
    }
    attended[i] = put(name, given, is_integer ? kI8 : kF32, kWidth);
  }
  if (!is_integer) attended.resize(4);
  open.push_back(b.op("attention", attended, "y", kF32, {1, 4, 2, kWidth}));
  b.output(open.back());
  Program program = b.unfinished();
  for (int index : integers) program.tensor(index).qparams = TensorQParams{{1}, {0}};
  program.symbols = {{"n", 1, 4, 2}};
  for (int index : open) {
    ProgramTensor& tensor = program.tensor(index);
    tensor.sizes.assign(tensor.shape.begin(), tensor.shape.end());
    const size_t rank = tensor.shape.size();
    tensor.sizes[rank == 4 ? 2 : 0] = SizeExpr::symbol("n");
  }
  verify(program);
  return program;
}

// Puts the last op, which makes the program's result, on `backend` and the others on the reference.
// Returns nullopt if the backend refuses it.
std::optional<Program> with_last_on(Program program, const std::string& backend) {
  const ProgramOp last = program.ops.back();
  if (!make_support(backend)->accepts(program, last)) return std::nullopt;
  const auto unique = [](std::vector<int> tensors) {
    std::vector<int> once;
    for (int index : tensors)
      if (index >= 0 && std::ranges::find(once, index) == once.end()) once.push_back(index);
    return once;
  };
  program = with_one_segment(std::move(program), "reference");
  Segment first = program.segments[0],
          second{backend, {first.ops.back()}, unique(last.inputs), last.outputs};
  first.ops.pop_back();
  std::vector<int> made;
  for (size_t i : first.ops)
    made.insert(made.end(), program.ops[i].outputs.begin(), program.ops[i].outputs.end());
  std::erase(first.outputs, last.outputs[0]);
  for (int index : second.inputs)
    if (std::ranges::find(made, index) != made.end()) first.outputs.push_back(index);
  first.outputs = unique(first.outputs);
  program.segments = {first, second};
  program.backend = backend;
  return program;
}

// Constants in the other forms that files have: two integers in a byte with scales and zero points
// of blocks, 2 bits with narrow scales, float16.
Program stored_forms() {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {2, 6});
  const int nibbles = b.constant("nibbles", StoredConstant{random_integers(kI8, {4, 6}, 3, -8, 7),
                                                           random_floats({4, 2}, 0.01f, 0.1f, 4),
                                                           random_floats({4, 2}, -2, 2, 5)});
  const int narrow = b.constant(
      "narrow", StoredConstant{random_integers(DType::kUInt8, {24, 4}, 6, 0, 3),
                               Tensor::from<float>(kF32, {24, 1}, std::vector<float>(24, 0.5f)),
                               Tensor::from<float>(kF32, {24, 1}, std::vector<float>(24, 2.0f))});
  const int half = b.constant("half", stored_half(half_constant(random_floats({3, 24}))));
  const std::vector<int> first = {x, nibbles, -1};
  const std::vector<int> second = {b.op("linear", first, "y", kF32, {2, 4}), narrow, -1};
  const std::vector<int> third = {b.op("linear", second, "w", kF32, {2, 24}), half, -1};
  b.output(b.op("linear", third, "z", kF32, {2, 3}));
  return b.finish();
}

// What chooses, puts and orders elements.
Program choices() {
  constexpr DType kI64 = DType::kInt64, kBool = DType::kBool;
  const auto named = [](const char* key, const char* value) {
    return Attributes{{key, std::string(value)}};
  };
  const Attributes first = {{"dim", int64_t{0}}};
  ProgramBuilder b;
  const int x = b.input("x", kF32, {3, 4}), at = b.input("at", kI64, {2, 4});
  const int rows = b.constant("rows", random_integers(kI64, {2}));
  const int some = b.op("gather", {x, at}, "some", kF32, {2, 4}, {}, first);
  const int spread =
      b.op("scatter", {x, at, some}, "spread", kF32, {3, 4}, {}, named("reduce", "mean"));
  const int part = b.op("index", {spread, -1, rows}, "part", kF32, {3, 2});
  const int put =
      b.op("index_put", {spread, part, -1, rows}, "put", kF32, {3, 4}, {}, {{"accumulate", true}});
  const int turned = b.op("flip", {put}, "turned", kF32, {3, 4}, {}, {{"dims", ints({0, 1})}});
  const int sorted = b.op("sort", {turned}, "sorted", kF32, {3, 4}, {}, first);
  const int order = b.second_output("order", {3, 4}, kI64);
  const int most = b.op("topk", {sorted}, "most", kF32, {3, 2}, {}, {{"k", int64_t{2}}});
  b.output(b.second_output("places", {3, 2}, kI64));
  b.output(b.op("arg_reduce", {most}, "best", kI64, {}, {}, named("fn", "argmax")));
  const int sums = b.op("cumulative", {order}, "sums", kI64, {3, 4}, {}, named("fn", "sum"));
  const int rest =
      b.op("binary", {sums, order}, "rest", kI64, {3, 4}, {}, named("fn", "left_shift"));
  const int less = b.op("binary", {rest, order}, "less", kBool, {3, 4}, {}, named("fn", "lt"));
  const int other = b.op("unary", {less}, "other", kBool, {3, 4}, {}, named("fn", "logical_not"));
  b.output(b.op("reduce", {other}, "any", kBool, {}, {}, named("fn", "any")));
  return b.finish();
}

// What reads between pixels, windows as columns, and bags of rows.
Program samples() {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {1, 2, 3, 3}), grid = b.input("grid", kF32, {1, 4, 4, 2});
  const int bent =
      b.op("grid_sample", {x, grid}, "bent", kF32, {1, 2, 4, 4}, {},
           {{"mode", std::string("bicubic")}, {"padding_mode", std::string("reflection")}});
  Attributes window = {
      {"kernel_size", ints({2, 2})}, {"stride", ints({2, 1})}, {"padding", ints({0, 1})}};
  const int columns = b.op("im2col", {bent}, "columns", kF32, {1, 8, 10}, {}, window);
  window["output_size"] = ints({4, 4});
  const int image = b.op("col2im", {columns}, "image", kF32, {1, 2, 4, 4}, {}, window);
  const int small = b.op(
      "upsample", {image}, "small", kF32, {1, 2, 3, 3}, {},
      {{"mode", std::string("bicubic_aa")}, {"scales", std::vector<double>{4.0 / 3, 4.0 / 3}}});
  const int peaks = b.op("adaptive_max_pool", {small}, "peaks", kF32, {1, 2, 2, 2}, {},
                         {{"output_size", ints({2, 2})}});
  b.output(b.second_output("places", {1, 2, 2, 2}, DType::kInt64));
  b.output(b.op("log_softmax", {peaks}, "logs", kF32, {1, 2, 2, 2}));
  const int table = b.constant("table", random_floats({5, 3})),
            rows = b.input("rows", DType::kInt64, {4}),
            bounds = b.constant("bounds", Tensor::zeros(DType::kInt64, {2}));
  b.output(b.op("embedding_bag", {table, rows, bounds}, "bags", kF32, {2, 3}, {},
                {{"mode", std::string("mean")}}));
  return b.finish();
}

}  // namespace

std::vector<SeedProgram> seed_programs() {
  std::vector<SeedProgram> seeds = {{"two_segments", two_segments()},
                                    {"linear", with_constants()},
                                    {"columns", open_columns()},
                                    {"states", with_states()}};
  const std::vector<SeedProgram> plain = {
      {"convolutions", convolutions()},
      {"matrices", matrices()},
      {"movements", movements()},
      {"functions", functions()},
      {"recurrences", recurrences()},
      {"projections", projections()},
      {"sizes", sizes()},
      {"caches", caches(false)},
      {"integer_caches", caches(true)},
      {"stored_forms", stored_forms()},
      {"choices", choices()},
      {"samples", samples()},
      {"conv", small_conv("reference")},
  };
  for (const SeedProgram& seed : plain)
    for (const std::string& backend : backend_names()) {
      Program program = with_one_segment(seed.program, backend);
      if (refusal(program, backend)) continue;
      order_filters(program, *make_support(backend));
      seeds.push_back({fmt::format("{}_{}", seed.name, backend), program});
    }
  for (const std::string& backend : backend_names()) {
    seeds.push_back({"open_" + backend, open_conv(backend)});
    if (backend == "torch") continue;
    for (bool is_integer : {false, true})
      if (std::optional<Program> mixed = with_last_on(caches(is_integer), backend))
        seeds.push_back({fmt::format("{}caches_and_{}", is_integer ? "integer_" : "", backend),
                         std::move(*mixed)});
    seeds.push_back({"bodies_" + backend, with_bodies(backend)});
    seeds.push_back({"counts_" + backend, counted_rows(backend)});
    seeds.push_back({"open_counts_" + backend, counted_rows(backend, true)});
  }
  return seeds;
}

}  // namespace octet::fuzz
