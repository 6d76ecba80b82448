// Follows torchao's steps: fusions, matmul, mul, then ops between quantized ops; one configuration
// after another.
#include "quantizers/x86/compat.h"

#include <algorithm>

#include <fmt/format.h>

namespace octet {
namespace {

using OriginNames = std::vector<std::string>;
using Ops = std::vector<std::string>;

// clang-format off
// The origin of an op, as named in the .pt2: the module's class, and functions that torchao treats
// as equal.
const OriginNames kConv1dSources    = {"torch.nn.modules.conv.Conv1d", "torch.conv1d"};
const OriginNames kConv2dSources    = {"torch.nn.modules.conv.Conv2d", "torch.conv2d"};
const OriginNames kLinearSources    = {"torch.nn.modules.linear.Linear"};
const OriginNames kAnyLinearSources = {"torch.nn.modules.linear.Linear", "torch._C._nn.linear"};
const OriginNames kNormSources      = {"torch.nn.modules.batchnorm.BatchNorm2d", "torch.nn.functional.batch_norm"};
const OriginNames kAddSources       = {"torch.add", "_operator.add", "_operator.iadd", "add", "add_"};
const OriginNames kReluSources      = {"torch.nn.modules.activation.ReLU", "torch.nn.functional.relu", "torch.relu_"};
const OriginNames kHardtanhSources  = {"torch.nn.modules.activation.Hardtanh", "torch.nn.functional.hardtanh", "torch._C._nn.hardtanh_"};
const OriginNames kHardswishSources = {"torch.nn.modules.activation.Hardswish"};
const OriginNames kRelu6Sources     = {"torch.nn.modules.activation.ReLU6"};
const OriginNames kSiluSources      = {"torch.nn.modules.activation.SiLU"};
const OriginNames kLeakyReluSources = {"torch.nn.modules.activation.LeakyReLU"};
const OriginNames kTanhSources      = {"torch.nn.modules.activation.Tanh"};
const OriginNames kGeluSources      = {"torch.nn.modules.activation.GELU"};

const Ops kConv2dOp   = {"aten.conv2d.default"};
const Ops kConvOps    = {"aten.conv2d.default", "aten.conv1d.default"};
const Ops kLinearOp   = {"aten.linear.default"};

const std::vector<X86FusionRow> kFusionRows = {
    // name               sources                                                    matrix ops batch norm            addend              unary         many calls
    {"conv_bn_add_relu",  {kConv2dSources, kNormSources, kAddSources, kReluSources}, kConv2dOp, BatchNorm::kUnfolded, Addend::kQuantized, Unary::kLast},
    {"conv_bn_add",       {kConv2dSources, kNormSources, kAddSources},               kConv2dOp, BatchNorm::kUnfolded, Addend::kQuantized, Unary::kNone},
    {"conv_bn_relu",      {kConv2dSources, kNormSources, kReluSources},              kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_hardtanh",  {kConv2dSources, kNormSources, kHardtanhSources},          kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_hardswish", {kConv2dSources, kNormSources, kHardswishSources},         kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_relu6",     {kConv2dSources, kNormSources, kRelu6Sources},             kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn_silu",      {kConv2dSources, kNormSources, kSiluSources},              kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kLast},
    {"conv_bn",           {kConv2dSources, kNormSources},                            kConv2dOp, BatchNorm::kUnfolded, Addend::kNone,      Unary::kNone},
    {"conv_add_relu",     {kConv2dSources, kAddSources, kReluSources},               kConv2dOp, BatchNorm::kFolded,   Addend::kQuantized, Unary::kLast},
    {"conv_add",          {kConv2dSources, kAddSources},                             kConv2dOp, BatchNorm::kFolded,   Addend::kQuantized, Unary::kNone},
    {"conv_relu",         {kConv2dSources, kReluSources},                            kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_hardtanh",     {kConv2dSources, kHardtanhSources},                        kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_hardswish",    {kConv2dSources, kHardswishSources},                       kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_relu6",        {kConv2dSources, kRelu6Sources},                           kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv_silu",         {kConv2dSources, kSiluSources},                            kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv1d_relu",       {kConv1dSources, kReluSources},                            kConvOps,  BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"conv",              {kConv2dSources},                                          kConv2dOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kNone},
    {"linear_add_relu",   {kLinearSources, kAddSources, kReluSources},               kLinearOp, BatchNorm::kFolded,   Addend::kFloat,     Unary::kLast},
    {"linear_add",        {kLinearSources, kAddSources},                             kLinearOp, BatchNorm::kFolded,   Addend::kFloat,     Unary::kNone},
    {"linear_relu",       {kLinearSources, kReluSources},                            kLinearOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_leaky_relu", {kLinearSources, kLeakyReluSources},                       kLinearOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_tanh",       {kLinearSources, kTanhSources},                            kLinearOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear_gelu",       {kLinearSources, kGeluSources},                            kLinearOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kLast},
    {"linear",            {kAnyLinearSources},                                       kLinearOp, BatchNorm::kFolded,   Addend::kNone,      Unary::kNone, ManyCalls::kEachByItself},
};

const Ops kPropagationOps = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints"};
const Ops kDefaultOps     = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints", "aten.conv1d.default", "aten.conv2d.default", "aten.linear.default", "aten.mul.Tensor"};
const Ops kQuantizableOps = {"aten.max_pool2d.default", "aten.cat.default", "aten.avg_pool2d.default", "aten.adaptive_avg_pool2d.default",
                             "aten.flatten.using_ints", "aten.conv1d.default", "aten.conv2d.default", "aten.linear.default", "aten.mul.Tensor",
                             "aten.matmul.default"};

struct OpNames {
  std::string op;
  std::vector<std::string> names;
};
const std::vector<OpNames> kOpNames = {
    {"aten.conv1d.default",              {"torch.nn.functional.conv1d", "torch.conv1d"}},
    {"aten.conv2d.default",              {"torch.nn.functional.conv2d", "torch.conv2d", "torch.nn.Conv2d", "torch.nn.modules.conv.Conv2d"}},
    {"aten.linear.default",              {"torch.nn.functional.linear", "torch.nn.Linear", "torch.nn.modules.linear.Linear"}},
    {"aten.max_pool2d.default",          {"torch.nn.functional.max_pool2d", "torch.nn.MaxPool2d", "torch.nn.modules.pooling.MaxPool2d"}},
    {"aten.cat.default",                 {"torch.cat"}},
    {"aten.avg_pool2d.default",          {"torch.nn.functional.avg_pool2d", "torch.nn.AvgPool2d", "torch.nn.modules.pooling.AvgPool2d"}},
    {"aten.adaptive_avg_pool2d.default", {"torch.nn.functional.adaptive_avg_pool2d", "torch.nn.AdaptiveAvgPool2d", "torch.nn.modules.pooling.AdaptiveAvgPool2d"}},
    {"aten.flatten.using_ints",          {"torch.flatten"}},
    {"aten.matmul.default",              {"torch.matmul"}},
    {"aten.mul.Tensor",                  {"torch.mul"}},
};
// clang-format on

// "aten.linear.default", "aten.linear" or "linear".
bool names_op(const std::string& name, const std::string& op) {
  const std::string packet = op.substr(0, op.rfind('.'));
  return name == op || name == packet || "aten." + name == packet;
}

bool is_any_of(const Node& node, std::span<const std::string> targets) {
  return std::ranges::find(targets, node.target()) != targets.end();
}

void set_input(QuantizationAnnotation& annotation, Value* value,
               const std::optional<QuantizationSpec>& spec) {
  if (spec) annotation.set_input(value, *spec);
}

// The operand of a two-operand op other than `one`; null if neither operand is a value or `one` is
// not an operand.
Value* other_operand(const Node& node, const Value* one) {
  if (node.arguments().size() < 2) return nullptr;
  Value* first = node.arguments()[0].value.value_or_null();
  Value* second = node.arguments()[1].value.value_or_null();
  if (first == one) return second;
  return second == one ? first : nullptr;
}

bool has_one_user_node(const Node& node) {
  const Value* output = node.output_or_null();
  return output && output->users().size() + (output->is_output() ? 1 : 0) == 1;
}

}  // namespace

std::span<const X86FusionRow> x86_fusion_rows() { return kFusionRows; }
std::span<const std::string> x86_propagation_ops() { return kPropagationOps; }
std::span<const std::string> x86_default_ops() { return kDefaultOps; }
std::span<const std::string> x86_quantizable_ops() { return kQuantizableOps; }

std::optional<std::string> find_x86_op(const std::string& name) {
  for (const auto& [op, names] : kOpNames)
    if (names_op(name, op) || std::ranges::find(names, name) != names.end()) return op;
  return std::nullopt;
}

void X86CompatAnnotator::apply(const std::optional<QuantizationConfig>& config,
                               const MatchFilter& filter, const std::string& description) {
  const Run run{config, filter, description};
  for (const X86FusionRow& row : x86_fusion_rows())
    if (row.batch_norm == BatchNorm::kFolded || !config || config->is_qat)
      annotate_fusions(run, row);
  annotate_matmuls(run);
  annotate_muls(run);
  annotate_propagation(run);
}

bool X86CompatAnnotator::takes(const Run& run, std::span<Node* const> nodes) const {
  return std::ranges::none_of(nodes,
                              [&](const Node* node) { return annotations_.is_annotated(node); }) &&
         run.filter(nodes);
}

void X86CompatAnnotator::exclude(const Run& run, std::span<Node* const> nodes) {
  for (const Node* node : nodes) {
    annotations_[node] = QuantizationAnnotation{};
    annotations_[node].rule = run.description;
    excluded_[node] = run.description;
  }
}

// ---- fusions ----

void X86CompatAnnotator::annotate_fusions(const Run& run, const X86FusionRow& row) {
  for (const PartitionChain& chain : find_partition_chains(graph_, row.sources)) {
    if (chain.size() == 1 && row.many_calls == ManyCalls::kEachByItself) {
      annotate_alone(run, row, chain.front());
      continue;
    }
    const std::vector<Node*> nodes = find_chain(row, chain);
    if (!nodes.empty() && takes(run, nodes)) annotate_chain(run, row, nodes, chain);
  }
}

std::vector<Node*> X86CompatAnnotator::find_chain(const X86FusionRow& row,
                                                  const PartitionChain& chain) {
  std::vector<Node*> nodes;
  Node& first = *chain.front().nodes.back();
  for (const SourcePartition& partition : chain) {
    if (partition.output_nodes.size() != 1) {
      const char* reason = partition.output_nodes.empty()
                               ? "the result of %{} is not used"
                               : "the module of %{} is called more than once";
      state_.refusals[&first] = fmt::format(fmt::runtime(reason), partition.nodes.back()->name());
      return {};
    }
    nodes.push_back(partition.output_nodes.front());
  }
  if (!is_any_of(*nodes.front(), row.matrix_ops)) return {};
  if (row.addend == Addend::kNone) return nodes;
  const size_t add = row.batch_norm == BatchNorm::kUnfolded ? 2 : 1;
  if (!has_one_user_node(*nodes[add - 1])) return {};
  if (other_operand(*nodes[add], nodes[add - 1]->output())) return nodes;
  state_.refusals[nodes.front()] =
      fmt::format("%{} adds no other tensor to it", nodes[add]->name());
  return {};
}

void X86CompatAnnotator::annotate_chain(const Run& run, const X86FusionRow& row,
                                        const std::vector<Node*>& nodes,
                                        const PartitionChain& chain) {
  if (!run.config) {
    exclude(run, nodes);
    return;
  }
  annotate_gemm(*run.config, row, *nodes.front(), nodes.size() == 1);
  for (size_t i = 1; i < nodes.size(); ++i) {
    QuantizationAnnotation annotation;
    annotation.rule = row.name;
    annotation.is_output_of_quantized_pattern = i + 1 == nodes.size();
    const bool is_add =
        row.addend == Addend::kQuantized && i + (row.unary == Unary::kLast ? 2 : 1) == nodes.size();
    if (is_add)
      set_input(annotation, other_operand(*nodes[i], nodes[i - 1]->output()),
                run.config->input_activation);
    if (row.batch_norm == BatchNorm::kUnfolded && i + 1 == nodes.size() &&
        run.config->output_activation)
      annotation.output_qspec = *run.config->output_activation;
    // the norm is only marked, below
    if (row.batch_norm == BatchNorm::kUnfolded && i + 1 < nodes.size() && !is_add) continue;
    annotations_[nodes[i]] = std::move(annotation);
  }
  if (row.batch_norm == BatchNorm::kFolded) return;
  for (const SourcePartition& partition : chain)
    for (const Node* node : partition.nodes) {
      annotations_[node].annotated = true;
      annotations_[node].rule = row.name;
    }
}

// Annotates each call of a linear module that is called several times.
void X86CompatAnnotator::annotate_alone(const Run& run, const X86FusionRow& row,
                                        const SourcePartition& partition) {
  for (Node* node : partition.output_nodes) {
    if (!is_any_of(*node, row.matrix_ops) || !takes(run, {&node, 1})) continue;
    if (run.config)
      annotate_gemm(*run.config, row, *node, true);
    else
      exclude(run, {&node, 1});
  }
}

void X86CompatAnnotator::annotate_gemm(const QuantizationConfig& config, const X86FusionRow& row,
                                       Node& gemm, bool is_output) {
  QuantizationAnnotation annotation;
  annotation.rule = row.name;
  annotation.is_output_of_quantized_pattern = is_output;
  set_input(annotation, gemm.find_input("input"), config.input_activation);
  set_input(annotation, gemm.find_input("weight"), config.weight);
  if (Value* bias = gemm.find_input("bias")) set_input(annotation, bias, config.bias);
  annotations_[&gemm] = std::move(annotation);
}

// ---- matmul and mul ----

void X86CompatAnnotator::annotate_inputs(const QuantizationConfig& config, Node& node,
                                         std::span<Value* const> inputs, const std::string& rule) {
  QuantizationAnnotation annotation;
  annotation.rule = rule;
  annotation.is_output_of_quantized_pattern = true;
  for (Value* input : inputs) set_input(annotation, input, config.input_activation);
  annotations_[&node] = std::move(annotation);
}

void X86CompatAnnotator::annotate_matmuls(const Run& run) {
  for (Node* node : graph_.nodes()) {
    if (node->target() != "aten.matmul.default" || !takes(run, {&node, 1})) continue;
    if (run.config)
      annotate_inputs(*run.config, *node, node->inputs(), "matmul");
    else
      exclude(run, {&node, 1});
  }
}

void X86CompatAnnotator::annotate_muls(const Run& run) {
  for (Node* node : graph_.nodes()) {
    if (node->target() != "aten.mul.Tensor" || !takes(run, {&node, 1})) continue;
    if (!run.config) {
      exclude(run, {&node, 1});
      continue;
    }
    const Value* x = node->find_input("self");
    const Value* y = node->find_input("other");
    const bool are_tensors =
        x && y && x->kind() == ValueKind::kTensor && y->kind() == ValueKind::kTensor;
    if (!are_tensors || !x->meta || !y->meta || x->meta->sizes != y->meta->sizes) {
      state_.refusals[node] = are_tensors ? "its operands have different shapes"
                                          : "one of its operands is not a tensor";
      continue;
    }
    annotate_inputs(*run.config, *node, node->inputs(), "mul");
  }
}

// ---- between quantized ops ----

bool X86CompatAnnotator::is_quantized(const Value* value) const {
  const QuantizationAnnotation* annotation =
      value->producer() ? annotations_.find(value->producer()) : nullptr;
  return annotation && annotation->annotated && annotation->is_output_of_quantized_pattern;
}

void X86CompatAnnotator::annotate_propagation(const Run& run) {
  for (Node* node : graph_.nodes()) {
    if (!is_any_of(*node, x86_propagation_ops()) || !takes(run, {&node, 1})) continue;
    if (run.config)
      annotate_propagated(run, *node);
    else
      exclude(run, {&node, 1});
  }
}

void X86CompatAnnotator::annotate_propagated(const Run& run, Node& node) {
  const std::vector<Value*> inputs = node.inputs();
  if (inputs.empty()) return;
  const bool is_cat = node.target() == "aten.cat.default";
  if (node.target() == "aten.flatten.using_ints") {
    const Value* output = node.output();
    const bool is_read = std::ranges::any_of(
        output->users(), [](const Node* user) { return is_any_of(*user, x86_quantizable_ops()); });
    if (!output->is_unused() && !is_read) {
      state_.refusals[&node] = "no op that can be quantized reads its result";
      return;
    }
  }
  for (const Value* input : std::span(inputs).first(is_cat ? inputs.size() : 1))
    if (!is_quantized(input)) {
      state_.refusals[&node] =
          fmt::format("it follows its input, and %{} is not quantized", input->name());
      return;
    }
  annotate_inputs(*run.config, node, std::span(inputs).first(1), "share");
  if (!is_cat || !run.config->input_activation) return;
  for (Value* input : std::span(inputs).subspan(1))
    annotations_[&node].set_input(input, SharedQuantizationSpec{Edge{inputs[0], &node}});
}

void X86CompatAnnotator::share_outputs() {
  for (Node* node : graph_.nodes()) {
    if (!is_any_of(*node, x86_propagation_ops())) continue;
    QuantizationAnnotation* annotation = annotations_.find(node);
    if (annotation && annotation->annotated && annotation->is_output_of_quantized_pattern)
      annotation->output_qspec = SharedQuantizationSpec{Edge{node->inputs()[0], node}};
  }
}

}  // namespace octet
