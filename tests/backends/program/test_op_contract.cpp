// The table of ops, and the errors of verify() for meaningless scales, attributes and dtypes.
#include <algorithm>
#include <cmath>
#include <sstream>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/reference/kernel.h"
#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/control.h"
#include "lowering/program/program_json.h"
#include "lowering/program/real_functions.h"
#include "tests/backends/recurrent_programs.h"
#include "tests/backends/reference/op_runner.h"
#include "tests/backends/small_programs.h"

namespace octet::test_op_contract {
using Catch::Matchers::Contains;

TEST_CASE("a scale that is not a positive number is found, per tensor and per channel",
          "[backends][program]") {
  for (const float scale : {0.0f, -0.1f, INFINITY, NAN})
    for (const size_t tensor : {0, 1}) {
      CAPTURE(scale, tensor);
      CHECK_THAT(fault_of(with_constants(),
                          [&](Program& p) { p.tensors[tensor].qparams->scale.back() = scale; }),
                 Contains("want a positive number"));
    }
}

TEST_CASE("a scale in the file that no float holds is found", "[backends][program]") {
  const std::string good = to_json_text(with_constants()), scale = R"("scale":[0.1])";
  const auto read = [&](const std::string& number) {
    std::string text = good;
    REQUIRE(text.find(scale) != std::string::npos);
    text.replace(text.find(scale), scale.size(), "\"scale\":[" + number + "]");
    return error_of([&] { program_from_json_text(text, "file"); });
  };
  CHECK(read("0.25") == "no Error");
  CHECK_THAT(read("1e300"), Contains("got 1e+300, which is too large for a float"));
}

TEST_CASE("an attribute that the op's kind lacks is found, and one of another type",
          "[backends][program]") {
  const auto fault = [](const std::string& key, const Attribute& value) {
    return fault_of(with_constants(), [&](Program& p) { p.ops[0].attributes[key] = value; });
  };
  CHECK(fault("post_max", int64_t{6}) == "none");
  CHECK_THAT(
      fault("quant_max", int64_t{6}),
      Contains("y has attribute \"quant_max\", which linear lacks, want post_min, post_max"));
  CHECK_THAT(fault("", true), Contains("y has attribute \"\", which linear lacks"));
  CHECK_THAT(fault("post_min", std::string("low")),
             Contains("y has attribute \"post_min\" of another type than linear wants"));
}

TEST_CASE("every kind of op has one kernel with a check of shapes, or is control flow, or aten",
          "[backends][program]") {
  const std::vector<std::string_view> kinds = ReferenceSupport().kinds();
  for (const OpContract& contract : op_contracts()) {
    ProgramOp op;
    op.kind = contract.kind;
    CAPTURE(op.kind);
    const bool is_elsewhere = is_control(op) || op.is("aten");
    CHECK(std::count(kinds.begin(), kinds.end(), contract.kind) == (is_elsewhere ? 0 : 1));
    const reference::KernelRow* row = reference::find_kernel(contract.kind);
    CHECK((row == nullptr) == is_elsewhere);
    if (row != nullptr) CHECK((row->run != nullptr && row->check != nullptr));
    op.attributes["of_no_kind"] = true;
    if (!op.is("custom")) CHECK_THAT(find_attribute_fault(op), Contains("lacks"));
  }
  for (std::string_view kind : kinds) CHECK(find_contract(kind) != nullptr);
}

TEST_CASE("a backend refuses the kinds that it does not list", "[backends][program]") {
  for (const std::string& name : backend_names()) {
    const std::unique_ptr<BackendSupport> support = make_support(name);
    const std::vector<std::string_view> kinds = support->kinds();
    for (const OpContract& contract : op_contracts()) {
      if (kinds.empty()) continue;  // another test registers a backend
      CAPTURE(name, contract.kind);
      ProgramOp op;
      op.kind = contract.kind;
      const bool is_listed = std::find(kinds.begin(), kinds.end(), contract.kind) != kinds.end();
      const std::string reason = support->accepts({}, op).reason();
      const bool is_unknown = reason.ends_with(" has no " + op.kind) ||
                              reason.find("has no kernel") != std::string::npos;
      CHECK(is_unknown != is_listed);
    }
  }
}

TEST_CASE("a missing attribute has the default of its kind", "[backends][program]") {
  ProgramOp op;
  op.kind = "softmax";
  CHECK(op.get(attr::kDim) == -1);
  CHECK(op.get(attr::kDim, 5) == 5);
  op.kind = "cat";
  CHECK(op.get(attr::kDim) == 0);
  op.kind = "upsample";
  CHECK(op.get(attr::kMode) == "nearest");
  op.kind = "embedding_bag";
  CHECK(op.get(attr::kMode) == "sum");
  CHECK(op.get(attr::kPaddingIdx) == -1);
  op.kind = "avg_pool";
  CHECK(op.get(attr::kCountIncludePad));
  CHECK(op.get(attr::kStride).empty());
  op.kind = "add";
  CHECK(op.get(attr::kAlpha) == 1);
  CHECK_FALSE(op.find(attr::kAlpha));
  op.attributes[attr::kAlpha] = int64_t{3};  // integers count as reals
  CHECK(op.get(attr::kAlpha) == 3);
  CHECK(op.find(attr::kAlpha) == 3);
}

TEST_CASE("counts, words and ranges are checked against the contract", "[backends][program]") {
  ProgramOp op;
  const auto fault = [&](const char* kind, std::vector<int> inputs, size_t outputs,
                         Attributes attributes = {}) {
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs.assign(outputs, 0);
    op.attributes = std::move(attributes);
    return find_contract_fault(op);
  };
  CHECK(fault("conv", {0, 1}, 1) == "");
  CHECK(fault("conv", {0, 1, -1}, 1) == "");
  CHECK(fault("conv", {0, -1}, 1) == "conv lacks input 1");
  CHECK(fault("conv", {0, 1, 2, 3}, 1) == "conv has 4 inputs, want at most 3");
  CHECK(fault("conv", {0, 1}, 2) == "conv has 2 outputs, want 1");
  CHECK(fault("conv", {0, 1}, 1, {{attr::kGroups, int64_t{0}}}) == "groups is 0, want at least 1");
  CHECK(fault("cat", {0, 1, 2, 3}, 1) == "");
  CHECK(fault("cat", {0, -1}, 1) == "cat lacks input 1");
  CHECK(fault("index", {0, -1, 1}, 1) == "");
  CHECK(fault("nonzero", {0}, 1) == "nonzero has 1 outputs, want 2");
  CHECK(fault("reduce", {0}, 1) == "it has no fn");
  CHECK(fault("reduce", {0}, 1, {{attr::kFn, std::string("mean")}}) == "unknown fn \"mean\"");
  CHECK(fault("unary", {0}, 1, {{attr::kFn, std::string("gelu")}}) == "");
  CHECK(fault("unary", {0}, 1, {{attr::kFn, std::string("isnan")}}) == "");
  CHECK(fault("cond", {0}, 3, {{attr::kBodies, std::vector<int64_t>{0, 1}}}) == "");
  CHECK(fault("of_another_program", {}, 0) == "");
}

TEST_CASE("the reference has every function that the table names", "[backends][program]") {
  using namespace reference_ops;
  const Operand real = floats({2}, {1, 2}), whole = longs({2}, {1, 2});
  // some combination of dtypes that the function takes
  const auto runs = [&](const std::string& kind, const std::string& fn) {
    const bool is_binary = kind == "binary", is_reduction = kind == "reduce";
    for (const Operand& x : {real, whole})
      for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool}) {
        const std::vector<Operand> inputs(is_binary ? 2 : 1, x);
        Attributes attributes = {{attr::kFn, fn}};
        if (is_reduction || kind == "arg_reduce") attributes[attr::kKeepdim] = true;
        const std::vector<int64_t> shape = {attributes.contains("keepdim") ? 1 : 2};
        if (reason(kind, inputs, {{dtype, shape}}, attributes) == "accepted") return true;
      }
    return false;
  };
  for (const char* kind : {"unary", "binary", "reduce", "cumulative", "arg_reduce"}) {
    std::istringstream words(std::string(find_contract(kind)->find_attribute("fn")->words));
    for (std::string fn; words >> fn;) {
      CAPTURE(kind, fn);
      CHECK(runs(kind, fn));
    }
  }
  for (const RealFunction& function : real_functions())
    CHECK(runs("unary", std::string(function.name)));
}

TEST_CASE("the page of ops has each op and its attributes", "[backends][program]") {
  const std::string page = ops_page();
  CHECK_THAT(page, Contains("\n## conv\n\n`x*, w*, bias? -> y`\n"));
  CHECK_THAT(page, Contains("\n| `groups` | int | 1 | at least 1 |\n"));
  CHECK_THAT(page, Contains("\n| `fn` | text | required | sum, max, min, prod, any, all |\n"));
  for (const OpContract& contract : op_contracts())
    CHECK_THAT(page, Contains("\n## " + std::string(contract.kind) + "\n"));
}

TEST_CASE("a recurrent layer whose bias or state is declared as integers runs nowhere",
          "[backends][program][recurrent]") {
  for (const std::string& backend : backend_names()) {
    RecurrentProgram made =
        recurrent_program(kRecurrentCases[0], {2, 1, 4}, RecurrentWeights::kFloat);
    ProgramTensor& bias = made.program.tensor(made.program.ops[0].inputs[2]);
    bias.dtype = DType::kInt32;
    bias.data = random_integers(DType::kInt32, bias.shape);
    CAPTURE(backend);
    CHECK_THAT(error_of([&] { Session session(with_one_segment(made.program, backend)); }),
               Contains("b is int32, want floats"));
  }
}

}  // namespace octet::test_op_contract
