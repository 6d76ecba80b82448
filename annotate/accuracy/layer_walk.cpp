#include "annotate/accuracy/layer_walk.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/median.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/convert/convert.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

// Splits a sample into single images: an unfolded convolution input is many times larger than the
// input.
std::vector<LayerSample> single_images(const MatrixLayer& layer, const LayerSample& sample) {
  const bool is_batched = layer.kind == MatrixLayer::Kind::kConvolution &&
                          sample.quantized_input.dim() == weight_of(layer).dim();
  if (!is_batched) return {sample};
  std::vector<LayerSample> images;
  for (int64_t i = 0; i < sample.quantized_input.size(0); ++i)
    images.push_back({sample.quantized_input.narrow(0, i, 1), sample.float_output.narrow(0, i, 1)});
  return images;
}

void accumulate(at::Tensor& sum, const at::Tensor& part) {
  sum = sum.defined() ? sum.add_(part) : part.to(at::kDouble);
}

LayerStatistics zeros_of(const MatrixLayer& layer) {
  const at::Tensor matrices = to_matrices(layer, weight_of(layer));
  const int64_t groups = matrices.size(0), outputs = matrices.size(1), columns = matrices.size(2);
  LayerStatistics zeros;
  zeros.hessian = at::zeros({groups, columns, columns}, at::kDouble);
  zeros.cross = at::zeros({groups, outputs, columns}, at::kDouble);
  zeros.input_mean = at::zeros({groups, columns}, at::kDouble);
  zeros.output_mean = at::zeros({groups, outputs}, at::kDouble);
  return zeros;
}

// Call before dividing the means by the number of rows.
void sum_over(Peers& peers, LayerStatistics& sums) {
  const at::Tensor numbers = at::zeros({2}, at::kDouble);
  double* pair = numbers.data_ptr<double>();
  pair[0] = sums.energy;
  pair[1] = sums.rows;
  octet::sum_over(&peers, {sums.hessian, sums.cross, sums.input_mean, sums.output_mean, numbers});
  sums.energy = pair[0];
  sums.rows = pair[1];
}

}  // namespace

// The constants that the quantized program reads instead of a layer's weight and bias, so that
// these can change without being quantized again.
struct Standins {
  std::string op;      // name of the node
  std::string weight;  // fqn
  std::string bias;    // fqn, "" without a bias that may change
};

namespace {

using Batches = std::vector<std::vector<c10::IValue>>;

Batches read_batches(const Graph& graph, const std::vector<MatrixLayer>& layers,
                     const BatchSource& data, size_t max_bytes, const std::string& stage,
                     bool& left_out) {
  std::unordered_set<const Node*> stops;
  for (const MatrixLayer& layer : layers) stops.insert(layer.op);
  Batches batches;
  size_t fitting = 1;
  while (std::optional<std::vector<c10::IValue>> batch = data()) {
    if (batches.size() == fitting && !batches.empty()) {
      left_out = true;
      break;
    }
    batches.push_back(std::move(*batch));
    // Twice, because the float and the quantized run hold about the same.
    if (batches.size() == 1)
      fitting = std::max<size_t>(
          1, max_bytes / std::max<size_t>(1, 2 * bytes_at(stops, graph, batches.front())));
  }
  if (batches.empty()) throw Error(stage, "data", "no batches, got 0, want at least 1");
  return batches;
}

Value* weight_operand(Graph& graph, const MatrixLayer& layer) {
  return graph.find_node(layer.weight_point->name())->output();
}

// The program that convert would make, with replaceable weights and biases of the layers.
Graph quantized_program(const ObservedGraph& observed, const std::vector<MatrixLayer>& layers,
                        std::vector<Standins>& standins) {
  std::unordered_map<const Value*, Value*> twins;
  ObservedGraph copy{std::move(*clone(observed.graph, &twins)), observed.observers, {}};
  for (const MatrixLayer& layer : layers) {
    const Observer& observer = *observed.observers[static_cast<size_t>(layer.weight_group)];
    at::Tensor weight = weight_of(layer);
    if (has_weight_grid(observer, weight)) {
      const WeightGrid grid = weight_grid(observer, weight, "%" + layer.weight->name());
      weight = grid.values(grid.nearest(weight)).to(weight.scalar_type());
    }
    Standins names{.op = layer.name(), .weight = {}, .bias = {}};
    Value* operand = weight_operand(copy.graph, layer);
    Value* stored =
        copy.graph.add_constant(layer.name() + "_weight", from_aten(weight.contiguous()));
    names.weight = copy.graph.find_input(stored)->fqn;
    copy.graph.replace_uses(operand, stored);
    copy.graph.erase(*operand->producer());
    if (layer.owns_bias) {
      Value* bias =
          copy.graph.add_constant(layer.name() + "_bias", from_aten(bias_of(layer).contiguous()));
      names.bias = copy.graph.find_input(bias)->fqn;
      Node* reader = twins.at(layer.bias)->users().front();
      Value* read = is_observer_node(reader) ? reader->output() : twins.at(layer.bias);
      while (is_observer_node(reader)) {
        read = reader->output();
        reader = read->users().front();
      }
      reader->replace_input(read, bias);
    }
    standins.push_back(std::move(names));
  }
  Report ignored;
  return convert_pt2e(std::move(copy), {}, ignored);
}

const char* input_argument(const MatrixLayer& layer) {
  for (const NamedArgument& argument : layer.op->arguments())
    if (argument.value.value_or_null() == layer.input) return argument.name.c_str();
  OCTET_ASSERT(false, layer.name() + " does not read its input");
  return "";
}

}  // namespace

struct LayerWalk::State {
  State(const Graph& float_graph, std::vector<MatrixLayer> given, Batches batches,
        std::vector<Standins> names, Graph program)
      : layers(std::move(given)),
        standins(std::move(names)),
        reference(std::move(*clone(float_graph)), batches),
        quantized(std::move(program), std::move(batches)) {}

  std::vector<MatrixLayer> layers;
  std::vector<Standins> standins;
  StepwiseRun reference;
  StepwiseRun quantized;
  std::vector<LayerSample> samples;
  std::vector<at::Tensor> masks;  // which rows count, by batch
  size_t batch_count = 0;
  size_t next_layer = 0;
  bool left_out = false;
};

LayerWalk::LayerWalk(ObservedGraph& observed, std::vector<MatrixLayer> layers,
                     const BatchSource& data, const std::string& stage,
                     const WalkOptions& options) {
  if (const Verdict verdict = can_run_stepwise(observed.graph); !verdict)
    throw Error(stage, observed.graph.source,
                verdict.reason() + ", want a program that does not; leave this pass out");
  bool left_out = false;
  Batches batches = read_batches(observed.graph, layers, data, options.max_bytes, stage, left_out);
  const size_t count = batches.size();
  std::vector<at::Tensor> masks;
  const std::optional<size_t> mask_input = find_padding_mask(observed.graph);
  for (const std::vector<c10::IValue>& batch : batches)
    masks.push_back(padding_mask_of(batch, mask_input));
  std::vector<Standins> standins;
  Graph program = quantized_program(observed, layers, standins);
  const Graph& float_graph = options.reference == nullptr ? observed.graph : *options.reference;
  state_ = std::make_unique<State>(float_graph, std::move(layers), std::move(batches),
                                   std::move(standins), std::move(program));
  state_->masks = std::move(masks);
  state_->batch_count = count;
  state_->left_out = left_out;
}

LayerWalk::~LayerWalk() = default;

bool LayerWalk::next() {
  State& state = *state_;
  state.samples.clear();
  if (state.next_layer == state.layers.size()) return false;
  const MatrixLayer& layer = state.layers[state.next_layer];
  const Node* reference_op = state.reference.graph().find_node(layer.name());
  const Node* quantized_op = state.quantized.graph().find_node(layer.name());
  OCTET_ASSERT(reference_op != nullptr && quantized_op != nullptr,
               layer.name() + " is in both programs");
  state.reference.run_to(*reference_op, true);
  state.quantized.run_to(*quantized_op, false);
  const Value* input = quantized_op->find_input(input_argument(layer));
  for (size_t i = 0; i < state.batch_count; ++i) {
    const at::Tensor mask =
        layer.kind == MatrixLayer::Kind::kConvolution ? at::Tensor() : state.masks[i];
    state.samples.push_back(
        {rows_that_count(state.quantized.value(i, *input).toTensor(), mask),
         rows_that_count(state.reference.value(i, *reference_op->output()).toTensor(), mask)});
  }
  ++state.next_layer;
  return true;
}

size_t LayerWalk::index() const { return state_->next_layer - 1; }
MatrixLayer& LayerWalk::layer() { return state_->layers.at(index()); }
const std::vector<LayerSample>& LayerWalk::samples() const { return state_->samples; }
size_t LayerWalk::batches() const { return state_->batch_count; }
bool LayerWalk::left_data_out() const { return state_->left_out; }

void LayerWalk::change_weight(const at::Tensor& weight) {
  set_weight(layer(), weight);
  state_->quantized.graph().constants.at(state_->standins.at(index()).weight).tensor =
      from_aten(weight.contiguous());
}

void LayerWalk::change_bias(const at::Tensor& bias) {
  set_bias(layer(), bias);
  state_->quantized.graph().constants.at(state_->standins.at(index()).bias).tensor =
      from_aten(bias.contiguous());
}

at::Tensor row_weights(const MatrixLayer& layer, const at::Tensor& outputs) {
  if (layer.kind == MatrixLayer::Kind::kConvolution)
    return at::ones({outputs.size(0), outputs.size(1), 1}, outputs.options());
  const at::Tensor energy = outputs.square().sum(2, /*keepdim=*/true);
  const at::Tensor usual = at::median(energy);
  return usual.item<double>() > 0 ? 2 * usual / (energy + usual) : at::ones_like(energy);
}

double LayerStatistics::error(const at::Tensor& matrices) const {
  const double value =
      (matrices * (at::bmm(matrices, hessian) - 2 * cross)).sum().item<double>() + energy;
  return std::max(value, 0.0);
}

at::Tensor LayerMeans::best_bias(const at::Tensor& matrices) const {
  return output_mean - at::bmm(matrices, input_mean.unsqueeze(2)).squeeze(2);
}

double LayerStatistics::error(const at::Tensor& matrices, const at::Tensor& bias) const {
  const double change = (bias * (bias - 2 * best_bias(matrices))).sum().item<double>() * rows;
  return std::max(error(matrices) + change, 0.0);
}

LayerStatistics sum_of(const LayerStatistics& one, const LayerStatistics& other) {
  const double share = one.rows / (one.rows + other.rows);
  LayerStatistics sum;
  sum.hessian = one.hessian + other.hessian;
  sum.cross = one.cross + other.cross;
  sum.energy = one.energy + other.energy;
  sum.input_mean = one.input_mean * share + other.input_mean * (1 - share);
  sum.output_mean = one.output_mean * share + other.output_mean * (1 - share);
  sum.rows = one.rows + other.rows;
  return sum;
}

LayerStatistics LayerStatistics::centered() const {
  LayerStatistics result = *this;
  result.hessian = hessian - rows * at::bmm(input_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.cross = cross - rows * at::bmm(output_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.energy = std::max(0.0, energy - rows * (output_mean * output_mean).sum().item<double>());
  return result;
}

LayerStatistics collect_statistics(const MatrixLayer& layer,
                                   const std::vector<LayerSample>& samples, const at::Tensor& bias,
                                   const std::string& stage, Peers* peers) {
  LayerStatistics result = peers == nullptr ? LayerStatistics() : zeros_of(layer);
  const at::NoGradGuard no_grad;
  for (const LayerSample& sample : samples)
    for (const LayerSample& image : single_images(layer, sample)) {
      const at::Tensor x = input_rows(layer, image.quantized_input);
      at::Tensor y = output_rows(layer, image.float_output);
      if (bias.defined()) y = y - bias.reshape({y.size(0), 1, y.size(2)});
      const at::Tensor weights = row_weights(layer, y);
      const at::Tensor weighted = x * weights;
      accumulate(result.hessian, at::bmm(weighted.transpose(1, 2), x));
      accumulate(result.cross, at::bmm(y.transpose(1, 2), weighted));
      accumulate(result.input_mean, weighted.sum(1, false, at::kDouble));
      accumulate(result.output_mean, (y * weights).sum(1, false, at::kDouble));
      result.energy += (y * y * weights).sum(at::kDouble).item<double>();
      result.rows += weights.slice(0, 0, 1).sum(at::kDouble).item<double>();
    }
  if (peers != nullptr) sum_over(*peers, result);
  if (result.rows == 0)
    throw Error(stage, "%" + layer.name(),
                "the data has no row for this layer, want at least 1; give other data");
  if (!at::isfinite(result.hessian).all().item<bool>() ||
      !at::isfinite(result.cross).all().item<bool>())
    throw Error(stage, "%" + layer.name(),
                "its inputs or outputs hold NaN or infinities, want finite numbers; check the "
                "model and the data");
  result.input_mean /= result.rows;
  result.output_mean /= result.rows;
  return result;
}

}  // namespace octet
