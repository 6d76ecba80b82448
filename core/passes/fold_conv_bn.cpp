#include "core/passes/fold_conv_bn.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "core/base/shape.h"
#include "core/graph/origin.h"
#include "core/interpreter/aten_bridge.h"
#include "core/ops/op_schema.h"
#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

using Form = WeightForm;

// The parameters of a fold. Calls with the same ones (a module called twice) share the folded
// tensors.
struct Parameters {
  Form form = Form::kConv;
  int64_t groups = 1;
  Value* weight = nullptr;
  Value* bias = nullptr;  // may be null, like gamma and beta
  Value* gamma = nullptr;
  Value* beta = nullptr;
  Value* mean = nullptr;
  Value* var = nullptr;
  double eps = 0;
  auto operator<=>(const Parameters&) const = default;
};

struct Candidate {
  Node* conv = nullptr;
  Node* bn = nullptr;
  Parameters parameters;
};

struct Folded {
  at::Tensor weight;
  at::Tensor bias;
};

// Whether the value is the same tensor in each run: data of the program that nobody writes to.
bool is_constant(const Graph& graph, const Value* value) {
  const GraphInput* input = value->producer() == nullptr ? graph.find_input(value) : nullptr;
  const Tensor* tensor = graph.find_constant(value);
  if (input == nullptr || tensor == nullptr || !tensor->defined()) return false;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind != OutputKind::kUserOutput && output.target == input->fqn) return false;
  for (const Node* user : value->users()) {
    const OpSchema* schema = find_op_schema(user->target());
    if (schema == nullptr) continue;
    for (const SchemaArgument& argument : schema->arguments)
      if (argument.is_write && user->find_input(argument.name) == value) return false;
  }
  return true;
}

bool is_constant_or_null(const Graph& graph, const Value* value) {
  return value == nullptr || is_constant(graph, value);
}

bool is_inference_bn(const Node& node) {
  if (node.is("aten._native_batch_norm_legit_no_training")) return true;
  return node.is("aten.batch_norm") && !node.bool_or("training", true);
}

bool is_rank(const Value* value, size_t rank) {
  return !value->meta || value->meta->sizes.size() == rank;
}

int64_t rank_of(const Value* value) {
  return value != nullptr && value->meta ? static_cast<int64_t>(value->meta->sizes.size()) : -1;
}

// Where a layout op moves dimension `dim` of its input; -1 for other ops and when it is mixed with
// others.
int64_t moved_dimension(const Node& node, int64_t dim) {
  const Value* input = node.find_input("self");
  const int64_t rank = rank_of(input);
  const int64_t output_rank = rank_of(node.output_or_null());
  if (rank < 0 || output_rank < 0) return -1;
  if (node.target() == "aten.transpose.int") {
    const int64_t first = wrap_dim(node.int_or("dim0", 0), rank);
    const int64_t second = wrap_dim(node.int_or("dim1", 0), rank);
    return dim == first ? second : dim == second ? first : dim;
  }
  if (node.is("aten.permute")) {
    const std::vector<int64_t> order = node.ints_or("dims", {});
    for (size_t i = 0; i < order.size(); ++i)
      if (wrap_dim(order[i], rank) == dim) return static_cast<int64_t>(i);
    return -1;
  }
  const bool is_reshape =
      node.target() == "aten.view.default" || node.is("aten.reshape") || node.is("aten.flatten");
  const bool keeps_last = is_reshape && dim == rank - 1 &&
                          input->meta->sizes.back() == node.output()->meta->sizes.back();
  return keeps_last ? output_rank - 1 : -1;
}

// The convolution or linear whose output channels are dimension 1 of `value`. Between a linear and
// its batch norm there may be layout ops, as in bn(linear(x).transpose(1, 2)), but not in torchao's
// form.
Node* find_channel_op(Value* value, const FoldOptions& options) {
  std::vector<const Node*> layout_ops;
  while (true) {
    Node* node = value == nullptr ? nullptr : value->producer();
    if (node == nullptr || node->output_or_null() != value ||
        (options.check_users && !value->has_one_user()))
      return nullptr;
    const bool is_foldable = find_conv_or_linear(*node) != nullptr;
    if (is_foldable && layout_ops.empty()) return node;
    if (is_foldable) {
      int64_t dim = node->is("aten.linear") ? rank_of(value) - 1 : -1;
      for (auto op = layout_ops.rbegin(); op != layout_ops.rend() && dim >= 0; ++op)
        dim = moved_dimension(**op, dim);
      return dim == 1 ? node : nullptr;
    }
    if (!options.check_users || node->find_input("self") == nullptr ||
        moved_dimension(*node, rank_of(node->find_input("self")) - 1) < 0)
      return nullptr;
    layout_ops.push_back(node);
    value = node->find_input("self");
  }
}

// Batch norm works on dimension 1, which must be the output channels. With layout ops,
// find_channel_op has checked that.
bool channels_are_second(const Node& conv, const Node& bn, Form form, const Tensor& weight) {
  if (bn.find_input("input") != conv.output()) return true;
  if (form != Form::kLinear) return is_rank(conv.output(), weight.shape().size());
  const Value* input = conv.find_input("input");
  return input != nullptr && input->meta && input->meta->sizes.size() <= 2;
}

int64_t output_channels(const Parameters& parameters, const Tensor& weight) {
  return parameters.form == Form::kTransposedConv ? weight.shape()[1] * parameters.groups
                                                  : weight.shape()[0];
}

bool find_candidate(const Graph& graph, Node* bn, const FoldOptions& options,
                    Candidate& candidate) {
  Node* conv = find_channel_op(bn->find_input("input"), options);
  if (conv == nullptr) return false;
  const WeightedOp* row = find_conv_or_linear(*conv);
  const std::vector<Value*> results = bn->outputs();
  if (results.empty() || std::any_of(results.begin() + 1, results.end(),
                                     [](const Value* value) { return !value->is_unused(); }))
    return false;

  Parameters parameters{
      .form = row->form,
      .groups = row->form == Form::kTransposedConv ? conv->int_or("groups", 1) : 1,
      .weight = conv->find_input("weight"),
      .bias = conv->find_input("bias"),
      .gamma = bn->find_input("weight"),
      .beta = bn->find_input("bias"),
      .mean = bn->find_input("running_mean"),
      .var = bn->find_input("running_var"),
      .eps = bn->float_or("eps", 1e-5)};
  for (const Value* needed : {parameters.weight, parameters.mean, parameters.var})
    if (needed == nullptr || !is_constant(graph, needed)) return false;
  for (const Value* optional : {parameters.bias, parameters.gamma, parameters.beta})
    if (!is_constant_or_null(graph, optional)) return false;
  const Tensor& weight = *graph.find_constant(parameters.weight);
  if (weight.shape().size() < 2 || !channels_are_second(*conv, *bn, row->form, weight))
    return false;
  if (graph.find_constant(parameters.mean)->numel() != output_channels(parameters, weight))
    return false;
  candidate = {conv, bn, parameters};
  return true;
}

// Scales a weight along its dimension of output channels. A transposed weight is [in, out / groups,
// ...], where groups are part of the input channels.
at::Tensor scale_weight(const at::Tensor& weight, const at::Tensor& scale,
                        const Parameters& parameters) {
  if (parameters.form == Form::kLinear)
    return weight.mul(scale.unsqueeze(-1).to(weight.scalar_type()));
  std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
  if (parameters.form == Form::kConv) {
    shape[0] = -1;
    return weight.mul(scale.reshape(shape)).to(weight.scalar_type());
  }
  if (parameters.groups == 1) {
    shape[1] = -1;
    return weight.mul(scale.reshape(shape)).to(weight.scalar_type());
  }
  std::vector<int64_t> grouped = weight.sizes().vec();
  grouped[0] /= parameters.groups;
  grouped.insert(grouped.begin(), parameters.groups);
  shape.insert(shape.begin(), parameters.groups);
  shape[2] = weight.size(1);
  return weight.reshape(grouped)
      .mul(scale.reshape(shape))
      .reshape(weight.sizes())
      .to(weight.scalar_type());
}

// The order of operations is torch's, so the result has torch's bits.
Folded fold(const Graph& graph, const Parameters& parameters) {
  const c10::AutoGradMode no_grad(false);
  const auto data = [&](const Value* value) {
    return value == nullptr ? at::Tensor() : to_aten(*graph.find_constant(value));
  };
  const at::Tensor weight = data(parameters.weight);
  const at::Tensor mean = data(parameters.mean);
  const at::Tensor bias = parameters.bias != nullptr ? data(parameters.bias) : at::zeros_like(mean);
  const at::Tensor gamma =
      parameters.gamma != nullptr ? data(parameters.gamma) : at::ones_like(mean);
  const at::Tensor beta = parameters.beta != nullptr ? data(parameters.beta) : at::zeros_like(mean);
  const at::Tensor inverse_deviation = data(parameters.var).add(parameters.eps).rsqrt();
  const at::Tensor scale = gamma.mul(inverse_deviation);
  const at::Tensor centered = bias.sub(mean);
  const at::Tensor scaled = parameters.form == Form::kLinear
                                ? centered.mul(scale)
                                : centered.mul(inverse_deviation).mul(gamma);
  const c10::ScalarType bias_type =
      parameters.bias != nullptr ? bias.scalar_type() : weight.scalar_type();
  return {scale_weight(weight, scale, parameters), scaled.add(beta).to(bias_type)};
}

// Whether nodes other than the convolutions of the group use the value.
bool is_used_elsewhere(const Value* value, const std::vector<Candidate>& group) {
  return value->is_output() || std::ranges::any_of(value->users(), [&](const Node* user) {
           return std::ranges::none_of(
               group, [&](const Candidate& candidate) { return candidate.conv == user; });
         });
}

// Stores new data in the old value when only the group uses it, else in a new constant.
Value* store(Graph& graph, Value* old, const at::Tensor& data, const std::vector<Candidate>& group,
             const FoldOptions& options) {
  const std::string fqn = graph.find_input(old)->fqn;
  Tensor tensor = from_aten(data);
  if (options.check_users && is_used_elsewhere(old, group))
    return graph.add_constant(fqn, std::move(tensor), graph.find_input(old)->kind);
  if (old->meta)
    for (size_t i = 0; i < tensor.strides().size(); ++i)
      old->meta->strides[i] = {tensor.strides()[i], ""};
  if (old->meta) old->meta->storage_offset = {};
  graph.constants.at(fqn).tensor = std::move(tensor);
  return old;
}

void erase_if_unused(Graph& graph, Value* value) {
  if (value != nullptr && value->is_unused()) graph.erase_input(*value);
}

// Drops the buffers of statistics, and torch's counter next to them.
void drop_dead_inputs(Graph& graph, const std::vector<std::string>& names) {
  constexpr std::string_view kMean = "running_mean";
  for (const std::string& name : names) {
    Value* value = graph.find_value(name);
    if (value == nullptr || !value->is_unused()) continue;
    std::string fqn = graph.find_input(value)->fqn;
    erase_if_unused(graph, value);
    if (!fqn.ends_with(kMean)) continue;
    fqn.replace(fqn.size() - kMean.size(), kMean.size(), "num_batches_tracked");
    for (const GraphInput& input : graph.inputs()) {
      if (input.fqn != fqn) continue;
      const bool is_mutated = std::ranges::any_of(
          graph.outputs(), [&](const GraphOutput& output) { return output.target == fqn; });
      if (!is_mutated) erase_if_unused(graph, input.value);
      break;
    }
  }
}

Value* store_bias(Graph& graph, const Parameters& parameters, at::Tensor data,
                  const std::vector<Candidate>& group, const FoldOptions& options) {
  if (parameters.bias != nullptr) return store(graph, parameters.bias, data, group, options);
  // torchao's second fold overwrites the bias of the first
  if (!options.check_users && group.size() > 1) data = at::zeros_like(data);
  return graph.add_constant(graph.find_input(parameters.weight)->fqn + "_bias", from_aten(data),
                            InputKind::kParameter);
}

// Records that the batch norm's value is now given by the convolution, or by the last layout op
// after it.
void note_fold(const Candidate& candidate) {
  Node* last = candidate.bn->find_input("input")->producer();
  for (Node* node = last; node != candidate.conv;) {
    node = node->find_input("self")->producer();
    forget_origin(*node);
  }
  absorb_after(*last, *candidate.bn);
}

void drop_batch_norm(Graph& graph, const Candidate& candidate) {
  note_fold(candidate);
  graph.replace_uses(candidate.bn->outputs().front(), candidate.bn->find_input("input"));
  graph.erase(*candidate.bn);
}

void fold_group(Graph& graph, const std::vector<Candidate>& group, const FoldOptions& options) {
  const Parameters& parameters = group.front().parameters;
  const Folded folded = fold(graph, parameters);
  Value* bias = store_bias(graph, parameters, folded.bias, group, options);
  Value* weight = store(graph, parameters.weight, folded.weight, group, options);
  for (const Candidate& candidate : group) {
    candidate.conv->set_argument("weight", weight);
    if (candidate.parameters.bias == parameters.bias) candidate.conv->set_argument("bias", bias);
    drop_batch_norm(graph, candidate);
  }
}

// `folded`: weights folded in earlier rounds.
int fold_once(Graph& graph, const FoldOptions& options, std::set<const Value*>& folded) {
  std::vector<std::vector<Candidate>> groups;
  std::map<Parameters, size_t> group_of;
  std::map<const Node*, const Node*> taken;
  for (Node* node : graph.nodes()) {
    Candidate candidate;
    if (options.only && !options.only(*node)) continue;
    if (!is_inference_bn(*node) || !find_candidate(graph, node, options, candidate)) continue;
    // one batch norm per convolution and round
    if (!taken.emplace(candidate.conv, node).second) continue;
    const Parameters key = options.check_users ? candidate.parameters
                                               : Parameters{.weight = candidate.parameters.weight};
    const auto [entry, is_new] = group_of.emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(candidate);
  }
  int folds = 0;
  std::vector<std::string> may_be_dead;
  for (const std::vector<Candidate>& group : groups) {
    for (const Candidate& candidate : group) {
      const Parameters& p = candidate.parameters;
      for (const Value* value : {p.weight, p.bias, p.gamma, p.beta, p.mean, p.var})
        if (value != nullptr) may_be_dead.push_back(value->name());
    }
    if (folded.insert(group.front().parameters.weight).second || options.check_users)
      fold_group(graph, group, options);
    else
      for (const Candidate& candidate : group) drop_batch_norm(graph, candidate);
    folds += static_cast<int>(group.size());
  }
  drop_dead_inputs(graph, may_be_dead);
  return folds;
}

}  // namespace

int fold_conv_bn(Graph& graph, const FoldOptions& options) {
  int folds = 0;
  std::set<const Value*> folded;
  // a batch norm after a batch norm needs a second round
  while (const int more = fold_once(graph, options, folded)) folds += more;
  return folds;
}

}  // namespace octet
