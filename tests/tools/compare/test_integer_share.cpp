// The share of the products that a backend computes with integers.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/kernels/isa.h"
#include "backends/registry.h"
#include "tools/cli/common/lowered_program.h"

namespace octet::test_integer_share {
namespace {

// A linear on rows that are quantized at run time, with int8 weights and these blocks of scales.
Program row_linear(const std::string& backend, const std::vector<int64_t>& blocks) {
  ProgramBuilder b;
  const int q = b.op("fake_quantize_dynamic", {b.input("x", DType::kFloat32, {3, 64})}, "q",
                     DType::kFloat32, {3, 64}, {}, mapping("asymmetric", -128, 127, {3, 1}));
  const size_t count = static_cast<size_t>(blocks[0] * blocks[1]);
  const int w = b.constant(
      "w", StoredConstant{random_integers(DType::kInt8, {8, 64}, 1, -7, 7),
                          Tensor::from<float>(DType::kFloat32, blocks, random_scales(count)),
                          {}});
  b.output(b.op("linear", {q, w, -1}, "y", DType::kFloat32, {3, 8}));
  Program program = with_one_segment(b.finish(), backend);
  program.ops.back().macs = 3 * 8 * 64;
  return program;
}

double share_on(const std::string& backend, const std::vector<int64_t>& blocks) {
  return integer_share(row_linear(backend, blocks), make_supports(backend));
}

TEST_CASE("the integer share leaves out what a backend computes in floats", "[tools]") {
  for (const std::string& name : backend_names()) {
    INFO(name);
    const bool has_rows = name == "onednn" || name == "xnnpack";
    CHECK(share_on(name, {8, 1}) == (has_rows ? 1 : 0));
#if defined(__x86_64__)
    // XNNPACK has kernels for groups on Arm alone
    CHECK(share_on(name, {8, 2}) == (name == "onednn" && may_use(Isa::kAvx2) ? 1 : 0));
#endif
  }
}

}  // namespace
}  // namespace octet::test_integer_share
