// Pairs the nodes of a golden graph (prepared.json, converted.json) with those of an Octet graph,
// backwards from the outputs and compute ops.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "support/golden.h"

namespace octet::test {

struct MatchTolerance {
  double scale_rtol = 1e-5;
  double zero_point_atol = 0;
};

class GoldenMatch {
 public:
  // constants: the tensors of converted_attrs.npz, by target; those of generated names are
  // compared, others by name alone.
  GoldenMatch(const Json& nodes, const Graph& graph, std::map<std::string, Tensor> constants,
              MatchTolerance tolerance);

  std::vector<std::string> differences;
  std::map<int, int> groups;  // golden group -> Octet's

 private:
  void match_compute_nodes();
  void match_node(const Json& golden, const Node& node);
  void match_value(const std::string& golden_name, const Value* value, const std::string& where);
  void match_input(const Json& golden, const Value* value, const std::string& where);
  void match_constant(const Json& golden, const Value* value, const std::string& where);
  void match_group(const Json& golden, const Node& node, const std::string& where);
  void match_literal(const Json& golden, const NamedArgument& argument, const std::string& where);
  void match_added_node(const Json& golden, const Node& node, const std::string& where);
  void differ(const std::string& where, const std::string& message);

  const Json& nodes_;
  const Graph& graph_;
  std::map<std::string, Tensor> constants_;
  MatchTolerance tolerance_;
  std::map<std::string, const Json*> by_name_;
  std::map<std::string, const Value*> paired_;  // golden node -> Octet's value
  std::unordered_map<const Value*, std::string> paired_back_;
  std::map<std::string, const Node*> compute_;  // golden compute node -> Octet's
  std::map<std::string, const Value*> placeholders_;
};

}  // namespace octet::test
