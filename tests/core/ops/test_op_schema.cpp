#include <catch2/catch.hpp>

#include "core/ops/op_schema.h"

namespace octet::test_op_schema {
namespace {

TEST_CASE("the schema of an op has its arguments with types and defaults", "[core][op_schema]") {
  const OpSchema* conv = find_op_schema("aten.conv2d.default");
  REQUIRE(conv != nullptr);
  CHECK(conv->name == "aten::conv2d");
  REQUIRE(conv->arguments.size() == 7);
  CHECK(conv->arguments[0].name == "input");
  CHECK(conv->arguments[0].type == "Tensor");
  CHECK_FALSE(conv->arguments[0].has_default);
  CHECK(conv->find("bias")->type == "Tensor?");
  CHECK(conv->find("bias")->has_default);
  CHECK(conv->find("bias")->default_value.is_none());
  CHECK(conv->find("stride")->type == "SymInt[2]");
  CHECK(*conv->find("stride")->default_value.find<std::vector<int64_t>>() ==
        std::vector<int64_t>{1, 1});
  CHECK(*conv->find("groups")->default_value.find<int64_t>() == 1);
  CHECK(conv->find("nonsense") == nullptr);
  CHECK(conv->returns == std::vector<std::string>{"Tensor"});
  CHECK_FALSE(conv->is_mutable());
}

TEST_CASE("overloads, keyword arguments and several results are told apart", "[core][op_schema]") {
  const OpSchema* add = find_op_schema("aten.add.Tensor");
  REQUIRE(add != nullptr);
  CHECK(add->overload == "Tensor");
  CHECK(add->find("alpha")->kwarg_only);
  CHECK(add->find("alpha")->type == "Scalar");
  CHECK_FALSE(add->find("other")->kwarg_only);
  REQUIRE(find_op_schema("aten.max.dim") != nullptr);
  CHECK(find_op_schema("aten.max.dim")->returns == std::vector<std::string>{"Tensor", "Tensor"});
  CHECK(find_op_schema("aten.split.Tensor")->returns == std::vector<std::string>{"Tensor[]"});
}

TEST_CASE("in-place ops and out arguments are known to write", "[core][op_schema]") {
  CHECK(find_op_schema("aten.relu_.default")->find("self")->is_write);
  CHECK(find_op_schema("aten.add.out")->find("out")->is_write);
  CHECK_FALSE(find_op_schema("aten.add.out")->find("self")->is_write);
}

TEST_CASE("quantized_decomposed is registered by default", "[core][op_schema]") {
  const OpSchema* op = find_op_schema("quantized_decomposed.dequantize_per_tensor.tensor");
  REQUIRE(op != nullptr);
  CHECK(op->find("out_dtype")->type == "ScalarType?");
  CHECK(op->find("out_dtype")->kwarg_only);
}

TEST_CASE("an unknown op has no schema", "[core][op_schema]") {
  CHECK(find_op_schema("aten.no_such_op.default") == nullptr);
  CHECK(find_op_schema("aten.add.NoSuchOverload") == nullptr);
  CHECK(find_op_schema("_operator.add") == nullptr);
  CHECK(find_op_schema("higher_order.cond") == nullptr);
  CHECK(find_op_schema("") == nullptr);
  CHECK(find_op_schema("...") == nullptr);
}

TEST_CASE("a schema is read once", "[core][op_schema]") {
  CHECK(find_op_schema("aten.relu.default") == find_op_schema("aten.relu.default"));
}

}  // namespace
}  // namespace octet::test_op_schema
