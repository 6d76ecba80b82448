#include "annotate/calibrate/calibrate.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>

#include "annotate/calibrate/recorded_parts.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/observer_state.h"
#include "core/base/error.h"

namespace octet {
namespace {

bool is_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

bool has_nan(const at::Tensor& tensor) {
  return tensor.is_floating_point() && at::isnan(tensor).any().item<bool>();
}

// The constant values of the graph and of the bodies within it.
std::unordered_set<const Value*> all_constant_values(const Graph& graph) {
  std::unordered_set<const Value*> constants = find_constant_values(graph);
  for (const Body& body : bodies_within(graph)) constants.merge(find_constant_values(*body.graph));
  return constants;
}

class Calibration {
 public:
  Calibration(ObservedGraph& observed, size_t first_batch)
      : observed_(observed), first_batch_number_(first_batch) {
    choose_once();
  }

  void run(const BatchSource& next_batch, const CalibrateOptions& options) {
    std::map<std::string, Handler> handlers = options.handlers;
    handlers[std::string(kObserveTarget)] = handler();
    std::vector<std::string> known;
    for (const auto& [target, handler] : handlers) known.push_back(target);
    check_ops_can_run(observed_.graph, known);
    Interpreter interpreter(observed_.graph, {.after_node = {}, .handlers = std::move(handlers)});
    while (std::optional<std::vector<c10::IValue>> batch = next_batch()) {
      check_batch(*batch);
      try {
        interpreter.run(*batch);
      } catch (const Error& error) {
        if (error.stage() == "calibrate") throw;
        throw Error("calibrate", fmt::format("batch {}", number()), error.without_stage());
      }
      batch.reset();
      ++batches_;
      if (options.progress) options.progress(batches_);
    }
  }

  size_t batches() const { return batches_; }

 private:
  size_t number() const { return first_batch_number_ + batches_; }

  // Finds observer nodes on constants whose observer learns nothing from a second look. All nodes
  // of the group must be on constants, or the observer idempotent.
  void choose_once() {
    const std::unordered_set<const Value*> constants = all_constant_values(observed_.graph);
    std::map<int, int> points_of_group;
    for (const Node* point : observer_nodes(observed_.graph)) ++points_of_group[group_of(*point)];
    for (const Node* point : observer_nodes(observed_.graph)) {
      const Observer& observer = *observed_.observers[static_cast<size_t>(group_of(*point))];
      const bool running = observer.is_idempotent() &&
                           observer.args().choice.name.find("moving_average") == std::string::npos;
      const bool alone = observer.is_idempotent() && points_of_group[group_of(*point)] == 1;
      if (constants.contains(observed_value(*point)) && (running || alone)) once_.insert(point);
    }
  }

  Handler handler() {
    return [this](const Node& point, const std::vector<c10::IValue>& arguments) {
      // A branch may run for the first time in any batch.
      const bool is_seen = once_.contains(&point) &&
                           first_batch_.try_emplace(&point, batches_).first->second != batches_;
      if (is_seen) return std::vector<c10::IValue>{arguments.at(0)};
      return std::vector<c10::IValue>{observe(point, arguments.at(0).toTensor())};
    };
  }

  // The result of the observer node.
  at::Tensor observe(const Node& point, const at::Tensor& x) {
    Observer& observer = *observed_.observers[static_cast<size_t>(group_of(point))];
    if (!observer.refuses_nan() && has_nan(x)) refuse(point, explain_nan(*observed_value(point)));
    try {
      return observer.forward(x.resolve_neg());  // observers read memory directly
    } catch (const Error& error) {
      refuse(point, has_nan(x) ? explain_nan(*observed_value(point)) : error.without_stage());
    }
  }

  [[noreturn]] void refuse(const Node& point, const std::string& message) const {
    throw Error("calibrate", fmt::format("batch {} %{}", number(), observed_value(point)->name()),
                message);
  }

  static std::string explain_nan(const Value& value) {
    if (value.producer() == nullptr)
      return "the weights hold NaN, want finite numbers; check the exported model";
    return fmt::format(
        "{} returned NaN for finite inputs, want numbers; check the model with these inputs",
        value.producer()->target());
  }

  void check_batch(const std::vector<c10::IValue>& batch) const {
    size_t i = 0;
    for (const GraphInput& input : observed_.graph.inputs()) {
      if (input.kind != InputKind::kUserInput && input.kind != InputKind::kConstant) continue;
      if (i < batch.size() && batch[i].isTensor() && !is_finite(batch[i].toTensor()))
        throw Error(
            "calibrate",
            fmt::format("batch {} input {} %{}", number(), i,
                        input.value == nullptr ? "" : input.value->name()),
            "the data holds NaN or infinities, want finite numbers; remove or clean this batch");
      ++i;
    }
    if (batch.size() != i)
      throw Error("calibrate", fmt::format("batch {}", number()),
                  fmt::format("wrong number of inputs, got {}, want {}", batch.size(), i));
  }

  ObservedGraph& observed_;
  const size_t first_batch_number_;
  std::unordered_set<const Node*> once_;
  // the batch in which each of `once_` ran first
  std::unordered_map<const Node*, size_t> first_batch_;
  size_t batches_ = 0;
};

}  // namespace

namespace {

size_t calibrate_whole(ObservedGraph& observed, const BatchSource& next_batch,
                       const CalibrateOptions& options) {
  Calibration calibration(observed, options.first_batch);
  calibration.run(next_batch, options);
  if (calibration.batches() == 0)
    throw Error("calibrate", "data", "no batches, got 0, want at least 1");
  return calibration.batches();
}

// "%gate, %nms": the values to be recorded.
std::string names_of(const std::vector<const Value*>& values) {
  std::string names;
  for (const Value* value : values) names += (names.empty() ? "%" : ", %") + value->name();
  return names;
}

// Each batch followed by its recorded tensors.
BatchSource join(const BatchSource& batches, const BatchSource& recorded,
                 const std::vector<const Value*>& values, size_t first_batch) {
  size_t count = first_batch;
  return [=]() mutable -> std::optional<std::vector<c10::IValue>> {
    std::optional<std::vector<c10::IValue>> batch = batches();
    if (!batch) return batch;
    const std::optional<std::vector<c10::IValue>> more = recorded();
    if (!more || more->size() != values.size())
      throw Error("calibrate", fmt::format("batch {}", count),
                  fmt::format("{} recorded tensors, want {}: {}",
                              more ? fmt::format("got {}", more->size()) : "there are no",
                              values.size(), names_of(values)));
    batch->insert(batch->end(), more->begin(), more->end());
    ++count;
    return batch;
  };
}

}  // namespace

size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const CalibrateOptions& options) {
  const std::vector<const Value*> values = recorded_values(observed);
  if (values.empty() && options.recorded)
    throw Error(
        "calibrate", "recorded",
        "got recorded tensors, but no opaque part is recorded; set \"recorded\": true on the part");
  if (values.empty()) return calibrate_whole(observed, next_batch, options);
  if (!options.recorded)
    throw Error("calibrate", names_of(values),
                "is recorded and does not run in calibration, got no recorded tensors; give them "
                "(--recorded R.pt)");
  ObservedGraph cut = cut_recorded_parts(observed);
  return calibrate_whole(cut, join(next_batch, options.recorded, values, options.first_batch),
                         options);
}

size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const ProgressCallback& progress) {
  return calibrate(observed, next_batch, CalibrateOptions{.progress = progress});
}

size_t calibrate(ObservedGraph& observed, const std::vector<std::vector<c10::IValue>>& batches) {
  size_t i = 0;
  return calibrate(observed, [&]() -> std::optional<std::vector<c10::IValue>> {
    if (i == batches.size()) return std::nullopt;
    return batches[i++];
  });
}

namespace {

// The observer nodes of one graph whose observers have seen nothing, whether they need activations
// or constants.
std::vector<Node*> points_without_data(const ObservedGraph& observed,
                                       const std::vector<Node*>& points) {
  std::vector<Node*> result;
  for (Node* point : points)
    if (!observed.observers[static_cast<size_t>(group_of(*point))]->has_data())
      result.push_back(point);
  return result;
}

void observe_constants_of(const Graph& graph, ObservedGraph& observed) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::vector<const Value*> wanted;
  for (const Node* node : graph.nodes())
    if (is_observer_node(node) && constants.contains(node->output()))
      wanted.push_back(node->output());
  if (wanted.empty()) return;
  const Graph part = extract_constant_part(graph, wanted);
  const auto observe = [&](const Node& point, const std::vector<c10::IValue>& arguments) {
    try {
      return std::vector<c10::IValue>{
          observed.observers[static_cast<size_t>(group_of(point))]->forward(
              arguments.at(0).toTensor())};
    } catch (const Error& error) {
      throw Error("calibrate", "%" + observed_value(point)->name(), error.without_stage());
    }
  };
  Interpreter(part, {.after_node = {}, .handlers = {{std::string(kObserveTarget), observe}}})
      .run({});
}

}  // namespace

void observe_constants(ObservedGraph& observed) {
  observe_constants_of(observed.graph, observed);
  for (const Body& body : bodies_within(observed.graph))
    observe_constants_of(*body.graph, observed);
}

bool needs_calibration(const ObservedGraph& observed) {
  const std::unordered_set<const Value*> constants = all_constant_values(observed.graph);
  const std::vector<Node*> open = points_without_data(observed, observer_nodes(observed.graph));
  return std::ranges::any_of(
      open, [&](const Node* point) { return !constants.contains(observed_value(*point)); });
}

int leave_unseen_bodies_float(ObservedGraph& observed, Report& report) {
  const std::vector<Node*> all = observer_nodes(observed.graph);
  if (points_without_data(observed, all).size() == all.size()) return 0;
  int count = 0;
  for (const Body& body : bodies_within(observed.graph)) {
    std::vector<Node*> points;
    std::ranges::copy_if(all, std::back_inserter(points),
                         [&](const Node* point) { return &point->graph() == body.graph; });
    if (points_without_data(observed, points).empty()) continue;
    for (Node* point : points) {
      body.graph->replace_uses(point->output(), point->find_input("input"));
      body.graph->erase(*point);
    }
    for (const Node* node : body.graph->nodes())
      if (observed.annotations.is_annotated(node))
        report.add({"convert", body.path + "." + node->name(), node->target(), "",
                    body.path + " did not run with the calibration data"});
    ++count;
  }
  return count;
}

void merge_parts(ObservedGraph& observed, const std::vector<std::string>& states) {
  bool is_first = true;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].empty()) continue;
    const std::string source = fmt::format("process {}", i);
    if (is_first)
      observer_state_from_json(observed, states[i], source);
    else
      merge_observer_state_from_json(observed, states[i], source);
    is_first = false;
  }
}

void calibrate_together(ObservedGraph& observed, const BatchSource& data, size_t total,
                        Peers* peers, const ProgressCallback& progress) {
  if (peers == nullptr) {
    calibrate(observed, data, progress);
    return;
  }
  const size_t first = total * peers->rank() / peers->count();
  const size_t end = total * (peers->rank() + 1) / peers->count();
  for (size_t i = 0; i < first; ++i) data();
  size_t next = first;
  const BatchSource part = [&]() -> std::optional<std::vector<c10::IValue>> {
    return next++ < end ? data() : std::nullopt;
  };
  if (first < end)
    calibrate(observed, part,
              {.progress = progress, .handlers = {}, .recorded = {}, .first_batch = first});
  merge_parts(observed, peers->share(first < end ? observer_state_to_json(observed) : ""));
}

}  // namespace octet
