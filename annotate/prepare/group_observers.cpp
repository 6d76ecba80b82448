#include "annotate/prepare/group_observers.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/annotation/annotation_text.h"
#include "annotate/observers/fake_quantize.h"
#include "core/base/error.h"

namespace octet {
namespace {

// One observer per group. Derived ones come last, as they hold others; a derived spec may refer to
// another derived one.
class GroupObservers {
 public:
  GroupObservers(const SharingGroups& groups, Purpose purpose, Compat compat)
      : groups_(groups),
        purpose_(purpose),
        compat_(compat),
        made_(static_cast<size_t>(groups.group_count)) {}

  std::vector<std::shared_ptr<Observer>> make_all() {
    for (int group = 0; group < groups_.group_count; ++group) make(group);
    return std::move(made_);
  }

 private:
  std::shared_ptr<Observer> make(int group) {
    std::shared_ptr<Observer>& observer = made_[static_cast<size_t>(group)];
    if (observer != nullptr) return observer;
    const SpecVariant& spec = groups_.spec_of_group(group);
    if (const QuantizationSpec* own = std::get_if<QuantizationSpec>(&spec))
      return observer = make_own(*own);
    if (const FixedQParamsQuantizationSpec* fixed =
            std::get_if<FixedQParamsQuantizationSpec>(&spec))
      return observer = make_fixed(*fixed);
    return observer = make_derived(group, std::get<DerivedQuantizationSpec>(spec));
  }

  // torchao hands the channel axis to classes with PerChannel in their names alone: the observer in
  // a fake-quant does not get it.
  std::shared_ptr<Observer> make_own(const QuantizationSpec& spec) const {
    ObserverArgs args = observer_args(spec);
    const bool is_per_channel =
        split_observer_name(args.choice.name).outer.find("per_channel") != std::string::npos;
    if (compat_ == Compat::kTorchao && !is_per_channel && args.ch_axis) args.ch_axis = 0;
    return make_observer(args);
  }

  std::shared_ptr<Observer> make_fixed(const FixedQParamsQuantizationSpec& spec) const {
    if (purpose_ == Purpose::kTraining) return std::make_shared<FixedQParamsFakeQuantize>(spec);
    return make_observer(spec);
  }

  std::shared_ptr<Observer> make_derived(int group, const DerivedQuantizationSpec& spec) {
    if (!in_work_.insert(group).second)
      throw Error("prepare", subject(group),
                  "derived specs go in a circle; derive from an observed edge or value");
    std::vector<std::shared_ptr<Observer>> sources;
    for (const EdgeOrNode& source : spec.derived_from) {
      const SharingGroups::Member* member = groups_.find(source);
      if (member == nullptr)
        throw Error("prepare", subject(group),
                    fmt::format("derives from ({}), which has no spec; annotate that edge or value",
                                to_text(source)));
      sources.push_back(make(member->group));
    }
    in_work_.erase(group);
    return make_observer(spec, std::move(sources));
  }

  std::string subject(int group) const {
    for (const SharingGroups::Member& member : groups_.members)
      if (member.group == group) return to_text(member.key);
    return "";
  }

  const SharingGroups& groups_;
  Purpose purpose_;
  Compat compat_;
  std::vector<std::shared_ptr<Observer>> made_;
  std::unordered_set<int> in_work_;
};

// What each member of the groups has for an observer.
using WantedObservers = std::unordered_map<EdgeOrNode, std::shared_ptr<Observer>, EdgeOrNodeHash>;

// Lets one quantizer change the observers of its part; returns whether it did.
bool ask_for_observers(Quantizer& quantizer, const Graph& graph, ObserverMap map,
                       WantedObservers& wanted) {
  const ObserverMap before = map;
  quantizer.prepare_obs_or_fq_callback(graph, map);
  if (map == before) return false;
  std::unordered_set<EdgeOrNode, EdgeOrNodeHash> own;
  for (const auto& [key, observer] : before) {
    own.insert(key);
    wanted[key] = nullptr;
  }
  for (const auto& [key, observer] : map) {
    if (!own.contains(key))
      throw Error(
          "prepare", to_text(key),
          fmt::format(
              "quantizer \"{}\" set an observer where no spec stands; annotate that edge or value",
              quantizer.name()));
    wanted[key] = observer;
  }
  return true;
}

}  // namespace

std::vector<std::shared_ptr<Observer>> make_group_observers(const SharingGroups& groups,
                                                            Purpose purpose, Compat compat) {
  return GroupObservers(groups, purpose, compat).make_all();
}

void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers) {
  std::map<int, ObserverMap> maps = {{0, {}}};
  WantedObservers wanted;
  for (const SharingGroups::Member& member : groups.members) {
    wanted[member.key] = observers.at(static_cast<size_t>(member.group));
    maps[quantizers.part_of(member.key)].emplace_back(member.key, wanted[member.key]);
  }
  bool is_changed = false;
  for (auto& [part, map] : maps)
    is_changed |= ask_for_observers(quantizers.quantizer_of(part), graph, std::move(map), wanted);
  if (!is_changed) return;
  observers.clear();
  std::unordered_map<const Observer*, int> numbers;
  for (SharingGroups::Member& member : groups.members) {
    const std::shared_ptr<Observer> observer = wanted[member.key];
    member.group = -1;
    if (observer == nullptr) continue;
    const auto [number, is_new] =
        numbers.try_emplace(observer.get(), static_cast<int>(observers.size()));
    if (is_new) observers.push_back(observer);
    member.group = number->second;
  }
}

}  // namespace octet
