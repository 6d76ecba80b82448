// Finds the float value that corresponds to each value of a quantized program (Twin in
// shadow_graph.h): by the handles of core/graph/origin.h, or by name for programs of other tools.
#include "annotate/compare/shadow_graph.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/graph/float_ops.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"

namespace octet {
namespace {

// "aten.relu" of aten.relu_.default.
std::string base_op(const std::string& target) {
  std::string base = target.substr(0, target.find('.', target.find('.') + 1));
  if (base.ends_with('_') && !base.ends_with("__")) base.pop_back();
  return base;
}

bool is_batch_norm(const Node& node) {
  return node.is("aten.batch_norm") || node.is("aten._native_batch_norm_legit_no_training");
}

bool is_float_tensor(const Value& value) {
  return value.kind() == ValueKind::kTensor &&
         (!value.meta || is_floating_point(value.meta->dtype));
}

bool have_same_shape(const Value& a, const Value& b) {
  return !a.meta || !b.meta || a.meta->sizes.size() == b.meta->sizes.size();
}

// Whether the op was in the program before it was quantized.
bool is_own_op(const Node& node) {
  return !is_quantize(&node) && !is_any_dequantize(&node) && computes_on_floats(node);
}

// The exported program's node whose value this one gives; "" when there is none.
std::string last_origin(const Node& node) {
  const std::vector<std::string> names = origins_of(node);
  return names.empty() ? "" : names.back();
}

class Matcher {
 public:
  Matcher(const Graph& reference, const Graph& subject) {
    for (const Node* node : reference.nodes()) originals_.emplace(last_origin(*node), node);
    for (const Node* node : subject.nodes()) {
      names_.insert(node->name());
      for (std::string& name : origins_of(*node)) names_.insert(std::move(name));
    }
  }

  // The nodes of the reference that `node` replaces, the last one with its value; empty: none.
  // Nodes already folded in the reference are not included.
  std::vector<const Node*> members_of(const Node& node) const {
    std::vector<const Node*> members;
    const std::vector<std::string> names = origins_of(node);
    for (const std::string& name : names) {
      const auto original = originals_.find(name);
      if (original != originals_.end()) members.push_back(original->second);
    }
    if (names.empty() || !originals_.contains(names.back())) return {};
    if (node.metadata.contains(kOriginKey) || members.back()->metadata.contains(kOriginKey))
      return members;
    if (base_op(node.target()) != base_op(members.front()->target())) return {};
    // A batch norm folded by a tool that leaves no handles.
    for (const Node* norm = next_folded(*members.back()); norm != nullptr;
         norm = next_folded(*norm))
      members.push_back(norm);
    return members;
  }

 private:
  const Node* next_folded(const Node& node) const {
    const std::vector<Value*> outputs = node.outputs();
    if (outputs.empty() || !outputs.front()->has_one_user()) return nullptr;
    const Node* user = outputs.front()->users().front();
    return is_batch_norm(*user) && !names_.contains(last_origin(*user)) ? user : nullptr;
  }

  std::unordered_map<std::string, const Node*> originals_;  // the reference's nodes by last origin
  std::unordered_set<std::string> names_;  // names of the subject's nodes and of their origins
};

// subject = reference / factors, when both differ from the exported program. Nothing when their
// factors have different shapes.
std::optional<ChannelFactors> factors_between(const Node& reference, const Node& subject) {
  const ChannelFactors before = channel_factors_of(reference);
  ChannelFactors factors = channel_factors_of(subject);
  if (before.shape.empty()) return factors;
  if (factors.shape.empty()) {
    factors = before;
    for (int& exponent : factors.exponents) exponent = -exponent;
    return factors;
  }
  if (factors.shape != before.shape) return std::nullopt;
  for (size_t i = 0; i < factors.exponents.size(); ++i) factors.exponents[i] -= before.exponents[i];
  return factors;
}

std::string type_of(const Value& value) {
  if (!value.meta) return "a value";
  std::string sizes;
  for (const Dim& dim : value.meta->sizes)
    sizes += (sizes.empty() ? "" : ", ") + (dim.is_symbolic() ? "?" : fmt::to_string(dim.value));
  return fmt::format("{}[{}]", name_of(value.meta->dtype), sizes);
}

void check_inputs_agree(const std::vector<Value*>& reference, const std::vector<Value*>& subject) {
  if (reference.size() != subject.size())
    throw Error("compare", "the programs",
                fmt::format("take {} and {} inputs; give programs of the same model",
                            reference.size(), subject.size()));
  for (size_t i = 0; i < subject.size(); ++i) {
    const std::string wanted = type_of(*reference[i]), found = type_of(*subject[i]);
    const bool is_same = !reference[i]->meta || !subject[i]->meta ||
                         (reference[i]->meta->dtype == subject[i]->meta->dtype &&
                          reference[i]->meta->sizes.size() == subject[i]->meta->sizes.size());
    if (!is_same)
      throw Error("compare", "input %" + subject[i]->name(),
                  fmt::format("is {} in one program and {} in the other; give programs of the same "
                              "model, with the same inputs",
                              found, wanted));
  }
}

bool has_quantized_ops(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  return std::ranges::any_of(nodes, [](const Node* node) {
    return node->target().starts_with("quantized_decomposed.") ||
           node->target().starts_with("torchao.");
  });
}

// With the programs swapped, each op would be blamed for errors of others.
void check_order(const Graph& reference, const Graph& subject) {
  if (has_quantized_ops(reference) && !has_quantized_ops(subject))
    throw Error("compare", "the programs",
                "the first has quantize or dequantize ops and the second has none, want the float "
                "program first; swap them");
}

}  // namespace

const Twin* Twins::find(const Value* subject) const {
  const auto found = by_subject_.find(subject);
  return found == by_subject_.end() ? nullptr : &pairs[found->second];
}

std::vector<const Value*> float_outputs(const Graph& graph) {
  std::vector<const Value*> values;
  for (const GraphOutput& output : graph.outputs()) {
    const Value* value = output.value.value_or_null();
    if (output.kind == OutputKind::kUserOutput && value != nullptr && is_float_tensor(*value))
      values.push_back(value);
  }
  return values;
}

Twins find_twins(const Graph& reference, const Graph& subject) {
  const std::vector<Value*> wanted = reference.user_inputs(), inputs = subject.user_inputs();
  check_inputs_agree(wanted, inputs);
  check_order(reference, subject);
  Twins twins;
  const auto add = [&](Twin twin) {
    twins.by_subject_[twin.subject] = twins.pairs.size();
    twins.pairs.push_back(std::move(twin));
  };
  for (size_t i = 0; i < inputs.size(); ++i) add({wanted[i], inputs[i]});
  const Matcher matcher(reference, subject);
  size_t own = 0;
  for (const Node* node : subject.nodes()) {
    if (is_own_op(*node)) ++own;
    const std::vector<const Node*> members = matcher.members_of(*node);
    const std::vector<Value*> outputs = node->outputs();
    bool has_twin = false;
    if (!members.empty()) {
      const std::vector<Value*> originals = members.back()->outputs();
      const std::optional<ChannelFactors> factors = factors_between(*members.back(), *node);
      std::vector<std::string> names;
      for (const Node* member : members) names.push_back(member->name());
      for (size_t i = 0; i < outputs.size() && i < originals.size(); ++i) {
        const bool are_tensors =
            outputs[i]->kind() == ValueKind::kTensor && originals[i]->kind() == ValueKind::kTensor;
        if (!are_tensors || !factors || !have_same_shape(*originals[i], *outputs[i]) ||
            is_float_tensor(*originals[i]) != is_float_tensor(*outputs[i]))
          continue;
        has_twin = true;
        add({originals[i], outputs[i], *factors, names});
      }
    }
    if (!has_twin && is_own_op(*node)) twins.lonely.push_back(node);
  }
  if (2 * twins.lonely.size() > own) {
    const Node& first = *twins.lonely.front();
    throw Error("compare", subject_of(first),
                fmt::format("is the first of {} ops (of {}) without a counterpart in {}; give the "
                            "program that this one was made from",
                            twins.lonely.size(), own,
                            reference.source.empty() ? "the other program" : reference.source));
  }
  return twins;
}

}  // namespace octet
