// Finds the configuration of a node: by call, module name, module type, op type, or the global one.
// Names and types are those of nn_module_stack.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "annotate/graph/opaque_parts.h"
#include "core/graph/graph.h"

namespace octet {

// Matches module paths with a regular expression.
class ModuleRegex {
 public:
  // ECMAScript. Throws Error("quantizer", "module_name_regex \"(\"", ...) when the text is not a
  // valid expression or is longer than 500 characters.
  explicit ModuleRegex(const std::string& text);
  ~ModuleRegex();
  ModuleRegex(ModuleRegex&&) noexcept;
  ModuleRegex& operator=(ModuleRegex&&) noexcept;

  const std::string& text() const;
  // Whether the whole path matches. Paths longer than 1000 characters never do. Not thread-safe,
  // because results are cached.
  bool matches(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The path of the innermost module around the node; "" is the model itself.
std::string innermost_module(const Node& node);
// Whether a module around the node has this path ("block.conv"), a matching path, or this type.
bool is_in_module(const Node& node, const std::string& name);
bool is_in_module_like(const Node& node, const ModuleRegex& regex);
bool is_in_module_type(const Node& node, const std::string& type);

// The n-th call of an op directly in a module (not in a nested module), counted from 0 in graph
// order. Each body of control flow is counted separately; a second call of the module continues the
// count.
struct CallIndex {
  std::string module;  // "" is the model itself
  std::string op;      // as for is_op_type
  int64_t index = 0;
  bool operator==(const CallIndex&) const = default;
};
bool is_call(const Node& node, const CallIndex& call);

// What a row of settings covers, in increasing precedence.
enum class RowKind { kGlobal, kOpType, kModuleType, kModuleNameRegex, kModuleName, kCallIndex };
struct RowKey {
  RowKind kind = RowKind::kGlobal;
  std::string name = {};  // op, class, expression or path; empty for global rows and calls
  CallIndex call = {};    // for calls
  bool operator==(const RowKey&) const = default;
};
// "module_name", as in JSON.
const char* name_of(RowKind kind);
// "module_name "blok"", "call_index 1 of aten.linear.default in module "block"", "the global
// configuration".
std::string describe(const RowKey& row);

// Throws Error for kinds of rows that torchao's quantizers lack (expressions, calls).
void refuse_in_compat(Compat compat, RowKind kind);

// The settings of one quantizer. A config of nullopt leaves nodes float.
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

  // A second call with the same key replaces the first. Throws Error when the name is empty or not
  // a valid regular expression, or when the index of a call is negative. place: where the row is
  // defined, for messages ("q.json: /module_name/blok"); "": in code.
  void set(const RowKey& row, Config config, const std::string& place = {});

  // the outer optional: whether it is set
  const std::optional<Config>& global() const { return global_; }
  // in the order in which they were set
  const Rows& module_names() const { return module_names_; }
  const Rows& module_types() const { return module_types_; }
  const Rows& operator_types() const { return operator_types_; }
  const std::vector<RegexRow>& module_regexes() const { return module_regexes_; }
  const std::vector<CallRow>& calls() const { return calls_; }
  // null when there is no such row
  const Config* find_row(const RowKey& row) const;
  // All rows, the global one last.
  std::vector<std::pair<RowKey, const Config*>> all() const;
  // "" when the row is defined in code.
  std::string place_of(const RowKey& row) const;

  // The row that applies to the node; nullopt when none does. Precedence: the call, the longest
  // module name, the innermost module that a regex matches (of several regexes, the one set first),
  // the innermost module type, the op type, the global row.
  std::optional<RowKey> row_of(const Node& node) const;

  // The config of a node, or none and why.
  struct Choice {
    const QuantizationConfig* config = nullptr;
    std::string reason;
  };
  Choice find(const Node& node) const;

  // Rows that apply to no node of the graph and its bodies, as "module_name \"x\"", most often
  // misspellings.
  std::vector<std::string> unused_rows(const Graph& graph) const;

 private:
  template <typename Table>
  static auto& rows_of(Table& table, RowKind kind);
  template <typename Table>
  static auto* find_in(Table& table, const RowKey& row);

  std::optional<Config> global_;
  Rows module_names_;
  Rows module_types_;
  Rows operator_types_;
  std::vector<RegexRow> module_regexes_;
  std::vector<CallRow> calls_;
  std::map<std::string, std::string> places_;  // by describe(row)
};

}  // namespace octet
