// Which configuration applies to which node: by module name, module type, op type, or to all. Names and types are those of nn_module_stack.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation.h"
#include "core/graph.h"

namespace octet {

using NodeFilter = std::function<bool(const Node&)>;

// The path without the "L['self']." that older exports put before it.
std::string module_path(const ModuleFrame& frame);
// True when the frame's type is `wanted`; "torch.nn.Linear" also means "torch.nn.modules.linear.Linear".
bool is_module_type(const ModuleFrame& frame, const std::string& wanted);
// True when some module around the node has this path ("block.conv") or type.
bool is_in_module(const Node& node, const std::string& name);
bool is_in_module_type(const Node& node, const std::string& type);
// True when the node's op is `op`, written as for Node::is ("aten.linear", "aten.linear.default") or bare ("linear").
bool is_op_type(const Node& node, const std::string& op);

// The settings of one quantizer. A config of nullopt leaves the node float.
class ConfigTable {
 public:
  using Config = std::optional<QuantizationConfig>;
  using Rows = std::vector<std::pair<std::string, Config>>;

  // A second call with the same key replaces the first. Throws Error when `name`, `type` or `op` is empty.
  void set_global(Config config);
  void set_module_name(const std::string& name, Config config);
  void set_module_type(const std::string& type, Config config);
  void set_operator_type(const std::string& op, Config config);

  const std::optional<Config>& global() const { return global_; }  // the outer optional: whether it was set
  const Rows& module_names() const { return module_names_; }       // in the order in which they were set
  const Rows& module_types() const { return module_types_; }
  const Rows& operator_types() const { return operator_types_; }

  // What applies to the node: the config, or none and why. The strongest wins: the longest module name, then the innermost module type,
  // then the op type, then the global config.
  struct Choice {
    const QuantizationConfig* config = nullptr;
    std::string reason;
  };
  Choice find(const Node& node) const;

  // Rows that apply to no node of the graph, as "module_name \"x\"": most often a misspelling.
  std::vector<std::string> unused_rows(const Graph& graph) const;

 private:
  std::optional<Config> global_;
  Rows module_names_;
  Rows module_types_;
  Rows operator_types_;
};

}  // namespace octet
