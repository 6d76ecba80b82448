#include "annotate/observed/scale_floor.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/control_flow.h"
#include "annotate/observed/check_limits.h"
#include "annotate/observers/data_free.h"
#include "core/base/error.h"
#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

// Whether the spec has a least scale that applies at calibration.
bool has_floor(const Observer& observer) {
  return !observer.args().is_dynamic && is_integer(observer.args().dtype) &&
         dynamic_cast<const FixedQParamsObserver*>(&observer) == nullptr &&
         dynamic_cast<const DerivedObserver*>(&observer) == nullptr;
}

bool has_static_scales(const Observer& observer) {
  return has_floor(observer) && observer.has_data() && observer.keeps_state();
}

// Empty for ranges without a scale, which convert reports with the value's name.
std::vector<float> scales_of(const Observer& observer) {
  try {
    return observer.calculate_qparams().scale;
  } catch (const Error&) {
    return {};
  }
}

const Observer* observer_behind(const ObservedGraph& observed, const Value* value) {
  const Node* point = value == nullptr ? nullptr : value->producer();
  return is_observer_node(point)
             ? observed.observers.at(static_cast<size_t>(group_of(*point))).get()
             : nullptr;
}

// |bias| of each channel; empty unless it is a float32 constant.
std::vector<float> magnitudes(const Graph& graph, const Value* bias) {
  const Tensor* tensor = bias == nullptr ? nullptr : graph.find_constant(through_observers(bias));
  if (tensor == nullptr || !tensor->defined() || tensor->dtype() != DType::kFloat32) return {};
  const Tensor dense = tensor->contiguous();
  std::vector<float> result(dense.data<float>(), dense.data<float>() + dense.numel());
  for (float& value : result) value = std::abs(value);
  return result;
}

// The least scale of each channel of a weight at which its bias fits into int32.
class BiasFloors {
 public:
  explicit BiasFloors(const ObservedGraph& observed) : observed_(observed) {
    collect(observed_.graph);
    for (const Body& body : bodies_within(observed_.graph)) collect(*body.graph);
  }

  const std::map<const Observer*, std::vector<float>>& all() const { return least_; }
  // Whether the bias determines the channel's output: everything that the weights add is lost in
  // the rounding of the bias.
  bool decides(const Observer& observer, size_t channel, float scale) const {
    const auto found = least_.find(&observer);
    return found != least_.end() && scale <= found->second.at(channel);
  }

 private:
  void collect(const Graph& graph) {
    for (const Node* node : graph.nodes())
      if (const WeightedOp* row = find_weighted_op(*node);
          row != nullptr && !row->bias.empty() && row->form != WeightForm::kProduct)
        collect(graph, *node, *row);
  }

  void collect(const Graph& graph, const Node& node, const WeightedOp& row) {
    const Observer* x = observer_behind(observed_, node.find_input(row.x));
    const Observer* w = observer_behind(observed_, node.find_input(row.weight));
    if (x == nullptr || w == nullptr || !x->has_data() || x->args().is_dynamic ||
        !has_static_scales(*w) || w->args().choice.affine || w->args().finest_scales.empty())
      return;
    const std::vector<float> bias = magnitudes(graph, node.find_input(row.bias));
    if (bias.empty()) return;
    const std::vector<float> scales = scales_of(*w), x_scales = scales_of(*x);
    if (x_scales.size() != 1) return;
    const double x_scale = x_scales[0];
    constexpr double kLargestSum = 1 << 30;
    std::vector<float>& least = least_[w];
    least.resize(scales.size(), 0);
    const float largest = *std::ranges::max_element(bias);
    for (size_t c = 0; c < scales.size(); ++c) {
      const double magnitude = bias.size() == scales.size() ? bias[c] : largest;
      least[c] = std::max(least[c], static_cast<float>(magnitude / (x_scale * kLargestSum)));
    }
  }

  const ObservedGraph& observed_;
  std::map<const Observer*, std::vector<float>> least_;
};

// Returns the number of channels that got a coarser scale.
int raise_scales(Observer& observer, std::vector<float> least) {
  const std::vector<float> before = scales_of(observer);
  const double eps = observer.args().choice.eps.value_or(kFloatEps);
  if (std::ranges::none_of(before, [&](float scale) { return scale < eps; })) return 0;
  const std::vector<float>& finest = observer.args().finest_scales;
  int coarser = 0;
  for (size_t c = 0; c < least.size(); ++c) {
    coarser += before[c] < least[c] ? 1 : 0;
    least[c] = std::max(least[c], finest[finest.size() == 1 ? 0 : c]);
  }
  if (coarser > 0) observer.allow_finer_scales(std::move(least));
  return coarser;
}

// Ranges with fewer steps are reported, at most half of the integers: with 16 steps, as in 4 bits,
// rounding is noticeable (some 24 dB).
constexpr double kFewSteps = 16;

// What to report about one observer.
struct Below {
  size_t finer = 0;   // channels with a scale below eps
  size_t zeroed = 0;  // channels whose range is less than kFewSteps of their scale
  size_t channels = 0;
  double eps = 0;
};

// biases: null when biases were not considered.
Below below_floor(const Observer& observer, const BiasFloors* biases) {
  const std::vector<float> scales = scales_of(observer);
  const ObserverState state = observer.state();
  Below below{.channels = scales.size(), .eps = observer.args().choice.eps.value_or(kFloatEps)};
  const double fewest =
      std::min(kFewSteps, fewest_steps(observer.quant_min(), observer.quant_max()));
  for (size_t c = 0; c < scales.size(); ++c) {
    below.finer += scales[c] < static_cast<float>(below.eps) ? 1 : 0;
    if (state.min.size() != scales.size()) continue;
    const double low = std::min(state.min[c], 0.0f), high = std::max(state.max[c], 0.0f);
    const double steps =
        (is_symmetric(observer.args().qscheme) ? 2 * std::max(-low, high) : high - low) /
        double{scales[c]};
    const bool is_of_bias = biases != nullptr && biases->decides(observer, c, scales[c]);
    below.zeroed += steps > 0 && steps < fewest && !is_of_bias ? 1 : 0;
  }
  return below;
}

}  // namespace

void lower_scale_floors(const Graph& graph, const Annotations& annotations,
                        const SharingGroups& groups,
                        const std::vector<std::shared_ptr<Observer>>& observers) {
  std::unordered_map<int, float> finest;
  visit_limits(graph, annotations, [&](const QuantLimits& limits, const EdgeOrNode& key) {
    const SharingGroups::Member* member = groups.find(key);
    if (member == nullptr || !limits.scale_min_lower_bound) return;
    float& least = finest.try_emplace(member->group, kFinestScale).first->second;
    least = std::max(least, static_cast<float>(*limits.scale_min_lower_bound));
  });
  for (size_t group = 0; group < observers.size(); ++group) {
    const auto asked = finest.find(static_cast<int>(group));
    if (observers[group] != nullptr && has_floor(*observers[group]))
      observers[group]->allow_finer_scales({asked == finest.end() ? kFinestScale : asked->second});
  }
}

int fit_weights_to_biases(ObservedGraph& observed) {
  const BiasFloors floors(observed);
  int coarser = 0;
  for (const std::shared_ptr<Observer>& observer : observed.observers)
    if (const auto found = floors.all().find(observer.get()); found != floors.all().end())
      coarser += raise_scales(*observer, found->second);
  return coarser;
}

void report_scale_floors(const ObservedGraph& observed, Compat compat, Report& report) {
  std::map<int, const Node*> points;  // the first of each group
  for (const Node* node : observer_nodes(observed.graph)) points.emplace(group_of(*node), node);
  std::optional<BiasFloors> biases;
  if (compat == Compat::kNone) biases.emplace(observed);
  constexpr size_t kNamed = 5;
  std::vector<std::string> finer, zeroed;
  const auto name = [&](std::vector<std::string>& names, const Node& point) {
    names.push_back("%" + observed_value(point)->name());
  };
  for (const auto& [group, point] : points) {
    const Observer& observer = *observed.observers.at(static_cast<size_t>(group));
    if (!has_static_scales(observer) || observer.args().choice.affine) continue;
    const Below below = below_floor(observer, biases ? &*biases : nullptr);
    const auto detail = [&](size_t channels, const char* what) {
      report.detail(fmt::format("scale: %{}: {} of {} ranges below the least scale, {:g}: {}",
                                observed_value(*point)->name(), channels, below.channels, below.eps,
                                what));
    };
    if (below.finer > 0) name(finer, *point);
    if (below.finer > 0) detail(below.finer, "finer scales");
    if (below.zeroed > 0) name(zeroed, *point);
    if (below.zeroed > 0) detail(below.zeroed, "they become zero, or few steps");
  }
  const auto list = [](std::vector<std::string> names) {
    const size_t count = names.size();
    if (count > kNamed) names.resize(kNamed);
    return fmt::format("{}{}", fmt::join(names, ", "),
                       count > kNamed ? fmt::format(" and {} more", count - kNamed) : "");
  };
  if (!finer.empty())
    report.note(
        fmt::format("scale: {} have ranges below the least scale of their specs, and got "
                    "finer ones",
                    list(finer)));
  if (!zeroed.empty())
    report.note(fmt::format(
        "scale: {} have ranges below the least scale {}: they become zero, or few "
        "steps",
        list(zeroed),
        compat == Compat::kTorchao ? "that torchao asks for" : "that a constraint leaves"));
}

}  // namespace octet
