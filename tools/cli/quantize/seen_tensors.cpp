#include "tools/cli/quantize/seen_tensors.h"

#include <cmath>

#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/histogram.h"

namespace octet {
namespace {

using SeenJson = nlohmann::ordered_json;

const Observer& without_fake_quant(const Observer& observer) {
  const FakeQuantize* fake = dynamic_cast<const FakeQuantize*>(&observer);
  return fake != nullptr ? fake->observer() : observer;
}

// A histogram as torch has it: the last bin holds its upper end.
SeenJson histogram_json(const HistogramObserver& observer) {
  return {{"min", observer.min()},
          {"max", observer.max()},
          {"counts", std::vector<double>(observer.counts().begin(), observer.counts().end())}};
}

SeenJson activation_json(const Observer& outer) {
  const Observer& observer = without_fake_quant(outer);
  SeenJson seen = {{"observer", outer.args().choice.name}};
  if (!observer.has_data() || observer.args().is_dynamic) return seen;
  if (const HistogramObserver* histogram = dynamic_cast<const HistogramObserver*>(&observer)) {
    seen["observed"] = {histogram->min(), histogram->max()};
    if (histogram->max() > histogram->min()) seen["histogram"] = histogram_json(*histogram);
    return seen;
  }
  const ObserverState state = observer.state();
  if (state.min.size() == 1 && state.max.size() == 1)
    seen["observed"] = {state.min.front(), state.max.front()};
  return seen;
}

}  // namespace

SeenTensors see_tensors(const ObservedGraph& observed) {
  SeenTensors seen;
  const Graph& graph = observed.graph;
  for (const Node* point : observer_nodes(graph)) {
    if (&point->graph() != &graph) continue;
    const Value* value = observed_value(*point);
    if (graph.find_constant(value) == nullptr)
      seen.activations.try_emplace(
          value->name(),
          activation_json(*observed.observers.at(static_cast<size_t>(group_of(*point)))));
  }
  for (const Node* node : graph.nodes()) {
    if (is_observer_node(node)) continue;
    for (const Value* input : node->inputs()) {
      const Value* value = through_observers(input);
      const Tensor* tensor = graph.find_constant(value);
      if (value == input || tensor == nullptr || tensor->shape().size() < 2) continue;
      seen.weights.try_emplace(node->name(),
                               SeenTensors::Weight{graph.find_input(value)->fqn, *tensor});
      break;
    }
  }
  return seen;
}

}  // namespace octet
