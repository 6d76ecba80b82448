// One notation for small trees of ops, as annotation tables, lowering tables and JSON files write
// them; and the matcher.
//
//   relu(linear(x, w, b?))                  outermost op last to run
//   {relu|hardtanh|relu6}(conv2d(x, w, b?)) any of these ops
//   cat(x...)                               a list argument: x binds all of its values
//   cat(dq(x)...)                           each value of the list comes from a dq
//   my_ns.my_op.default(x, _)               a dotted name is that op; _ is any value
//   batch_norm(x, ...)                      the other tensor arguments may be anything
//
// A bare name is the ATen op in all its overloads and its in-place twin: relu is aten.relu.default
// and aten.relu_.default. `q` and `dq` are the quantize and dequantize ops of quantized_decomposed,
// per tensor and per channel; their scales are not named. Parameters correspond to the tensor
// arguments of the op in the order of its schema (conv2d: input, weight, bias); literals are not
// named. `b?` may be absent. A tensor argument that the pattern does not name must be absent,
// unless the pattern ends in `...`. A variable that stands twice must be the same Value.
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
  std::string variable;                 // kVariable
  bool is_optional = false;             // b?
  bool is_list = false;                 // x...
};

struct PatternVariable {
  std::string name;
  bool is_optional = false;
  bool is_list = false;  // may bind any number of values
};

struct Pattern {
  std::string text;
  PatternTerm root;                        // a kCall
  std::vector<PatternVariable> variables;  // in order of first appearance
  int call_count = 0;                      // the number of ops it covers (list elements count once)
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

// The pattern with its outermost op at `root`; nothing when it does not match. By default each
// inner node is used by its matched consumer alone and is no graph output. Takes time linear in the
// pattern, tries one way only, and changes nothing.
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
