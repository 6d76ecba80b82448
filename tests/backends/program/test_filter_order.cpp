// Filters in channels-last order: in the file, on the backend that reads them so, and on others.
#include <algorithm>
#include <cstring>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "lowering/program/artifact.h"
#include "lowering/program/filter_order.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;

namespace {

// Wants every convolution's filter channels-last.
class WantsAll : public BackendSupport {
 public:
  explicit WantsAll(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::map<std::string, std::string> versions() const override { return {}; }
  Verdict accepts(const Program&, const ProgramOp&) const override { return Verdict::accept(); }
  bool wants_channels_last_filter(const Program&, const ProgramOp& op) const override {
    return op.kind == "conv";
  }

 private:
  std::string name_;
};

const ProgramTensor& filter_of(const Program& program) {
  const auto conv = std::find_if(program.ops.begin(), program.ops.end(),
                                 [](const ProgramOp& op) { return op.kind == "conv"; });
  return program.tensor(conv->inputs.at(1));
}

Program ordered(const std::string& backend) {
  Program program = small_conv(backend);
  order_filters(program, WantsAll(backend));
  return program;
}

std::string result_of(const Program& program) {
  const ProgramTensor& x = program.tensor(program.inputs[0]);
  const Tensor y = Session(program).run({random_integers(x.dtype, x.shape, 5)})[0];
  return std::string(reinterpret_cast<const char*>(y.raw()), y.nbytes());
}

Program loaded(const std::string& bytes) { return load_program(std::as_bytes(std::span(bytes))); }

}  // namespace

TEST_CASE("a channels-last filter has the logical shape and the same elements",
          "[backends][filter_order]") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 3, 5}, {4, 3, 2, 5}, {2, 3, 2, 2, 3}}) {
    const Tensor w = random_integers(DType::kInt8, shape);
    const Tensor moved = from_channels_last(as_channels_last(w));
    CHECK(moved.shape() == shape);
    CHECK(is_channels_last(moved));
    CHECK_FALSE(is_channels_last(w));
    const Tensor back = moved.contiguous();
    CHECK(std::memcmp(back.raw(), w.raw(), w.nbytes()) == 0);
    CHECK(std::memcmp(moved.raw(), w.raw(), w.nbytes()) != 0);
  }
  CHECK_FALSE(is_channels_last(random_integers(DType::kInt8, {4, 3, 1, 1})));
}

TEST_CASE(
    "a program with channels-last filters gives the same output from a file, on every backend",
    "[backends][filter_order][artifact]") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const Program plain = small_conv(backend), program = ordered(backend);
    CHECK(is_channels_last(filter_of(program).data));
    const std::string bytes = artifact_bytes(program);
    CHECK_THAT(bytes, Contains("\"version\":\"3\"") && Contains(":channels_last\":{"));
    CHECK(is_channels_last(filter_of(loaded(bytes)).data));
    CHECK(artifact_bytes(loaded(bytes)) == bytes);
    CHECK(result_of(loaded(bytes)) == result_of(plain));
    CHECK_THAT(artifact_bytes(plain), Contains("\"version\":\"2\""));
  }
}

TEST_CASE("a filter that an op of another kind or backend reads too stays in row-major order",
          "[backends][filter_order]") {
  Program program = small_conv("reference");
  order_filters(program, WantsAll("another"));
  CHECK_FALSE(is_channels_last(filter_of(program).data));
  const int filter = static_cast<int>(&filter_of(program) - program.tensors.data());
  program.outputs.push_back(filter);
  order_filters(program, WantsAll("reference"));
  CHECK_FALSE(is_channels_last(filter_of(program).data));
}

TEST_CASE("a channels-last constant of another shape in the file is refused",
          "[backends][filter_order][artifact]") {
  const std::string good = artifact_bytes(ordered("reference"));
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, from.size(), to);
    return error_of(
        [&] { load_program(std::as_bytes(std::span(bytes)), {.verifies_checksum = false}); });
  };
  CHECK_THAT(error_with("\"shape\":[8,3,3,4]", "\"shape\":[8,4,3,3]"),
             Contains("constant w:channels_last: dtype or shape differ from the program's; the "
                      "file is damaged"));
  CHECK_THAT(error_with("\"w:channels_last\"", "\"b:channels_last\""),
             Contains("constant w: is stored in another form, but is int8; the file is damaged"));
}

TEST_CASE(
    "the XNNPACK backend wants the filters of convolutions that are not depthwise channels-last",
    "[backends][filter_order][xnnpack]") {
  for (const std::string& backend : backend_names()) {
    if (backend != "xnnpack") continue;
    Program program = small_conv(backend);
    order_filters(program, *make_support(backend));
    CHECK(is_channels_last(filter_of(program).data));
  }
}
