// Which configuration applies to which node: by call, module name, module type, op type, or to all.
// Names and types are those of nn_module_stack.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "core/graph/graph.h"
#include "quantizers/common/compat.h"
#include "quantizers/common/module_regex.h"

namespace octet {

using NodeFilter = std::function<bool(const Node&)>;

// The path without the "L['self']." that older exports put before it.
std::string module_path(const ModuleFrame& frame);
// The path of the innermost module around the node; "" is the model itself.
std::string innermost_module(const Node& node);
// True when the frame's type is `wanted`; "torch.nn.Linear" also means
// "torch.nn.modules.linear.Linear".
bool is_module_type(const ModuleFrame& frame, const std::string& wanted);
// True when some module around the node has this path ("block.conv"), a path that matches, or this
// type.
bool is_in_module(const Node& node, const std::string& name);
bool is_in_module_like(const Node& node, const ModuleRegex& regex);
bool is_in_module_type(const Node& node, const std::string& type);
// True when the node's op is `op`, written as for Node::is ("aten.linear", "aten.linear.default")
// or bare ("linear").
bool is_op_type(const Node& node, const std::string& op);

// The n-th call of an op that stands in a module itself (not in a module within), counted from 0 in
// the order of the graph, bodies of control flow each by itself. A module that is called twice
// counts on.
struct CallIndex {
  std::string module;  // "" is the model itself
  std::string op;      // as for is_op_type
  int64_t index = 0;
  bool operator==(const CallIndex&) const = default;
};
bool is_call(const Node& node, const CallIndex& call);
// "call_index 1 of aten.linear.default in module "block""; and "module_name "blok"".
std::string describe(const CallIndex& call);
std::string describe_row(const char* kind, const std::string& key);

// Throws Error for a kind of row that torchao's quantizers lack ("call_index").
void refuse_in_compat(Compat compat, const std::string& kind);

// The settings of one quantizer. A config of nullopt leaves the node float.
class ConfigTable {
 public:
  using Config = std::optional<QuantizationConfig>;
  using Rows = std::vector<std::pair<std::string, Config>>;

  struct RegexRow {
    std::shared_ptr<const ModuleRegex> regex;
    Config config;
  };
  struct CallRow {
    CallIndex call;
    Config config;
  };

  // A second call with the same key replaces the first. Throws Error when `name`, `type` or `op` is
  // empty, when `regex` is no regular expression and when the index is negative.
  void set_global(Config config);
  void set_module_name(const std::string& name, Config config);
  void set_module_name_regex(const std::string& regex, Config config);  // of whole paths
  void set_call_index(const CallIndex& call, Config config);
  void set_module_type(const std::string& type, Config config);
  void set_operator_type(const std::string& op, Config config);
  // Where the rows that are set from now on were said, for messages: "q.json: /module_name/blok";
  // "": in code.
  void set_place(std::string place) { place_ = std::move(place); }

  // the outer optional: whether it was set
  const std::optional<Config>& global() const { return global_; }
  // in the order in which they were set
  const Rows& module_names() const { return module_names_; }
  const Rows& module_types() const { return module_types_; }
  const Rows& operator_types() const { return operator_types_; }
  const std::vector<RegexRow>& module_regexes() const { return module_regexes_; }
  const std::vector<CallRow>& calls() const { return calls_; }
  // null when there is no such row
  const Config* find_module_regex(const std::string& regex) const;
  const Config* find_call_index(const CallIndex& call) const;
  std::vector<const Config*> all() const;  // of every row, and the global one
  // Of a row, given as "module_name \"blok\"" or describe(call); "" when it was said in code.
  std::string place_of(const std::string& row) const;

  // What applies to the node: the config, or none and why. The strongest wins: the call, then the
  // longest module name, then the innermost module that a regex matches (several that match it: the
  // one set first), then the innermost module type, then the op type, then the global config.
  struct Choice {
    const QuantizationConfig* config = nullptr;
    std::string reason;
  };
  Choice find(const Node& node) const;

  // Rows that apply to no node of the graph and its bodies, as "module_name \"x\"": most often a
  // misspelling.
  std::vector<std::string> unused_rows(const Graph& graph) const;

 private:
  std::optional<Config> global_;
  Rows module_names_;
  Rows module_types_;
  Rows operator_types_;
  std::vector<RegexRow> module_regexes_;
  std::vector<CallRow> calls_;
  std::string place_;                          // of what is set next
  std::map<std::string, std::string> places_;  // by row
};

}  // namespace octet
