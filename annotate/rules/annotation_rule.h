// Annotation as a table: which pattern of ops a backend takes, and what it asks of each tensor at
// the pattern's border.
//
//    name           pattern                    inputs                                 output
//   {"conv[_relu]", "relu?(conv2d(x, w, b?))", {{"x", kInput}, {"w", kW}, {"b", kB}}, kOutput}
//   {"max_pool2d", "max_pool2d(x)",           {{"x", kInput}},                       same_as("x")}
//   {"cat",        "cat(x...)",               {{"x", all_same(kInput)}},             same_as("x")}
//   {"sigmoid",    "sigmoid(x)",              {{"x", kInput}},                       kFixed}
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/rules/rule_constraints.h"
#include "core/base/report.h"
#include "core/pattern/pattern.h"

namespace octet {

// ---- cells ----

struct LeaveFloat {};

enum class Role { kInput, kOutput, kWeight, kBias };

// The spec that the QuantizationConfig of the matched node has for this role; float when it has
// none.
struct ByRole {
  Role role = Role::kInput;
  // of per-channel specs, instead of the config's (1 for transposed convolutions)
  std::optional<int> ch_axis;
};

// Shares the observer of the edge from the slot's value into the op that takes it, or of the value
// itself.
struct SameAs {
  enum class Half { kEdge, kValue };
  std::string slot;
  Half half = Half::kEdge;
};

// Shares the observer of the value's producer when that has an output spec already, else the spec
// of the role, or this one.
struct LikeProducer {
  Role otherwise = Role::kInput;
  std::optional<QuantizationSpec> spec = {};
};

// Of a list slot: one value, the owner, gets the spec (of the role, or this one), the others share
// its observer.
struct AllSame {
  Role role = Role::kInput;
  std::optional<QuantizationSpec> spec = {};
};

// Scale and zero point are computed from the observers of other slots' edges; float when one of
// those is not bound.
struct DerivedFrom {
  std::vector<std::string> slots;
  DerivedQuantizationSpec spec;  // all but derived_from
};

using SlotSpec = std::variant<LeaveFloat, ByRole, QuantizationSpec, FixedQParamsQuantizationSpec,
                              SameAs, LikeProducer, AllSame, DerivedFrom>;

inline const SlotSpec kInput = ByRole{Role::kInput, std::nullopt};
inline const SlotSpec kOutput = ByRole{Role::kOutput, std::nullopt};
inline const SlotSpec kWeight = ByRole{Role::kWeight, std::nullopt};
inline const SlotSpec kBias = ByRole{Role::kBias, std::nullopt};
SlotSpec weight_along(int ch_axis);
SlotSpec same_as(std::string slot);
SlotSpec same_as_value(std::string slot);
SlotSpec all_same(Role role);
SlotSpec fixed(double scale, int64_t zero_point, DType dtype = DType::kInt8);

// ---- rows ----

// One match on its way to an annotation.
struct RuleMatch {
  const Match& match;
  const Graph& graph;
  const QuantizationConfig& config;
  const Annotations& annotations;
  // The op that the pattern is about: the innermost one (the convolution of relu(conv2d(x, w))).
  Node& anchor() const { return *match.nodes.back(); }
};

using RuleCheck = Verdict (*)(const RuleMatch&);

struct AnnotationRule {
  // Of a pattern with optional ops, a part in brackets for each of them, the innermost first:
  // "conv[_bn][_relu]" is conv_relu where the batch norm is missing.
  std::string name;
  std::string pattern;
  // In the order in which the annotation gets them. "x[1]" is one element of the list slot x
  // (slot_elements.h), and "x" then those that have no cell of their own; the same in other cells
  // and in constraints.
  std::vector<std::pair<std::string, SlotSpec>> inputs;
  SlotSpec output;
  std::vector<RuleCheck> checks = {};  // asked in order; the first refusal counts
  // Slots whose values belong to the pattern: it takes no value that another match has, and marks
  // them as taken.
  std::vector<std::string> owned = {};
  // Slots that it marks as taken without looking.
  std::vector<std::string> marked = {};
  // Which value of an all_same slot owns the observer; the first one when absent.
  Value* (*choose_owner)(const RuleMatch&, const std::vector<Value*>& values) = nullptr;
  bool allow_implicit_sharing = true;  // see sharing.h; of every node of the match
  RuleConstraints constraints = {};    // conditions as data; asked after the checks
  // Not empty: the row leaves its matches in float for this reason, whatever later rows say. It
  // completes "stayed float: ...".
  std::string stays_float = {};
};

// What the row is called where the pattern's optional ops are these (PatternVariant::has_op).
std::string name_of(const AnnotationRule& rule, const std::vector<bool>& has_op);

// The config for a match; or none, with the reason in words that complete "stayed float: ...".
struct ConfigChoice {
  const QuantizationConfig* config = nullptr;
  std::string reason;
};
using ConfigOf = std::function<ConfigChoice(const AnnotationRule&, const Match&)>;

// What annotate_by_rules keeps between calls on the same graph.
struct RuleState {
  std::unordered_map<const Node*, std::string> refusals;  // per anchor: the last reason
  // graph inputs (weights, biases) that belong to a pattern
  std::unordered_map<const Value*, bool> taken;
  std::unordered_set<const Node*> left_float;  // by rows with stays_float
};

// Annotates rule by rule, variant by variant of its pattern, node by node in graph order: a match
// that config_of and all checks accept, none of whose nodes is annotated yet. Inner nodes of a
// pattern are marked as annotated. Returns the number of matches annotated. Limits among the
// constraints go into the annotation
// (check_limits.h). Throws Error("annotate", rule, ...) when a row names a slot that its pattern
// lacks. A list that is too short for an element that the row names is a refusal.
int annotate_by_rules(Graph& graph, std::span<const AnnotationRule> rules,
                      const ConfigOf& config_of, Annotations& annotations, RuleState& state);

// Nodes of `ops` (as for Node::is) whose first input has a producer with an output spec share that
// producer's observer at both ends. `accepts` may be empty. Returns the number of nodes annotated.
int propagate_sharing(Graph& graph, std::span<const std::string> ops,
                      const std::function<bool(const Node&)>& accepts, Annotations& annotations);

}  // namespace octet
