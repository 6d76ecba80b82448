// NaNs, infinities and tensors without dimensions give on every backend what PyTorch gives.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_nan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> run_on(const std::string& backend, const std::string& call,
                          const std::string& input, const std::string& output,
                          const std::vector<float>& x) {
  const Graph graph =
      make_graph("graph(%x: " + input + "):\n  %y: " + output + " = " + call + "\n  return (%y)");
  Report report;
  Session session(lower(graph, *make_support(backend), {}, report));
  const Program& program = session.program();
  Tensor given = Tensor::zeros(DType::kFloat32, program.tensor(program.inputs.at(0)).shape);
  std::copy(x.begin(), x.end(), given.data<float>());
  const Tensor y = session.run({given}).at(0).contiguous();
  return {y.data<float>(), y.data<float>() + y.numel()};
}

bool is_same(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b; }

}  // namespace

TEST_CASE("NaNs stay where PyTorch keeps them", "[lowering][nan]") {
  struct Row {
    const char* call;
    std::vector<float> want;  // of 1, NaN, -inf, inf, 0.25
  };
  const Row rows[] = {
      {"aten.threshold.default(%x, 0.5, 20)", {1, kNan, 20, kInfinity, 20}},
      {"aten.hardshrink.default(%x)", {1, kNan, -kInfinity, kInfinity, 0}},
      {"aten.rsqrt.default(%x)", {1, kNan, kNan, 0, 2}},
  };
  for (const std::string& backend : backend_names())
    for (const Row& row : rows) {
      const std::vector<float> y =
          run_on(backend, row.call, "f32[5]", "f32[5]", {1, kNan, -kInfinity, kInfinity, 0.25f});
      for (size_t i = 0; i < y.size(); ++i) {
        CAPTURE(backend, row.call, i, y[i]);
        CHECK((is_same(row.want[i], y[i]) || std::abs(row.want[i] - y[i]) < 1e-6));
      }
    }
}

TEST_CASE("the greatest and the least of numbers with a NaN is NaN", "[lowering][nan]") {
  for (const std::string& backend : backend_names())
    for (const char* name : {"amax", "amin"})
      for (size_t at : {0, 3, 39}) {
        CAPTURE(backend, name, at);
        std::vector<float> x(40, 0.5f);
        x[at] = kNan;
        const std::string call = std::string("aten.") + name + ".default(%x, [";
        CHECK(std::isnan(run_on(backend, call + "0])", "f32[40]", "f32[]", x).at(0)));
        const std::vector<float> rows = run_on(backend, call + "0])", "f32[20,2]", "f32[2]", x);
        CHECK(std::isnan(rows[at % 2]));
        CHECK(rows[1 - at % 2] == 0.5f);
      }
}

TEST_CASE("softmax of a tensor without dimensions", "[lowering][nan]") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    CHECK(run_on(backend, "aten.softmax.int(%x, 0)", "f32[]", "f32[]", {2.5f}).at(0) == 1.0f);
  }
}

}  // namespace octet::test_nan
