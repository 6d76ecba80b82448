// What smoothing has to know of activations: each channel's range and energy over all data.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

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

// Layer norms that other ops read beside quantized linears (a residual, as in BERT) are given a
// copy of their own for the linears, so that smoothing can scale the copy's channels:
//
//   layer_norm -> observe -> linear             layer_norm -> add
//             \-> add                   to      layer_norm' -> observe -> linear

struct NormSplit {
  // An observer node that linears read.
  struct Point {
    Node* point = nullptr;
    Value* read_before = nullptr;  // what it read; for a new point, what the linears read
    int group_before = -1;
    bool is_new = false;         // the point that was there goes on serving the others
    std::vector<Node*> readers;  // of a new point
  };
  Node* norm = nullptr;
  Node* copy = nullptr;
  std::vector<Point> points;
};

// The points stay in their groups. Dropouts that do nothing are looked through. Left alone: norms
// whose every reader is such a linear or no reader is, points that derived qparams depend on, and
// bodies of control flow. In graph order.
std::vector<NormSplit> split_norms(ObservedGraph& observed);
// Gives the points of the copy observers of their own, which have not seen data.
void separate_observers(ObservedGraph& observed, const NormSplit& split);
// All as it was, but for groups without point.
void join_norm(ObservedGraph& observed, const NormSplit& split);

// Moves the difficulty of quantizing from activations to weights (SmoothQuant, Xiao et al. 2022):
// channels of an activation that share one scale are brought closer to each other by a factor each,
// which the ops in front divide by and the ops behind multiply by.
//
//   factor[channel] = max|activation|^strength / max|weight|^(1 - strength)
//
// For each set of channels (annotate/accuracy/channel_space.h) the strength is the one with the
// least expected error of the ops behind, from the rounding of both, or none. Factors are powers of
// two, so the float program gives the same bits, but for clamps: see SmoothOptions::clamps. A layer
// norm that a residual reads too gets a scaled copy for its linears (norm_split.h), at the cost of
// one more float op.

struct SmoothOptions {
  std::vector<double> strengths = {0.25, 0.5, 0.75, 1.0};  // in [0, 1]
  // of expected error, else the set is left as it is; >= 0
  double least_gain_db = 1;
  // kAllow: channels that stay clear of a clamp (relu6) over all data are spread towards it, up to
  // limit / headroom. What exceeds that on other data is cut off, as quantized ranges cut it off.
  // Channels that reach the clamp keep their factor of 1.
  ClampChoice clamps = ClampChoice::kRefuse;
  double headroom = 1.5;  // >= 1
  // Of expected error, else a layer norm that others read too gets no copy; infinity: none ever
  // does; >= 0
  double least_split_gain_db = 1;
  // a set of channels is left alone unless all of its ops are chosen
  NodeFilter applies = {};
  ProgressCallback progress = {};
  // others that read other batches: the statistics are of all; null: none
  Peers* peers = nullptr;
  // statistics of earlier preparations of this program with this data
  KnownStatistics known = {};
};

struct SmoothedSpace {
  std::string maker;  // the first one's name
  int64_t channels = 0;
  double strength = 0;
  double gain_db = 0;  // expected
  ChannelSpace space = {};
  at::Tensor factors = {};
  std::optional<NormSplit> split = {};  // the maker is its copy
};

// REQUIRES: observed is prepared; observers that have seen data must be made anew
// (fresh_observers.h) afterwards. Reads the data once, batch by batch. Sets whose makers have
// weights with one scale for all channels are left alone (equalize_layers is for these), as are
// bodies of control flow. One note in the report. Throws Error("smooth", ...) for bad options,
// without data, and for NaN in the data.
std::vector<SmoothedSpace> smooth_activations(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const SmoothOptions& options = {});

// Takes it back, bit for bit, but for groups without point. `smoothed`: of the last
// smooth_activations() on it, with nothing scaled since.
void undo_smoothing(ObservedGraph& observed, const std::vector<SmoothedSpace>& smoothed);

}  // namespace octet
