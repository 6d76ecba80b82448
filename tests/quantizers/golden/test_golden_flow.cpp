// Differential test of the whole flow on the XNNPACK cases in compat mode: prepare, calibrate,
// convert, run. Skipped without OCTET_GOLDEN_DIR.
#include <catch2/catch.hpp>

#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "quantizers/json/declared_rules.h"
#include "quantizers/registry.h"
#include "support/golden.h"

namespace octet::test_golden_flow {
namespace {

using test::GoldenCase;

// The differences or the error; "" when all is equal.
std::string differences_of(const GoldenCase& golden, Quantizer& quantizer, size_t& count) {
  try {
    const std::vector<std::string> differences = test::compare_flow(golden, quantizer);
    count = differences.size();
    return fmt::format("{}", fmt::join(differences, "; "));
  } catch (const std::exception& error) {
    count = 1;
    return error.what();
  }
}

void compare_cases(const std::string& prefix) {
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases(prefix)) {
    if (golden.peer_failed() || golden.meta.at("mode") == "qat") continue;
    const std::unique_ptr<Quantizer> quantizer =
        test::make_golden_quantizer(golden.meta.at("quantizer"), Compat::kTorchao);
    if (!quantizer) continue;
    size_t count = 0;
    const std::string difference = differences_of(golden, *quantizer, count);
    ++compared;
    equal += difference.empty();
    if (!difference.empty())
      std::cerr << fmt::format("{}: {} differences: {}\n", golden.name(), count, difference);
    INFO(golden.name());
    // not CHECK: torch has a macro of that name
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
  if (compared > 0)
    std::cerr << fmt::format("flow: {} of {} golden cases {}* are equal\n", equal, compared,
                             prefix);
}

// The custom rules of a case, written as JSON and read back.
std::unique_ptr<Quantizer> make_declared(const GoldenCase& golden) {
  const bool is_annotated = std::filesystem::exists(golden.folder / "annotated.json");
  const test::Json nodes =
      is_annotated ? golden.json("annotated.json").at("nodes") : test::Json::array();
  const std::string json =
      test::declared_from_rules(golden.meta.at("quantizer").at("rules"), nodes);
  return parse_quantizer(json, golden.name() + ".json", {.compat = Compat::kTorchao});
}

}  // namespace

TEST_CASE("golden: custom rules as a declared backend give the peer's results",
          "[quantizers][golden][json][long]") {
  for (const GoldenCase& golden : test::golden_cases("cus_")) {
    if (golden.peer_failed()) continue;
    size_t count = 0;
    const std::string difference = differences_of(golden, *make_declared(golden), count);
    INFO(golden.name());
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
}

TEST_CASE("golden: where the peer raises on custom rules, the declared backend gives an error too",
          "[quantizers][golden][json][long]") {
  for (const GoldenCase& golden : test::golden_cases("cus_err_")) {
    INFO(golden.name());
    const std::unique_ptr<Quantizer> quantizer = make_declared(golden);
    Report report;
    const auto flow = [&] {
      ObservedGraph observed =
          prepare_pt2e(read_pt2(golden.folder / "model.pt2"), *quantizer, report);
      calibrate(observed, golden.calibration());
      convert_pt2e(std::move(observed), {}, report);
    };
    CHECK_THROWS_AS(flow(), Error);
  }
}

TEST_CASE("golden: built-in names and lists of them mean the peer's defaults",
          "[quantizers][golden][json][long]") {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"emb_quantizer", "embedding"},
      {"cmp_embedding_xnn", "embedding,xnnpack"},
      {"xnn_linear_relu", "xnnpack"},
      {"x86_conv_bn_relu", "x86"}};
  for (const auto& [name, quantizer] : names)
    for (const GoldenCase& golden : test::golden_cases(name)) {
      size_t count = 0;
      INFO(golden.name());
      CHECK_THAT(
          differences_of(golden, *make_quantizer(quantizer, {.compat = Compat::kTorchao}), count),
          Catch::Matchers::Equals(""));
    }
}

TEST_CASE("golden: the XNNPACK cases give the peer's observers, scales, q/dq graph and outputs",
          "[quantizers][golden][long]") {
  compare_cases("xnn_");
}
TEST_CASE("golden: configurations and filters give the peer's results",
          "[quantizers][golden][long]") {
  compare_cases("cfg_");
}
TEST_CASE("golden: dynamic quantization gives the peer's results", "[quantizers][golden][long]") {
  compare_cases("dyn_");
}
TEST_CASE("golden: the X86 cases give the peer's observers, scales, q/dq graph and outputs",
          "[quantizers][golden][x86][long]") {
  compare_cases("x86_");
}
TEST_CASE("golden: embeddings give the peer's results", "[quantizers][golden][long]") {
  compare_cases("emb_");
}
TEST_CASE("golden: compositions of quantizers give the peer's results",
          "[quantizers][golden][long]") {
  compare_cases("cmp_");
}
TEST_CASE("golden: where the peer finds a conflict of quantizers, an error names the op and both",
          "[quantizers][golden][long]") {
  for (const GoldenCase& golden : test::golden_cases("cmp_conflict")) {
    const std::unique_ptr<Quantizer> quantizer =
        test::make_golden_quantizer(golden.meta.at("quantizer"), Compat::kTorchao);
    Report report;
    CHECK_THROWS_WITH(prepare_pt2e(read_pt2(golden.folder / "model.pt2"), *quantizer, report,
                                   {.compat = Compat::kTorchao}),
                      "quantizer: %embedding: quantizer \"embedding\" (3 of 3) has changed the "
                      "annotation that quantizer \"embedding\" (2 of 3) made; leave "
                      "the op to one of them, e.g. by null for its module_name");
  }
}
TEST_CASE("golden: real models give the peer's results", "[quantizers][golden][real][long]") {
  compare_cases("real_");
}

}  // namespace octet::test_golden_flow
