// Scales the channels of a space (channel_space.h), and equalizes layers with it.
//
// Example: output channel 0 of a convolution has weights up to 8, and the next convolution reads it
// with weights up to 0.5. The factor sqrt(8 / 0.5) = 4 makes both 2: the first convolution's
// weights and bias are divided by 4, the second one's weights are multiplied by 4. A ReLU between
// them passes the factor on, because relu(x / 4) = relu(x) / 4. Factors are rounded to powers of
// two, so that the program computes the same bits.
#include <algorithm>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/graph/origin.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

constexpr std::array<std::string_view, 8> kReshapes = {
    "aten.view",    "aten.reshape",   "aten.flatten",      "aten.unflatten",
    "aten.squeeze", "aten.unsqueeze", "aten._unsafe_view", "aten.view_copy"};

// A run of dimensions of each side, [first, last), that hold the same elements.
struct Run {
  size_t from_first, from_last, to_first, to_last;
};

// More elements than a tensor has; its product with a size does not overflow.
constexpr int64_t kMostElements = int64_t{1} << 36;
// Stands for the first symbolic size, the next numbers for others.
constexpr int64_t kSymbol = 1'000'003;

// The sizes of both sides; each symbol is a number that no product of real sizes equals by chance.
class ComparableSizes {
 public:
  std::vector<int64_t> of(const std::vector<Dim>& dims) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : dims) sizes.push_back(dim.is_symbolic() ? number_of(dim) : dim.value);
    return sizes;
  }

 private:
  int64_t number_of(const Dim& dim) {
    const auto index = std::ranges::find(symbols_, dim.expr) - symbols_.begin();
    if (index == std::ssize(symbols_)) symbols_.push_back(dim.expr);
    return kSymbol + 2 * index;
  }

  std::vector<std::string> symbols_;
};

// Splits the shapes into the shortest runs; trailing dimensions of size 1 belong to the last run.
std::vector<Run> equal_runs(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<Run> runs;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() && j < to.size()) {
    Run run{i, i + 1, j, j + 1};
    int64_t a = from[i++];
    int64_t b = to[j++];
    while (a != b) {
      if (std::max(a, b) > kMostElements) return {};
      if (a < b && i < from.size()) {
        a *= from[i++];
      } else if (b < a && j < to.size()) {
        b *= to[j++];
      } else {
        return {};
      }
    }
    run.from_last = i;
    run.to_last = j;
    runs.push_back(run);
  }
  if (runs.empty()) return runs;
  runs.back().from_last = from.size();
  runs.back().to_last = to.size();
  return runs;
}

// The dimensions of [first, last) with more than one element.
ChannelDims wide_dims(const std::vector<int64_t>& shape, size_t first, size_t last) {
  ChannelDims dims;
  for (size_t i = first; i < last; ++i)
    if (shape[i] != 1) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

std::vector<int64_t> permutation_of(const Node& node, int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto positive = [rank](int64_t dim) { return wrap_dim(dim, rank); };
  if (node.is("aten.permute")) {
    std::vector<int64_t> dims = node.ints_or("dims", {});
    std::ranges::transform(dims, dims.begin(), positive);
    return dims;
  }
  const int64_t first = positive(node.int_or("dim0", 0));
  const int64_t second = positive(node.int_or("dim1", 0));
  if (first < 0 || second < 0 || first >= rank || second >= rank) return {};
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return order;
}

// Replaces the data of `value`, which `op` reads (directly or through an observer node): in place
// when nobody else reads it.
void replace_constant(Graph& graph, Node& op, Value* value, const at::Tensor& data) {
  const GraphInput& input = *graph.find_input(value);
  const std::string fqn = input.fqn;
  const InputKind kind = input.kind;
  const auto same_fqn = std::ranges::count_if(
      graph.inputs(), [&](const GraphInput& other) { return other.fqn == fqn; });
  Tensor tensor = from_aten(data.contiguous());
  if (value->has_one_user() && same_fqn == 1) {
    if (value->meta)
      for (size_t i = 0; i < tensor.strides().size(); ++i)
        value->meta->strides[i] = {tensor.strides()[i], ""};
    if (value->meta) value->meta->storage_offset = {};
    graph.constants.at(fqn).tensor = std::move(tensor);
    return;
  }
  Node* reader = &op;
  for (Value* argument : op.inputs())
    for (Value* step = argument; is_observer_node(step->producer());) {
      Node* point = step->producer();
      step = point->find_input("input");
      if (step == value) reader = point;
    }
  reader->replace_input(value, graph.add_constant(fqn, std::move(tensor), kind));
}

at::Tensor data_of(const Graph& graph, const Value* value) {
  return to_aten(*graph.find_constant(value));
}

// Looks up the constants again, as scaling one space may have replaced those of another.
Value* weight_of(const Node& op) {
  return through_observers(op.find_input(find_scaled_form(op)->weight));
}
Value* find_bias_of(const Node& op) {
  const WeightedOp& form = *find_scaled_form(op);
  return form.bias.empty() ? nullptr : through_observers(op.find_input(form.bias));
}

// Records the factors in the nodes' metadata, for comparisons with the original program.
void note_factors(const ChannelSpace& space, const at::Tensor& factors) {
  for (const ChannelPlace& place : space.places) {
    const at::Tensor exponents =
        place.repeats.repeat(factors).log2().round().to(at::kInt).contiguous();
    Node* node = place.value->producer();
    if (node == nullptr || is_observer_node(node) || !place.value->meta) continue;
    const std::vector<int64_t> sizes = place.value->meta->shape();
    // Channels are numbered in the order of `dims`, factors in the order of the value's dimensions.
    std::vector<int64_t> counted, order;
    for (int64_t dim : place.dims) counted.push_back(sizes[static_cast<size_t>(dim)]);
    std::vector<size_t> ascending(place.dims.size());
    std::iota(ascending.begin(), ascending.end(), size_t{0});
    std::ranges::sort(ascending, [&](size_t a, size_t b) { return place.dims[a] < place.dims[b]; });
    for (size_t position : ascending) order.push_back(static_cast<int64_t>(position));
    const at::Tensor moved = exponents.reshape(counted).permute(order).contiguous();
    ChannelFactors own;
    own.shape.assign(sizes.size(), 1);
    for (int64_t dim : place.dims)
      own.shape[static_cast<size_t>(dim)] = sizes[static_cast<size_t>(dim)];
    own.exponents.assign(moved.const_data_ptr<int>(), moved.const_data_ptr<int>() + moved.numel());
    multiply_channel_factors(*node, own);
  }
}

constexpr int kMaxRounds = 64;

// The largest magnitude of each channel in the makers' weights, and in the takers'.
at::Tensor made_range(const Graph& graph, const ChannelSpace& space) {
  at::Tensor range = at::zeros({space.channels}, at::kDouble);
  for (const ScaledOp& maker : space.makers)
    range = at::maximum(range, maker_weight(graph, maker).abs().amax(1));
  return range;
}

at::Tensor taken_range(const Graph& graph, const ChannelSpace& space) {
  at::Tensor range = at::zeros({space.channels}, at::kDouble);
  for (const ScaledOp& taker : space.takers)
    range = at::maximum(
        range, taker.repeats.greatest(taker_weight(graph, taker).abs().amax({1, 3}).reshape({-1})));
  return range;
}

bool equalize_space(Graph& graph, const ChannelSpace& space) {
  const at::Tensor made = made_range(graph, space);
  const at::Tensor taken = taken_range(graph, space);
  const at::Tensor is_used = (made > 0).logical_and(taken > 0);
  const at::Tensor factors =
      round_to_powers_of_two(at::where(is_used, (made / taken).sqrt(), at::ones_like(made)));
  if (factors.eq(1.0).all().item<bool>()) return false;
  scale_channels(graph, space, factors);
  return true;
}

}  // namespace

std::optional<ChannelDims> dims_after_reshape(const std::vector<int64_t>& from,
                                              const std::vector<int64_t>& to,
                                              const ChannelDims& dims) {
  ChannelDims rest;  // without those of size 1
  for (int64_t dim : dims)
    if (from.at(static_cast<size_t>(dim)) != 1) rest.push_back(dim);
  ChannelDims result;
  const std::vector<Run> runs = equal_runs(from, to);
  for (size_t next = 0; next < rest.size();) {
    const auto run = std::ranges::find_if(runs, [&](const Run& r) {
      return static_cast<size_t>(rest[next]) >= r.from_first &&
             static_cast<size_t>(rest[next]) < r.from_last;
    });
    if (run == runs.end()) return std::nullopt;
    const ChannelDims in_run = wide_dims(from, run->from_first, run->from_last);
    if (rest.size() - next < in_run.size() ||
        !std::equal(in_run.begin(), in_run.end(), rest.begin() + static_cast<std::ptrdiff_t>(next)))
      return std::nullopt;
    const ChannelDims moved = wide_dims(to, run->to_first, run->to_last);
    result.insert(result.end(), moved.begin(), moved.end());
    next += in_run.size();
  }
  if (result.empty()) return std::nullopt;
  return result;
}

namespace {

bool is_constant_vector(const Node& node, std::string_view argument) {
  const Value* value = through_observers(node.find_input(argument));
  if (value == nullptr || value->producer() != nullptr) return false;
  const Tensor* tensor = node.graph().find_constant(value);
  return tensor != nullptr && tensor->shape().size() == 1;
}

}  // namespace

std::optional<ChannelDims> dims_through_layout(const Node& node, const ChannelDims& dims,
                                               Direction direction) {
  const Value* input = node.find_input("self");
  const Value* output = node.output_or_null();
  if (input == nullptr || output == nullptr || !input->meta || !output->meta) return std::nullopt;
  if (std::ranges::any_of(kReshapes, [&](std::string_view op) { return node.is(op); })) {
    ComparableSizes sizes;
    const std::vector<int64_t> from = sizes.of(input->meta->sizes);
    const std::vector<int64_t> to = sizes.of(output->meta->sizes);
    return direction == Direction::kForward ? dims_after_reshape(from, to, dims)
                                            : dims_after_reshape(to, from, dims);
  }
  if (!node.is("aten.permute") && node.target() != "aten.transpose.int") return std::nullopt;
  // for each dimension of the output, that of the input
  const std::vector<int64_t> order =
      permutation_of(node, static_cast<int64_t>(input->meta->sizes.size()));
  ChannelDims result;
  for (int64_t dim : dims) {
    if (direction == Direction::kBackward) {
      if (static_cast<size_t>(dim) >= order.size()) return std::nullopt;
      result.push_back(order[static_cast<size_t>(dim)]);
      continue;
    }
    const auto at = std::ranges::find(order, dim);
    if (at == order.end()) return std::nullopt;
    result.push_back(at - order.begin());
  }
  return result;
}

const WeightedOp* find_scaled_form(const Node& node) {
  static constexpr WeightedOp kNorms[] = {
      {"aten.layer_norm", WeightForm::kLinear, "input", "weight", "bias", 0, -1},
      {"aten.rms_norm", WeightForm::kLinear, "input", "weight", "", 0, -1}};
  static constexpr WeightedOp kProducts[] = {
      {"aten.mul.Tensor", WeightForm::kLinear, "self", "other", "", 0, -1},
      {"aten.mul.Tensor", WeightForm::kLinear, "other", "self", "", 0, -1}};
  for (const WeightedOp& norm : kNorms)
    if (node.is(norm.op)) return &norm;
  for (const WeightedOp& product : kProducts)
    if (node.is(product.op) && is_constant_vector(node, product.weight)) return &product;
  const WeightedOp* row = find_weighted_op(node);
  const bool is_scaled =
      row != nullptr && (row->form == WeightForm::kConv || row->form == WeightForm::kLinear ||
                         row->form == WeightForm::kColumns);
  return is_scaled ? row : nullptr;
}

at::Tensor ChannelRepeats::repeat(const at::Tensor& factors) const {
  if (times == 1) return factors;
  return factors.reshape({-1, 1, inner}).expand({-1, times, inner}).reshape({-1});
}

at::Tensor ChannelRepeats::greatest(const at::Tensor& values) const {
  return times == 1 ? values : values.reshape({-1, times, inner}).amax(1).reshape({-1});
}

void scale_channels(Graph& graph, const ChannelSpace& space, const at::Tensor& factors) {
  OCTET_ASSERT(factors.dim() == 1 && factors.size(0) == space.channels &&
                   at::isfinite(factors).all().item<bool>() && factors.gt(0).all().item<bool>(),
               "one positive factor a channel");
  const at::Tensor exact = factors.to(at::kDouble);
  for (const ScaledOp& maker : space.makers) {
    Value* constant = weight_of(*maker.op);
    const at::Tensor weight = data_of(graph, constant);
    std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
    shape[static_cast<size_t>(maker.axis)] = -1;
    replace_constant(graph, *maker.op, constant,
                     weight.to(at::kDouble).div(exact.reshape(shape)).to(weight.scalar_type()));
    Value* bias_constant = find_bias_of(*maker.op);
    if (bias_constant == nullptr) continue;
    const at::Tensor bias = data_of(graph, bias_constant);
    replace_constant(graph, *maker.op, bias_constant,
                     bias.to(at::kDouble).div(exact).to(bias.scalar_type()));
  }
  for (const ScaledOp& taker : space.takers) {
    Value* constant = weight_of(*taker.op);
    const at::Tensor weight = data_of(graph, constant);
    std::vector<int64_t> shape(static_cast<size_t>(weight.dim()) + 1, 1);
    shape[0] = taker.groups;
    shape[static_cast<size_t>(taker.axis) + 1] =
        space.channels * taker.repeats.times / taker.groups;
    std::vector<int64_t> grouped = weight.sizes().vec();
    grouped.insert(grouped.begin(), taker.groups);
    if (taker.groups > 1) grouped[1] /= taker.groups;
    const at::Tensor scaled = weight.to(at::kDouble)
                                  .reshape(grouped)
                                  .mul(taker.repeats.repeat(exact).reshape(shape))
                                  .reshape(weight.sizes());
    replace_constant(graph, *taker.op, constant, scaled.to(weight.scalar_type()));
  }
  note_factors(space, exact);
}

at::Tensor taker_weight(const Graph& graph, const ScaledOp& taker) {
  at::Tensor weight = data_of(graph, weight_of(*taker.op)).to(at::kDouble);
  if (taker.axis == 0) weight = weight.t();
  return weight.reshape({taker.groups, weight.size(0) / taker.groups, weight.size(1), -1});
}

at::Tensor maker_weight(const Graph& graph, const ScaledOp& maker) {
  const at::Tensor weight =
      data_of(graph, weight_of(*maker.op)).to(at::kDouble).transpose(0, maker.axis);
  return weight.reshape({weight.size(0), -1});
}

Value* weight_operand(const ScaledOp& scaled) {
  return scaled.op->find_input(find_scaled_form(*scaled.op)->weight);
}

at::Tensor round_to_powers_of_two(const at::Tensor& factors) {
  return factors.to(at::kDouble).log2().round().exp2();
}

int equalize_layers(Graph& graph, const NodeFilter& applies) {
  std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  std::erase_if(spaces, [&](const ChannelSpace& space) {
    return !all_ops_are(space, applies) ||
           std::ranges::any_of(space.makers, [](const ScaledOp& maker) {
             return find_scaled_form(*maker.op)->in_axis < 0;
           });
  });
  int changes = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    const int before = changes;
    for (const ChannelSpace& space : spaces) changes += equalize_space(graph, space) ? 1 : 0;
    if (changes == before) break;
  }
  return changes;
}

}  // namespace octet
