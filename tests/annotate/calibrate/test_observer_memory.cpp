// Passes what observers have seen to other preparations of the same program.
#include "annotate/calibrate/observer_memory.h"

#include <ATen/ops/equal.h>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/flow_helpers.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/observer_state.h"
#include "annotate/prepare/prepare.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_observer_memory {
namespace {

using Json = nlohmann::ordered_json;
using Batches = std::vector<std::vector<c10::IValue>>;

constexpr const char* kNet = R"(
graph(%w = param "w": f32[6,6], %v = param "v": f32[6,6], %x: f32[4,6]):
  %a: f32[4,6] = aten.linear.default(%x, %w)
  %r: f32[4,6] = aten.relu_.default(%a)
  %b: f32[4,6] = aten.linear.default(%r, %v)
  %s: f32[4,6] = aten.sigmoid.default(%b)
  return (%s))";

Json spec(const char* observer) {
  Json spec = test::act_spec();
  spec["observer"] = observer;
  return spec;
}

Json linear(const char* observer) {
  return Json::array({{{"target", "aten.linear.default"},
                       {"inputs", {{"0", spec(observer)}, {"1", test::per_channel_weight_spec()}}},
                       {"output", spec(observer)}}});
}

// With the sigmoid, whose input and output have another observer.
Json with_sigmoid(const char* observer) {
  Json rules = linear(observer);
  rules.push_back({{"target", "aten.sigmoid.default"},
                   {"inputs", {{"0", spec(observer)}}},
                   {"output", spec(observer)}});
  return rules;
}

ObservedGraph prepared(const Json& rules, const char* text = kNet) {
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  test::RuleQuantizer quantizer(rules);
  Report report;
  return prepare_pt2e(std::move(graph), quantizer, report);
}

Batches batches_of(const ObservedGraph& observed) {
  return {test::random_inputs(observed.graph, 5), test::random_inputs(observed.graph, 6)};
}

// A function that calibrates, and its arguments.
struct Work {
  Batches batches;
  int runs = 0;
  std::vector<size_t> nodes = {};

  void fill(ObserverMemory& memory, ObservedGraph& observed) {
    memory.fill(observed, ObserverMemory::describe(observed), "data", [&](ObservedGraph& part) {
      ++runs;
      nodes.push_back(part.graph.node_count());
      calibrate(part, batches);
    });
  }
};

std::string calibrated_state(const Json& rules) {
  ObservedGraph observed = prepared(rules);
  calibrate(observed, batches_of(observed));
  return observer_state_to_json(observed);
}

TEST_CASE("observer memory: a program that is prepared again runs no data", "[annotate]") {
  for (const char* observer : {"MinMaxObserver", "HistogramObserver", "mse"}) {
    ObserverMemory memory;
    ObservedGraph first = prepared(linear(observer)), second = prepared(linear(observer));
    Work work{batches_of(first)};
    work.fill(memory, first);
    work.fill(memory, second);
    CHECK(work.runs == 1);
    CHECK(observer_state_to_json(second) == calibrated_state(linear(observer)));
    // each has a separate observer
    calibrate(first, work.batches);
    ObservedGraph third = prepared(linear(observer));
    work.fill(memory, third);
    CHECK(work.runs == 1);
    CHECK(observer_state_to_json(third) == observer_state_to_json(second));
  }
}

TEST_CASE("observer memory: what is new runs alone, up to the last of it", "[annotate]") {
  ObserverMemory memory;
  ObservedGraph all = prepared(with_sigmoid("HistogramObserver"));
  ObservedGraph less = prepared(linear("HistogramObserver"));
  Work work{batches_of(all)};
  work.fill(memory, less);
  work.fill(memory, all);
  CHECK(work.runs == 2);
  CHECK(work.nodes[1] < work.nodes[0]);
  CHECK(observer_state_to_json(all) == calibrated_state(with_sigmoid("HistogramObserver")));
}

TEST_CASE("observer memory: a program of which less is quantized runs no data", "[annotate]") {
  ObserverMemory memory;
  ObservedGraph all = prepared(with_sigmoid("HistogramObserver"));
  ObservedGraph less = prepared(linear("HistogramObserver"));
  Work work{batches_of(all)};
  work.fill(memory, all);
  work.fill(memory, less);
  CHECK(work.runs == 1);
  CHECK(observer_state_to_json(less) == calibrated_state(linear("HistogramObserver")));
}

TEST_CASE("observer memory: arguments, weights, data and operations tell observers apart",
          "[annotate]") {
  ObserverMemory memory;
  ObservedGraph first = prepared(linear("HistogramObserver"));
  Work work{batches_of(first)};
  work.fill(memory, first);
  ObservedGraph other_kind = prepared(linear("MinMaxObserver"));
  work.fill(memory, other_kind);
  CHECK(work.runs == 2);
  ObservedGraph other_weight = prepared(linear("HistogramObserver"));
  other_weight.graph.constants.at("w").tensor = other_weight.graph.constants.at("w").tensor.clone();
  other_weight.graph.constants.at("w").tensor.data<float>()[0] += 1;
  work.fill(memory, other_weight);
  CHECK(work.runs == 3);
  ObservedGraph other_data = prepared(linear("HistogramObserver"));
  memory.fill(other_data, ObserverMemory::describe(other_data), "other", [&](ObservedGraph& part) {
    ++work.runs;
    calibrate(part, work.batches);
  });
  CHECK(work.runs == 4);
  std::string text = kNet;
  text.replace(text.find("sigmoid"), 7, "tanh");
  ObservedGraph other_op = prepared(linear("HistogramObserver"), text.c_str());
  work.fill(memory, other_op);
  CHECK(work.runs == 5);
}

TEST_CASE("observer memory: a program that changes its memory, or draws numbers, is not kept",
          "[annotate]") {
  const char* const writes = R"(
    graph(%w = param "w": f32[6,6], %n = buffer "n": f32[4,6], %x: f32[4,6]):
      %m: f32[4,6] = aten.add_.Tensor(%n, %x)
      %a: f32[4,6] = aten.linear.default(%m, %w)
      return (%a))";
  const char* const draws = R"(
    graph(%w = param "w": f32[6,6], %x: f32[4,6]):
      %m: f32[4,6] = aten.rand_like.default(%x)
      %a: f32[4,6] = aten.linear.default(%m, %w)
      return (%a))";
  CHECK(ObserverMemory::describe(prepared(linear("MinMaxObserver"), writes)).empty());
  CHECK(ObserverMemory::describe(prepared(linear("MinMaxObserver"), draws)).empty());
  CHECK_FALSE(ObserverMemory::describe(prepared(linear("MinMaxObserver"))).empty());
}

TEST_CASE("observer memory: a part keeps the writes that come before what is observed",
          "[annotate]") {
  const char* const text = R"(
    graph(%w = param "w": f32[6,6], %x: f32[4,6]):
      %a: f32[4,6] = aten.neg.default(%x)
      %r: f32[4,6] = aten.relu_.default(%a)
      %b: f32[4,6] = aten.linear.default(%a, %w)
      %t: f32[4,6] = aten.relu_.default(%b)
      %u: f32[4,6] = aten.tanh.default(%t)
      return (%u))";
  const ObservedGraph observed = prepared(linear("MinMaxObserver"), text);
  for (const Node* point : observer_nodes(observed.graph)) {
    if (observed_value(*point)->name() != "a") continue;
    const ObservedGraph part = part_for_groups(observed, {group_of(*point)});
    CHECK(test::targets(part.graph) == "neg.default relu_.default observe.default");
  }
}

}  // namespace
}  // namespace octet::test_observer_memory
