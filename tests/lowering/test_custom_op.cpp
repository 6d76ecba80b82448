// Custom ops: kept whole with all their arguments, and run through the callback registered under
// their name.
#include <mutex>

#include <torch/library.h>
#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "lowering/lower.h"
#include "lowering/lowering_helpers.h"
#include "lowering/program/custom_kernel.h"

namespace octet::test_custom_op {
namespace {

// Known to LibTorch for their schemas alone.
void register_schemas() {
  static torch::Library library(torch::Library::DEF, "test_custom", std::nullopt, __FILE__,
                                __LINE__);
  static std::once_flag once;
  std::call_once(once, [] {
    library.def(
        "split_scale(Tensor x, Tensor? gate, float factor, int[] dims, str mode=\"plain\", bool "
        "fast=True) -> (Tensor, Tensor)");
    library.def("sum_of(Tensor[] xs, int start=3) -> Tensor");
    library.def("fill_(Tensor(a!) x) -> Tensor(a!)");
    library.def("typed(Tensor x, ScalarType dtype) -> Tensor");
    library.def("unknown(Tensor x) -> Tensor");
    library.def("throwing(Tensor x) -> Tensor");
  });
}

void use_kernel(const std::string& op, CustomKernel kernel) {
  register_schemas();
  if (find_custom_kernel(op) == nullptr) register_custom_kernel(op, std::move(kernel));
}

void add_all(const CustomCall& call) {
  float* y = call.outputs[0].data<float>();
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) {
    y[i] = static_cast<float>(call.op.get(attr::Integer("start")));
    for (const Tensor& x : call.inputs) y[i] += x.data<float>()[i];
  }
}

Program lowered_for(const std::string& backend, const std::string& text,
                    LowerOptions options = {}) {
  Report report;
  return lower(parse_graph(text), *make_support(backend), options, report);
}

const char* const kSumOfTwo =
    "graph(%a: f32[2], %b: f32[2]): %y: f32[2] = test_custom.sum_of.default([%a, %b]) return (%y)";

}  // namespace

TEST_CASE(
    "custom op: the kernel gets tensors in the schema's order and the other arguments by name, "
    "defaults included",
    "[lowering][custom]") {
  ProgramOp seen;
  use_kernel("test_custom.split_scale.default", [&](const CustomCall& call) {
    seen = call.op;
    CHECK(call.inputs.size() == 2);
    CHECK_FALSE(call.inputs[1].defined());
    call.outputs[0].data<float>()[0] = 7;
    call.outputs[1].data<float>()[1] = 8;
  });
  Session session(
      lowered_for("reference",
                  "graph(%x: f32[2]): %l: f32[1], %r: f32[2] = test_custom.split_scale.default(%x, "
                  "None, 0.5, [1, 0]) return (%l, %r)"));
  const std::vector<Tensor> outputs = session.run({Tensor::zeros(DType::kFloat32, {2})});
  CHECK(outputs.at(0).data<float>()[0] == 7);
  CHECK(outputs.at(1).data<float>()[1] == 8);
  CHECK(seen.kind == "custom");
  CHECK(seen.get(attr::kCustomOp) == "test_custom.split_scale.default");
  CHECK(seen.get(attr::Real("factor")) == 0.5);
  CHECK(seen.get(attr::Integers("dims")) == std::vector<int64_t>{1, 0});
  CHECK(seen.get(attr::Text("mode")) == "plain");
  CHECK(seen.get(attr::Flag("fast")));
}

TEST_CASE("custom op: a list of tensors comes one by one, its length by name",
          "[lowering][custom]") {
  use_kernel("test_custom.sum_of.default", add_all);
  Session session(lowered_for("reference", kSumOfTwo));
  const std::vector<float> a = {1, 2}, b = {10, 20};
  const std::vector<Tensor> outputs = session.run(
      {Tensor::from<float>(DType::kFloat32, {2}, a), Tensor::from<float>(DType::kFloat32, {2}, b)});
  CHECK(outputs.at(0).data<float>()[0] == 14);
  CHECK(outputs.at(0).data<float>()[1] == 25);
  CHECK(session.program().ops.at(0).get(attr::Integer("xs")) == 2);
}

TEST_CASE("custom op: between int8 ops it is a float island on the reference segment",
          "[lowering][custom]") {
  use_kernel("test_custom.sum_of.default", add_all);
  const std::string text = R"(graph(%x: f32[1,4,8,8]):
      %q: i8[1,4,8,8] = quantized_decomposed.quantize_per_tensor.default(%x, 0.1, 0, -128, 127, i8)
      %d: f32[1,4,8,8] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.1, 0, -128, 127, i8)
      %y: f32[1,4,8,8] = test_custom.sum_of.default([%d], 1)
      %r: i8[1,4,8,8] = quantized_decomposed.quantize_per_tensor.default(%y, 0.1, 0, -128, 127, i8)
      %e: f32[1,4,8,8] = quantized_decomposed.dequantize_per_tensor.default(%r, 0.1, 0, -128, 127, i8)
      %p: f32[1,4,4,4] = aten.max_pool2d.default(%e, [2, 2], [2, 2])
      return (%p))";
  for (const std::string& backend : backend_names()) {
    INFO(backend);
    const Program program = lowered_for(backend, text);
    for (const Segment& segment : program.segments)
      for (int index : segment.ops)
        if (program.op(index).kind == "custom") CHECK(segment.backend == "reference");
    Session session(program);
    const std::vector<Tensor> outputs = session.run({Tensor::zeros(DType::kFloat32, {1, 4, 8, 8})});
    CHECK(outputs.at(0).data<float>()[0] == Approx(1.0f));
  }
}

TEST_CASE("custom op: without a kernel the error names the op and what to do",
          "[lowering][custom]") {
  register_schemas();
  const std::string text =
      "graph(%x: f32[2]): %y: f32[2] = test_custom.unknown.default(%x) return (%y)";
  CHECK_THROWS_WITH(lowered_for("reference", text),
                    "lower: y (test_custom.unknown.default): has no kernel in the reference "
                    "backend; 1 such op: y (test_custom.unknown.default); "
                    "replace them before the export, or run them with LibTorch (--fallback torch), "
                    "or load a library that registers kernels for "
                    "custom ops (--library)");
}

TEST_CASE("custom op: a program whose kernel is not in this process does not open",
          "[lowering][custom]") {
  use_kernel("test_custom.sum_of.default", add_all);
  Program program = lowered_for("reference", kSumOfTwo);
  program.ops.at(0).attributes["custom_op"] = std::string("test_custom.gone.default");
  CHECK_THROWS_WITH(Session(program),
                    "session: y: cannot run on the reference backend: the custom op "
                    "test_custom.gone.default has no kernel in this process, want it "
                    "registered; load its library (--library)");
}

TEST_CASE("custom op: what cannot stay whole is refused with its reason", "[lowering][custom]") {
  for (const char* op : {"test_custom.fill_.default", "test_custom.typed.default"})
    use_kernel(op, [](const CustomCall&) {});
  CHECK_THROWS_WITH(
      lowered_for("reference",
                  "graph(%x: f32[2]): %y: f32[2] = test_custom.fill_.default(%x) return (%y)"),
      Catch::Contains(
          "y (test_custom.fill_.default) writes into its arguments; make it return its results"));
  CHECK_THROWS_WITH(
      lowered_for("reference",
                  "graph(%x: f32[2]): %y: f32[2] = test_custom.typed.default(%x, f32) return (%y)"),
      Catch::Contains("y (test_custom.typed.default) has an argument \"dtype\" of a type that a "
                      "lowered program cannot hold, want tensors, "
                      "numbers, text or lists of them"));
}

TEST_CASE("custom op: without fallback a backend that lacks it refuses the program",
          "[lowering][custom]") {
  use_kernel("test_custom.sum_of.default", add_all);
  LowerOptions options;
  options.fallback = Fallback::kNone;
  for (const std::string& backend : backend_names()) {
    if (backend == "reference") continue;
    CHECK_THROWS_WITH(lowered_for(backend, kSumOfTwo, options), Catch::Contains("y (custom): "));
  }
}

TEST_CASE("custom op: what a kernel throws names the op", "[lowering][custom]") {
  use_kernel("test_custom.throwing.default",
             [](const CustomCall&) { throw std::runtime_error("no memory on the device"); });
  Session session(lowered_for(
      "reference", "graph(%x: f32[2]): %y: f32[2] = test_custom.throwing.default(%x) return (%y)"));
  CHECK_THROWS_WITH(
      session.run({Tensor::zeros(DType::kFloat32, {2})}),
      "run: y (test_custom.throwing.default): its kernel says: no memory on the device");
}

TEST_CASE("custom op: names of kernels are checked", "[lowering][custom]") {
  const CustomKernel kernel = [](const CustomCall&) {};
  for (const char* name : {"", "swish", "acme.swish", "acme::swish.default", "acme..default",
                           ".swish.default", "acme.swish.", "a.b.c.d"})
    CHECK_THROWS_WITH(
        register_custom_kernel(name, kernel),
        std::string("library: \"") + name +
            "\": is not a valid op name, want namespace.name.overload, such as acme.swish.default");
  CHECK_THROWS_WITH(register_custom_kernel("test_custom.none.default", {}),
                    "library: test_custom.none.default: got no kernel; register a function");
  register_custom_kernel("test_custom.twice.default", kernel);
  CHECK_THROWS_WITH(register_custom_kernel("test_custom.twice.default", kernel),
                    "library: test_custom.twice.default: already has a kernel; register only one");
}

}  // namespace octet::test_custom_op
