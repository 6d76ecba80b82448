// What verify() says of scales, attributes and dtypes that no op can mean.
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/reference/kernel.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/op_attributes.h"
#include "lowering/program/program_json.h"
#include "tests/backends/program_builder.h"
#include "tests/backends/recurrent_programs.h"
#include "tests/backends/small_programs.h"

namespace octet::test_op_attributes {
using Catch::Matchers::Contains;

TEST_CASE("a scale that is no positive number is found, per tensor and per channel",
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

TEST_CASE("every kind of op that the reference runs has a list of its attributes",
          "[backends][program]") {
  using namespace reference;
  for (const auto& rows :
       {conv_kernels(), matmul_kernels(), elementwise_kernels(), binary_kernels(), unary_kernels(),
        index_kernels(), order_kernels(), nonzero_kernels(), sample_kernels(), bag_kernels(),
        column_kernels(), pool_kernels(), reduce_kernels(), recurrent_kernels(), norm_kernels(),
        shape_kernels()})
    for (const KernelRow& row : rows) {
      ProgramOp op;
      op.kind = row.kind;
      op.attributes["of_no_kind"] = true;
      CAPTURE(op.kind);
      CHECK_THAT(find_attribute_fault(op), Contains("lacks"));
    }
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

}  // namespace octet::test_op_attributes
