// Property test: random small models under random configurations and specs
// (tests/oracle/cases_random.py) give what torchao gives, and Octet's default mode converts
// whatever torchao converts. Skipped without OCTET_GOLDEN_DIR.
#include <iostream>

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "support/golden.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_golden_random {
namespace {

using test::GoldenCase;

std::unique_ptr<Quantizer> make_quantizer_of(const GoldenCase& golden, Compat compat) {
  const test::Json& description = golden.meta.at("quantizer");
  if (description.at("type") == "rules")
    return std::make_unique<test::RuleQuantizer>(description.at("rules"));
  return test::make_golden_quantizer(description, compat);
}

// "" when the whole flow equals torchao's.
std::string differences_of(const GoldenCase& golden, Quantizer& quantizer) {
  try {
    return fmt::format("{}", fmt::join(test::compare_flow(golden, quantizer), "\n  "));
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Prepare, calibrate, convert, run without compat; throws what they throw.
std::vector<c10::IValue> run_own_flow(const GoldenCase& golden, Quantizer& quantizer) {
  Report report;
  ObservedGraph observed = prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report);
  calibrate(observed, golden.calibration());
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  return Interpreter(converted).run(golden.example());
}

// Settings of random configurations often name a type or module that the model lacks, which
// torchao ignores.
bool names_what_the_model_lacks(const Error& error) {
  const std::string text = error.what();
  return text.find("is not the type of any module of the model") != std::string::npos ||
         text.find("is not a module of the model") != std::string::npos;
}

}  // namespace

TEST_CASE(
    "golden: random models and specs give the peer's observers, scales, q/dq graph and outputs",
    "[quantizers][golden][random][long]") {
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases("rnd_")) {
    if (golden.peer_failed()) continue;
    const std::unique_ptr<Quantizer> quantizer = make_quantizer_of(golden, Compat::kTorchao);
    if (quantizer == nullptr) continue;
    const std::string difference = differences_of(golden, *quantizer);
    ++compared;
    equal += difference.empty();
    if (!difference.empty()) std::cerr << fmt::format("{}: {}\n", golden.name(), difference);
    INFO(golden.name());
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
  std::cerr << fmt::format("random flow: {} of {} cases are equal\n", equal, compared);
}

TEST_CASE("golden: Octet converts and runs every random model that the peer converts",
          "[quantizers][golden][random][long]") {
  for (const GoldenCase& golden : test::golden_cases("rnd_")) {
    const std::unique_ptr<Quantizer> quantizer = make_quantizer_of(golden, Compat::kNone);
    if (quantizer == nullptr) continue;
    std::string failure;
    try {
      for (const c10::IValue& output : run_own_flow(golden, *quantizer))
        if (!at::isfinite(output.toTensor()).all().item<bool>())
          failure = "an output is not finite";
    } catch (const Error& error) {
      // Where torchao raises, an error that says why is enough.
      if (!golden.peer_failed() && !names_what_the_model_lacks(error)) failure = error.what();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty()) std::cerr << fmt::format("{}: {}\n", golden.name(), failure);
    INFO(golden.name());
    CHECK_THAT(failure, Catch::Matchers::Equals(""));
  }
}

}  // namespace octet::test_golden_random
