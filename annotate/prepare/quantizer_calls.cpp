#include "annotate/prepare/quantizer_calls.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>

#include "core/base/user_code.h"
#include "core/interpreter/composite_trace.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

// What annotate() must leave alone about a node.
struct NodeState {
  const Node* node;
  std::string name, target;
  std::vector<Value*> inputs;
  std::vector<Argument> arguments;
  std::vector<std::optional<DType>> dtypes = {};  // of the results; not compared
  bool operator==(const NodeState& other) const {
    return node == other.node && name == other.name && target == other.target &&
           inputs == other.inputs &&
           std::equal(arguments.begin(), arguments.end(), other.arguments.begin(),
                      other.arguments.end(), is_same);
  }
  static bool is_same(const Argument& a, const Argument& b) {
    const auto is_nan = [](const Argument& argument) {
      const double* number = argument.find<double>();
      return number != nullptr && std::isnan(*number);
    };
    return a == b || (is_nan(a) && is_nan(b));
  }
};

std::vector<NodeState> states_of(const Graph& graph) {
  std::vector<NodeState> states;
  for (const Node* node : graph.nodes()) {
    states.push_back({node, node->name(), node->target(), node->inputs(), {}});
    for (const NamedArgument& argument : node->arguments())
      states.back().arguments.push_back(argument.value);
    for (const Value* output : node->outputs())
      states.back().dtypes.push_back(output->meta ? std::optional(output->meta->dtype)
                                                  : std::nullopt);
  }
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

std::string type_of(const TensorMeta& meta) {
  std::string sizes;
  for (const Dim& dim : meta.sizes)
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", dim.value);
  return fmt::format("{}[{}]", short_name_of(meta.dtype), sizes);
}

// What the edits broke; "": nothing. keeps_dtypes: a node whose inputs the edits changed may keep
// its recorded dtype, as torchao's transform lets it.
std::string fault_of(const Graph& graph, const std::vector<NodeState>& before, bool keeps_dtypes) {
  try {
    verify(graph);
  } catch (const Error& error) {
    return fmt::format("breaks the graph: {}", error.without_stage());
  }
  std::unordered_map<const Node*, const NodeState*> known;
  for (const NodeState& state : before) known[state.node] = &state;
  for (const NodeState& state : states_of(graph)) {
    const auto found = known.find(state.node);
    if (found != known.end() && *found->second == state) continue;
    const std::optional<std::vector<TensorMeta>> metas = find_result_metas(*state.node);
    const std::vector<Value*> outputs = state.node->outputs();
    for (size_t i = 0; metas && metas->size() == outputs.size() && i < outputs.size(); ++i) {
      const std::optional<TensorMeta>& meta = outputs[i]->meta;
      const bool is_kept = keeps_dtypes && found != known.end() &&
                           i < found->second->dtypes.size() && meta &&
                           found->second->dtypes[i] == meta->dtype;
      if (meta &&
          ((meta->dtype != metas->at(i).dtype && !is_kept) || meta->sizes != metas->at(i).sizes))
        return fmt::format("says that %{} is {}, but {} gives {}", outputs[i]->name(),
                           type_of(*meta), state.target, type_of(metas->at(i)));
    }
  }
  return {};
}

std::string subject_of(const Quantizer& quantizer) {
  return fmt::format("quantizer \"{}\"", quantizer.name());
}

size_t count_annotated(const Graph& graph, const Annotations& annotations) {
  const std::vector<Node*> nodes = graph.nodes();
  return static_cast<size_t>(std::ranges::count_if(
      nodes, [&](const Node* node) { return annotations.find(node) != nullptr; }));
}

}  // namespace

void check_by(const Quantizer& quantizer, const Graph& program) {
  in_user_code("prepare", subject_of(quantizer), "its check_model()",
               [&] { quantizer.check_model(program); });
}

void edit_by(const char* stage, const std::string& subject, const std::string& what, Graph& graph,
             const std::function<void()>& edit, Compat compat) {
  const std::vector<NodeState> before = states_of(graph);
  in_user_code(stage, subject, what, edit);
  if (const std::string fault = fault_of(graph, before, compat == Compat::kTorchao); !fault.empty())
    throw Error(stage, subject, fmt::format("{} {}", what, fault));
}

void transform_by(Quantizer& quantizer, Graph& graph, Compat compat) {
  edit_by(
      "prepare", subject_of(quantizer), "its transform_for_annotation()", graph,
      [&] { quantizer.transform_for_annotation(graph); }, compat);
}

void annotate_by(Quantizer& quantizer, Graph& graph, Annotations& annotations, Report& report) {
  const std::string subject = subject_of(quantizer);
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
  in_user_code("prepare", subject_of(quantizer), "its prepare_obs_or_fq_callback()",
               [&] { quantizer.prepare_obs_or_fq_callback(graph, observers); });
}

}  // namespace octet
