#include "annotate/accuracy/equalize.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "annotate/accuracy/channel_scaling.h"

namespace octet {
namespace {

constexpr int kMaxRounds = 64;

// The largest magnitude with which each channel is made, and taken.
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

int equalize_layers(Graph& graph, const NodeFilter& applies) {
  std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  std::erase_if(spaces, [&](const ChannelSpace& space) {
    return !all_ops_are(space, applies) ||
           std::any_of(space.makers.begin(), space.makers.end(),
                       [](const ScaledOp& maker) { return maker.op->is("aten.layer_norm"); });
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
