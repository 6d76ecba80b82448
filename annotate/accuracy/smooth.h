// Smoothing (SmoothQuant: Xiao et al. 2022) makes activations easier to quantize at the expense of
// weights: channels of an activation that share one scale are brought closer to each other, by a
// factor each that the ops before divide by and the ops after multiply by.
//
//   factor[channel] = max|activation|^strength / max|weight|^(1 - strength)
//
// Where activations stay float, factors protect the weights of large channels instead (AWQ: Lin et
// al. 2023): weights in groups that share a scale lose most where they are small.
//
//   factor[channel] = (mean square of the activation)^(strength / 2)
//
// For each set of channels (channel_space.h) it chooses the strength, or none, with the least
// expected error of the ops after, from the rounding of both activation and weight. Factors are
// powers of two, so the float program gives the same bits.
//
// Example: two channels with |activation| up to 64 and 1, and weights up to 1. With one scale of 64
// / 127 = 0.5, the second channel has only 2 steps on each side. Strength 0.5 gives factors 8 and
// 1: activations up to 8 and 1, weights up to 8 and 1, and 16 steps.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

namespace octet {

// Range and energy of each channel over all data: double [channels].
struct ChannelStatistics {
  at::Tensor min, max, mean_square;
  double batches = 0;

  at::Tensor magnitude() const { return at::maximum(max.abs(), min.abs()); }
};
using StatisticsMap = std::unordered_map<const Value*, ChannelStatistics>;

// Statistics of one program and one set of data, by value and dimensions, kept for preparing the
// program again.
using ChannelMemory = std::unordered_map<std::string, ChannelStatistics>;

struct KnownStatistics {
  ChannelMemory* memory = nullptr;  // null: keeps nothing
  std::string program = {};         // identifies the program and the data
  // values that the program did not have, with the names of those that they equal
  std::unordered_map<const Value*, std::string> same = {};
};

// Collects statistics of what the takers of the spaces read. Runs the float program over
// the data, batch by batch, unless everything is known. peers: processes with other batches, which
// are included; null: none. Throws Error("smooth", ...) for NaN in the data, and without data.
StatisticsMap collect_channel_statistics(const ObservedGraph& observed,
                                         const std::vector<ChannelSpace>& spaces,
                                         const BatchSource& data, const ProgressCallback& progress,
                                         Peers* peers, const KnownStatistics& known);

// A layer norm, its copy and the observer nodes that changed; see split_norms().
struct NormSplit {
  // An observer node that linears read.
  struct Point {
    Node* point = nullptr;
    Value* read_before = nullptr;  // what it read; for a new point, what the linears read
    int group_before = -1;
    bool is_new = false;         // the existing node stays with the other readers
    std::vector<Node*> readers;  // for a new node
  };
  Node* norm = nullptr;
  Node* copy = nullptr;
  std::vector<Point> points;
};

// Splits layer norms that are read by quantized linears and by other ops (a residual, as in BERT):
// the linears get a copy of the norm, whose channels smoothing can scale.
//
//   layer_norm -> observe -> linear             layer_norm -> add
//             \-> add                   to      layer_norm' -> observe -> linear
//
// The observer nodes stay in their groups. Dropouts that do nothing are skipped over. Not split:
// norms read only by such linears or by none, observer nodes that derived qparams depend on, and
// bodies of control flow. In graph order.
std::vector<NormSplit> split_norms(ObservedGraph& observed);
// Gives the observer nodes of the copy new observers without data.
void separate_observers(ObservedGraph& observed, const NormSplit& split);
// Reverts a split, except for groups that have lost their nodes.
void join_norm(ObservedGraph& observed, const NormSplit& split);

struct SmoothOptions {
  std::vector<double> strengths = {0.25, 0.5, 0.75, 1.0};  // in [0, 1]
  // least gain of expected error, else the set is not changed; >= 0. Any gain suffices for weights
  // in groups, whose error is not estimated but computed.
  double least_gain_db = 1;
  // least gain of expected error for copying a layer norm (split_norms), which costs one more float
  // op; infinity: never copies; >= 0
  double least_split_gain_db = 1;
  // changes a set of channels only if all of its ops are chosen
  NodeFilter applies = {};
  ProgressCallback progress = {};
  // processes that read other batches, which the statistics include; null: none
  Peers* peers = nullptr;
  // statistics of earlier preparations of this program with this data
  KnownStatistics known = {};
};

struct SmoothedSpace {
  std::string maker;  // name of the first maker
  int64_t channels = 0;
  double strength = 0;
  double gain_db = 0;  // expected
  ChannelSpace space = {};
  at::Tensor factors = {};
  std::optional<NormSplit> split = {};  // set when the maker is a copy
};

// Smooths the activations of a prepared graph. Observers that have seen data must be recreated
// afterwards (fresh_observers in snapshot.h). Reads the data once, batch by batch. Skips sets whose
// makers have weights with one scale for all channels (equalize_layers is for these) and bodies of
// control flow. Adds one note to the report. Throws Error("smooth", ...) for bad options, without
// data, and for NaN in the data.
std::vector<SmoothedSpace> smooth_activations(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const SmoothOptions& options = {});

// Chooses new ranges for weights in groups (observer affine_mse) of linears: those with the least
// squared error when each input channel counts with its energy in the data, as in the output,
// instead of all channels alike. Replaces observers; reads the data once, batch by batch. Returns
// the number of weights with new ranges, and adds a note to the report unless it is 0. Throws as
// smooth_activations(). Uses of the options: applies, progress, peers.
size_t fit_weight_ranges(ObservedGraph& observed, const BatchSource& data, Report& report,
                         const SmoothOptions& options = {});

// Reverts the last smooth_activations(), which returned `smoothed`, bit for bit, except for groups
// that have lost their nodes. REQUIRES: nothing has been scaled since.
void undo_smoothing(ObservedGraph& observed, const std::vector<SmoothedSpace>& smoothed);

}  // namespace octet
