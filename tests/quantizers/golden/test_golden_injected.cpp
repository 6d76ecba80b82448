// Tests convert alone: each observer gives the scale and zero point of torchao's observer, and the
// q/dq graph must equal torchao's, quantized constants to the byte. Skipped without
// OCTET_GOLDEN_DIR.
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "quantizers/golden/golden_quantizer.h"
#include "support/golden.h"
#include "support/golden_match.h"
#include "support/npy.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_golden_injected {
namespace {

using test::GoldenCase;
using test::Json;

// Replaces an observer and gives its known result.
class InjectedObserver : public Observer {
 public:
  InjectedObserver(const Observer& replaced, QParams qparams)
      : Observer(replaced.args(), {replaced.quant_min(), replaced.quant_max()}),
        qparams_(std::move(qparams)) {}
  void observe(const at::Tensor&) override {}
  QParams calculate_qparams() const override { return qparams_; }
  bool has_data() const override { return true; }

 private:
  QParams qparams_;
};

QParams golden_qparams(const Json& group, const Observer& observer) {
  QParams result;
  result.scale = group.at("scale").get<std::vector<float>>();
  const std::string dtype = group.at("zero_point_dtype");
  result.zero_point_dtype = *find_dtype(dtype.substr(dtype.find('.') + 1));
  result.zero_point = group.at("zero_point").get<std::vector<int64_t>>();
  result.axis = is_per_channel(observer.args().qscheme) ? observer.args().ch_axis.value_or(0) : -1;
  return result;
}

std::unique_ptr<Quantizer> make_quantizer_of(const GoldenCase& golden) {
  const Json& description = golden.meta.at("quantizer");
  if (description.at("type") == "rules")
    return std::make_unique<test::RuleQuantizer>(description.at("rules"));
  return test::make_golden_quantizer(description, Compat::kTorchao);
}

std::vector<std::string> compare_injected(const GoldenCase& golden, Quantizer& quantizer) {
  Report report;
  PrepareOptions options;
  options.compat = Compat::kTorchao;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report, options);
  const Json prepared = golden.json("prepared.json");
  const test::GoldenMatch match(prepared.at("nodes"), observed.graph, {}, {});
  if (!match.differences.empty()) return match.differences;
  observe_constants(observed);
  const Json groups = golden.json("qparams.json").at("groups");
  for (const auto& [want, ours] : match.groups) {
    const Json& group = groups.at(static_cast<size_t>(want));
    std::shared_ptr<Observer>& observer = observed.observers.at(static_cast<size_t>(ours));
    // the golden file holds its integer part
    const bool has_float_zero_point =
        observer->args().qscheme == QScheme::kPerChannelAffineFloatQParams;
    if (!group.at("scale").is_null() && !has_float_zero_point)
      observer = std::make_shared<InjectedObserver>(*observer, golden_qparams(group, *observer));
  }
  const Graph converted = convert_pt2e(
      std::move(observed),
      {.fold_quantize = golden.meta.value("fold_quantize", true), .compat = Compat::kTorchao},
      report);
  const Json nodes = golden.json("converted.json").at("nodes");
  return test::GoldenMatch(nodes, converted, test::read_npz(golden.folder / "converted_attrs.npz"),
                           {.scale_rtol = 0})
      .differences;
}

}  // namespace

TEST_CASE("golden: convert is the peer's exactly when its scales and zero points are given",
          "[quantizers][golden][injected][long]") {
  int compared = 0;
  int equal = 0;
  for (const GoldenCase& golden : test::golden_cases("")) {
    if (golden.peer_failed() || golden.meta.at("mode") == "qat") continue;
    const std::unique_ptr<Quantizer> quantizer = make_quantizer_of(golden);
    if (quantizer == nullptr) continue;
    std::string difference;
    try {
      difference = fmt::format("{}", fmt::join(compare_injected(golden, *quantizer), "; "));
    } catch (const std::exception& error) {
      difference = error.what();
    }
    ++compared;
    equal += difference.empty();
    if (!difference.empty()) std::cerr << fmt::format("{}: {}\n", golden.name(), difference);
    INFO(golden.name());
    CHECK_THAT(difference, Catch::Matchers::Equals(""));
  }
  std::cerr << fmt::format("injected: {} of {} cases are equal\n", equal, compared);
}

}  // namespace octet::test_golden_injected
