// Annotates a graph by tables: each row has a pattern of ops, the specs of the tensors at the
// pattern's border, and conditions.
//
//    name           pattern                    inputs                                 output
//   {"conv[_relu]", "relu?(conv2d(x, w, b?))", {{"x", kInput}, {"w", kW}, {"b", kB}}, kOutput}
//   {"max_pool2d", "max_pool2d(x)",           {{"x", kInput}},                       same_as("x")}
//   {"cat",        "cat(x...)",               {{"x", all_same(kInput)}},             same_as("x")}
//   {"sigmoid",    "sigmoid(x)",              {{"x", kInput}},                       kFixed}
#pragma once

#include <unordered_set>
#include <utility>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_limits.h"
#include "core/base/report.h"
#include "core/pattern/pattern.h"

namespace octet {

class ConstantValues;  // annotate/graph/constant_subgraph.h

// What each value that a slot binds, or the pattern's result, must be. Empty fields require
// nothing.
struct TensorConstraint {
  std::vector<DType> dtypes = {};  // dtype in the float graph
  std::optional<int> min_rank = {};
  std::optional<int> max_rank = {};
  bool one_user = false;     // no other op reads it, and it is not an output
  bool is_constant = false;  // a parameter, buffer or constant, or computed from those alone
  QuantLimits limits = {};   // for its spec and scale; checked later, see check_limits.h
};

struct RuleConstraints {
  // absent optional slots satisfy every constraint
  std::vector<std::pair<std::string, TensorConstraint>> slots = {};
  std::optional<TensorConstraint> output = {};
  // for each matched op with this argument: its value must be one of these; empty: any
  std::vector<int64_t> groups = {};

  const TensorConstraint* find(std::string_view slot) const;
};

// Why the match violates the constraints, completing "stayed float: ..."; empty: it does not.
// Unknown facts (the rank of a value without meta) violate a constraint. `constants`: of the
// match's graph.
std::string objection(const RuleConstraints& constraints, ConstantValues& constants,
                      const Match& match);

// ---- cells ----

struct LeaveFloat {};

enum class Role { kInput, kOutput, kWeight, kBias };

// The spec that the QuantizationConfig of the matched node has for this role; float when it has
// none.
struct ByRole {
  Role role = Role::kInput;
  // for per-channel specs, overrides the config (1 for transposed convolutions)
  std::optional<int> ch_axis;
  // for per-channel specs: one scale for all channels, from the observer's kind for tensors; not
  // for observers without such a kind
  bool has_one_scale = false;
};

// Shares the observer of the edge from the slot's value to the op that reads it, or of the value
// itself.
struct SameAs {
  enum class Half { kEdge, kValue };
  std::string slot;
  Half half = Half::kEdge;
};

// Shares the observer of the value's producer when that already has an output spec; else uses the
// spec of the role, or this one.
struct LikeProducer {
  Role otherwise = Role::kInput;
  std::optional<QuantizationSpec> spec = {};
};

// For a list slot: one value, the owner, gets the spec (of the role, or this one), and the others
// share its observer.
struct AllSame {
  Role role = Role::kInput;
  std::optional<QuantizationSpec> spec = {};
};

// Scale and zero point are computed from the observers of other slots' edges. Float when one of
// those is unbound.
struct DerivedFrom {
  std::vector<std::string> slots;
  DerivedQuantizationSpec spec;  // without derived_from
};

using SlotSpec = std::variant<LeaveFloat, ByRole, QuantizationSpec, FixedQParamsQuantizationSpec,
                              SameAs, LikeProducer, AllSame, DerivedFrom>;

inline const SlotSpec kInput = ByRole{Role::kInput, std::nullopt};
inline const SlotSpec kOutput = ByRole{Role::kOutput, std::nullopt};
inline const SlotSpec kWeight = ByRole{Role::kWeight, std::nullopt};
inline const SlotSpec kBias = ByRole{Role::kBias, std::nullopt};
SlotSpec weight_along(int ch_axis);
SlotSpec weight_with_one_scale(int ch_axis);
SlotSpec same_as(std::string slot);
SlotSpec same_as_value(std::string slot);
SlotSpec all_same(Role role);
SlotSpec fixed(double scale, int64_t zero_point, DType dtype = DType::kInt8);

// ---- rows ----

// A match that is being annotated.
struct RuleMatch {
  const Match& match;
  const Graph& graph;
  const QuantizationConfig& config;
  const Annotations& annotations;
  // The op that the pattern is about: the innermost one (the convolution in relu(conv2d(x, w))).
  Node& anchor() const { return *match.nodes.back(); }
};

using RuleCheck = Verdict (*)(const RuleMatch&);

struct AnnotationRule {
  // With optional ops in the pattern, it has a part in brackets for each, the innermost first:
  // "conv[_bn][_relu]" is conv_relu where the batch norm is missing.
  std::string name;
  std::string pattern;
  // In the order of the annotation. "x[1]" is one element of the list slot x (see SlotElement), and
  // "x" then means the elements that have no cell. Other cells and constraints use the
  // same names.
  std::vector<std::pair<std::string, SlotSpec>> inputs;
  SlotSpec output;  // of the result; with several results, of each floating-point one
  std::vector<RuleCheck> checks = {};  // called in order; the first refusal counts
  // Slots whose values belong to the pattern: the match is refused when another match has taken
  // one, and takes them.
  std::vector<std::string> owned = {};
  // Slots that are marked as taken without that check.
  std::vector<std::string> marked = {};
  // Which value of an all_same slot owns the observer; absent: the first.
  Value* (*choose_owner)(const RuleMatch&, const std::vector<Value*>& values) = nullptr;
  bool allow_implicit_sharing = true;  // see sharing.h; for every node of the match
  RuleConstraints constraints = {};    // conditions as data; checked after `checks`
  // If not empty, the row leaves its matches in float for this reason, whatever later rows say. It
  // completes "stayed float: ...".
  std::string stays_float = {};
  // Instead of `output`: the specs of the first, second, ... result of an op with several; the rest
  // stays float.
  std::vector<SlotSpec> outputs = {};
};

// Name of the variant of a row that has these optional ops (PatternVariant::has_op).
std::string name_of(const AnnotationRule& rule, const std::vector<bool>& has_op);

// The config for a match; or none, with a reason that completes "stayed float: ...".
struct ConfigChoice {
  const QuantizationConfig* config = nullptr;
  std::string reason;
};
using ConfigOf = std::function<ConfigChoice(const AnnotationRule&, const Match&)>;

// What annotate_by_rules remembers between calls on the same graph.
struct RuleState {
  std::unordered_map<const Node*, std::string> refusals;  // by anchor: the last reason
  // graph inputs (weights, biases) that belong to a pattern
  std::unordered_map<const Value*, bool> taken;
  std::unordered_set<const Node*> left_float;  // by rows with stays_float
};

// Annotates, rule by rule, variant by variant of its pattern and node by node in graph order, each
// match with no annotated node that config_of and all checks accept. Inner nodes of a pattern are
// marked as annotated. Limits among the constraints go into the annotation (check_limits.h).
// Returns the number of matches annotated. Throws Error("annotate", rule, ...) when a row names a
// slot that its pattern lacks. A list too short for an element that the row names is a refusal.
int annotate_by_rules(Graph& graph, std::span<const AnnotationRule> rules,
                      const ConfigOf& config_of, Annotations& annotations, RuleState& state);

// Lets nodes of `ops` (named as for Node::is) share the observer of the producer of their first
// input, at input and output, when that producer has an output spec. `accepts` may be empty.
// Returns the number of nodes annotated.
int propagate_sharing(Graph& graph, std::span<const std::string> ops,
                      const std::function<bool(const Node&)>& accepts, Annotations& annotations);

struct AnnotationRule;

struct SlotElement {
  std::string slot;
  size_t element = 0;  // from 0, at most 999
};
// Parses "x[1]", the second value that the list slot x of cat(x...) binds. Nothing for plain names
// and other spellings ("x[01]", "x[-1]").
std::optional<SlotElement> parse_slot_element(std::string_view text);

// Whether `slot` is a slot of the pattern, or an element of one of its list slots.
bool is_slot_of(const Pattern& pattern, std::string_view slot);

// Adds a binding for each element that the rule names, so that Match::find("x[1]") finds it.
// Returns why the rule does not apply after all (a list has no such element, or contains its value
// twice), or "".
std::string bind_elements(const AnnotationRule& rule, Match& match);

// The values that the cell of `slot` applies to: what the slot binds, without elements that
// have cells.
std::vector<Value*> rest_of(const AnnotationRule& rule, const std::string& slot,
                            const Match& match);

}  // namespace octet
