// Collects channel statistics in one float run, then chooses factors for each space by the error
// that rounding is expected to cause.
//
// The expected error of a layer's output, per position, is the sum of two terms. A value rounded to
// steps of size s has a mean squared error of s^2 / 12 (uniform within a step):
//
//   from the activation   s_x^2 / 12 * sum over channels of (energy of the channel's weights)
//   from the weights      s_w^2 / 12 * sum over channels of (mean square of the channel's input)
//
// A factor f of a channel divides its input by f and multiplies its weights by f, which changes
// both step sizes and both sums. For weights in groups with float activations only the second term
// remains, and it is computed with the real rounding instead of estimated.
#include "annotate/accuracy/smooth.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/accuracy/snapshot.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/affine.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kActivationSteps = 255.0;
constexpr double kWeightSteps = 127.0;

const Observer* find_operand_observer(const ObservedGraph& observed, const Value* operand) {
  const Node* point = operand == nullptr ? nullptr : operand->producer();
  if (!is_observer_node(point)) return nullptr;
  return observed.observers[static_cast<size_t>(group_of(*point))].get();
}

bool has_scale_per_channel(const Observer* observer) {
  return observer == nullptr || is_per_channel(observer->args().qscheme) ||
         observer->args().choice.affine;
}

// The observer of a linear's weight when it searches ranges of groups within rows; else null.
const AffineObserver* find_row_groups(const Node& op, const Observer* observer) {
  const AffineObserver* affine = dynamic_cast<const AffineObserver*>(observer);
  return op.is("aten.linear") && affine != nullptr && affine->searches() ? affine : nullptr;
}

// How each taker turns rounding into error.
struct TakerNoise {
  bool is_input_quantized = false;
  bool is_weight_quantized = false;
  bool is_weight_per_channel = false;
  at::Tensor energy;     // weight's energy by input channel [channels]
  at::Tensor magnitude;  // weight's magnitude [groups, out / groups, in / groups]
  double kernel = 1;
  ChannelRepeats repeats;  // of the input's channels
  const ChannelStatistics* input = nullptr;
  // for weights in groups: the observer, and the weight [groups, out / groups, in / groups, kernel]
  const AffineObserver* groups = nullptr;
  at::Tensor weight;

  // The error of the output when the scaled weight is rounded with ranges that
  // fit_weight_ranges() chooses.
  double round_groups(const at::Tensor& factors) const {
    const at::Tensor scaled = weight[0].squeeze(2) * factors;
    AffineObserver fresh(groups->args(), AffineObserver::Kind::kMse);
    return fresh.fit(scaled, input->mean_square / factors.square());
  }

  double expect(const at::Tensor& channel_factors) const {
    const at::Tensor factors = repeats.repeat(channel_factors);
    double noise = 0;
    if (is_input_quantized) {
      const double range = (input->max / factors).max().clamp_min(0).item<double>() -
                           (input->min / factors).min().clamp_max(0).item<double>();
      const double step = range / kActivationSteps;
      noise += step * step / 12 * (energy * factors.square()).sum().item<double>();
    }
    if (!is_weight_quantized) return noise;
    if (groups != nullptr) return noise + round_groups(factors);
    // [groups, out / groups]
    at::Tensor reach =
        (magnitude * factors.reshape({magnitude.size(0), 1, magnitude.size(2)})).amax(2);
    if (!is_weight_per_channel) reach = reach.max().expand_as(reach);
    const at::Tensor step = reach / kWeightSteps;
    const at::Tensor input_energy = (input->mean_square / factors.square())
                                        .reshape({magnitude.size(0), -1})
                                        .sum(1, /*keepdim=*/true);
    return noise + (step.square() / 12 * input_energy).sum().item<double>() * kernel;
  }
};

class SpaceChoice {
 public:
  SpaceChoice(const ObservedGraph& observed, const ChannelSpace& space,
              const StatisticsMap& statistics, const SmoothOptions& options)
      : space_(space), statistics_(statistics), options_(options) {
    for (const ScaledOp& taker : space.takers) add_taker(observed, taker);
  }

  // Nothing when no strength gains enough. Fills in the result in `chosen`.
  std::optional<at::Tensor> choose(SmoothedSpace& chosen) const {
    const double before = expect(at::ones_like(activation_));
    if (!(before > 0)) return std::nullopt;
    std::optional<at::Tensor> best;
    double least = is_computed_ ? before : before * std::pow(10.0, -options_.least_gain_db / 10);
    for (const double strength : options_.strengths) {
      const at::Tensor factors = factors_of(strength);
      const double noise = expect(factors);
      if (!(noise < least)) continue;
      least = noise;
      best = factors;
      chosen.strength = strength;
    }
    chosen.maker = space_.makers.front().op->name();
    chosen.channels = space_.channels;
    chosen.gain_db = 10 * std::log10(before / least);
    return best;
  }

 private:
  void add_taker(const ObservedGraph& observed, const ScaledOp& taker) {
    const at::Tensor weight = taker_weight(observed.graph, taker);
    TakerNoise noise;
    noise.is_input_quantized = find_operand_observer(observed, taker.input) != nullptr;
    const Observer* weight_observer = find_operand_observer(observed, weight_operand(taker));
    noise.is_weight_quantized = weight_observer != nullptr;
    noise.is_weight_per_channel = has_scale_per_channel(weight_observer);
    noise.energy = weight.square().sum({1, 3}).reshape({-1});
    noise.magnitude = weight.abs().amax(3);
    noise.kernel = static_cast<double>(weight.size(3));
    noise.repeats = taker.repeats;
    noise.input = &statistics_.at(taker.input);
    noise.groups = find_row_groups(*taker.op, weight_observer);
    if (noise.groups != nullptr) noise.weight = weight;
    is_computed_ = is_computed_ && noise.groups != nullptr && !noise.is_input_quantized;
    const at::Tensor magnitude = taker.repeats.greatest(noise.magnitude.amax(1).reshape({-1}));
    weight_ = weight_.defined() ? at::maximum(weight_, magnitude) : magnitude;
    const at::Tensor reach = taker.repeats.greatest(noise.input->magnitude());
    const at::Tensor energy = taker.repeats.greatest(noise.input->mean_square);
    energy_ = energy_.defined() ? at::maximum(energy_, energy) : energy;
    activation_ = activation_.defined() ? at::maximum(activation_, reach) : reach;
    takers_.push_back(std::move(noise));
  }

  double expect(const at::Tensor& factors) const {
    double noise = 0;
    for (const TakerNoise& taker : takers_) noise += taker.expect(factors);
    return noise;
  }

  at::Tensor factors_of(double strength) const {
    const at::Tensor is_used = (activation_ > 0).logical_and(weight_ > 0);
    const at::Tensor raw = is_computed_ ? energy_.clamp_min(1e-30).pow(strength / 2)
                                        : activation_.clamp_min(1e-30).pow(strength) /
                                              weight_.clamp_min(1e-30).pow(1 - strength);
    at::Tensor factors = at::where(is_used, raw, at::ones_like(raw));
    if (!is_used.any().item<bool>()) return at::ones_like(raw);
    // Centered, so that the magnitude of the activation as a whole stays the same.
    const double middle = raw.masked_select(is_used).log().mean().item<double>();
    factors = at::where(is_used, raw / std::exp(middle), at::ones_like(raw));
    return round_to_powers_of_two(factors);
  }

  const ChannelSpace& space_;
  const StatisticsMap& statistics_;
  const SmoothOptions& options_;
  std::vector<TakerNoise> takers_;
  at::Tensor weight_;      // largest magnitude by channel
  at::Tensor activation_;  // the same for the activation
  at::Tensor energy_;      // the activation's largest mean square by channel
  // whether all takers have weights in groups and float activations, so that nothing is estimated
  bool is_computed_ = true;
};

using Splits = std::vector<NormSplit>;

Splits::iterator find_split(Splits& splits, const ChannelSpace& space) {
  return std::ranges::find_if(
      splits, [&](const NormSplit& split) { return split.copy == space.makers.front().op; });
}

NormSplit take(Splits& splits, Splits::iterator split) {
  NormSplit taken = std::move(*split);
  splits.erase(split);
  return taken;
}

// A copy of a layer norm has the same statistics as the norm.
StatisticsMap statistics_of(const ObservedGraph& observed, const std::vector<ChannelSpace>& spaces,
                            const Splits& splits, const BatchSource& data,
                            const SmoothOptions& options) {
  KnownStatistics known = options.known;
  for (const NormSplit& split : splits)
    known.same[split.copy->output()] = split.norm->output()->name();
  return collect_channel_statistics(observed, spaces, data, options.progress, options.peers, known);
}

std::string copies(const std::vector<SmoothedSpace>& smoothed) {
  const auto count = std::ranges::count_if(
      smoothed, [](const SmoothedSpace& chosen) { return chosen.split.has_value(); });
  return count == 0 ? "" : fmt::format(", {} of them from a copy of a layer norm", count);
}

void check(const SmoothOptions& options) {
  for (const double strength : options.strengths)
    if (!(strength >= 0 && strength <= 1))
      throw Error("smooth", "strengths",
                  fmt::format("a migration strength lies within 0 .. 1, got {}", strength));
  if (options.strengths.empty()) throw Error("smooth", "strengths", "none, got 0, want at least 1");
  if (!(options.least_gain_db >= 0))
    throw Error("smooth", "least_gain_db",
                fmt::format("got {}, want 0 or more", options.least_gain_db));
  if (!(options.least_split_gain_db >= 0))
    throw Error("smooth", "least_split_gain_db",
                fmt::format("got {}, want 0 or more", options.least_split_gain_db));
}

}  // namespace

std::vector<SmoothedSpace> smooth_activations(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const SmoothOptions& options) {
  check(options);
  std::vector<NormSplit> splits =
      std::isinf(options.least_split_gain_db) ? std::vector<NormSplit>() : split_norms(observed);
  std::vector<ChannelSpace> spaces = find_channel_spaces(observed.graph);
  std::erase_if(spaces, [&](const ChannelSpace& space) {
    return !all_ops_are(space, options.applies) ||
           std::ranges::any_of(space.makers, [&](const ScaledOp& maker) {
             return !has_scale_per_channel(find_operand_observer(observed, weight_operand(maker)));
           });
  });
  std::vector<SmoothedSpace> smoothed;
  const size_t tried = spaces.size();
  if (!spaces.empty()) {
    const StatisticsMap statistics = statistics_of(observed, spaces, splits, data, options);
    // All are chosen before any is scaled, because an op may take one space and make another, and
    // the statistics are not updated.
    for (ChannelSpace& space : spaces) {
      SmoothedSpace chosen;
      std::optional<at::Tensor> factors =
          SpaceChoice(observed, space, statistics, options).choose(chosen);
      const auto split = find_split(splits, space);
      if (!factors || (split != splits.end() && chosen.gain_db < options.least_split_gain_db))
        continue;
      chosen.factors = *factors;
      chosen.space = std::move(space);
      if (split != splits.end()) chosen.split = take(splits, split);
      smoothed.push_back(std::move(chosen));
    }
    for (const SmoothedSpace& chosen : smoothed) {
      scale_channels(observed.graph, chosen.space, chosen.factors);
      if (chosen.split) separate_observers(observed, *chosen.split);
    }
  }
  for (auto split = splits.rbegin(); split != splits.rend(); ++split) join_norm(observed, *split);
  report.note(fmt::format("smooth: {} of {} sets of channels scaled{}", smoothed.size(), tried,
                          copies(smoothed)));
  return smoothed;
}

size_t fit_weight_ranges(ObservedGraph& observed, const BatchSource& data, Report& report,
                         const SmoothOptions& options) {
  Report ignored;
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, "smooth", ignored);
  const auto observer_of = [&](const MatrixLayer& layer) {
    return find_row_groups(*layer.op,
                           observed.observers[static_cast<size_t>(layer.weight_group)].get());
  };
  std::erase_if(layers, [&](const MatrixLayer& layer) {
    return observer_of(layer) == nullptr || !layer.input->meta ||
           (options.applies && !options.applies(*layer.op));
  });
  if (layers.empty()) return 0;
  std::vector<ChannelSpace> inputs;
  for (const MatrixLayer& layer : layers) {
    ChannelSpace& input = inputs.emplace_back();
    input.takers = {{.op = layer.op, .axis = 1, .input = layer.input}};
    input.places = {{layer.input, {static_cast<int64_t>(layer.input->meta->sizes.size()) - 1}}};
  }
  const StatisticsMap statistics = collect_channel_statistics(
      observed, inputs, data, options.progress, options.peers, options.known);
  for (const MatrixLayer& layer : layers) {
    const auto fitted =
        std::make_shared<AffineObserver>(observer_of(layer)->args(), AffineObserver::Kind::kMse);
    fitted->fit(weight_of(layer), statistics.at(layer.input).mean_square);
    replace_observer(observed, static_cast<size_t>(layer.weight_group), fitted);
  }
  report.note(fmt::format("smooth: {} weights have ranges fitted to their inputs", layers.size()));
  return layers.size();
}

void undo_smoothing(ObservedGraph& observed, const std::vector<SmoothedSpace>& smoothed) {
  for (auto chosen = smoothed.rbegin(); chosen != smoothed.rend(); ++chosen) {
    scale_channels(observed.graph, chosen->space, chosen->factors.reciprocal());
    if (chosen->split) join_norm(observed, *chosen->split);
  }
}

}  // namespace octet
