#include "annotate/observed/check_limits.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/annotation/sharing.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"

namespace octet {

namespace {

// The spec of an annotated edge or output; null: none.
const SpecVariant* find_spec(const Annotations& annotations, const EdgeOrNode& key) {
  const Edge* edge = std::get_if<Edge>(&key);
  if (edge == nullptr) return annotations.find_output(std::get<Value*>(key));
  const QuantizationAnnotation* annotation = annotations.find(edge->user);
  return annotation == nullptr ? nullptr : annotation->find_input(edge->value);
}

// Follows a shared spec to its end. Throws when there is none, or when it leads back to the start.
void follow(const Annotations& annotations, const EdgeOrNode& start, const SpecVariant& spec,
            const std::string& place) {
  std::string way = to_text(start);
  std::vector<EdgeOrNode> seen = {start};
  for (const SpecVariant* at = &spec;
       const SharedQuantizationSpec* shared = std::get_if<SharedQuantizationSpec>(at);) {
    const EdgeOrNode& next = shared->edge_or_node;
    if (next == start)
      throw Error(
          "quantizer", place,
          fmt::format("{} shares its own observer, through {}; give one of them a separate spec",
                      to_text(start), way));
    // a circle that does not include `start`
    if (std::ranges::find(seen, next) != seen.end()) return;
    at = find_spec(annotations, next);
    if (at == nullptr)
      throw Error("quantizer", place,
                  fmt::format("{} shares the observer of {}, which has no spec; give that one a "
                              "spec, or give this one a separate spec",
                              way, to_text(next)));
    seen.push_back(next);
    way += " as " + to_text(next);
  }
}

// The observer node through which an annotated edge reads, or that observes the value; null: none.
const Node* find_point(const EdgeOrNode& key) {
  const auto is_point_on = [](const Node* node, const Value* value) {
    return is_observer_node(node) && observed_value(*node) == value;
  };
  if (const Edge* edge = std::get_if<Edge>(&key)) {
    for (const Value* input : edge->user->inputs())
      if (is_point_on(input->producer(), edge->value)) return input->producer();
    return nullptr;
  }
  for (const Node* user : std::get<Value*>(key)->users())
    if (is_point_on(user, std::get<Value*>(key))) return user;
  return nullptr;
}

// Whether convert asks the observer for scales; not for dynamic or float ones.
bool has_scales(const Observer& observer) {
  return observer.has_data() && !observer.args().is_dynamic && is_integer(observer.args().dtype);
}

}  // namespace

void visit_limits(const Graph& graph, const Annotations& annotations, const LimitVisitor& visit) {
  for (Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    for (const auto& [value, limits] : annotation->input_limits) visit(limits, Edge{value, node});
    if (!annotation->output_limits) continue;
    for (Value* output : node->outputs()) visit(*annotation->output_limits, output);
  }
}

void check_shared_specs(const Graph& graph, const Annotations& annotations,
                        const std::function<std::string(const QuantizationAnnotation&)>& place_of) {
  for (Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    const std::string place = place_of(*annotation);
    if (place.empty()) continue;
    for (const auto& [value, spec] : annotation->input_qspec_map)
      follow(annotations, Edge{value, node}, spec, place);
    for (Value* output : node->outputs())
      if (const SpecVariant* spec = annotation->find_output(output))
        follow(annotations, output, *spec, place);
  }
}

void check_spec_limits(const Graph& graph, const Annotations& annotations) {
  std::optional<SharingGroups> groups;
  visit_limits(graph, annotations, [&](const QuantLimits& limits, const EdgeOrNode& key) {
    if (!groups) groups = find_sharing_groups(graph, annotations);
    const SharingGroups::Member* member = groups->find(key);
    if (member == nullptr) return;
    if (const std::string reason = objection(limits, groups->final_spec(*member)); !reason.empty())
      throw Error("quantizer", limits.place,
                  fmt::format("{}: {}; give it another spec or change the constraint", to_text(key),
                              reason));
  });
}

void check_scale_limits(const ObservedGraph& observed) {
  const auto check = [&](const QuantLimits& limits, const EdgeOrNode& key) {
    if (!limits.asks_scales()) return;
    const Node* point = find_point(key);
    if (point == nullptr) return;
    const Observer& observer = *observed.observers.at(static_cast<size_t>(group_of(*point)));
    if (!has_scales(observer)) return;
    if (const std::string reason = objection(limits, qparams_at(*point, observer)); !reason.empty())
      throw Error("convert", limits.place,
                  fmt::format("{}: {} after calibration; give it another observer or a fixed spec, "
                              "or change the constraint",
                              to_text(key), reason));
  };
  visit_limits(observed.graph, observed.annotations, check);
  for (const Body& body : bodies_within(observed.graph))
    visit_limits(*body.graph, observed.annotations, check);
}

}  // namespace octet
