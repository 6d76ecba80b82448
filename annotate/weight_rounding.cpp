#include "annotate/weight_rounding.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/diag_embed.h>
#include <fmt/format.h>

#include "annotate/stepwise_run.h"
#include "core/error.h"

namespace octet {
namespace {

constexpr double kBestDb = 200;  // what an error of nothing counts as

double decibels(double energy, double error) {
  if (energy <= 0 || error <= 0) return error <= 0 ? kBestDb : -kBestDb;
  return std::clamp(10 * std::log10(energy / error), -kBestDb, kBestDb);
}

// Added to the Hessian's diagonal in each group [G, 1, 1]; where there is no data at all, 1.
at::Tensor ridge_of(const at::Tensor& hessian, double damping) {
  const at::Tensor mean = hessian.diagonal(0, 1, 2).mean(1);
  return (mean * damping).masked_fill(mean <= 0, 1.0).reshape({-1, 1, 1});
}

class LayerRounder {
 public:
  LayerRounder(LayerWalk& walk, const WeightGrid& grid, const RoundingMethod& method, const RoundingOptions& options, const std::string& stage)
      : walk_(walk), layer_(walk.layer()), grid_(grid), method_(method), options_(options), stage_(stage) {}

  LayerRounding run() {
    const at::Tensor weight = weight_of(layer_);
    const at::Tensor bias = bias_of(layer_);
    const LayerStatistics all = collect_statistics(layer_, walk_.samples(), bias, stage_);
    const bool corrects = options_.correct_bias && layer_.owns_bias;
    const LayerStatistics statistics = corrects ? all.centered() : all;
    const RoundingProblem problem = make_problem(statistics, weight);
    const at::Tensor near = values(problem.nearest);
    const at::Tensor chosen_q = method_(problem);
    const at::Tensor chosen = values(chosen_q);
    LayerRounding result{.layer = layer_.name(), .before_db = decibels(all.energy, all.error(near)), .after_db = 0, .is_better = false};
    result.is_better = statistics.error(chosen) < statistics.error(near);
    const at::Tensor& kept = result.is_better ? chosen : near;
    result.after_db = decibels(all.energy, statistics.error(kept));
    walk_.change_weight(from_matrices(layer_, kept).to(weight.scalar_type()));
    if (!corrects) return result;
    const at::Tensor shift = all.output_mean - at::bmm(kept, all.input_mean.unsqueeze(2)).squeeze(2);
    walk_.change_bias((bias.to(at::kDouble) + shift.reshape(bias.sizes())).to(bias.scalar_type()));
    return result;
  }

 private:
  at::Tensor matrices(const at::Tensor& of_weight) const { return to_matrices(layer_, of_weight).to(at::kDouble).contiguous(); }

  // In the weight's own precision, as dequantize gives them.
  at::Tensor values(const at::Tensor& q) const { return matrices(grid_.values(from_matrices(layer_, q))); }

  RoundingProblem make_problem(const LayerStatistics& statistics, const at::Tensor& weight) const {
    RoundingProblem problem;
    problem.weight = matrices(weight);
    problem.scale = matrices(grid_.scale);
    problem.zero_point = matrices(grid_.zero_point);
    problem.quant_min = grid_.quant_min;
    problem.quant_max = grid_.quant_max;
    problem.nearest = matrices(grid_.nearest(weight));
    const at::Tensor ridge = ridge_of(statistics.hessian, options_.damping);
    problem.hessian = statistics.hessian + at::diag_embed(ridge.squeeze(2).expand({-1, statistics.hessian.size(1)}));
    problem.cross = statistics.cross + ridge * problem.weight;
    return problem;
  }

  LayerWalk& walk_;
  const MatrixLayer layer_;
  const WeightGrid& grid_;
  const RoundingMethod& method_;
  const RoundingOptions& options_;
  const std::string& stage_;
};

// The layers whose weights have a grid; an entry for each other one.
std::vector<MatrixLayer> find_layers(const ObservedGraph& observed, const std::string& stage, Report& report) {
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, stage, report);
  std::erase_if(layers, [&](const MatrixLayer& layer) {
    const Verdict verdict = has_weight_grid(*observed.observers[static_cast<size_t>(layer.weight_group)], weight_of(layer));
    if (!verdict) report.add({stage, layer.name(), layer.op->target(), "", verdict.reason()});
    return !verdict;
  });
  return layers;
}

}  // namespace

std::vector<LayerRounding> round_weights(ObservedGraph& observed, const BatchSource& data, const RoundingMethod& method,
                                         const RoundingOptions& options, const std::string& stage, Report& report) {
  if (!(options.damping > 0 && std::isfinite(options.damping)))
    throw Error(stage, "damping", fmt::format("got {}, want a number above 0; 0.01 is usual", options.damping));
  if (const Verdict verdict = can_run_stepwise(observed.graph); !verdict) {
    report.note(fmt::format("{}: left out: {}", stage, verdict.reason()));
    return {};
  }
  const std::vector<MatrixLayer> layers = find_layers(observed, stage, report);
  std::vector<LayerRounding> results;
  if (layers.empty()) return results;
  LayerWalk walk(observed, layers, data, stage, {.max_bytes = options.max_bytes});
  while (walk.next()) {
    const MatrixLayer& layer = walk.layer();
    const WeightGrid grid = weight_grid(*observed.observers[static_cast<size_t>(layer.weight_group)], weight_of(layer), "%" + layer.weight->name());
    const LayerRounding result = LayerRounder(walk, grid, method, options, stage).run();
    report.note(fmt::format("{}: {}: {:.2f} -> {:.2f} dB on calibration data{}", stage, result.layer, result.before_db, result.after_db,
                            result.is_better ? "" : ", the nearest rounding stays"));
    results.push_back(result);
    if (options.progress) options.progress(results.size(), layers.size(), result.layer);
  }
  if (walk.left_data_out())
    report.note(fmt::format("{}: {} batches used, the others do not fit into {} MB; raise max_bytes to use more", stage, walk.batches(),
                            options.max_bytes >> 20));
  return results;
}

}  // namespace octet
