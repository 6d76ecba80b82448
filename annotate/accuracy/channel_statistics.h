// What smoothing has to know of activations: each channel's range and energy over all data.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"

namespace octet {

// Per channel, over all data: double [channels].
struct ChannelStatistics {
  at::Tensor min, max, mean_square;
  double batches = 0;

  at::Tensor magnitude() const { return at::maximum(max.abs(), min.abs()); }
};
using StatisticsMap = std::unordered_map<const Value*, ChannelStatistics>;

// Of one program and one set of data, kept for other preparations of it, by value and dimensions.
using ChannelMemory = std::unordered_map<std::string, ChannelStatistics>;

struct KnownStatistics {
  ChannelMemory* memory = nullptr;  // null: nothing is kept
  std::string program = {};         // which one, and which data
  // values that the program did not have, with the names of those that they are equal to
  std::unordered_map<const Value*, std::string> same = {};
};

// Of what the takers and clamps of the spaces read. Runs the float program over the data, batch by
// batch, unless all is known. peers: those that have other batches, which count too; null: none.
// Throws Error("smooth", ...) for NaN in the data, and without data.
StatisticsMap collect_channel_statistics(const ObservedGraph& observed,
                                         const std::vector<ChannelSpace>& spaces,
                                         const BatchSource& data, const ProgressCallback& progress,
                                         Peers* peers, const KnownStatistics& known);

}  // namespace octet
