// Rounds the weights of one layer after another (weight_rounding.h). Per layer: collect the second
// moments of the inputs on part of the samples, round by the method with each of its settings, and
// keep the result with the least error on the other samples, or nearest rounding if that is best.
#include "annotate/accuracy/weight_rounding.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/stepwise_run.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kBestDb = 200;  // decibels of an error of 0

double decibels(double energy, double error) {
  if (energy <= 0 || error <= 0) return error <= 0 ? kBestDb : -kBestDb;
  return std::clamp(10 * std::log10(energy / error), -kBestDb, kBestDb);
}

// Share of the mean energy of the inputs (means included) below which a variance is noise of sums
// of float32 data.
constexpr double kLeastRidge = 1e-6;

// What is added to the Hessian's diagonal in each group [G, 1, 1]; 1 without any data. energy: mean
// square of the inputs [G].
at::Tensor ridge_of(const at::Tensor& hessian, const at::Tensor& energy, double damping) {
  const at::Tensor mean = hessian.diagonal(0, 1, 2).mean(1);
  const at::Tensor ridge = at::maximum(mean * damping, energy * kLeastRidge);
  return ridge.masked_fill(ridge <= 0, 1.0).reshape({-1, 1, 1});
}

struct SplitData {
  LayerStatistics fit;
  LayerStatistics check;
};

// Holds out the last samples or, of a single sample, the last part of its first dimension; a single
// row serves both purposes. With peers, the last of all samples, which are distributed round-robin.
SplitData split_data(const MatrixLayer& layer, const std::vector<LayerSample>& samples,
                     double held_out, const at::Tensor& bias, const std::string& stage,
                     Peers* peers) {
  std::vector<LayerSample> fit = samples;
  std::vector<LayerSample> check;
  const double total = sum_over(peers, static_cast<double>(samples.size()));
  if (total > 1) {
    const long last = std::clamp(std::lround(held_out * total), 1L, std::lround(total) - 1);
    const size_t kept = count_of_own(peers, static_cast<size_t>(std::lround(total) - last));
    const size_t count = samples.size() - std::min(samples.size(), kept);
    check.assign(samples.end() - static_cast<ptrdiff_t>(count), samples.end());
    fit.resize(samples.size() - count);
  } else if (const int64_t size = samples.front().quantized_input.size(0);
             size > 1 && samples.front().float_output.size(0) == size &&
             (layer.kind != MatrixLayer::Kind::kConvolution ||
              samples.front().quantized_input.dim() == weight_of(layer).dim())) {
    const int64_t count = std::clamp<int64_t>(std::lround(held_out * size), 1, size - 1);
    const LayerSample& all = samples.front();
    fit = {{all.quantized_input.narrow(0, 0, size - count),
            all.float_output.narrow(0, 0, size - count)}};
    check = {{all.quantized_input.narrow(0, size - count, count),
              all.float_output.narrow(0, size - count, count)}};
  }
  SplitData split{.fit = collect_statistics(layer, fit, bias, stage, peers), .check = {}};
  const bool serves_both = check.empty() && total <= 1;
  split.check = serves_both ? split.fit : collect_statistics(layer, check, bias, stage, peers);
  return split;
}

class LayerRounder {
 public:
  LayerRounder(LayerWalk& walk, const WeightGrid& grid, const RoundingMethod& method,
               const RoundingOptions& options, const std::string& stage)
      : walk_(walk),
        layer_(walk.layer()),
        grid_(grid),
        method_(method),
        options_(options),
        weight_(weight_of(layer_)),
        bias_(bias_of(layer_)),
        data_(
            split_data(layer_, walk.samples(), options.held_out, bias_, stage, options.walk.peers)),
        near_(values(matrices(grid_.nearest(weight_)))) {}

  LayerRounding run() {
    const double before = data_.check.error(near_);
    LayerRounding result{.layer = layer_.name(), .before_db = decibels(data_.check.energy, before)};
    double least = before;
    if (options_.correct_bias && layer_.owns_bias)
      if (const double error = data_.check.error(near_, data_.fit.best_bias(near_));
          error < least) {
        least = error;
        result.changes_bias = true;
      }
    for (const RoundingSetting& setting : options_.settings) {
      const at::Tensor chosen = solve(data_.fit, setting, result.changes_bias);
      const double error = result.changes_bias
                               ? data_.check.error(chosen, data_.fit.best_bias(chosen))
                               : data_.check.error(chosen);
      if (!(error < least)) continue;
      least = error;
      result.is_better = true;
      result.setting = setting;
    }
    result.after_db = decibels(data_.check.energy, least);
    change(result);
    return result;
  }

 private:
  at::Tensor matrices(const at::Tensor& of_weight) const {
    return to_matrices(layer_, of_weight).to(at::kDouble).contiguous();
  }

  // In the weight's precision, like dequantize.
  at::Tensor values(const at::Tensor& q) const {
    return matrices(grid_.values(from_matrices(layer_, q)));
  }

  at::Tensor solve(const LayerStatistics& all, const RoundingSetting& setting,
                   bool changes_bias) const {
    const LayerStatistics statistics = changes_bias ? all.centered() : all;
    RoundingProblem problem;
    problem.weight = matrices(weight_);
    problem.scale = matrices(grid_.scale);
    problem.zero_point = matrices(grid_.zero_point);
    problem.quant_min = grid_.quant_min;
    problem.quant_max = grid_.quant_max;
    problem.nearest = matrices(grid_.nearest(weight_));
    const at::Tensor energy = all.hessian.diagonal(0, 1, 2).mean(1);
    const at::Tensor ridge = ridge_of(statistics.hessian, energy, setting.damping);
    problem.hessian = statistics.hessian +
                      at::diag_embed(ridge.squeeze(2).expand({-1, statistics.hessian.size(1)}));
    const at::Tensor own = at::bmm(problem.weight, statistics.hessian);
    problem.cross = own + (statistics.cross - own) * setting.follow + ridge * problem.weight;
    return values(method_(problem));
  }

  void change(const LayerRounding& result) {
    const LayerStatistics all = sum_of(data_.fit, data_.check);
    const at::Tensor kept =
        result.is_better ? solve(all, result.setting, result.changes_bias) : near_;
    walk_.change_weight(from_matrices(layer_, kept).to(weight_.scalar_type()));
    if (result.changes_bias)
      walk_.change_bias((bias_.to(at::kDouble) + all.best_bias(kept).reshape(bias_.sizes()))
                            .to(bias_.scalar_type()));
  }

  LayerWalk& walk_;
  const MatrixLayer layer_;
  const WeightGrid& grid_;
  const RoundingMethod& method_;
  const RoundingOptions& options_;
  const at::Tensor weight_;
  const at::Tensor bias_;  // undefined without a bias
  const SplitData data_;
  const at::Tensor near_;
};

// The layers whose weights have a grid; reports the others.
std::vector<MatrixLayer> find_layers(const ObservedGraph& observed, const std::string& stage,
                                     const NodeFilter& applies, Report& report) {
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, stage, report);
  std::vector<std::string> left_out;
  std::erase_if(layers, [&](const MatrixLayer& layer) {
    if (applies && !applies(*layer.op)) return true;
    const Verdict verdict = has_weight_grid(
        *observed.observers[static_cast<size_t>(layer.weight_group)], weight_of(layer));
    if (!verdict) left_out.push_back(fmt::format("%{}: {}", layer.name(), verdict.reason()));
    return !verdict;
  });
  report_left_out(stage, left_out, report);
  return layers;
}

std::string description(const LayerRounding& result) {
  if (!result.is_better)
    return result.changes_bias ? ", nearest rounding with a new bias" : ", nearest rounding kept";
  return fmt::format(", damping {}, follow {}{}", result.setting.damping, result.setting.follow,
                     result.changes_bias ? ", new bias" : "");
}

void check(const RoundingOptions& options, const std::string& stage) {
  if (options.settings.empty()) throw Error(stage, "settings", "none, got 0, want at least 1");
  if (!(options.held_out > 0 && options.held_out < 1))
    throw Error(
        stage, "held_out",
        fmt::format("got {}, want a number between 0 and 1; 0.25 is typical", options.held_out));
  for (const RoundingSetting& setting : options.settings) {
    if (!(setting.damping > 0 && std::isfinite(setting.damping)))
      throw Error(stage, "damping",
                  fmt::format("got {}, want a number above 0; 0.01 is typical", setting.damping));
    if (!(setting.follow >= 0 && setting.follow <= 1))
      throw Error(stage, "follow",
                  fmt::format("got {}, want a number from 0 to 1", setting.follow));
  }
}

}  // namespace

std::vector<LayerRounding> round_weights(ObservedGraph& observed, const BatchSource& data,
                                         const RoundingMethod& method,
                                         const RoundingOptions& options, const std::string& stage,
                                         Report& report) {
  check(options, stage);
  if (const Verdict verdict = can_run_stepwise(observed.graph); !verdict) {
    report.note(fmt::format("{}: left out: {}", stage, verdict.reason()));
    return {};
  }
  const std::vector<MatrixLayer> layers =
      find_layers(observed, stage, options.walk.applies, report);
  std::vector<LayerRounding> results;
  if (layers.empty()) return results;
  note_padding_mask(observed.graph, stage, report);
  LayerWalk walk(observed, layers, data, stage, options.walk);
  while (walk.next()) {
    const MatrixLayer& layer = walk.layer();
    const WeightGrid grid =
        weight_grid(*observed.observers[static_cast<size_t>(layer.weight_group)], weight_of(layer),
                    "%" + layer.weight->name());
    const LayerRounding result = LayerRounder(walk, grid, method, options, stage).run();
    report.detail(fmt::format("{}: {}: {:.2f} -> {:.2f} dB on held-out calibration data{}", stage,
                              result.layer, result.before_db, result.after_db,
                              description(result)));
    results.push_back(result);
    if (options.walk.progress) options.walk.progress(results.size(), layers.size(), result.layer);
  }
  const double used = sum_over(options.walk.peers, static_cast<double>(walk.batches()));
  if (sum_over(options.walk.peers, walk.left_data_out() ? 1 : 0) > 0)
    report.note(fmt::format("{}: {} batches used, the others do not fit into {} MB", stage, used,
                            options.walk.max_bytes >> 20));
  return results;
}

}  // namespace octet
