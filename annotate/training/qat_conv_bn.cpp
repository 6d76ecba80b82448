// Rewrites pairs of convolution and batch norm for training. qat_conv_bn_fold.cpp folds them
// afterwards.
#include "annotate/training/qat_conv_bn.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

using Form = WeightForm;

// torchao trains no linear layers with batch norms, and no convolutions of three dimensions or with
// padding by name.
const WeightedOp* find_row(const Node& node, Compat compat) {
  static constexpr std::array<std::string_view, 4> kInCompat = {
      "aten.conv1d.default", "aten.conv2d.default", "aten.conv_transpose1d",
      "aten.conv_transpose2d"};
  if (compat == Compat::kTorchao &&
      std::ranges::none_of(kInCompat, [&](std::string_view op) { return node.is(op); }))
    return nullptr;
  return find_conv_or_linear(node);
}

// Why a batch norm after a convolution cannot be trained with it; "": it can.
std::string objection(const Graph& graph, const Node& conv, const Node& bn, const WeightedOp& row,
                      Compat compat) {
  if (!bn.find_input("input")->has_one_user())
    return fmt::format("other ops read %{} too", conv.output()->name());
  const Value* weight = conv.find_input("weight");
  for (const Value* value : {weight, static_cast<const Value*>(bn.find_input("running_mean")),
                             static_cast<const Value*>(bn.find_input("running_var"))})
    if (value == nullptr || graph.find_constant(value) == nullptr)
      return "its weight or running statistics are not stored in the program";
  const bool is_affine = bn.find_input("weight") != nullptr && bn.find_input("bias") != nullptr;
  if (compat == Compat::kTorchao && !is_affine)
    return "the batch norm has no gamma and beta (compat torchao)";
  if (compat == Compat::kTorchao && row.form == Form::kTransposedConv &&
      conv.int_or("groups", 1) != 1)
    return "the transposed convolution has groups (compat torchao)";
  const size_t rank = graph.find_constant(weight)->shape().size();
  const std::optional<TensorMeta>& output = conv.output()->meta;
  if (output && output->sizes.size() != rank)
    return "its input has no batch dimension, or more than one";
  return "";
}

class Fusion {
 public:
  Fusion(Graph& graph, Annotations& annotations, Compat compat)
      : graph_(graph), annotations_(annotations), compat_(compat) {}

  void fuse(Node& conv, Node& bn, Form form) {
    if (compat_ == Compat::kTorchao) place_as_torchao(conv, bn);
    if (compat_ == Compat::kTorchao) set_torchao_literals(bn);
    Value* weight = conv.find_input("weight");
    Value* bias = conv.find_input("bias");
    std::vector<int64_t> output_shape(graph_.find_constant(weight)->shape().size(), 1);
    output_shape[1] = -1;
    Value* scale = add_scale(conv, bn);
    Value* scaled = scale_weight(conv, weight, scale, form);
    conv.set_argument("weight", scaled);
    move_spec(conv, weight, scaled);
    if (bias != nullptr) {
      Value* zeros =
          add(conv, "aten.zeros_like.default",
              {{"self", bias, ArgumentKind::kPositional},
               {"dtype", bias->meta ? bias->meta->dtype : DType::kFloat32, ArgumentKind::kKeyword},
               {"pin_memory", false, ArgumentKind::kKeyword}},
              bias);
      conv.set_argument("bias", zeros);
      move_spec(conv, bias, zeros);
    }
    Value* output = conv.output();
    Value* result = add(bn, "aten.div.Tensor",
                        {{"self", output}, {"other", reshape(bn, scale, output_shape)}}, output);
    if (bias != nullptr)
      result = add(bn, "aten.add.Tensor",
                   {{"self", result}, {"other", reshape(bn, bias, output_shape)}}, output);
    bn.replace_input(output, result);
  }

 private:
  // weight * scale along the output channels. A transposed weight is [in, out / groups, ...], and
  // its input channels carry the groups.
  Value* scale_weight(Node& conv, Value* weight, Value* scale, Form form) {
    const std::vector<int64_t> shape = graph_.find_constant(weight)->shape();
    const int64_t groups = form == Form::kTransposedConv ? conv.int_or("groups", 1) : 1;
    if (groups == 1) {
      std::vector<int64_t> factors(shape.size(), 1);
      factors[form == Form::kTransposedConv ? 1 : 0] = -1;
      return multiply(conv, weight, reshape(conv, scale, factors));
    }
    std::vector<int64_t> grouped = shape;
    grouped[0] /= groups;
    grouped.insert(grouped.begin(), groups);
    std::vector<int64_t> factors(grouped.size(), 1);
    factors[0] = groups;
    factors[2] = shape[1];
    return reshape(
        conv, multiply(conv, reshape(conv, weight, grouped), reshape(conv, scale, factors)), shape);
  }

  Value* multiply(Node& before, Value* value, Value* factor) {
    return add(before, "aten.mul.Tensor", {{"self", value}, {"other", factor}}, value);
  }

  // Moves the ops before the first op that reads the batch norm.
  void place_as_torchao(Node& conv, Node& bn) {
    Node* place = nullptr;
    for (Node* user : bn.output()->users())
      if (place == nullptr || graph_.is_before(*user, *place)) place = user;
    graph_.move_before(conv, place);
    graph_.move_before(bn, place);
  }

  static void set_torchao_literals(Node& bn) {
    bn.set_argument("training", true);
    bn.set_argument("momentum", 0.1);
    bn.set_argument("eps", 1e-5);
    bn.set_argument("cudnn_enabled", false);
  }

  // gamma / sqrt(running_var + eps), [channels].
  Value* add_scale(Node& conv, const Node& bn) {
    Value* var = bn.find_input("running_var");
    Value* gamma = bn.find_input("weight");
    Value* sum =
        add(conv, "aten.add.Tensor", {{"self", var}, {"other", bn.float_or("eps", 1e-5)}}, var);
    if (gamma == nullptr) return add(conv, "aten.rsqrt.default", {{"self", sum}}, var);
    Value* deviation = add(conv, "aten.sqrt.default", {{"self", sum}}, var);
    Value* scale = add(conv, "aten.div.Tensor", {{"self", gamma}, {"other", deviation}}, gamma);
    if (compat_ == Compat::kTorchao) return scale;
    Value* is_zero = add(conv, "aten.eq.Scalar", {{"self", gamma}, {"other", int64_t{0}}}, var);
    if (is_zero->meta) is_zero->meta->dtype = DType::kBool;
    return add(conv, "aten.masked_fill.Scalar",
               {{"self", scale}, {"mask", is_zero}, {"value", int64_t{1}}}, gamma);
  }

  Value* reshape(Node& before, Value* value, const std::vector<int64_t>& shape) {
    Value* result = add(before, "aten.reshape.default", {{"self", value}, {"shape", shape}}, value);
    if (value->meta) {
      std::vector<int64_t> sizes = shape;
      std::replace(sizes.begin(), sizes.end(), int64_t{-1}, value->meta->sizes.at(0).value);
      result->meta = make_meta(value->meta->dtype, sizes);
    }
    return result;
  }

  // Adds an op before `before`, with a result like `like`.
  Value* add(Node& before, const std::string& target, std::vector<NamedArgument> arguments,
             const Value* like) {
    const size_t begin = target.find('.') + 1;
    Node* node =
        graph_.insert(target, std::move(arguments),
                      target.substr(begin, target.find('.', begin) - begin), like->meta, &before);
    node->metadata = before.metadata;
    return node->output();
  }

  // Moves specs of the edge from `from` into `conv` to the edge from `to`.
  void move_spec(Node& conv, Value* from, Value* to) {
    if (QuantizationAnnotation* own = annotations_.find(&conv)) {
      for (auto& [value, spec] : own->input_qspec_map)
        if (value == from) value = to;
      for (auto& [value, limits] : own->input_limits)
        if (value == from) value = to;
    }
    const EdgeOrNode before = Edge{from, &conv};
    const EdgeOrNode after = Edge{to, &conv};
    const auto follow = [&](SpecVariant& spec) {
      if (SharedQuantizationSpec* shared = std::get_if<SharedQuantizationSpec>(&spec);
          shared != nullptr && shared->edge_or_node == before)
        shared->edge_or_node = after;
      if (DerivedQuantizationSpec* derived = std::get_if<DerivedQuantizationSpec>(&spec))
        std::replace(derived->derived_from.begin(), derived->derived_from.end(), before, after);
    };
    for (const Node* node : graph_.nodes()) {
      QuantizationAnnotation* annotation = annotations_.find(node);
      if (annotation == nullptr) continue;
      for (auto& [value, spec] : annotation->input_qspec_map) follow(spec);
      if (annotation->output_qspec) follow(*annotation->output_qspec);
      for (auto& [value, spec] : annotation->output_qspec_map) follow(spec);
    }
  }

  Graph& graph_;
  Annotations& annotations_;
  Compat compat_;
};

}  // namespace

int fuse_conv_bn_qat(Graph& graph, Annotations& annotations, Report& report, Compat compat) {
  int count = 0;
  for (Node* bn : graph.nodes_of("aten.batch_norm")) {
    const Value* input = bn->find_input("input");
    Node* conv = input == nullptr ? nullptr : input->producer();
    const WeightedOp* row = conv == nullptr ? nullptr : find_row(*conv, compat);
    if (row == nullptr) continue;
    const std::string reason = objection(graph, *conv, *bn, *row, compat);
    if (!reason.empty()) {
      report.note(fmt::format("prepare: %{} is not trained together with %{}: {}", bn->name(),
                              conv->name(), reason));
      continue;
    }
    Fusion(graph, annotations, compat).fuse(*conv, *bn, row->form);
    ++count;
  }
  return count;
}

}  // namespace octet
