// Which ops a program may call.
#include "core/ops/callable_ops.h"

#include <set>

#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "core/interpreter/interpreter.h"
#include "core/ops/op_lookup.h"
#include "core/text/text.h"

// Last, because the torch headers also define CHECK.
#include <catch2/catch.hpp>

namespace octet::test_callable_ops {
namespace {

using Catch::Contains;

std::optional<std::string> refusal(const std::string& target) {
  const std::optional<c10::OperatorHandle> op = find_operator(target);
  REQUIRE(op);
  return refusal_of(*op);
}

void run(const std::string& text) { Interpreter(parse_graph(text)).run({at::ones({2})}); }

TEST_CASE("programs may call ops that compute", "[core][callable_ops]") {
  for (const char* op :
       {"aten.conv2d.default", "aten.add_.Tensor", "aten.zeros.default", "aten.randn.default",
        "aten._assert_scalar.default", "aten.sym_size.int", "aten.stft.center",
        "quantized_decomposed.quantize_per_tensor.default", "torchao.quantize_affine.default"}) {
    CAPTURE(op);
    CHECK_FALSE(refusal(op));
  }
}

TEST_CASE("programs may not call what reaches files, the terminal or the process",
          "[core][callable_ops]") {
  for (const char* op :
       {"aten.from_file.default", "aten.from_file.out", "aten._print.default",
        "aten.set_.source_Storage", "aten.set_data.default", "aten.record_stream.default",
        "aten._cufft_set_plan_cache_max_size.default", "aten._test_string_default.default",
        "aten._reshape_alias.default", "aten._sparse_coo_tensor_unsafe.default",
        "profiler._record_function_enter.default", "mkldnn._linear_pointwise.default"}) {
    CAPTURE(op);
    CHECK(refusal(op));
  }
  CHECK_THROWS_WITH(run(R"(graph(%x: f32[2]): %y: f32[2] = aten.from_file.default("f", True, 2)
                             return (%y))"),
                    Contains("aten.from_file: it reads and writes files"));
  CHECK_THROWS_WITH(run("graph(%x: f32[2]): %y: f32[2] = higher_order.out_dtype("
                        "\"torch.ops.aten.from_file.default\", f32, %x) return (%y)"),
                    Contains("aten.from_file: it reads and writes files"));
}

// A version of LibTorch with another namespace fails here: it goes into a list of
// callable_ops.cpp.
TEST_CASE("every namespace that LibTorch fills is judged", "[core][callable_ops]") {
  std::set<std::string> callable;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && !refusal_of(*op)) callable.insert(name.name.substr(0, name.name.find("::")));
  }
  // The ops of Octet and of these tests.
  for (const char* own : {"octet_quantized_decomposed", "octet_torchao"}) callable.erase(own);
  std::erase_if(callable, [](const std::string& name) { return name.find("test") != name.npos; });
  CHECK(callable == std::set<std::string>{"aten"});
}

TEST_CASE("custom ops compute, too", "[core][callable_ops]") {
  torch::Library library(torch::Library::DEF, "callable_test", std::nullopt, __FILE__, __LINE__);
  library.def("scale(Tensor x, str mode) -> Tensor");
  library.def("table(int n) -> Tensor");
  library.def("put(Tensor(a!) x) -> ()");
  library.def("read(str path) -> Tensor");
  library.def("write(str path, Tensor x) -> ()");
  CHECK_FALSE(refusal("callable_test.scale.default"));
  CHECK_FALSE(refusal("callable_test.table.default"));
  CHECK_FALSE(refusal("callable_test.put.default"));
  CHECK_THAT(refusal("callable_test.read.default").value(), Contains("may name a file"));
  CHECK_THAT(refusal("callable_test.write.default").value(), Contains("writes to no tensor"));
}

TEST_CASE("an op that somebody allows may be called", "[core][callable_ops]") {
  const std::string text = "graph(%x: f32[2]): %y: f32[2] = aten._foobar.default(%x) return (%y)";
  CHECK_THROWS_WITH(run(text), Contains("--allow-op aten._foobar"));
  allow_op("aten._foobar");
  CHECK_NOTHROW(run(text));
  CHECK_THROWS_WITH(allow_op("from_file"), Contains("want the name of an op with its namespace"));
}

}  // namespace
}  // namespace octet::test_callable_ops
