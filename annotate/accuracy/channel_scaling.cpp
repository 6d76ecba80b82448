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
#include "core/graph/origin.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

// Replaces the data of `value`, which `op` reads (directly or through an observer node): in place
// when nobody else reads it.
void replace_constant(Graph& graph, Node& op, Value* value, const at::Tensor& data) {
  const GraphInput& input = *graph.find_input(value);
  const std::string fqn = input.fqn;
  const InputKind kind = input.kind;
  const auto same_fqn = std::count_if(graph.inputs().begin(), graph.inputs().end(),
                                      [&](const GraphInput& other) { return other.fqn == fqn; });
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
  const at::Tensor exponents = factors.log2().round().to(at::kInt).contiguous();
  for (const ChannelPlace& place : space.places) {
    Node* node = place.value->producer();
    if (node == nullptr || is_observer_node(node) || !place.value->meta) continue;
    const std::vector<int64_t> sizes = place.value->meta->shape();
    // Channels are numbered in the order of `dims`, factors in the order of the value's dimensions.
    std::vector<int64_t> counted, order;
    for (int64_t dim : place.dims) counted.push_back(sizes[static_cast<size_t>(dim)]);
    std::vector<size_t> ascending(place.dims.size());
    std::iota(ascending.begin(), ascending.end(), size_t{0});
    std::sort(ascending.begin(), ascending.end(),
              [&](size_t a, size_t b) { return place.dims[a] < place.dims[b]; });
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
    range = at::maximum(range, taker_weight(graph, taker).abs().amax({1, 3}).reshape({-1}));
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
    shape[static_cast<size_t>(taker.axis) + 1] = space.channels / taker.groups;
    std::vector<int64_t> grouped = weight.sizes().vec();
    grouped.insert(grouped.begin(), taker.groups);
    if (taker.groups > 1) grouped[1] /= taker.groups;
    const at::Tensor scaled =
        weight.to(at::kDouble).reshape(grouped).mul(exact.reshape(shape)).reshape(weight.sizes());
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
           std::any_of(space.makers.begin(), space.makers.end(), [](const ScaledOp& maker) {
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
