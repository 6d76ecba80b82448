// Explains the error of each op, and estimates how much of the outputs' error it causes.
//
// To first order, an error d of an op's result changes the outputs by J d, where J is their
// derivative by that result. The energy |J d|^2 is the mean of (s . J d)^2 over random vectors s of
// signs (Hutchinson, "A Stochastic Estimator of the Trace of the Influence Matrix", 1989). Since s
// . J d = (J^T s) . d, one backward pass from the sum s . outputs gives J^T s for the results of
// all ops.
#include "annotate/compare/diagnosis.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "annotate/compare/shadow_graph.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

// The share of an error above which a part is its cause.
constexpr double kMostOfIt = 0.5;
// An op with a smaller share of the accumulated error adds little itself.
constexpr double kLittle = 0.1;
// Channels that span fewer steps are lost in rounding; and how many of them make a cause.
constexpr double kFewSteps = 4;
constexpr double kManyChannels = 0.1;
// Weights count when their worst channel is this much worse than all channels together.
constexpr double kMuchWorseDb = 6;

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.001 ? 3 : share < 0.1 ? 2 : 0);
}

Diagnosis clipped(const OpComparison& op) {
  return {Cause::kClipped,
          fmt::format("{} of its output lies outside of [{:.4g}, {:.4g}], which is {} of its error",
                      percent(op.clipped_share), op.rounding->least(), op.rounding->greatest(),
                      percent(std::min(1.0, op.clipped_noise / op.isolated.noise)))};
}

Diagnosis of_weights(const OpComparison& op, const WeightComparison& weights) {
  const auto worst = std::ranges::min_element(weights.sqnr_db);
  std::string text = fmt::format("its weights have {:.1f} dB", weights.error.sqnr_db());
  if (worst != weights.sqnr_db.end() && *worst < weights.error.sqnr_db() - kMuchWorseDb)
    text += fmt::format(", channel {} of {} only {:.1f} dB", worst - weights.sqnr_db.begin(),
                        weights.sqnr_db.size(), *worst);
  if (op.rounding)
    text += fmt::format("; {} of the error arises before its output is rounded",
                        percent(std::min(1.0, op.before.noise / op.isolated.noise)));
  return {Cause::kWeights, text};
}

Diagnosis rounded(const OpComparison& op) {
  const double step = op.rounding->scale;
  const auto narrow = static_cast<size_t>(std::ranges::count_if(
      op.channel_peaks, [&](float peak) { return peak > 0 && peak < kFewSteps * step; }));
  const double share = op.channel_peaks.empty() ? 0
                                                : static_cast<double>(narrow) /
                                                      static_cast<double>(op.channel_peaks.size());
  if (share >= kManyChannels)
    return {
        Cause::kNarrowChannels,
        fmt::format(
            "{} of {} channels span fewer than {:.0f} steps of {:.3g}, the scale that they share",
            narrow, op.channel_peaks.size(), kFewSteps, step)};
  return {Cause::kRounding, fmt::format("its output is rounded to steps of {:.3g}", step)};
}

using Values = std::vector<c10::IValue>;

// A row's tensor of one batch and the op's isolated result.
struct Injected {
  size_t row = 0;
  at::Tensor at;
  at::Tensor error;
};

// The sum of all elements with random signs.
at::Tensor signed_sum(const std::vector<at::Tensor>& outputs, at::Generator& random) {
  at::Tensor sum = at::zeros({}, at::kFloat);
  for (const at::Tensor& output : outputs) {
    const at::Tensor signs = at::empty_like(output, at::MemoryFormat::Contiguous)
                                 .bernoulli_(0.5, random)
                                 .mul_(2)
                                 .sub_(1);
    sum = sum.add(output.mul(signs).sum());
  }
  return sum;
}

// Logits as vectors whose squared distance is twice the KL divergence from the probabilities p, to
// second order: sqrt(p) * (z - sum(p * z)).
at::Tensor weighted_by(const at::Tensor& probabilities, const at::Tensor& logits) {
  const at::Tensor mean = probabilities.mul(logits).sum(-1, /*keepdim=*/true);
  return probabilities.sqrt().mul(logits.sub(mean));
}

// The position of this process's batch among those of all processes.
uint64_t place_of(size_t batch, const SensitivityOptions& options) {
  return options.peers == nullptr ? batch : batch * options.peers->count() + options.peers->rank();
}

// Returns the number of batches of all processes.
size_t share_sums(Sensitivities& result, double& energy, double& noise, size_t batches,
                  Peers& peers) {
  std::vector<double> sums = {energy, noise, static_cast<double>(batches)};
  for (const OpSensitivity& op : result.ops) sums.push_back(op.output_error);
  peers.sum(sums);
  energy = sums[0];
  noise = sums[1];
  for (size_t i = 0; i < result.ops.size(); ++i) result.ops[i].output_error = sums[i + 3];
  return static_cast<size_t>(sums[2]);
}

}  // namespace

std::string_view name_of(Cause cause) {
  constexpr std::string_view kNames[] = {"none",     "accumulated", "clipped",  "narrow channels",
                                         "rounding", "weights",     "operation"};
  return kNames[static_cast<size_t>(cause)];
}

Diagnosis diagnose(const OpComparison& op, const WeightComparison* weights) {
  if (!op.accumulated.has_data() || op.accumulated.relative() == 0) return {};
  if (!op.isolated.has_data() || op.isolated.relative() < kLittle * op.accumulated.relative())
    return {Cause::kAccumulated,
            !op.isolated.has_data() ? "its own error was not measured"
            : op.isolated.relative() == 0
                ? "by itself it is exact; all of the error comes from its inputs"
                : fmt::format("by itself {:.1f} dB; the rest comes from its inputs",
                              op.isolated.sqnr_db())};
  if (op.isolated.strange > 0)
    return {Cause::kOperation,
            fmt::format("{} elements are NaN or infinite in only one of the programs",
                        op.isolated.strange)};
  if (op.rounding && op.clipped_noise >= kMostOfIt * op.isolated.noise) return clipped(op);
  const bool is_before = !op.rounding || op.before.noise >= kMostOfIt * op.isolated.noise;
  if (!is_before) return rounded(op);
  if (weights != nullptr) return of_weights(op, *weights);
  return {Cause::kOperation, "it computes different values, even before its output is rounded"};
}

std::vector<size_t> rank(const std::vector<OpComparison>& ops) {
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::tuple(ops[a].isolated.relative(), ops[a].accumulated.relative()) >
           std::tuple(ops[b].isolated.relative(), ops[b].accumulated.relative());
  });
  return order;
}

Sensitivities estimate_sensitivities(const Graph& original, const Graph& subject,
                                     const BatchSource& data, const SensitivityOptions& options) {
  const InFloat32 wide(original);
  const Graph& reference = wide.graph();
  ShadowGraph shadow =
      make_shadow_graph(reference, subject, find_twins(reference, subject), {.gradients = true});
  const size_t outputs = add_float_outputs(shadow, reference, subject);
  if (outputs == 0)
    throw Error("compare", "the programs", "have no float output whose error could be estimated");
  Sensitivities result;
  for (const ShadowRow& row : shadow.rows) result.ops.push_back({row.twin.subject->name()});
  std::vector<Injected> injected;
  const Handler take = [&](const Node&, const Values& arguments) {
    const at::Tensor& reference_tensor = arguments.at(1).toTensor();
    if (arguments.at(3).isNone() || !reference_tensor.is_floating_point()) return Values{};
    at::Tensor at = reference_tensor;
    if (!at.requires_grad()) at.requires_grad_();
    injected.push_back({static_cast<size_t>(arguments.at(0).toInt()), at,
                        arguments.at(3).toTensor().detach().sub(at.detach())});
    return Values{};
  };
  Interpreter interpreter(
      shadow.graph,
      {.after_node = {}, .handlers = {{kCompareTarget, take}}, .record_gradients = true});
  const c10::AutoGradMode grad_mode(true);
  double energy = 0, noise = 0;
  size_t batches = 0;
  for (std::optional<Values> batch; (batch = data()); ++batches) {
    injected.clear();
    at::Generator random =
        at::detail::createCPUGenerator(options.seed + place_of(batches, options));
    const Values values = interpreter.run(*batch);
    std::vector<at::Tensor> wanted;
    for (size_t i = 0; i < outputs; ++i) {
      at::Tensor want = values[i].toTensor(), is = values[outputs + i].toTensor();
      if (options.vocabulary > 0 && want.dim() > 1 && want.size(-1) == options.vocabulary) {
        const at::Tensor probabilities = want.detach().softmax(-1);
        want = weighted_by(probabilities, want);
        is = weighted_by(probabilities, is);
      }
      wanted.push_back(want);
      const ErrorStats stats = compare_tensors(want.detach(), is.detach());
      energy += stats.signal;
      noise += stats.noise;
    }
    std::vector<at::Tensor> places;
    for (const Injected& each : injected) places.push_back(each.at);
    for (int probe = 0; probe < options.probes; ++probe) {
      const std::vector<at::Tensor> gradients =
          torch::autograd::grad({signed_sum(wanted, random)}, places, {},
                                /*retain_graph=*/true, /*create_graph=*/false,
                                /*allow_unused=*/true);
      for (size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i].defined()) continue;
        const double effect = gradients[i].mul(injected[i].error).sum(at::kDouble).item<double>();
        result.ops[injected[i].row].output_error += effect * effect / options.probes;
      }
    }
    if (options.progress) options.progress(batches + 1);
  }
  if (options.peers != nullptr)
    batches = share_sums(result, energy, noise, batches, *options.peers);
  if (batches == 0)
    throw Error("compare", "the data", "holds no batches; give at least one set of inputs");
  for (OpSensitivity& op : result.ops) {
    op.output_error = energy > 0 ? op.output_error / energy : 0;
    result.estimated += op.output_error;
  }
  result.measured = energy > 0 ? noise / energy : 0;
  return result;
}

}  // namespace octet
