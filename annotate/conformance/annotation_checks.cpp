#include "annotate/conformance/annotation_checks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "annotate/annotation/sharing.h"
#include "core/base/error.h"
#include "core/ops/weighted_ops.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

[[noreturn]] void refuse(const EdgeOrNode& place, const std::string& what) {
  throw Error("conformance", "legal", fmt::format("{}: {}", to_text(place), what));
}

Value* value_of(const EdgeOrNode& place) {
  const Edge* edge = std::get_if<Edge>(&place);
  return edge != nullptr ? edge->value : std::get<Value*>(place);
}

// The nodes and values of a graph.
class Places {
 public:
  explicit Places(const Graph& graph) {
    for (const GraphInput& input : graph.inputs()) values_.insert(input.value);
    for (const Node* node : graph.nodes()) {
      nodes_.insert(node);
      for (const Value* output : node->outputs()) values_.insert(output);
    }
    values_.erase(nullptr);
  }

  void check(const EdgeOrNode& from, const EdgeOrNode& to) const {
    const Edge* edge = std::get_if<Edge>(&to);
    if (!values_.contains(value_of(to)) || (edge != nullptr && !nodes_.contains(edge->user)))
      refuse(from, "its spec refers to a tensor that is not in the graph");
    if (edge == nullptr) return;
    const std::vector<Value*> inputs = edge->user->inputs();
    if (std::ranges::find(inputs, edge->value) == inputs.end())
      refuse(from, fmt::format("its spec refers to {}, but %{} does not read %{}", to_text(to),
                               edge->user->name(), edge->value->name()));
  }

 private:
  std::set<const Node*> nodes_;
  std::set<const Value*> values_;
};

bool may_have_spec(const Value& value) {
  return value.kind() == ValueKind::kTensor &&
         (!value.meta || value.meta->dtype == DType::kFloat32 ||
          value.meta->dtype == DType::kFloat16 || value.meta->dtype == DType::kBFloat16);
}

template <typename Spec>
void check_range(const EdgeOrNode& place, const Spec& spec) {
  const bool is_signed = spec.dtype == DType::kInt8 || spec.dtype == DType::kInt16;
  if (spec.qscheme && is_symmetric(*spec.qscheme) && is_signed && spec.quant_min &&
      spec.quant_max && std::abs(*spec.quant_min + *spec.quant_max) > 1)
    refuse(place, fmt::format("a symmetric scheme has the range {}..{}, want one around 0",
                              *spec.quant_min, *spec.quant_max));
  const Value& value = *value_of(place);
  if constexpr (requires { spec.ch_axis; })
    if (spec.qscheme && is_per_channel(*spec.qscheme) && spec.ch_axis && value.meta &&
        *spec.ch_axis >= static_cast<int>(value.meta->sizes.size()))
      refuse(place, fmt::format("ch_axis is {}, but the tensor has {} dimensions", *spec.ch_axis,
                                value.meta->sizes.size()));
}

void check_place(const Places& places, const EdgeOrNode& place, const SpecVariant& spec) {
  if (!may_have_spec(*value_of(place)))
    refuse(place, "a spec is for floating-point tensors, and this tensor is not one");
  check_spec(spec, to_text(place));
  if (const auto* shared = std::get_if<SharedQuantizationSpec>(&spec)) {
    places.check(place, shared->edge_or_node);
  } else if (const auto* derived = std::get_if<DerivedQuantizationSpec>(&spec)) {
    for (const EdgeOrNode& source : derived->derived_from) places.check(place, source);
    check_range(place, *derived);
  } else if (const auto* own = std::get_if<QuantizationSpec>(&spec)) {
    check_range(place, *own);
  } else {
    const auto& fixed = std::get<FixedQParamsQuantizationSpec>(spec);
    check_range(place, fixed);
    if (fixed.quant_min && fixed.quant_max &&
        (fixed.zero_point < *fixed.quant_min || fixed.zero_point > *fixed.quant_max))
      refuse(place, fmt::format("the fixed zero point {} is outside of the range {}..{}",
                                fixed.zero_point, *fixed.quant_min, *fixed.quant_max));
  }
}

void check_node(const Places& places, Node& node, const QuantizationAnnotation& annotation) {
  const std::vector<Value*> inputs = node.inputs(), outputs = node.outputs();
  std::set<const Value*> seen;
  for (const auto& [value, spec] : annotation.input_qspec_map) {
    if (value == nullptr || std::ranges::find(inputs, value) == inputs.end())
      throw Error("conformance", "legal",
                  fmt::format("%{}: has a spec for {}, which it does not read", node.name(),
                              value == nullptr ? "no tensor" : "%" + value->name()));
    const Edge edge{value, &node};
    if (!seen.insert(value).second) refuse(edge, "has two specs");
    check_place(places, edge, spec);
  }
  for (const auto& [value, spec] : annotation.output_qspec_map) {
    if (std::ranges::find(outputs, value) == outputs.end())
      throw Error(
          "conformance", "legal",
          fmt::format("%{}: has an output spec for a tensor that it does not give", node.name()));
    check_place(places, value, spec);
  }
  if (!annotation.output_qspec) return;
  if (std::ranges::none_of(
          outputs, [](const Value* value) { return value != nullptr && may_have_spec(*value); }))
    throw Error(
        "conformance", "legal",
        fmt::format("%{}: has an output spec, but no result is floating point", node.name()));
  for (Value* value : outputs)
    if (value != nullptr && may_have_spec(*value) && annotation.find_output(value) != nullptr)
      check_place(places, value, *annotation.find_output(value));
}

// Sums of products have the scale of input times weight, which a bias must have, too.
void check_bias(const SharingGroups& groups, Node& node, const QuantizationAnnotation& annotation) {
  const WeightedOp* op = find_weighted_op(node);
  Value* bias = op == nullptr || op->bias.empty() ? nullptr : node.find_input(op->bias);
  const SpecVariant* spec = bias == nullptr ? nullptr : annotation.find_input(bias);
  const auto* derived = spec == nullptr ? nullptr : std::get_if<DerivedQuantizationSpec>(spec);
  if (derived == nullptr || derived->derive_name != "product_of_scales") return;
  const auto group_of = [&](const EdgeOrNode& key) {
    const SharingGroups::Member* member = groups.find(key);
    return member == nullptr ? -1 : member->group;
  };
  std::multiset<int> got, want;
  for (const EdgeOrNode& source : derived->derived_from) got.insert(group_of(source));
  for (std::string_view name : {op->x, op->weight})
    want.insert(group_of(Edge{node.find_input(name), &node}));
  if (got != want)
    refuse(Edge{bias, &node},
           fmt::format("the scale of a bias is that of {} times that of {}; derive it from these "
                       "edges",
                       to_text(Edge{node.find_input(op->x), &node}),
                       to_text(Edge{node.find_input(op->weight), &node})));
}

std::vector<Value*> values_of(const Graph& graph) {
  std::vector<Value*> values;
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr) values.push_back(input.value);
  for (const Node* node : graph.nodes())
    for (Value* output : node->outputs())
      if (output != nullptr) values.push_back(output);
  return values;
}

// Moves the nodes of [begin, end) before `after`, in a random order.
void shuffle(Graph& graph, const std::vector<Node*>& nodes, size_t begin, size_t end,
             std::mt19937& random) {
  std::vector<Node*> waiting(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                             nodes.begin() + static_cast<std::ptrdiff_t>(end));
  std::set<const Node*> inside(waiting.begin(), waiting.end());
  Node* after = end < nodes.size() ? nodes[end] : nullptr;
  while (!waiting.empty()) {
    std::vector<Node*> ready;
    for (Node* node : waiting) {
      const std::vector<Value*> inputs = node->inputs();
      if (std::ranges::none_of(
              inputs, [&](const Value* input) { return inside.contains(input->producer()); }))
        ready.push_back(node);
    }
    Node* next = ready[random() % ready.size()];
    graph.move_before(*next, after);
    inside.erase(next);
    std::erase(waiting, next);
  }
}

}  // namespace

void check_legal(const Graph& graph, const Annotations& annotations) {
  const Places places(graph);
  for (Node* node : graph.nodes())
    if (const QuantizationAnnotation* annotation = annotations.find(node))
      check_node(places, *node, *annotation);
  const SharingGroups groups = find_sharing_groups(graph, annotations);
  for (Node* node : graph.nodes())
    if (const QuantizationAnnotation* annotation = annotations.find(node))
      check_bias(groups, *node, *annotation);
}

std::string sorted_text(const Graph& graph, const Annotations& annotations) {
  const std::string text = to_text(graph, annotations);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  const SharingGroups groups = find_sharing_groups(graph, annotations);
  std::map<int, std::set<std::string>> members;
  for (const SharingGroups::Member& member : groups.members)
    members[member.group].insert(to_text(member.key));
  for (const auto& [group, keys] : members) {
    std::string line = "group:";
    for (const std::string& key : keys) line += fmt::format(" ({})", key);
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

std::string first_difference(const std::string& got, const std::string& want) {
  size_t at = 0;
  while (at < got.size() && at < want.size() && got[at] == want[at]) ++at;
  if (at == got.size() && at == want.size()) return "";
  const auto line_at = [at](const std::string& text) {
    const size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t from = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(from, text.find('\n', at) - from);
  };
  return fmt::format("got {}, want {}", line_at(got), line_at(want));
}

OldNames rename_all(Graph& graph, std::mt19937& random) {
  OldNames names;
  int number = static_cast<int>(random() % 1000);
  // Values first, because a node's new name also becomes that of a value with its old name.
  for (Value* value : values_of(graph)) {
    const std::string old = value->name();
    graph.rename(*value, fmt::format("value_{}", number += 7));
    names.values[value->name()] = old;
  }
  for (Node* node : graph.nodes()) {
    const std::string old = node->name();
    graph.rename(*node, fmt::format("renamed_{}", number += 7));
    names.nodes[node->name()] = old;
  }
  return names;
}

void rename_back(Graph& graph, const OldNames& names) {
  for (Value* value : values_of(graph)) {
    const auto old = names.values.find(value->name());
    if (old != names.values.end()) graph.rename(*value, old->second);
  }
  for (Node* node : graph.nodes()) {
    const auto old = names.nodes.find(node->name());
    if (old != names.nodes.end()) graph.rename(*node, old->second);
  }
}

std::unique_ptr<Graph> permuted(const Graph& graph, std::mt19937& random) {
  const std::unique_ptr<Graph> moved = clone(graph);
  const std::vector<Node*> nodes = moved->nodes();
  for (size_t begin = 0, end = 0; begin < nodes.size(); begin = end + 1) {
    end = begin;
    while (end < nodes.size() && !has_side_effects(*nodes[end])) ++end;
    shuffle(*moved, nodes, begin, end, random);
  }
  return clone(*moved);  // again, so that lists of users follow the new order
}

}  // namespace octet
