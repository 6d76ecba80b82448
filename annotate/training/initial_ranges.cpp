#include "annotate/training/initial_ranges.h"

#include <algorithm>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/observer_state.h"
#include "annotate/observers/affine.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/training/qat_conv_bn.h"
#include "core/base/error.h"

namespace octet {
namespace {

// By group, the names that a calibration gives the observed values.
std::map<size_t, Sites> calibrated_sites(const ObservedGraph& training) {
  std::map<size_t, Sites> sites;
  for (const Node* point : observer_nodes(training.graph))
    sites[static_cast<size_t>(group_of(*point))].push_back(
        name_when_folded(*observed_value(*point)));
  return sites;
}

// Number of scales of the group's observer; nothing when unknown.
std::optional<size_t> scale_count(const ObservedGraph& training, size_t group) {
  const ObserverArgs& args = training.observers[group]->args();
  if (!is_per_channel(args.qscheme)) return 1;
  for (const Node* point : observer_nodes(training.graph)) {
    const std::optional<TensorMeta>& meta = observed_value(*point)->meta;
    const size_t axis = static_cast<size_t>(args.ch_axis.value_or(0));
    if (static_cast<size_t>(group_of(*point)) != group || !meta || !meta->is_static() ||
        axis >= meta->sizes.size())
      continue;
    return static_cast<size_t>(meta->sizes[axis].value);
  }
  return std::nullopt;
}

// The qparams that the saved observer computes for a tensor that is quantized like `wanted`;
// nothing when they have another form.
std::optional<QParams> qparams_of(const SavedGroup& saved, const ObserverArgs& wanted) {
  ObserverArgs args = wanted;
  args.choice.name = saved.observer;
  if (!saved.state.histogram.empty())
    args.choice.bins = static_cast<int>(saved.state.histogram.size());
  try {
    const std::shared_ptr<Observer> observer = make_observer(args);
    observer->set_state(saved.state);
    if (!observer->has_data()) return std::nullopt;
    return observer->calculate_qparams();
  } catch (const Error&) {
    return std::nullopt;  // another form: reported as one that takes its range from the data
  }
}

bool set_range(Observer& observer, const SavedGroup& saved, std::optional<size_t> scales) {
  FakeQuantize* fake_quant = dynamic_cast<FakeQuantize*>(&observer);
  const std::string& kind = fake_quant == nullptr ? observer.args().choice.name
                                                  : fake_quant->observer().args().choice.name;
  const bool is_same_size = !scales || saved.state.min.size() == *scales;
  if (kind == saved.observer && !saved.state.min.empty() &&
      (is_same_size || observer.args().choice.affine)) {
    observer.set_state(saved.state);
    return true;
  }
  const bool keeps_range_alone = kind.find("min_max") != std::string::npos;
  if (fake_quant == nullptr || !keeps_range_alone || observer.args().choice.affine) return false;
  const std::optional<QParams> qparams = qparams_of(saved, observer.args());
  if (!qparams || !qparams->float_zero_point.empty() ||
      (scales && qparams->scale.size() != *scales))
    return false;
  fake_quant->set_initial_range(*qparams);
  return true;
}

}  // namespace

InitialRanges set_initial_ranges(ObservedGraph& training, const std::string& state,
                                 const std::string& source) {
  const std::vector<SavedGroup> saved = parse_groups(state, source);
  InitialRanges result;
  for (const auto& [group, sites] : calibrated_sites(training)) {
    Observer& observer = *training.observers.at(group);
    if (!observer.keeps_state() || observer.args().is_dynamic ||
        dynamic_cast<FixedQParamsFakeQuantize*>(&observer) != nullptr)
      continue;
    const auto knows_site = [&](const SavedGroup& candidate) {
      return std::ranges::any_of(
          sites, [&](const std::string& site) { return holds(candidate.sites, {site}); });
    };
    const std::optional<size_t> scales = scale_count(training, group);
    const bool is_set = std::ranges::any_of(saved, [&](const SavedGroup& candidate) {
      return knows_site(candidate) && candidate.dtype == name_of(observer.args().dtype) &&
             set_range(observer, candidate, scales);
    });
    if (is_set)
      ++result.taken;
    else
      result.others.push_back(sites.front());
  }
  if (result.taken == 0)
    throw Error("state", source,
                "none of its groups observed what the training rounds; calibrate the same model "
                "with the same quantizer");
  return result;
}

}  // namespace octet
