// Programs that were exported in training mode are refused before calibration.
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include "support/graph_matchers.h"

namespace octet::test_training_mode {
namespace {

constexpr const char* kDropouts = R"(graph(%w = param "w": f32[4,4], %x: f32[2,4]):
  %a: f32[2,4] = aten.dropout.default(%x, 0.5, True)
  %b: f32[2,4] = aten.linear.default(%a, %w)
  %c: f32[2,4] = aten.dropout.default(%b, 0.5, True)
  return (%c))";

ObservedGraph prepare_text(const std::string& text, Report& report, const PrepareOptions& options) {
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  test::RuleQuantizer quantizer(test::linear_rules());
  return prepare_pt2e(std::move(graph), quantizer, report, options);
}

std::string failure_of(const std::string& text) {
  Report report;
  try {
    prepare_text(text, report, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("prepare: a program in training mode is an error that counts its ops and names the first",
          "[annotate][prepare]") {
  CHECK(failure_of(kDropouts) ==
        "prepare: %a: it (aten.dropout.default) is the first of 2 ops in training mode, want a "
        "program in evaluation mode; call model.eval() before torch.export.export, or allow it "
        "with --training-mode ok");
  const std::string norm =
      R"(graph(%w = param "w": f32[4,4], %m = buffer "m": f32[4], %x: f32[2,4]):
  %b: f32[2,4] = aten.linear.default(%x, %w)
  %n: f32[2,4] = aten.batch_norm.default(%b, None, None, %m, %m, True, 0.1, 1e-5, False)
  return (%n))";
  CHECK_THAT(failure_of(norm),
             Catch::Contains("%n: it (aten.batch_norm.default) is an op in training mode"));
}

TEST_CASE("prepare: norms without running statistics do not count as training mode",
          "[annotate][prepare]") {
  CHECK(failure_of(R"(graph(%w = param "w": f32[4,4], %x: f32[2,4]):
  %b: f32[2,4] = aten.linear.default(%x, %w)
  %n: f32[2,4] = aten.batch_norm.default(%b, None, None, None, None, True, 0.1, 1e-5, False)
  return (%n))") == "none");
}

TEST_CASE("prepare: training mode can be allowed, and torchao allows it", "[annotate][prepare]") {
  PrepareOptions allowed;
  allowed.training_mode = PrepareOptions::TrainingMode::kOk;
  PrepareOptions compat;
  compat.compat = Compat::kTorchao;
  for (const PrepareOptions& options : {allowed, compat}) {
    Report report;
    const ObservedGraph observed = prepare_text(kDropouts, report, options);
    CHECK(observed.graph.find_node("a")->bool_or("train", false));
    REQUIRE(report.notes().size() == 1);
    CHECK(report.notes()[0] ==
          "prepare: %a: it (aten.dropout.default) is the first of 2 ops in training mode; these "
          "stay float and in that mode");
  }
}

TEST_CASE("prepare for training takes programs in training mode", "[annotate][prepare]") {
  Graph graph = parse_graph(kDropouts);
  test::fill_floats(graph);
  test::RuleQuantizer quantizer(test::linear_rules());
  Report report;
  CHECK_NOTHROW(prepare_qat_pt2e(std::move(graph), quantizer, report));
}

}  // namespace octet::test_training_mode
