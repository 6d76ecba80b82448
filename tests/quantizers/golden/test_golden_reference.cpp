// The integer reference representation: op by op torchao's in compat mode, and compared with the
// q/dq graph in Octet's default mode. Skipped without OCTET_GOLDEN_DIR.
#include <iostream>

#include <ATen/Parallel.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "support/golden.h"
#include "support/golden_reference.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_golden_reference {
namespace {

using test::GoldenCase;

std::unique_ptr<Quantizer> quantizer_of(const GoldenCase& golden, Compat compat) {
  const nlohmann::ordered_json& description = golden.meta.at("quantizer");
  if (description.at("type") == "rules")
    return std::make_unique<test::RuleQuantizer>(description.at("rules"));
  return test::make_golden_quantizer(description, compat);
}

bool has_reference(const GoldenCase& golden) {
  return !golden.peer_failed() && golden.meta.at("mode") != "qat" &&
         golden.meta.at("reference").at("status") == "ok";
}

Graph quantize(const GoldenCase& golden, Quantizer& quantizer, bool is_compat, bool is_reference) {
  Report report;
  PrepareOptions prepare_options;
  prepare_options.compat = is_compat ? Compat::kTorchao : Compat::kNone;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report, prepare_options);
  calibrate(observed, golden.calibration());
  ConvertOptions options;
  options.compat = is_compat ? Compat::kTorchao : Compat::kNone;
  options.fold_quantize = golden.meta.value("fold_quantize", true);
  options.reference_representation = is_reference;
  return convert_pt2e(std::move(observed), options, report);
}

// The differences from torchao, or "".
std::string compare_with_peer(const GoldenCase& golden, Quantizer& quantizer) {
  try {
    const Graph graph = quantize(golden, quantizer, /*is_compat=*/true, /*is_reference=*/true);
    std::vector<std::string> differences = test::compare_reference(graph, golden);
    for (const std::string& line :
         test::compare_outputs(Interpreter(graph).run(golden.example()), golden, "reference_out"))
      differences.push_back(line);
    return fmt::format("{}", fmt::join(differences, "; "));
  } catch (const std::exception& error) {
    return error.what();
  }
}

void compare_cases(const std::string& prefix) {
  at::set_num_threads(1);
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases(prefix)) {
    if (!has_reference(golden)) continue;
    const std::unique_ptr<Quantizer> quantizer = quantizer_of(golden, Compat::kTorchao);
    if (!quantizer) continue;
    const std::string difference = compare_with_peer(golden, *quantizer);
    ++compared;
    equal += difference.empty();
    if (!difference.empty()) std::cerr << fmt::format("{}: {}\n", golden.name(), difference);
    INFO(golden.name());
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
  if (compared > 0)
    std::cerr << fmt::format("reference: {} of {} golden cases {}* are equal\n", equal, compared,
                             prefix);
}

size_t count_qdq(const Graph& graph) {
  size_t count = 0;
  for (const Node* node : graph.nodes())
    count += node->target().find("quantize_per_") != std::string::npos;
  return count;
}

// The share of the elements beyond float noise; each differs by at most what one step changes the
// output.
double share_off(const GoldenCase& golden, const Graph& expected, const Graph& graph) {
  const std::vector<c10::IValue> want = Interpreter(expected).run(golden.example());
  const std::vector<c10::IValue> got = Interpreter(graph).run(golden.example());
  REQUIRE(want.size() == got.size());
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const at::Tensor off = at::sub(got[i].toTensor(), want[i].toTensor()).abs();
    if (off.numel() == 0) continue;
    worst = std::max(
        worst, off.gt(golden.tolerance("float_out_atol")).to(at::kDouble).mean().item<double>());
    CHECK(off.max().item<double>() <= golden.tolerance("quantized_out_atol"));
  }
  return worst;
}

void compare_with_qdq(const std::string& prefix) {
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases(prefix)) {
    if (!has_reference(golden)) continue;
    const std::unique_ptr<Quantizer> quantizer = quantizer_of(golden, Compat::kNone);
    if (!quantizer) continue;
    INFO(golden.name());
    const Graph expected =
        quantize(golden, *quantizer, /*is_compat=*/false, /*is_reference=*/false);
    const Graph graph = quantize(golden, *quantizer_of(golden, Compat::kNone), /*is_compat=*/false,
                                 /*is_reference=*/true);
    CHECK(count_qdq(graph) == 0);
    const double share = share_off(golden, expected, graph);
    ++compared;
    equal += share == 0;
    if (share > 0)
      std::cerr << fmt::format("{}: {:.3f} of the elements are off\n", golden.name(), share);
  }
  if (compared > 0)
    std::cerr << fmt::format("reference: {} of {} cases {}* compute what the q/dq graph computes\n",
                             equal, compared, prefix);
}

}  // namespace

TEST_CASE("golden: the reference representation is the peer's with compat, XNNPACK",
          "[quantizers][golden][reference][long]") {
  compare_cases("xnn_");
  compare_cases("cfg_");
  compare_cases("dyn_");
}
TEST_CASE("golden: the reference representation is the peer's with compat, custom rules",
          "[quantizers][golden][reference][long]") {
  compare_cases("cus_");
  compare_cases("cmp_");
  compare_cases("emb_");
}
TEST_CASE("golden: the reference representation is the peer's with compat, X86",
          "[quantizers][golden][reference][long]") {
  compare_cases("x86_");
}

TEST_CASE(
    "golden: without compat the reference representation computes what the q/dq graph computes",
    "[quantizers][golden][reference][long]") {
  at::set_num_threads(1);
  for (const char* prefix : {"xnn_", "dyn_", "x86_"}) compare_with_qdq(prefix);
}

}  // namespace octet::test_golden_reference
