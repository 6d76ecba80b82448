// Differential test with the oracle's custom-rule cases: groups, observers, scales, q/dq graph and
// outputs equal torchao's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "support/golden.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_golden_rules {
namespace {

using test::GoldenCase;
using test::RuleQuantizer;

TEST_CASE("golden: custom rules give the peer's groups, scales, q/dq graph and outputs",
          "[annotate][golden][long]") {
  for (const GoldenCase& golden : test::golden_cases("cus_")) {
    if (golden.peer_failed()) continue;
    DYNAMIC_SECTION(golden.name()) {
      RuleQuantizer quantizer(golden.meta.at("quantizer").at("rules"));
      std::vector<std::string> differences;
      try {
        differences = test::compare_flow(golden, quantizer);
      } catch (const std::exception& error) {
        differences = {error.what()};
      }
      INFO(fmt::format("{}", fmt::join(differences, "\n")));
      CHECK(differences.empty());
    }
  }
}

TEST_CASE("golden: where the peer raises on custom rules, an error says what is wrong",
          "[annotate][golden][long]") {
  for (const GoldenCase& golden : test::golden_cases("cus_err_")) {
    DYNAMIC_SECTION(golden.name()) {
      RuleQuantizer quantizer(golden.meta.at("quantizer").at("rules"));
      Report report;
      const auto flow = [&] {
        ObservedGraph observed =
            prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report);
        calibrate(observed, golden.calibration());
        convert_pt2e(std::move(observed), {}, report);
      };
      CHECK_THROWS_AS(flow(), Error);
    }
  }
}

TEST_CASE("golden: the comparison notices a wrong scale, dtype, consumer and output",
          "[annotate][golden][long]") {
  for (const GoldenCase& golden : test::golden_cases("cus_minmax_act")) {
    RuleQuantizer quantizer(golden.meta.at("quantizer").at("rules"));
    Report report;
    ObservedGraph observed = prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report);
    calibrate(observed, golden.calibration());
    CHECK(test::compare_qparams(observed, golden).empty());
    Graph graph = convert_pt2e(std::move(observed), {}, report);
    REQUIRE(test::compare_converted(graph, golden).empty());
    Node* quantize = graph.nodes_of("quantized_decomposed.quantize_per_tensor.default").front();
    const double scale = quantize->float_or("scale", 0);
    quantize->set_argument("scale", scale * 1.001);
    CHECK(test::compare_converted(graph, golden).size() == 1);
    quantize->set_argument("scale", scale);
    quantize->set_argument("dtype", DType::kUInt8);
    CHECK(test::compare_converted(graph, golden).size() == 1);
    quantize->set_argument("dtype", DType::kInt8);
    Node* dequantize = quantize->output()->users().front();
    dequantize->output()->users().front()->replace_input(dequantize->output(),
                                                         quantize->find_input("input"));
    CHECK_FALSE(test::compare_converted(graph, golden).empty());
    CHECK_FALSE(test::compare_outputs(golden.example(), golden).empty());
  }
}

}  // namespace
}  // namespace octet::test_golden_rules
