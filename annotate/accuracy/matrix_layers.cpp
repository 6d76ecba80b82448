#include "annotate/accuracy/matrix_layers.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/affine.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"

namespace octet {
namespace {

using LayerKind = MatrixLayer::Kind;

constexpr std::array<LayerOperands, 9> kRows = {{
    {"aten.linear.default", LayerKind::kLinear, "input", "weight", "bias"},
    {"aten.mm.default", LayerKind::kProduct, "self", "mat2", nullptr},
    {"aten.addmm.default", LayerKind::kProduct, "mat1", "mat2", "self"},
    {"aten.conv1d.default", LayerKind::kConvolution, "input", "weight", "bias"},
    {"aten.conv2d.default", LayerKind::kConvolution, "input", "weight", "bias"},
    {"aten.conv3d.default", LayerKind::kConvolution, "input", "weight", "bias"},
    {"aten.conv1d.padding", LayerKind::kConvolution, "input", "weight", "bias"},
    {"aten.conv2d.padding", LayerKind::kConvolution, "input", "weight", "bias"},
    {"aten.conv3d.padding", LayerKind::kConvolution, "input", "weight", "bias"},
}};

// With these factors addmm is beta * bias + alpha * product.
bool has_factors(const Node& node) {
  return node.float_or("beta", 1) != 1 || node.float_or("alpha", 1) != 1;
}

// Whether a single op reads the constant, directly or through observer nodes.
bool has_one_reader(const Value* constant) {
  for (;; constant = constant->users().front()->output()) {
    if (!constant->has_one_user()) return false;
    if (!is_observer_node(constant->users().front())) return true;
  }
}

// The tensor of a value that depends only on constants.
at::Tensor constant_tensor(const Graph& graph, const Value* value) {
  if (const Tensor* tensor = graph.find_constant(value)) return to_aten(*tensor);
  const Graph part = extract_constant_part(graph, {value});
  return Interpreter(part).run({}).at(0).toTensor();
}

// Whether a constant has one reader and no other input of the graph has its fqn.
bool is_own_constant(const Graph& graph, const GraphInput& constant) {
  const auto is_same = [&](const GraphInput& input) { return input.fqn == constant.fqn; };
  return constant.value->has_one_user() && std::ranges::count_if(graph.inputs(), is_same) == 1;
}

class Finder {
 public:
  Finder(const ObservedGraph& observed, const std::string& stage, Report& report)
      : observed_(observed),
        constants_(find_constant_values(observed.graph)),
        stage_(stage),
        report_(report) {}

  std::vector<MatrixLayer> run() {
    for (Node* node : observed_.graph.nodes()) add(*node);
    for (const Body& body : bodies_within(observed_.graph))
      for (const Node* node : body.graph->nodes())
        if (const LayerOperands* row = find_operands(*node);
            row != nullptr && is_observed(*node, *row))
          left_out_.push_back(
              fmt::format("%{}.{}: it is in a body of control flow; its weight is not changed",
                          body.path, node->name()));
    report_left_out(stage_, left_out_, report_);
    return std::move(layers_);
  }

 private:
  static bool is_observed(const Node& node, const LayerOperands& row) {
    const Value* weight = node.find_input(row.weight);
    return weight != nullptr && is_observer_node(weight->producer());
  }

  void leave_out(const Node& node, const std::string& reason) {
    left_out_.push_back(fmt::format("%{}: {}", node.name(), reason));
  }

  void add(Node& node) {
    const LayerOperands* row = find_operands(node);
    if (row == nullptr || !is_observed(node, *row)) return;
    MatrixLayer layer;
    layer.kind = row->kind;
    layer.op = &node;
    layer.weight_point = node.find_input(row->weight)->producer();
    layer.weight = layer.weight_point->find_input("input");
    layer.weight_group = group_of(*layer.weight_point);
    layer.output_axis = row->kind == LayerKind::kProduct ? 1 : 0;
    layer.groups = row->kind == LayerKind::kConvolution ? node.int_or("groups", 1) : 1;
    layer.input = node.find_input(row->input);
    if (layer.input == nullptr || !constants_.contains(layer.weight)) return;
    layer.float_input = through_observers(layer.input);
    if (is_observer_node(layer.weight->producer()))
      return leave_out(node, "its weight is observed more than once; it is not changed");
    if (!layer.weight_point->output()->has_one_user())
      return leave_out(node, "its weight is used by several ops; it is not changed");
    if (has_factors(node))
      return leave_out(node, "the op has factors alpha or beta; its weight is not changed");
    const int64_t channels = weight_of(layer).size(layer.output_axis);
    if (!find_bias(layer, *row, channels))
      return leave_out(
          node,
          "its bias is not a constant with one number per channel; its weight is not changed");
    layers_.push_back(layer);
  }

  // False when the op has another kind of bias.
  bool find_bias(MatrixLayer& layer, const LayerOperands& row, int64_t channels) const {
    const Argument* argument = row.bias == nullptr ? nullptr : layer.op->find_argument(row.bias);
    if (argument == nullptr || argument->is_none()) return true;
    Value* bias = argument->value_or_null();
    if (bias == nullptr) return true;
    bias = through_observers(bias);
    if (!constants_.contains(bias) ||
        constant_tensor(observed_.graph, bias).sizes() != at::IntArrayRef{channels})
      return false;
    layer.bias = bias;
    layer.owns_bias = observed_.graph.find_constant(bias) != nullptr && has_one_reader(bias);
    return true;
  }

  const ObservedGraph& observed_;
  const std::unordered_set<const Value*> constants_;
  const std::string& stage_;
  Report& report_;
  std::vector<std::string> left_out_;
  std::vector<MatrixLayer> layers_;
};

// Spatial parameters of a convolution, one entry per spatial dimension.
struct Window {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  // in the order of constant_pad_nd: before and after, last dimension first
  std::vector<int64_t> pads;
};

std::vector<int64_t> spread(std::vector<int64_t> values, size_t count) {
  if (values.size() == 1) values.resize(count, values.front());
  return values;
}

Window window_of(const Node& op, const at::Tensor& weight) {
  Window window;
  window.kernel = weight.sizes().slice(2).vec();
  const size_t rank = window.kernel.size();
  window.stride = spread(op.ints_or("stride", {1}), rank);
  window.dilation = spread(op.ints_or("dilation", {1}), rank);
  const Argument* padding = op.find_argument("padding");
  const std::string* word = padding == nullptr ? nullptr : padding->find<std::string>();
  const std::vector<int64_t> numbers =
      word == nullptr ? spread(op.ints_or("padding", {0}), rank) : std::vector<int64_t>(rank, 0);
  for (size_t d = rank; d-- > 0;) {
    const int64_t total = word == nullptr   ? 2 * numbers[d]
                          : *word == "same" ? window.dilation[d] * (window.kernel[d] - 1)
                                            : 0;
    window.pads.push_back(total / 2);
    window.pads.push_back(total - total / 2);
  }
  return window;
}

// [images, channels, positions..., kernel...], a view of the padded input.
at::Tensor unfold(const at::Tensor& padded, const Window& window) {
  std::vector<int64_t> sizes = {padded.size(0), padded.size(1)};
  std::vector<int64_t> strides = {padded.stride(0), padded.stride(1)};
  const size_t rank = window.kernel.size();
  for (size_t d = 0; d < rank; ++d) {
    const int64_t dim = static_cast<int64_t>(d) + 2;
    sizes.push_back((padded.size(dim) - window.dilation[d] * (window.kernel[d] - 1) - 1) /
                        window.stride[d] +
                    1);
    strides.push_back(padded.stride(dim) * window.stride[d]);
  }
  for (size_t d = 0; d < rank; ++d) {
    sizes.push_back(window.kernel[d]);
    strides.push_back(padded.stride(static_cast<int64_t>(d) + 2) * window.dilation[d]);
  }
  return padded.as_strided(sizes, strides);
}

// Expands one value per block to the shape of the weight.
at::Tensor spread_blocks(const at::Tensor& blocks, const BlockReduction& reduction,
                         const at::Tensor& weight) {
  std::vector<int64_t> kept = reduction.shape;
  for (const int64_t dim : reduction.dims) kept[static_cast<size_t>(dim)] = 1;
  return blocks.to(weight.scalar_type())
      .reshape(kept)
      .expand(reduction.shape)
      .reshape(weight.sizes());
}

WeightGrid affine_grid(const AffineObserver& observer, const at::Tensor& weight,
                       const std::string& subject) {
  const std::vector<int64_t> block =
      block_size_of(observer.options().granularity, weight.sizes(), subject);
  const BlockReduction reduction = block_reduction(block, weight.sizes());
  const auto [scale, zero_point] =
      observer.qparam_tensors(weight.sizes(), from_scalar_type(weight.scalar_type()), subject);
  return {spread_blocks(scale, reduction, weight), spread_blocks(zero_point, reduction, weight),
          observer.quant_min(), observer.quant_max()};
}

at::Tensor spread_channels(const at::Tensor& values, int axis, const at::Tensor& weight) {
  std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
  if (axis >= 0) shape[static_cast<size_t>(axis)] = weight.size(axis);
  return values.to(weight.scalar_type()).reshape(shape).expand(weight.sizes());
}

}  // namespace

const LayerOperands* find_operands(const Node& node) {
  const auto row = std::ranges::find_if(
      kRows, [&](const LayerOperands& candidate) { return node.target() == candidate.target; });
  return row == kRows.end() ? nullptr : &*row;
}

void report_left_out(const std::string& stage, const std::vector<std::string>& layers,
                     Report& report) {
  for (const std::string& layer : layers) report.detail(stage + ": left out " + layer);
  if (layers.size() == 1) report.note(stage + ": left out " + layers.front());
  if (layers.size() > 1)
    report.note(fmt::format("{}: {} layers left out, --report FILE.json lists them; the first {}",
                            stage, layers.size(), layers.front()));
}

std::vector<MatrixLayer> find_matrix_layers(const ObservedGraph& observed, const std::string& stage,
                                            Report& report) {
  return Finder(observed, stage, report).run();
}

at::Tensor weight_of(const MatrixLayer& layer) {
  return constant_tensor(layer.op->graph(), layer.weight);
}

void set_weight(MatrixLayer& layer, const at::Tensor& weight) {
  Graph& graph = layer.op->graph();
  const GraphInput* old = graph.find_input(layer.weight);
  if (old != nullptr && is_own_constant(graph, *old)) {
    graph.constants.at(old->fqn).tensor = from_aten(weight.contiguous());
    return;
  }
  Value* stored = graph.add_constant(old == nullptr ? layer.op->name() + "_weight" : old->fqn,
                                     from_aten(weight.contiguous()));
  layer.weight_point->replace_input(layer.weight, stored);
  layer.weight = stored;
}

at::Tensor bias_of(const MatrixLayer& layer) {
  return layer.bias == nullptr ? at::Tensor() : constant_tensor(layer.op->graph(), layer.bias);
}

void set_bias(MatrixLayer& layer, const at::Tensor& bias) {
  OCTET_ASSERT(layer.owns_bias, layer.name() + " does not own its bias");
  Graph& graph = layer.op->graph();
  const GraphInput* old = graph.find_input(layer.bias);
  if (is_own_constant(graph, *old)) {
    graph.constants.at(old->fqn).tensor = from_aten(bias.contiguous());
    return;
  }
  Value* stored = graph.add_constant(old->fqn, from_aten(bias.contiguous()));
  layer.bias->users().front()->replace_input(layer.bias, stored);
  layer.bias = stored;
}

at::Tensor to_matrices(const MatrixLayer& layer, const at::Tensor& weight) {
  if (layer.kind == LayerKind::kProduct) return weight.t().unsqueeze(0);
  const int64_t groups = layer.groups;
  return weight.reshape({groups, weight.size(0) / groups, -1});
}

at::Tensor from_matrices(const MatrixLayer& layer, const at::Tensor& matrices) {
  if (layer.kind == LayerKind::kProduct) return matrices.squeeze(0).t().contiguous();
  return matrices.reshape(weight_of(layer).sizes());
}

at::Tensor input_rows(const MatrixLayer& layer, const at::Tensor& input) {
  if (layer.kind != LayerKind::kConvolution) return input.reshape({1, -1, input.size(-1)});
  const at::Tensor weight = weight_of(layer);
  const Window window = window_of(*layer.op, weight);
  const int64_t rank = static_cast<int64_t>(window.kernel.size());
  const at::Tensor batched = input.dim() == rank + 1 ? input.unsqueeze(0) : input;
  const at::Tensor unfolded = unfold(at::constant_pad_nd(batched, window.pads, 0), window);
  std::vector<int64_t> sizes = {unfolded.size(0), layer.groups, unfolded.size(1) / layer.groups};
  sizes.insert(sizes.end(), unfolded.sizes().begin() + 2, unfolded.sizes().end());
  std::vector<int64_t> order = {1, 0};
  for (int64_t d = 0; d < rank; ++d) order.push_back(3 + d);
  order.push_back(2);
  for (int64_t d = 0; d < rank; ++d) order.push_back(3 + rank + d);
  return unfolded.reshape(sizes).permute(order).reshape({layer.groups, -1, weight[0].numel()});
}

at::Tensor output_rows(const MatrixLayer& layer, const at::Tensor& output) {
  if (layer.kind != LayerKind::kConvolution) return output.reshape({1, -1, output.size(-1)});
  const int64_t rank = weight_of(layer).dim() - 2;
  const at::Tensor batched = output.dim() == rank + 1 ? output.unsqueeze(0) : output;
  const int64_t channels = batched.size(1);
  // [images, groups, out, positions] -> [groups, images, positions, out]
  return batched.reshape({batched.size(0), layer.groups, channels / layer.groups, -1})
      .permute({1, 0, 3, 2})
      .reshape({layer.groups, -1, channels / layer.groups});
}

at::Tensor WeightGrid::nearest(const at::Tensor& weight) const {
  const at::Tensor q =
      at::round(weight.to(at::kDouble) / scale.to(at::kDouble)) + zero_point.to(at::kDouble);
  return at::clamp(q, static_cast<double>(quant_min), static_cast<double>(quant_max));
}

at::Tensor WeightGrid::values(const at::Tensor& q) const {
  return (q.to(scale.scalar_type()) - zero_point) * scale;
}

Verdict has_weight_grid(const Observer& observer, const at::Tensor& weight) {
  const ObserverArgs& args = observer.args();
  if (weight.scalar_type() != at::kFloat && weight.scalar_type() != at::kDouble)
    return Verdict::refuse(fmt::format("its weight is {}, want float32 or float64",
                                       name_of(from_scalar_type(weight.scalar_type()))));
  if (args.is_dynamic) return Verdict::refuse("its weight gets its scale at run time");
  if (!is_integer(args.dtype) || size_of(args.dtype) > 4)
    return Verdict::refuse(
        fmt::format("its weight becomes {}, want an integer", name_of(args.dtype)));
  if (args.qscheme == QScheme::kPerChannelAffineFloatQParams)
    return Verdict::refuse("its weight has zero points that are not integers");
  return Verdict::accept();
}

WeightGrid weight_grid(const Observer& observer, const at::Tensor& weight,
                       const std::string& subject) {
  if (!observer.has_data())
    throw Error("convert", subject, "the observer of the weight saw no data; calibrate first");
  if (const AffineObserver* affine = dynamic_cast<const AffineObserver*>(&observer))
    return affine_grid(*affine, weight, subject);
  const QParams qparams = observer.calculate_qparams();
  const int64_t channels =
      qparams.axis >= 0 && qparams.axis < weight.dim() ? weight.size(qparams.axis) : 1;
  if (qparams.axis >= weight.dim() || static_cast<int64_t>(qparams.scale.size()) != channels)
    throw Error("convert", subject,
                fmt::format("the weight's observer saw {} channels, want {}; calibrate again",
                            qparams.scale.size(), channels));
  return {spread_channels(at::tensor(qparams.scale), qparams.axis, weight),
          spread_channels(at::tensor(qparams.zero_point), qparams.axis, weight),
          observer.quant_min(), observer.quant_max()};
}

}  // namespace octet
