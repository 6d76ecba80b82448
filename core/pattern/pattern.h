// Parses and matches patterns: small trees of ops in the notation of annotation tables and JSON
// files.
//
//   relu(linear(x, w, b?))                  the outermost op runs last
//   {relu|hardtanh|relu6}(conv2d(x, w, b?)) any of these ops
//   relu?(linear(x, w))                     the relu may be missing
//   add[linear(x, w), y]                    in either order: add(y, linear(x, w)) too
//   cat(x...)                               a list argument: x binds all of its values
//   cat(dq(x)...)                           each value of the list comes from a dq
//   my_ns.my_op.default(x, _)               a dotted name is that op; _ is any value
//   batch_norm(x, ...)                      the other tensor arguments may be anything
//
// Where an optional op is missing, its first argument takes its place; variables among its other
// arguments are not bound.
//
// A bare name is the ATen op in all its overloads and its in-place twin: relu is aten.relu.default
// and aten.relu_.default. `q` and `dq` are the quantize and dequantize ops of quantized_decomposed,
// per tensor and per channel; their scales are not named. Parameters correspond to the tensor
// arguments of the op in the order of its schema (conv2d: input, weight, bias); literals are not
// named. `b?` may be absent. A tensor argument that the pattern does not name must be absent,
// unless the pattern ends in `...`. A variable that occurs twice must be the same Value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

struct PatternTerm {
  enum class Kind { kCall, kVariable, kAny };
  Kind kind = Kind::kVariable;
  std::vector<std::string> ops;         // kCall: for Node::is(), in the pattern's order
  std::vector<PatternTerm> parameters;  // kCall
  bool ignores_rest = false;            // kCall: the pattern ended in `...`
  bool in_either_order = false;         // kCall: op[a, b]
  std::string variable;                 // kVariable
  bool is_optional = false;             // b?, relu?(x)
  bool is_list = false;                 // x...
};

struct PatternVariable {
  std::string name;
  bool is_optional = false;
  bool is_list = false;  // may bind any number of values
};

// A pattern without optional ops and in one order of arguments.
struct PatternVariant {
  PatternTerm root;          // a kCall
  std::vector<bool> has_op;  // by optional op of the pattern, outermost first
};

struct Pattern {
  std::string text;
  // At least one. Variants with the innermost optional op come first; among these, variants with
  // the next one: relu?(norm?(conv(x, w))) gives relu(norm(conv)), norm(conv), relu(conv), conv.
  std::vector<PatternVariant> variants;
  std::vector<PatternVariable> variables;  // in order of first appearance
  const PatternVariable* find_variable(std::string_view name) const;
};

// Throws Error("pattern", text, "column 7: ...").
Pattern parse_pattern(std::string_view text);

struct Match {
  Node* root = nullptr;
  // outermost first, then by the order of the pattern's calls
  std::vector<Node*> nodes;
  // an optional variable that was absent has no entry
  std::map<std::string, std::vector<Value*>> bindings;
  // variable -> the matched node that takes it (the first one)
  std::map<std::string, Node*> consumers;

  // the first value bound, or null
  Value* find(std::string_view variable) const;
  const std::vector<Value*>& find_all(std::string_view variable) const;  // empty when not bound
  Node* consumer(std::string_view variable) const;                       // null when not bound
};

enum class InnerUse { kOnlyInMatch, kAnywhere };

// Matches with the outermost op at `root`; nullopt when that fails. By default the matched consumer
// alone uses each inner node, and the graph does not return it. A variant takes time linear in its
// size; of a pattern, the first variant that matches wins.
std::optional<Match> match(const PatternVariant& variant, Node& root,
                           InnerUse inner_use = InnerUse::kOnlyInMatch);
std::optional<Match> match(const Pattern& pattern, Node& root,
                           InnerUse inner_use = InnerUse::kOnlyInMatch);

// The tensor arguments of the node in schema order: one entry each, with the values that it holds
// (none when absent, None or a literal). For ops that the dispatcher does not know: the recorded
// arguments that hold values or None, in order.
struct TensorArgument {
  std::string name;
  bool is_list = false;
  std::vector<Value*> values;
};
std::vector<TensorArgument> tensor_arguments(const Node& node);

}  // namespace octet
