// States of observers as JSON: round trip, merging files, reading a part of a state, and files that
// are refused.
#include <ATen/ops/full.h>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observed/observer_state.h"
#include "annotate/observers/observer_cases.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_observer_state {
namespace {

using Json = nlohmann::ordered_json;

// Observes inputs and outputs of the named nodes: floats with one kind of observer, second inputs
// (weights) per channel.
class Chosen : public Quantizer {
 public:
  Chosen(std::string observer, std::vector<std::string> nodes)
      : observer_(std::move(observer)), nodes_(std::move(nodes)) {}
  std::string name() const override { return "chosen"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    QuantizationSpec act{.dtype = DType::kInt8,
                         .observer_or_fake_quant_ctr = {},
                         .quant_min = -128,
                         .quant_max = 127,
                         .qscheme = QScheme::kPerTensorAffine,
                         .ch_axis = {}};
    act.observer_or_fake_quant_ctr.name = observer_;
    QuantizationSpec weight{.dtype = DType::kInt8,
                            .observer_or_fake_quant_ctr = {},
                            .quant_min = -127,
                            .quant_max = 127,
                            .qscheme = QScheme::kPerChannelSymmetric,
                            .ch_axis = 0};
    weight.observer_or_fake_quant_ctr.name = "per_channel_min_max";
    for (const std::string& name : nodes_) {
      const Node* node = graph.find_node(name);
      QuantizationAnnotation& annotation = annotations[node];
      annotation.set_input(node->inputs().at(0), act);
      if (node->inputs().size() > 1) annotation.set_input(node->inputs()[1], weight);
      annotation.output_qspec = act;
    }
  }

 private:
  std::string observer_;
  std::vector<std::string> nodes_;
};

ObservedGraph prepare(const std::string& observer = "min_max",
                      const std::vector<std::string>& nodes = {"y", "z"}) {
  Graph graph = parse_graph(R"(
graph(%w = param "lin.weight": f32[2,3], %b = param "lin.bias": f32[2], %x: f32[4,3]):
  %y: f32[4,2] = aten.linear.default(%x, %w, %b)
  %z: f32[4,2] = aten.tanh.default(%y)
  return (%z))");
  float* weight = graph.constants.at("lin.weight").tensor.data<float>();
  for (int i = 0; i < 6; ++i) weight[i] = static_cast<float>(i - 2);
  Chosen quantizer(observer, nodes);
  Report report;
  return prepare_pt2e(std::move(graph), quantizer, report);
}

std::vector<c10::IValue> batch(uint32_t seed) {
  return {test::make_batch(seed, {4, 3}, static_cast<float>(seed), 0.5f)};
}

ObservedGraph calibrated(const std::vector<uint32_t>& seeds,
                         const std::string& observer = "min_max") {
  ObservedGraph observed = prepare(observer);
  std::vector<std::vector<c10::IValue>> batches;
  for (const uint32_t seed : seeds) batches.push_back(batch(seed));
  calibrate(observed, batches);
  return observed;
}

std::string convert(ObservedGraph observed) {
  Report report;
  return to_text(convert_pt2e(std::move(observed), {}, report));
}

TEST_CASE("state: saved and loaded, it gives the same quantized graph, for every kind",
          "[annotate][state]") {
  for (const std::string kind : {"min_max", "moving_average_min_max", "histogram", "fake_quantize",
                                 "fused_moving_avg_obs_fake_quantize"}) {
    INFO(kind);
    ObservedGraph first = calibrated({1, 2, 3}, kind);
    const std::string state = observer_state_to_json(first);
    ObservedGraph second = prepare(kind);
    CHECK(observer_state_from_json(second, state, "state.json").empty());
    CHECK(observer_state_to_json(second) == state);
    CHECK(convert(std::move(first)) == convert(std::move(second)));
  }
}

TEST_CASE("state: two shards merged give the graph of one pass", "[annotate][state]") {
  for (const std::string kind : {"min_max", "moving_average_min_max"}) {
    INFO(kind);
    ObservedGraph merged = prepare(kind);
    observer_state_from_json(merged, observer_state_to_json(calibrated({1, 2}, kind)), "a.json");
    merge_observer_state_from_json(merged, observer_state_to_json(calibrated({3}, kind)), "b.json");
    ObservedGraph whole = calibrated({1, 2, 3}, kind);
    CHECK(observer_state_to_json(merged) == observer_state_to_json(whole));
    CHECK(convert(std::move(merged)) == convert(std::move(whole)));
  }
}

TEST_CASE("state: a graph that quantizes less takes its part of the state", "[annotate][state]") {
  const std::string state = observer_state_to_json(calibrated({1, 2}));
  ObservedGraph part = prepare("min_max", {"y"});
  CHECK(observer_state_from_json(part, state, "s.json", StateFit::kPart).empty());
  ObservedGraph direct = prepare("min_max", {"y"});
  calibrate(direct, {batch(1), batch(2)});
  CHECK(observer_state_to_json(part) == observer_state_to_json(direct));
  ObservedGraph strict = prepare("min_max", {"y"});
  CHECK_THROWS_WITH(observer_state_from_json(strict, state, "s.json"),
                    "state: s.json: the state has a min_max observer of [z], which the graph "
                    "does not have; calibrate with the same model and quantizer");
}

TEST_CASE("state: a part of a group takes the range of the whole group, with a note",
          "[annotate][state]") {
  Json state = Json::parse(observer_state_to_json(calibrated({1, 2})));
  for (Json& group : state.at("groups"))
    if (group.at("sites") == Json::array({"y"})) group["sites"] = Json::array({"y", "other"});
  ObservedGraph observed = prepare();
  const std::vector<std::string> notes =
      observer_state_from_json(observed, state.dump(), "s.json", StateFit::kPart);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "state: [y] takes the range that s.json saw together with other values: [y, other]");
}

TEST_CASE("state: a site that the state lacks is named", "[annotate][state]") {
  const ObservedGraph small = prepare("min_max", {"y"});
  ObservedGraph large = prepare();
  CHECK_THROWS_WITH(
      observer_state_from_json(large, observer_state_to_json(small), "s.json", StateFit::kPart),
      "state: s.json: the state lacks %z, which the min_max observer of [z] needs; calibrate with "
      "the same model and quantizer");
  ObservedGraph histograms = prepare("histogram");
  CHECK_THROWS_WITH(observer_state_from_json(histograms, observer_state_to_json(large), "s.json"),
                    "state: s.json: %x was seen by another observer, got min_max, want histogram; "
                    "calibrate with the same quantizer");
}

// The message for a state in which `key` of the group of `site` is `value`.
std::string refusal(const std::string& site, const std::string& key, const Json& value,
                    const std::string& kind = "min_max") {
  Json state = Json::parse(observer_state_to_json(calibrated({1, 2}, kind)));
  for (Json& group : state.at("groups"))
    if (group.at("sites").at(0) == site) group[key] = value;
  ObservedGraph observed = prepare(kind);
  try {
    observer_state_from_json(observed, state.dump(), "s.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("state: impossible numbers are refused", "[annotate][state]") {
  CHECK(refusal("y", "min", {5.0, 6.0}) ==
        "state: s.json: the group of [y] has 2 minima and 1 maxima, want equal numbers");
  CHECK(refusal("y", "min", {1e9}).find("state: s.json: the group of [y] has the range [1e+09, ") ==
        0);
  CHECK(
      refusal("y", "min", {-1e300}).find("state: s.json: the group of [y] has the range [-inf, ") ==
      0);
  CHECK(refusal("y", "min", {nullptr}).find("state: s.json: no state of observers: ") == 0);
  CHECK(refusal("y", "batches", -1) ==
        "state: s.json: the group of [y] has seen -1 batches, want at least 0");
  CHECK(refusal("w", "max", {1.0}) ==
        "state: s.json: the group of [w] has 2 minima and 1 maxima, want equal numbers");
  CHECK(refusal("y", "histogram", {1.0, 2.0}, "histogram") ==
        "state: s.json: the group of [y]: histogram: a histogram of another size, got 2 bins, want "
        "2048");
  CHECK(refusal("y", "histogram", {-1.0}, "histogram") ==
        "state: s.json: the group of [y] has the count -1, want a finite number of at least 0");
  CHECK(refusal("y", "first_min", {1.0}, "moving_average_min_max").empty());
  CHECK(refusal("y", "first_min", {1.0, 2.0}, "moving_average_min_max") ==
        "state: s.json: the group of [y] has 2 first minima and 1 first maxima, want 1 of both");
}

TEST_CASE("state: a wrong number of channels is refused", "[annotate][state]") {
  Json state = Json::parse(observer_state_to_json(calibrated({1})));
  for (Json& group : state.at("groups"))
    if (group.at("sites").at(0) == "w") group["min"] = group["max"] = {1.0, 2.0, 3.0};
  ObservedGraph observed = prepare();
  CHECK_THROWS_WITH(
      observer_state_from_json(observed, state.dump(), "s.json"),
      "state: s.json: the group of [w] has 3 channels, want 2; calibrate with the same model");
}

TEST_CASE("state: foreign and damaged files are refused in one line", "[annotate][state]") {
  ObservedGraph observed = prepare();
  const auto load = [&](const std::string& text) {
    observer_state_from_json(observed, text, "s.json");
  };
  CHECK_THROWS_WITH(load("[1,"), Catch::StartsWith("state: s.json: no state of observers: "));
  CHECK_THROWS_WITH(load(""), Catch::StartsWith("state: s.json: no state of observers: "));
  CHECK_THROWS_WITH(load("[]"), Catch::StartsWith("state: s.json: no state of observers: "));
  CHECK_THROWS_WITH(load(R"({"format": 2})"),
                    Catch::StartsWith("state: s.json: no state of observers: "));
  CHECK_THROWS_WITH(load(R"({"format": 2, "groups": [7]})"),
                    Catch::StartsWith("state: s.json: no state of observers: "));
  CHECK_THROWS_WITH(
      load(R"({"format": 1, "groups": []})"),
      "state: s.json: unknown format, got 1, want 2; calibrate again with this version");
  CHECK_THROWS_WITH(load(R"({"format": "octet", "groups": []})"),
                    Catch::StartsWith("state: s.json: unknown format, got \"octet\", want 2"));
  CHECK_THROWS_WITH(load(R"({"format": 2, "groups": []})"),
                    Catch::StartsWith("state: s.json: the state lacks %") &&
                        Catch::EndsWith("calibrate with the same model and quantizer"));
  CHECK_THROWS_WITH(load_observer_states(observed, {"/nonexistent/s.json"}),
                    "state: /nonexistent/s.json: cannot be read; check the path");
}

}  // namespace
}  // namespace octet::test_observer_state
