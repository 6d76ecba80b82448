// Programs whose sizes the inputs decide: formulas, sizes of a run, the bounded cache, what is
// refused, files and the C interface.
#include <catch2/catch.hpp>

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "lowering/program/program_json.h"
#include "lowering/program/specialize.h"
#include "lowering/program/symbols.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

Tensor images(int64_t count) { return random_integers(DType::kInt8, {count, 4, 6, 6}, 5); }

// Rows [first, first + 1) of a tensor.
Tensor row(const Tensor& tensor, int64_t first) {
  std::vector<int64_t> shape = tensor.shape();
  const size_t bytes = tensor.nbytes() / static_cast<size_t>(shape[0]);
  shape[0] = 1;
  Tensor one = Tensor::zeros(tensor.dtype(), shape);
  std::memcpy(one.raw(), tensor.raw() + static_cast<size_t>(first) * bytes, bytes);
  return one;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

// Each image of a batch alone gives what it gives in the batch.
bool agrees(Session& open, Session& alone, int64_t count) {
  const Tensor x = images(count);
  const Tensor y = open.run({x})[0];
  bool agree = y.shape() == std::vector<int64_t>{count, 8, 3, 3};
  for (int64_t i = 0; agree && i < count; ++i) agree = equal(row(y, i), alone.run({row(x, i)})[0]);
  return agree;
}

// What is wrong with a program's text, "loads" when nothing is.
std::string fault_of(const std::string& json) {
  try {
    verify(program_from_json_text(json, "file"));
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return "loads";
}

}  // namespace

TEST_CASE("an op that cannot run an empty batch suggests other sizes", "[backends][open]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 3});
  b.output(b.op("reduce", {x}, "y", DType::kFloat32, {3}, {},
                {{"fn", std::string("max")}, {"dims", ints({0})}}));
  Program program = with_one_segment(b.finish(), "reference");
  program.symbols = {{"n", 0, 4, 2}};
  program.tensor(x).sizes = {SizeExpr::symbol("n"), 3};
  Session session(std::move(program));
  CHECK(session.run({random_floats({4, 3})})[0].numel() == 3);
  CHECK_THAT(error_of([&] { session.run({random_floats({0, 3})}); }),
             Contains("session: y: cannot run on the reference backend: ") &&
                 Contains("; give inputs of other sizes"));
}

TEST_CASE("formulas of sizes are computed, printed and folded", "[backends][open]") {
  const SizeExpr s = SizeExpr::symbol("s"), t = SizeExpr::symbol("t");
  const SizeExpr half = floor_divide(s - SizeExpr(1), SizeExpr(2)) + SizeExpr(1);
  CHECK(half.to_text() == "(s + -1)//2 + 1");
  CHECK(half.evaluate({{"s", 33}}) == 17);
  CHECK(floor_divide(s, SizeExpr(4)).evaluate({{"s", -1}}) == -1);
  CHECK((s * t * SizeExpr(3)).to_text() == "(s*t)*3");
  CHECK(SizeExpr::join(SizeExpr::Kind::kModulo, s, SizeExpr(4)).evaluate({{"s", -1}}) == 3);
  CHECK(maximum(s, SizeExpr(1)).to_text() == "max(s, 1)");
  CHECK((SizeExpr(2) * SizeExpr(21)).is_number());
  CHECK(s + SizeExpr(0) == s);
  CHECK(SizeExpr(1) * s == s);
  CHECK_THAT(error_of([&] { half.evaluate({{"t", 1}}); }),
             Equals("shape: (s + -1)//2 + 1: has the symbol s, which has no value; give other "
                    "sizes, or lower the model again"));
  CHECK_THAT(error_of([&] { floor_divide(s, t).evaluate({{"s", 1}, {"t", 0}}); }),
             Equals("shape: s//t: divides by zero; give other sizes, or lower the model again"));
  CHECK_THAT(error_of([&] { (s * s).evaluate({{"s", int64_t{1} << 40}}); }),
             Equals("shape: s*s: exceeds 64 bits; give other sizes, or lower the model again"));
}

TEST_CASE("a program with open sizes runs at each of them on every backend", "[backends][open]") {
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    Session open(open_conv(backend)), alone(small_conv(backend));
    CHECK(open.compiled_count() == 0);
    for (int64_t count : {3, 1, 8}) CHECK(agrees(open, alone, count));
    CHECK(open.compiled_count() == 3);
  }
}

TEST_CASE("a batch of none gives outputs of none, whatever the backend has kernels for",
          "[backends][open]") {
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    Program conv = open_conv(backend), linears = open_dynamic_linears(backend);
    conv.symbols[0].min = linears.symbols[0].min = 0;
    Session convs(std::move(conv)), dynamic(std::move(linears));
    CHECK(convs.run({images(0)})[0].shape() == std::vector<int64_t>{0, 8, 3, 3});
    CHECK(convs.run({images(2)})[0].shape() == std::vector<int64_t>{2, 8, 3, 3});
    CHECK(dynamic.run({random_floats({0, 5, 40})})[0].shape() == std::vector<int64_t>{0, 5, 24});
  }
}

TEST_CASE("attention over a batch of any size gives what its members give alone, and none of none",
          "[backends][open][tanh]") {
  for (const std::string& backend : backend_names())
    for (DType dtype : {DType::kFloat32, DType::kUInt8}) {
      CAPTURE(backend, name_of(dtype));
      Session session(open_attention(backend, dtype));
      for (int64_t count : {3, 0, 1, 7}) {
        const std::vector<int64_t> shape = {count, 6, 24};
        const Tensor x = dtype == DType::kUInt8 ? random_integers(dtype, shape, 3)
                                                : random_floats(shape, -1, 1, 3);
        const Tensor y = session.run({x})[0];
        CHECK(y.shape() == shape);
        for (int64_t i = 0; i < count; ++i) {
          const Tensor alone = session.run({row(x, i)})[0], member = row(y, i);
          for (int64_t k = 0; k < alone.numel(); ++k)
            CHECK(alone.data<float>()[k] == Approx(member.data<float>()[k]).margin(1e-5));
        }
      }
    }
}

TEST_CASE("only the last used sizes stay compiled, and results stay right", "[backends][open]") {
  Session open(open_conv("reference"), {.cached_shapes = 2}), alone(small_conv("reference"));
  for (int64_t count : {1, 2, 3, 4, 1, 4, 2, 2, 16}) {
    CHECK(agrees(open, alone, count));
    CHECK(open.compiled_count() <= 2);
  }
  Session single(open_conv("reference"), {.cached_shapes = 1});
  for (int64_t count : {2, 5, 2}) CHECK(agrees(single, alone, count));
}

TEST_CASE("attributes and outputs follow the sizes, and formulas that decide a symbol are solved",
          "[backends][open]") {
  Session session(open_columns());
  const Tensor x = random_floats({3, 9}), y = random_floats({3, 11});
  const std::vector<Tensor> outputs = session.run({x, y});
  CHECK(outputs[0].shape() == std::vector<int64_t>{3, 1});
  CHECK(outputs[0].data<float>()[2] == x.data<float>()[26]);
  CHECK(outputs[1].data<float>()[26] == 2 * x.data<float>()[26]);
  CHECK(equal(outputs[2], y));
}

TEST_CASE("sizes that do not fit are refused by input and dimension", "[backends][open]") {
  Session session(open_columns());
  const auto with = [&](std::vector<int64_t> x, std::vector<int64_t> y) {
    return error_of(
        [&] { session.run({random_floats(std::move(x)), random_floats(std::move(y))}); });
  };
  CHECK(with({9, 4}, {9, 3}) ==
        "session: input 0 (x): dimension 0 is 9, want 1 to 8; give an input of that size");
  CHECK(with({2, 1}, {2, 3}) ==
        "session: input 0 (x): dimension 1 is 1, want 2 to 9; give an input of that size");
  CHECK(with({2, 4}, {3, 3}) ==
        "session: input 1 (y): dimension 0 is 3, want 2, like dimension 0 of input 0 (x); "
        "give an input of that size");
  CHECK(with({2, 4}, {2, 4}) ==
        "session: input 1 (y): dimension 1 is 4, want 2*k + 1 for a whole number k from 0 to "
        "5; give an input of that size");
  CHECK(with({2, 4}, {2, 13}) ==
        "session: input 1 (y): dimension 1 is 13, want 2*k + 1 for a whole number k from 0 to "
        "5; give an input of that size");
  CHECK(with({2}, {2, 3}) ==
        "session: input 0 (x): got f32[2], want f32[1..8, 2..9]; give that shape");
  CHECK(with({2, 4}, {2, 3}) == "no Error");
  Session fixed(two_segments());
  const std::vector<int64_t> shape = {3, 3};
  const int64_t* const shapes[] = {shape.data()};
  CHECK(error_of([&] { fixed.bind(shapes); }) ==
        "session: input 0 (x): dimension 0 is 3, want 2; give an input of that size");
}

TEST_CASE("sizes that need more memory than allowed are refused, others still run",
          "[backends][open]") {
  Session session(open_conv("reference"), {.memory_limit = 16384});
  CHECK_THAT(error_of([&] { session.run({images(16)}); }),
             Contains("bytes at once, want at most 16384"));
  CHECK(session.run({images(2)})[0].shape()[0] == 2);
}

TEST_CASE("an artifact keeps symbols and formulas, and its text shows them", "[backends][open]") {
  for (const Program& program : {open_conv("reference"), open_columns()}) {
    const std::string bytes = artifact_bytes(program);
    const Program loaded = load_program(std::as_bytes(std::span(bytes.data(), bytes.size())));
    CHECK(to_text(loaded) == to_text(program));
    CHECK(artifact_bytes(loaded) == bytes);
  }
  CHECK_THAT(to_text(open_columns()),
             Contains("symbol m (dimension 1 of x) from 2 to 9, lowered at 4\n") &&
                 Contains("input y f32[n,2*k + 1]\n") &&
                 Contains("last: f32[n,1] = slice(x f32[n,m]) dim=1 start=m + -1 step=1\n"));
}

TEST_CASE("what a file claims of symbols and formulas is checked", "[backends][open]") {
  const auto with = [](const std::function<void(Program&)>& change) {
    Program program = open_columns();
    change(program);
    return fault_of(to_json_text(program));
  };
  using Kind = SizeExpr::Kind;
  const SizeExpr n = SizeExpr::symbol("n"), zero = n - n;
  CHECK_THAT(with([](Program& p) { p.symbols[0].max = 1; }),
             Contains("symbol n has the hint 2 and the range 1 to 1"));
  CHECK_THAT(with([](Program& p) { p.symbols[0].max = int64_t{1} << 40; }),
             Contains("symbol n has the hint 2 and the range 1 to 1099511627776"));
  CHECK_THAT(with([](Program& p) { p.symbols[0].min = -1; }),
             Contains("symbol n has the hint 2 and the range -1 to 8"));
  CHECK_THAT(with([](Program& p) { p.symbols[1].name = "n"; }),
             Contains("a shape symbol without a unique name"));
  CHECK_THAT(with([](Program& p) { p.symbols.push_back({"q", 0, 1, 0}); }),
             Contains("the symbol q is not a size of an input"));
  CHECK_THAT(with([](Program& p) { p.symbols.assign(65, {"q", 0, 1, 0}); }),
             Contains("symbols are not a list of at most 64"));
  CHECK_THAT(with([&](Program& p) { p.tensors[0].sizes = {n}; }),
             Contains("x has formulas that give other sizes than it has"));
  CHECK_THAT(with([&](Program& p) { p.tensors[0].sizes[1] = SizeExpr::symbol("u"); }),
             Contains("x has the unknown symbol u"));
  CHECK_THAT(with([&](Program& p) {
               p.tensors[2].sizes[1] = SizeExpr::join(Kind::kFloorDivide, n, zero);
             }),
             Contains("divides by zero"));
  CHECK_THAT(with([&](Program& p) {
               SizeExpr huge = n;
               for (int i = 0; i < 8; ++i) huge = huge * huge;
               p.tensors[2].sizes[1] = huge;
             }),
             Contains("exceeds 64 bits"));
  CHECK_THAT(with([&](Program& p) { p.ops[0].sizes["stop"] = {n}; }),
             Contains("slice_last has formulas for stop, which it lacks") ||
                 Contains("has formulas for stop, which it lacks"));
  CHECK_THAT(error_of([&] {
               SizeExpr long_one = n;
               for (int i = 0; i < 12; ++i) long_one = long_one + long_one;
             }),
             Contains("steps, want 1 to 1024"));
}

TEST_CASE("malformed formulas are refused", "[backends][open]") {
  const std::string good = to_json_text(open_columns()), formula = R"(["m",-1,"+"])";
  const auto with = [&](const std::string& other) {
    std::string text = good;
    return fault_of(text.replace(text.find(formula), formula.size(), other));
  };
  CHECK(with(formula) == "loads");
  CHECK_THAT(with(R"(["m","+"])"), Contains("+ has 1 operands, want 2"));
  CHECK_THAT(with(R"(["m",-1])"), Contains("gives 2 numbers, want 1"));
  CHECK_THAT(with("[]"), Contains("has 0 steps, want 1 to 1024"));
  CHECK_THAT(with(R"(["m",-1.5,"+"])"), Contains("got -1.5, want an integer"));
  CHECK_THAT(with(R"(["m",18446744073709551615,"+"])"),
             Contains("got 18446744073709551615, want an integer"));
  CHECK_THAT(with(R"([1,0,"//"])"), Contains("divides by zero"));
  CHECK_THAT(with(R"({"m":1})"), Contains("want an integer"));
  CHECK_THAT(with("[" + fmt::format("{}", fmt::join(std::vector<int>(1025, 1), ",")) + "]"),
             Contains("a formula of 1025 steps"));
}

TEST_CASE("C: open sizes are -1 with their range, and octet_bind decides them",
          "[backends][open][c]") {
  const std::string bytes = artifact_bytes(open_conv("reference"));
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  const auto info_of = [&](octet_status (*ask)(const octet_model*, size_t, octet_tensor_info*)) {
    octet_tensor_info info{};
    info.size = sizeof(info);
    REQUIRE(ask(model, 0, &info) == OCTET_OK);
    return info;
  };
  CHECK(octet_arena_bytes(model) == 0);
  CHECK(info_of(octet_input).shape[0] == -1);
  CHECK(info_of(octet_input).shape[1] == 4);
  CHECK(info_of(octet_input).min_shape[0] == 1);
  CHECK(info_of(octet_input).max_shape[0] == 16);
  CHECK(info_of(octet_output).max_shape[0] == 16);
  CHECK(info_of(octet_output).bytes == 72);
  const int64_t sizes[] = {3, 4, 6, 6}, many[] = {17, 4, 6, 6};
  const int64_t* shapes[] = {sizes};
  REQUIRE(octet_bind(model, shapes) == OCTET_OK);
  CHECK(info_of(octet_output).bytes == 216);
  CHECK(info_of(octet_output).bound_shape[0] == 3);
  const Tensor x = images(3);
  Tensor y = Tensor::zeros(DType::kInt8, {3, 8, 3, 3});
  const void* const inputs[] = {x.raw()};
  void* const outputs[] = {y.raw()};
  REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
  CHECK(equal(row(y, 2), Session(small_conv("reference")).run({row(x, 2)})[0]));
  shapes[0] = many;
  CHECK(octet_bind(model, shapes) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Equals("session: input 0 (x): dimension 0 is 17, want 1 to 16; "
                                        "give an input of that size"));
  CHECK(octet_bind(model, nullptr) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Equals("octet: shapes: is null, want an address"));
  octet_free(model);
}
