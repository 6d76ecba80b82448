#include "annotate/prepare/quantizer_calls.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/user_code.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

// What annotate() must leave alone about a node.
struct NodeState {
  const Node* node;
  std::string name, target;
  std::vector<Value*> inputs;
  size_t arguments;
  bool operator==(const NodeState&) const = default;
};

std::vector<NodeState> states_of(const Graph& graph) {
  std::vector<NodeState> states;
  for (const Node* node : graph.nodes())
    states.push_back(
        {node, node->name(), node->target(), node->inputs(), node->arguments().size()});
  return states;
}

void check_unedited(const std::string& quantizer, const std::vector<NodeState>& before,
                    const Graph& graph) {
  const std::vector<NodeState> now = states_of(graph);
  if (now == before) return;
  const auto [was, is] = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
  throw Error("annotate", fmt::format("quantizer \"{}\"", quantizer),
              fmt::format("its annotate() edits the graph at %{}; edit it in "
                          "transform_for_annotation()",
                          was != before.end() ? was->name : is->name));
}

size_t count_annotated(const Graph& graph, const Annotations& annotations) {
  const std::vector<Node*> nodes = graph.nodes();
  return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) {
    return annotations.find(node) != nullptr;
  }));
}

}  // namespace

void transform_by(Quantizer& quantizer, Graph& graph) {
  const std::string subject = fmt::format("quantizer \"{}\"", quantizer.name());
  in_user_code("prepare", subject, "its transform_for_annotation()",
               [&] { quantizer.transform_for_annotation(graph); });
  try {
    verify(graph);
  } catch (const Error& error) {
    throw Error(
        "prepare", subject,
        fmt::format("its transform_for_annotation() breaks the graph: {}", error.without_stage()));
  }
}

void annotate_by(Quantizer& quantizer, Graph& graph, Annotations& annotations, Report& report) {
  const std::string subject = fmt::format("quantizer \"{}\"", quantizer.name());
  const std::vector<NodeState> before = states_of(graph);
  const size_t others = annotations.size() - count_annotated(graph, annotations);
  in_user_code("annotate", subject, "its annotate()",
               [&] { quantizer.annotate(graph, annotations, report); });
  check_unedited(quantizer.name(), before, graph);
  if (annotations.size() - count_annotated(graph, annotations) != others)
    throw Error("annotate", subject,
                "its annotate() annotates a node that is not in the graph (null, or of another "
                "graph); take nodes from the graph that annotate() gets");
  in_user_code("annotate", subject, "its validate()",
               [&] { quantizer.validate(graph, annotations); });
}

void offer_observers(Quantizer& quantizer, const Graph& graph, ObserverMap& observers) {
  in_user_code("prepare", fmt::format("quantizer \"{}\"", quantizer.name()),
               "its prepare_obs_or_fq_callback()",
               [&] { quantizer.prepare_obs_or_fq_callback(graph, observers); });
}

}  // namespace octet
