// Copies layer norms for smoothing (smooth.h). In a transformer, linear layers and a residual often
// read the same norm. The norm cannot be scaled then, because the residual would change, so the
// linear layers get a copy of it that can:
//
//   norm -> linear, add            norm -> add
//                           =>     norm' -> linear
#include "annotate/accuracy/smooth.h"

#include <algorithm>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/data_free.h"

namespace octet {
namespace {

// Whether the node is a linear that multiplies `input` by a quantized weight and does not read it
// otherwise.
bool is_linear_of(const Node& node, const Value* input) {
  const LayerOperands* operands = find_operands(node);
  if (operands == nullptr || operands->kind == MatrixLayer::Kind::kConvolution ||
      node.find_input(operands->input) != input)
    return false;
  const Value* weight = node.find_input(operands->weight);
  return weight != nullptr && weight != input && is_observer_node(weight->producer());
}

bool derives_from(const ObservedGraph& observed, int group) {
  const std::shared_ptr<Observer>& source = observed.observers[static_cast<size_t>(group)];
  return std::ranges::any_of(observed.observers, [&](const std::shared_ptr<Observer>& observer) {
    const auto* derived = dynamic_cast<const DerivedObserver*>(observer.get());
    return derived != nullptr &&
           std::ranges::find(derived->sources(), source) != derived->sources().end();
  });
}

// The readers of one norm.
class Readers {
 public:
  Readers(const ObservedGraph& observed, Value* output) : observed_(observed) { look(output); }

  bool is_shared() const { return has_others_ && !points_.empty(); }
  std::vector<NormSplit::Point> take_points() { return std::move(points_); }

 private:
  void look(Value* value) {
    has_others_ = has_others_ || value->is_output();
    for (Node* user : value->users()) {
      if (user->is("aten.dropout") && !user->bool_or("train", true))
        look(user->output());
      else if (is_observer_node(user))
        add(*user, value);
      else
        has_others_ = true;
    }
  }

  void add(Node& point, Value* read) {
    Value* output = point.output();
    NormSplit::Point found{.point = &point,
                           .read_before = read,
                           .group_before = group_of(point),
                           .is_new = false,
                           .readers = {}};
    bool is_for_others = output->is_output();
    for (Node* user : output->users()) {
      if (is_linear_of(*user, output))
        found.readers.push_back(user);
      else
        is_for_others = true;
    }
    if (found.readers.empty() || derives_from(observed_, found.group_before)) {
      has_others_ = true;
      return;
    }
    if (is_for_others) {
      has_others_ = true;
      found.is_new = true;
      found.read_before = output;
    }
    points_.push_back(std::move(found));
  }

  const ObservedGraph& observed_;
  bool has_others_ = false;
  std::vector<NormSplit::Point> points_;
};

Node* copy_of(Graph& graph, const Node& norm) {
  Node* copy = graph.insert(norm.target(), norm.arguments(), norm.name() + "_smoothed",
                            norm.output()->meta, graph.find_next(norm));
  copy->metadata = norm.metadata;
  return copy;
}

void retarget(Graph& graph, NormSplit& split) {
  Value* scaled = split.copy->output();
  for (NormSplit::Point& point : split.points) {
    if (!point.is_new) {
      point.point->replace_input(point.read_before, scaled);
      continue;
    }
    Node* shared = point.point;
    point.point = insert_observer_node(graph, scaled, point.group_before,
                                       shared->name() + "_smoothed", graph.find_next(*split.copy));
    for (Node* reader : point.readers)
      reader->replace_input(point.read_before, point.point->output());
  }
}

}  // namespace

std::vector<NormSplit> split_norms(ObservedGraph& observed) {
  std::vector<NormSplit> splits;
  for (Node* node : observed.graph.nodes()) {
    if (!node->is("aten.layer_norm") || node->output_or_null() == nullptr) continue;
    Readers readers(observed, node->output());
    if (!readers.is_shared()) continue;
    NormSplit split{
        .norm = node, .copy = copy_of(observed.graph, *node), .points = readers.take_points()};
    retarget(observed.graph, split);
    splits.push_back(std::move(split));
  }
  return splits;
}

void separate_observers(ObservedGraph& observed, const NormSplit& split) {
  std::map<int, int64_t> groups;  // by the group before the split
  for (const NormSplit::Point& point : split.points) {
    const auto [known, is_new] =
        groups.emplace(point.group_before, static_cast<int64_t>(observed.observers.size()));
    if (is_new)
      observed.observers.push_back(
          make_observer(observed.observers[static_cast<size_t>(point.group_before)]->args()));
    point.point->set_argument("group", known->second);
  }
}

void join_norm(ObservedGraph& observed, const NormSplit& split) {
  Graph& graph = observed.graph;
  const std::vector<Value*> constants = split.copy->inputs();
  for (const NormSplit::Point& point : split.points) {
    if (!point.is_new) {
      point.point->replace_input(split.copy->output(), point.read_before);
      point.point->set_argument("group", int64_t{point.group_before});
      continue;
    }
    for (Node* reader : point.readers)
      reader->replace_input(point.point->output(), point.read_before);
    graph.erase(*point.point);
  }
  graph.erase(*split.copy);
  for (Value* constant : constants)
    if (graph.find_constant(constant) != nullptr && constant->is_unused())
      graph.erase_input(*constant);
}

}  // namespace octet
