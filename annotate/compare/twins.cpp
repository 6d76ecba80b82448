#include "annotate/compare/twins.h"

#include <algorithm>
#include <optional>

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

// An op that was in the program before it was quantized.
bool is_own_op(const Node& node) {
  return !is_quantize(&node) && !is_any_dequantize(&node) && computes_on_floats(node);
}

class Matcher {
 public:
  Matcher(const Graph& reference, const Graph& subject) : reference_(reference), subject_(subject) {
    for (const Node* node : subject.nodes()) {
      names_.emplace(node->name(), node);
      for (const std::string& name : origins_of(*node)) names_.emplace(name, node);
    }
  }

  // The nodes of the reference that `node` stands for; empty when there are none.
  std::vector<const Node*> members_of(const Node& node) const {
    const bool has_handle = node.metadata.contains(kOriginKey);
    std::vector<const Node*> members;
    for (const std::string& name : origins_of(node)) {
      const Node* member = reference_.find_node(name);
      if (member == nullptr) return {};
      members.push_back(member);
    }
    if (has_handle || members.empty()) return members;
    if (base_op(node.target()) != base_op(members.front()->target())) return {};
    // A batch norm that was folded by who leaves no handles.
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
    return is_batch_norm(*user) && !names_.contains(user->name()) ? user : nullptr;
  }

  const Graph& reference_;
  const Graph& subject_;
  std::unordered_map<std::string, const Node*> names_;  // of the subject, and what they stand for
};

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

}  // namespace

const Twin* Twins::find(const Value* subject) const {
  const auto found = by_subject_.find(subject);
  return found == by_subject_.end() ? nullptr : &pairs[found->second];
}

Twins find_twins(const Graph& reference, const Graph& subject) {
  const std::vector<Value*> wanted = reference.user_inputs(), inputs = subject.user_inputs();
  check_inputs_agree(wanted, inputs);
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
      std::vector<std::string> names;
      for (const Node* member : members) names.push_back(member->name());
      for (size_t i = 0; i < outputs.size() && i < originals.size(); ++i) {
        const bool are_tensors =
            outputs[i]->kind() == ValueKind::kTensor && originals[i]->kind() == ValueKind::kTensor;
        if (!are_tensors || !have_same_shape(*originals[i], *outputs[i]) ||
            is_float_tensor(*originals[i]) != is_float_tensor(*outputs[i]))
          continue;
        has_twin = true;
        add({originals[i], outputs[i], channel_factors_of(*node), names});
      }
    }
    if (!has_twin && is_own_op(*node)) twins.lonely.push_back(node);
  }
  if (2 * twins.lonely.size() > own) {
    const Node& first = *twins.lonely.front();
    throw Error("compare", subject_of(first),
                fmt::format("is the first of {} ops (of {}) without a twin in {}; give the program "
                            "that this one was made of",
                            twins.lonely.size(), own,
                            reference.source.empty() ? "the other program" : reference.source));
  }
  return twins;
}

}  // namespace octet
