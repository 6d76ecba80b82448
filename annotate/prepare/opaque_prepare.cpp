#include "annotate/prepare/opaque_prepare.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/float_ops.h"
#include "annotate/prepare/quantizer_calls.h"
#include "core/base/error.h"

namespace octet {
namespace {

class BorderReader {
 public:
  BorderReader(const OpaquePart& part, const Island& island) : part_(part), island_(island) {}

  std::vector<std::pair<EdgeOrNode, SpecVariant>> read() {
    for (const auto& [index, spec] : part_.quantized_inputs) {
      const std::vector<Edge> edges = edges_of(value_at("input", island_.inputs, index));
      specs_.emplace_back(edges.front(), spec_of(spec));
      for (size_t i = 1; i < edges.size(); ++i)
        specs_.emplace_back(edges[i], SharedQuantizationSpec{edges.front()});
    }
    for (const auto& [index, spec] : part_.quantized_outputs) {
      Value* value = value_at("output", island_.outputs, index);
      if (value->producer()->output_or_null() == nullptr)
        refuse(fmt::format(
            "output {} %{} is one of several results of {}, want an output of an op with one",
            index, value->name(), value->producer()->target()));
      specs_.emplace_back(value, spec_of(spec));
    }
    return std::move(specs_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw Error("quantizer", island_.name, message);
  }

  Value* value_at(const char* side, const std::vector<Value*>& values, size_t index) const {
    if (index >= values.size()) {
      std::vector<std::string> names;
      for (size_t i = 0; i < values.size(); ++i)
        names.push_back(fmt::format("{} %{}", i, values[i]->name()));
      refuse(
          fmt::format("has no {} {}, want {}", side, index,
                      names.empty() ? "none" : fmt::format("one of {}", fmt::join(names, ", "))));
    }
    Value* value = values[index];
    if (value->meta && value->meta->dtype != DType::kFloat32)
      refuse(fmt::format("{} {} %{} is {}, want float32; leave it out", side, index, value->name(),
                         name_of(value->meta->dtype)));
    return value;
  }

  std::vector<Edge> edges_of(Value* value) const {
    std::vector<Edge> edges;
    for (Node* node : island_.nodes) {
      const std::vector<Value*> inputs = node->inputs();
      if (std::ranges::find(inputs, value) != inputs.end()) edges.push_back({value, node});
    }
    OCTET_ASSERT(!edges.empty(), value->name());
    return edges;
  }

  SpecVariant spec_of(const BorderSpec& spec) const {
    if (const QuantizationSpec* own = std::get_if<QuantizationSpec>(&spec)) return *own;
    if (const auto* fixed = std::get_if<FixedQParamsQuantizationSpec>(&spec)) return *fixed;
    const size_t index = std::get<SameAsInput>(spec).index;
    if (!part_.quantized_inputs.contains(index))
      refuse(fmt::format(
          "shares the observer of input {}, which has no spec; give it one in quantized_inputs",
          index));
    return SharedQuantizationSpec{edges_of(value_at("input", island_.inputs, index)).front()};
  }

  const OpaquePart& part_;
  const Island& island_;
  std::vector<std::pair<EdgeOrNode, SpecVariant>> specs_;
};

constexpr std::string_view kHidden = "octet.opaque.";

std::string rule_of(const Island& island) { return fmt::format("opaque part {}", island.name); }

[[noreturn]] void refuse_deed(const std::string& node, const std::string& quantizer,
                              const char* deed) {
  throw Error("quantizer", "%" + node,
              fmt::format("quantizer \"{}\" {} an op that an opaque part hides from it; keep to "
                          "the ops that are not claimed",
                          quantizer, deed));
}

// While this exists, the nodes have names that no pass and no pattern knows. Dead ones are kept, as
// their effects are unknown.
class HiddenNodes {
 public:
  HiddenNodes(Graph& graph, const std::vector<Node*>& nodes) : graph_(graph) {
    for (Node* node : nodes) {
      node->set_target(std::string(kHidden) + node->target());
      names_.emplace_back(node, node->name());
    }
  }
  // Throws Error when one of them has been erased.
  void check_presence(const std::string& quantizer) const {
    for (const auto& [node, name] : names_)
      if (graph_.find_node(name) != node) refuse_deed(name, quantizer, "has removed");
  }
  ~HiddenNodes() {
    for (Node* node : graph_.nodes())
      if (node->target().starts_with(kHidden))
        node->set_target(node->target().substr(kHidden.size()));
  }
  HiddenNodes(const HiddenNodes&) = delete;
  HiddenNodes& operator=(const HiddenNodes&) = delete;

 private:
  Graph& graph_;
  std::vector<std::pair<const Node*, std::string>> names_;
};

// Annotations that keep a quantizer away from nodes, and a check that it did not touch them.
class Claims {
 public:
  void add(Annotations& annotations, Node* node, const std::string& rule) {
    annotations[node].rule = rule;
    claimed_.push_back(node);
  }

  void check(const Annotations& annotations, const std::string& quantizer) const {
    for (const Node* node : claimed_) {
      const QuantizationAnnotation* now = annotations.find(node);
      if (now == nullptr || !now->annotated || now->input_qspec_map.size() != inputs_.at(node) ||
          now->has_output_spec() != outputs_.contains(node))
        refuse_deed(node->name(), quantizer, "has annotated");
    }
  }

  // Remembers the annotations, including border specs.
  void seal(const Annotations& annotations) {
    for (const Node* node : claimed_) {
      const QuantizationAnnotation& annotation = *annotations.find(node);
      inputs_[node] = annotation.input_qspec_map.size();
      if (annotation.has_output_spec()) outputs_.insert(node);
    }
  }

 private:
  std::vector<const Node*> claimed_;
  std::unordered_map<const Node*, size_t> inputs_;
  std::unordered_set<const Node*> outputs_;
};

std::vector<Node*> nodes_outside(const Graph& graph, const Island& island) {
  const std::unordered_set<const Node*> inside(island.nodes.begin(), island.nodes.end());
  std::vector<Node*> outside = graph.nodes();
  std::erase_if(outside, [&](const Node* node) { return inside.contains(node); });
  return outside;
}

std::string innermost_path(const Node& node) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return frames.empty() ? std::string() : frames.back().path;
}

// Whether the border specs cover all inputs and outputs of the node, so that it can run on
// integers.
bool is_quantized_all_around(const Node& node, const Annotations& annotations) {
  const QuantizationAnnotation* annotation = annotations.find(&node);
  if (annotation == nullptr || !annotation->has_output_spec()) return false;
  const std::vector<Value*> inputs = node.inputs();
  return std::ranges::all_of(inputs, [&](const Value* input) {
    return input->kind() != ValueKind::kTensor || annotation->find_input(input) != nullptr;
  });
}

void report_float(const std::vector<Node*>& nodes, const std::string& name, bool is_named,
                  const Annotations& annotations, Report& report) {
  for (const Node* node : nodes) {
    if (is_quantized_all_around(*node, annotations)) continue;
    if (is_named || computes_on_floats(*node))
      report.add({"annotate", node->name(), node->target(), innermost_path(*node),
                  fmt::format("in the opaque part {}", name)});
  }
}

// "opaque part module "head": 3 ops; input 0 %x; output 0 %y"
std::string note_on(const Island& island, size_t count) {
  std::string text = fmt::format("{}: {} op{}", rule_of(island), island.nodes.size(),
                                 island.nodes.size() == 1 ? "" : "s");
  for (size_t i = 0; i < island.inputs.size(); ++i)
    text += fmt::format("; input {} %{}", i, island.inputs[i]->name());
  for (size_t i = 0; i < island.outputs.size(); ++i)
    text += fmt::format("; output {} %{}", i, island.outputs[i]->name());
  if (count > 1)
    text += fmt::format("; and {} more such place{}", count - 1, count == 2 ? "" : "s");
  return text;
}

void note_islands(const std::vector<Island>& islands, Report& report) {
  for (size_t i = 0; i < islands.size();) {
    size_t end = i;
    while (end < islands.size() && islands[end].part == islands[i].part) ++end;
    report.note(note_on(islands[i], end - i));
    i = end;
  }
}

}  // namespace

std::vector<std::pair<EdgeOrNode, SpecVariant>> border_specs(const OpaquePart& part,
                                                             const Island& island) {
  return BorderReader(part, island).read();
}

void place_border_specs(const std::vector<std::pair<EdgeOrNode, SpecVariant>>& specs,
                        Annotations& annotations) {
  for (const auto& [key, spec] : specs) {
    if (const Edge* edge = std::get_if<Edge>(&key))
      annotations[edge->user].set_input(edge->value, spec);
    else
      annotations[std::get<Value*>(key)->producer()].set_output(std::get<Value*>(key), spec);
  }
}

OpaquePrepare::OpaquePrepare(Quantizer& quantizer, Work work)
    : quantizer_(quantizer),
      has_parts_(quantizer.opaque_parts() != nullptr),
      work_(std::move(work)) {
  if (!has_parts_) return;
  for (const OpaquePart& part : *quantizer.opaque_parts())
    parts_.push_back(with_registered_hooks(part));
}

void OpaquePrepare::check(const Graph& program, Report& report) const {
  check_by(quantizer_, program);
  if (!has_parts_) return;
  std::vector<const Graph*> graphs = {&program};
  for (const Body& body : bodies_within(program)) graphs.push_back(body.graph);
  for (const OpaquePart& part : parts_) {
    check_opaque_part(part);
    const bool is_absent = std::ranges::all_of(
        graphs, [&](const Graph* graph) { return find_islands(*graph, {&part, 1}).empty(); });
    const bool is_module = !part.module.empty() || !part.module_type.empty();
    if (is_absent && is_module)
      throw Error("quantizer", name_of(part),
                  "covers no op of the program; correct the opaque part's name or leave it out");
    if (is_absent) report.note(fmt::format("opaque part {} covers no op", name_of(part)));
    if (part.quantizer) check_by(*part.quantizer, program);
  }
}

const Island* OpaquePrepare::find_island(const Node* node) const {
  const auto found = island_of_node_.find(node);
  return found == island_of_node_.end() ? nullptr : &islands_[found->second];
}

std::vector<Island> OpaquePrepare::find_and_swap(Graph& graph) const {
  std::vector<Island> islands = find_islands(graph, parts_);
  for (Island& island : islands) {
    const OpaquePart& part = parts_[island.part];
    if (!part.float_to_observed) continue;
    const std::vector<Node*> outside = nodes_outside(graph, island);
    edit_by("prepare", rule_of(island), "its float_to_observed()", graph,
            [&] { part.float_to_observed(graph, island); });
    refresh_island(graph, outside, island);
  }
  std::erase_if(islands, [](const Island& island) { return island.nodes.empty(); });
  return islands;
}

// The whole program is transformed before anything is annotated, because folding a batch norm
// replaces values at the border.
void OpaquePrepare::transform(Graph& graph, std::vector<Island>& islands) const {
  std::vector<Node*> inside;
  for (const Island& island : islands)
    inside.insert(inside.end(), island.nodes.begin(), island.nodes.end());
  {
    const HiddenNodes hidden(graph, inside);
    work_.transform(graph, quantizer_);
    hidden.check_presence(quantizer_.name());
  }
  for (Island& island : islands) {
    Quantizer* own = parts_[island.part].quantizer.get();
    if (own == nullptr) continue;
    const std::vector<Node*> outside = nodes_outside(graph, island);
    const HiddenNodes hidden(graph, outside);
    work_.transform(graph, *own);
    hidden.check_presence(own->name());
    refresh_island(graph, outside, island);
  }
  std::erase_if(islands, [](const Island& island) { return island.nodes.empty(); });
  for (Island& island : islands) refresh_border(graph, island);
}

void OpaquePrepare::annotate_outside(Graph& graph, const std::vector<Island>& islands,
                                     Annotations& annotations, Report& report) {
  std::vector<Node*> inside;
  Claims claims;
  for (const Island& island : islands) {
    inside.insert(inside.end(), island.nodes.begin(), island.nodes.end());
    for (Node* node : island.nodes) claims.add(annotations, node, rule_of(island));
    place_border_specs(border_specs(parts_[island.part], island), annotations);
  }
  claims.seal(annotations);
  const HiddenNodes hidden(graph, inside);
  work_.annotate(graph, quantizer_, annotations, report);
  claims.check(annotations, quantizer_.name());
}

void OpaquePrepare::annotate_inside(Graph& graph, const Island& island, Annotations& annotations,
                                    Report& report) {
  const OpaquePart& part = parts_[island.part];
  const std::vector<Node*> outside = nodes_outside(graph, island);
  Annotations own;
  Claims claims;
  for (Node* node : outside) claims.add(own, node, "outside of " + rule_of(island));
  claims.seal(own);
  {
    Report own_report;
    const HiddenNodes hidden(graph, outside);
    work_.annotate(graph, *part.quantizer, own, own_report);
    for (const ReportEntry& entry : own_report.entries()) report.add(entry);
    for (const std::string& note : own_report.notes())
      report.note(fmt::format("{}: {}", rule_of(island), note));
  }
  claims.check(own, part.quantizer->name());
  for (const Node* node : island.nodes) {
    annotations.erase(node);
    const QuantizationAnnotation* annotation = own.find(node);
    if (annotation == nullptr) continue;
    annotations[node] = *annotation;
    annotations[node].rule = fmt::format("{}: {}", part.quantizer->name(), annotation->rule);
  }
  place_border_specs(border_specs(part, island), annotations);
}

void OpaquePrepare::keep(std::vector<Island> islands) {
  for (Island& island : islands) {
    for (const Node* node : island.nodes) island_of_node_[node] = islands_.size();
    for (const auto& [key, spec] : border_specs(parts_[island.part], island)) {
      border_[key] = true;
      const Edge* edge = std::get_if<Edge>(&key);
      island.border.push_back(edge != nullptr ? edge->value : std::get<Value*>(key));
    }
    if (island.has_quantizer)
      for (const Node* node : island.nodes)
        part_of_node_[node] = static_cast<int>(islands_.size()) + 1;
    islands_.push_back(std::move(island));
  }
}

void OpaquePrepare::annotate(Graph& graph, Annotations& annotations, Report& report) {
  if (!has_parts_) return work_(graph, quantizer_, annotations, report);
  std::vector<Island> islands = find_and_swap(graph);
  transform(graph, islands);
  annotate_outside(graph, islands, annotations, report);
  for (const Island& island : islands) {
    const OpaquePart& part = parts_[island.part];
    if (part.quantizer)
      annotate_inside(graph, island, annotations, report);
    else
      report_float(island.nodes, island.name, part.module.empty() && part.module_type.empty(),
                   annotations, report);
  }
  note_islands(islands, report);
  keep(std::move(islands));
}

void OpaquePrepare::annotate_body(const Body& body, Annotations& annotations, Report& report) {
  const auto outer = owner_of_body_.find(&body.call->graph());
  const Island* island =
      outer != owner_of_body_.end() ? &islands_[outer->second.island] : find_island(body.call);
  if (island == nullptr) return annotate(*body.graph, annotations, report);
  Quantizer* own = parts_[island->part].quantizer.get();
  owner_of_body_[body.graph] = {static_cast<size_t>(island - islands_.data()), own};
  if (own != nullptr) return work_(*body.graph, *own, annotations, report);
  report_float(body.graph->nodes(), island->name, false, annotations, report);
}

int OpaquePrepare::part_of(const EdgeOrNode& key) const {
  const Edge* edge = std::get_if<Edge>(&key);
  const Node* node = edge != nullptr ? edge->user : std::get<Value*>(key)->producer();
  if (node == nullptr || border_.contains(key)) return 0;
  const auto found = part_of_node_.find(node);
  if (found != part_of_node_.end()) return found->second;
  const auto body = owner_of_body_.find(&node->graph());
  return body == owner_of_body_.end() ? 0 : static_cast<int>(body->second.island) + 1;
}

Quantizer& OpaquePrepare::quantizer_of(int part) const {
  if (part == 0) return quantizer_;
  return *parts_[islands_.at(static_cast<size_t>(part - 1)).part].quantizer;
}

}  // namespace octet
