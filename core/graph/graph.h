// The graph of a program: Nodes (calls of ATen or custom ops) define and use Values. Free of torch.
//
//   graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3]):
//     %conv2d: f32[1,4,6,6] = aten.conv2d.default(%x, %w)
//         <- a Node, its arguments, the Value that it defines
//     return (%conv2d)
//
// The Graph owns everything; Node* and Value* stay valid until they are erased. Ops with several
// results define several Values (there are no getitem nodes). Names are unique within a graph;
// subgraphs (bodies of cond, while_loop, scan) are separate Graphs.
//
// Files that include this header do not repeat the standard headers of its interface.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/tensor.h"
#include "core/graph/types.h"

namespace octet {

class Graph;
class Node;
class Value;

// ---- values ----

enum class ValueKind { kTensor, kSymInt, kSymFloat, kSymBool, kCustomObj, kToken, kNone };

// One result of a Node or one input of a Graph.
class Value {
 public:
  const std::string& name() const { return name_; }
  ValueKind kind() const { return kind_; }
  Node* producer() const { return producer_; }  // null for a graph input
  // which result of the producer, counted over all its result values
  int index() const { return index_; }
  Graph& graph() const { return *graph_; }

  // The nodes that use the value, each once, in the order of the graph's edits. Uses by graph
  // outputs do not count: see is_output().
  const std::vector<Node*>& users() const { return users_; }
  bool is_output() const;
  bool has_one_user() const { return users_.size() == 1 && !is_output(); }
  bool is_unused() const { return users_.empty() && !is_output(); }

  std::optional<TensorMeta> meta;  // for tensors; may be absent in graphs built by hand
  // for SymInt/SymFloat/SymBool: torch's expression, "" when unknown
  std::string symbol;
  int64_t symbol_hint = -1;      // for SymInt/SymBool
  double symbol_hint_float = 0;  // for SymFloat
  bool has_symbol_hint = false;
  std::string class_fqn;  // for custom objects

 private:
  friend class Graph;
  friend class Node;
  std::string name_;
  ValueKind kind_ = ValueKind::kTensor;
  Node* producer_ = nullptr;
  int index_ = 0;
  Graph* graph_ = nullptr;
  std::vector<Node*> users_;
};

// ---- nodes ----

// A result slot of an op: one value, a list of values (Tensor[]), or nothing (None, or a literal
// that torch recorded).
struct ResultSlot {
  // kSingle covers tensors and symbols; kLiteral: see `literal`
  enum class Kind { kSingle, kList, kOptionalList, kLiteral };
  Kind kind = Kind::kSingle;
  std::vector<Value*> values;  // kSingle: one; kOptionalList: null where None
  Argument literal;            // kLiteral
};

class Node {
 public:
  const std::string& name() const { return name_; }
  // Without the "torch.ops." of the file: "aten.conv2d.default",
  // "quantized_decomposed.quantize_per_tensor.default", "higher_order.cond"; Python functions keep
  // their module: "_operator.add".
  const std::string& target() const { return target_; }
  // True for the op in any overload, in-place twin included: is("aten.relu") holds for
  // aten.relu.default and aten.relu_.default; is("aten.relu.default") only for that.
  bool is(std::string_view op) const;

  const std::vector<NamedArgument>& arguments() const { return arguments_; }
  const Argument* find_argument(std::string_view name) const;  // null when the call omits it
  // the Value of that argument, null when absent, None or not a Value
  Value* find_input(std::string_view name) const;
  // Literals by name; `fallback` is the schema's default, for calls that omit the argument.
  int64_t int_or(std::string_view name, int64_t fallback) const;
  double float_or(std::string_view name, double fallback) const;  // an int literal is converted
  bool bool_or(std::string_view name, bool fallback) const;
  // a single int gives one element
  std::vector<int64_t> ints_or(std::string_view name, std::vector<int64_t> fallback) const;

  std::vector<Value*> inputs() const;  // distinct Values in order of first use
  const std::vector<ResultSlot>& results() const { return results_; }
  std::vector<Value*> outputs() const;  // every Value it defines
  Value* output() const;                // the only one; InternalError when there is not exactly one
  Value* output_or_null() const;        // the only one, or null

  // replaces or appends
  void set_argument(std::string_view name, Argument value,
                    ArgumentKind kind = ArgumentKind::kPositional);
  void erase_argument(std::string_view name);
  void set_target(std::string target) { target_ = std::move(target); }
  // Replaces each use of `from` in this node's arguments.
  void replace_input(Value* from, Value* to);

  Graph& graph() const { return *graph_; }

  // "nn_module_stack", "torch_fn", "stack_trace", "source_fn_stack", ... as in the file.
  std::map<std::string, std::string> metadata;
  std::optional<bool> is_hop_single_tensor_return;

 private:
  friend class Graph;
  std::string name_;
  std::string target_;
  std::vector<NamedArgument> arguments_;
  std::vector<ResultSlot> results_;
  Graph* graph_ = nullptr;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

// One level of nn_module_stack, outermost first: {"block.conv", "torch.nn.modules.conv.Conv2d"}.
struct ModuleFrame {
  std::string path;
  std::string type;
};
std::vector<ModuleFrame> module_stack(const Node& node);

// The name of a node in errors: "%conv2d (aten.conv2d.default)".
std::string subject_of(const Node& node);

// Selects nodes; an empty filter selects all.
using NodeFilter = std::function<bool(const Node&)>;

// ---- graphs ----

enum class InputKind {
  kUserInput,
  kParameter,
  kBuffer,
  kTensorConstant,
  kCustomObj,
  kToken,
  kConstant
};

struct GraphInput {
  Value* value = nullptr;
  InputKind kind = InputKind::kUserInput;
  // for a parameter, buffer, tensor constant or custom object: the key in Graph::constants
  std::string fqn;
  bool persistent = true;  // for buffers
  // for kConstant (and user inputs that are not values): the literal of the example call
  Argument constant;
};

enum class OutputKind {
  kUserOutput,
  kLoss,
  kBufferMutation,
  kParameterMutation,
  kUserInputMutation,
  kGradientToParameter,
  kGradientToUserInput,
  kToken
};

struct GraphOutput {
  Argument value;  // usually Value*; literals are allowed for user outputs
  OutputKind kind = OutputKind::kUserOutput;
  std::string target;  // fqn of the buffer or parameter, or the name of the user input
};

struct Constant {
  Tensor tensor;
  bool is_parameter = false;
  bool requires_grad = false;
};

struct RangeConstraint {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
  bool operator==(const RangeConstraint&) const = default;
};

// Parts of the archive that no pass reads and that the writer writes back unchanged. Filled by
// core/pt2/reader.cpp.
struct ArchiveExtras;

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;

  // --- reading
  std::vector<Node*> nodes() const;  // a snapshot in order: safe against edits while iterating
  size_t node_count() const { return nodes_.size(); }
  std::vector<Node*> nodes_of(std::string_view op) const;  // nodes for which is(op)
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  std::vector<Value*> user_inputs() const;  // Values of kUserInput, in order
  Value* find_value(std::string_view name) const;
  Node* find_node(std::string_view name) const;
  const GraphInput* find_input(const Value* value) const;  // null when `value` is not a graph input
  // The tensor of a parameter, buffer or constant input; null for anything else.
  const Tensor* find_constant(const Value* value) const;
  bool is_before(const Node& a, const Node& b) const;  // by position; amortized O(1) between edits
  Node* find_next(const Node& node) const;             // the next node, null for the last

  // --- building and editing. All keep users and names consistent. a user input
  Value* add_input(std::string name, ValueKind kind = ValueKind::kTensor,
                   std::optional<TensorMeta> meta = std::nullopt);
  // any other input, in the given order
  Value* add_input(GraphInput input, std::string name, ValueKind kind,
                   std::optional<TensorMeta> meta);
  // Adds a parameter, buffer or constant under an unused fqn made from `fqn` (and an unused value
  // name), before the user inputs.
  Value* add_constant(const std::string& fqn, Tensor tensor, InputKind kind = InputKind::kBuffer);
  // Creates a node without results before `before` (at the end when null). The name is made unique;
  // the users of its arguments are updated.
  Node* add_node(std::string target, std::vector<NamedArgument> arguments, std::string name,
                 Node* before = nullptr);
  // kSingle slot
  Value* add_result(Node& node, std::string name, std::optional<TensorMeta> meta,
                    ValueKind kind = ValueKind::kTensor);
  // kList slot
  std::vector<Value*> add_list_result(Node& node, std::vector<std::string> names,
                                      std::vector<std::optional<TensorMeta>> metas);
  void add_literal_result(Node& node, Argument literal);
  void add_optional_list_result(Node& node, const std::vector<std::optional<std::string>>& names,
                                std::vector<std::optional<TensorMeta>> metas);
  // A node with one tensor result of the same name: what most passes need.
  Node* insert(std::string target, std::vector<NamedArgument> arguments, std::string name,
               std::optional<TensorMeta> meta, Node* before);
  void add_output(GraphOutput output);
  void set_output(size_t index, Argument value);

  void replace_uses(Value* from, Value* to);  // in nodes and in graph outputs
  void replace_uses_in_outputs(Value* from, Value* to);
  void move_before(Node& node, Node* before);
  // its values must be unused; InternalError otherwise
  void erase(Node& node);
  // must be unused; drops the constant too when no other input names its fqn
  void erase_input(Value& value);
  void erase_inputs(const std::vector<Value*>& values);  // erases many in one pass
  std::string fresh_name(std::string_view base) const;   // base, base_1, base_2, ...
  // also renames its value when it has the node's name
  void rename(Node& node, std::string name);
  void rename(Value& value, std::string name);

  // --- the program around the graph (empty in subgraphs)
  // by fqn, whether an input names it or not
  std::map<std::string, Constant> constants;
  std::map<std::string, RangeConstraint> range_constraints;  // by symbol
  // null for graphs that came from no archive
  std::shared_ptr<ArchiveExtras> extras;
  // the file it was read from, for messages
  std::string source;
  bool is_single_tensor_return = false;  // for subgraphs, from the file

 private:
  Value* make_value(std::string name, ValueKind kind, std::optional<TensorMeta> meta,
                    Node* producer, int index);
  void drop_value(Value* value);
  void link(Node& node, const Argument& argument);
  void unlink(Node& node);  // removes node from the users of all its inputs
  void relink(Node& node);
  friend class Node;
  friend class Value;

  // base -> the least suffix that may be free (0: the base itself), so that the n-th new name of a
  // base is found without n lookups.
  using SuffixHints = std::unordered_map<std::string, int>;
  template <typename IsTaken>
  static std::string first_free(const std::string& base, SuffixHints& hints,
                                const IsTaken& is_taken);
  static void lower_hint(const std::string& freed, SuffixHints& hints);
  void release_name(const std::string& name);
  size_t place_of_new(InputKind kind) const;

  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, std::unique_ptr<Value>> values_;
  std::unordered_map<std::string, Node*> node_names_;
  std::vector<GraphInput> inputs_;
  // number of inputs of each rank in torch's signature order
  std::array<size_t, 5> input_ranks_{};
  std::vector<GraphOutput> outputs_;
  std::unordered_map<const Value*, int> output_uses_;
  mutable std::unordered_map<const Node*, size_t> order_;  // cache for is_before, empty when stale
  // for names that must differ from those of nodes and values
  mutable SuffixHints fresh_hints_;
  SuffixHints node_hints_;  // for names that must differ from those of nodes
};

// A deep copy with equal names; constants share their storage. `mapping`, when given, receives old
// value -> new value.
std::unique_ptr<Graph> clone(const Graph& graph,
                             std::unordered_map<const Value*, Value*>* mapping = nullptr);

// Copies `node`, nested subgraphs included, into `graph` before `before` (at its end when null).
// `map` gives the values of `graph` for those that the node reads, and receives its results. Names
// are kept where they are free.
Node* copy_node(const Node& node, Graph& graph, std::unordered_map<const Value*, Value*>& map,
                Node* before = nullptr);

// Copies facts other than kind and meta from one value to another: the symbol with its hint, and
// the class of an opaque object. Returns `to`.
Value* clone_value_facts(const Value& from, Value* to);

}  // namespace octet
