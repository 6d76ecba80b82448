#include "annotate/accuracy/fresh_observers.h"

#include "annotate/observers/data_free.h"

namespace octet {

std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed) {
  std::vector<std::shared_ptr<Observer>> fresh;
  for (const std::shared_ptr<Observer>& observer : observed.observers) {
    if (dynamic_cast<const FixedQParamsObserver*>(observer.get()) != nullptr)
      fresh.push_back(observer);
    else if (const auto* derived = dynamic_cast<const DerivedObserver*>(observer.get()))
      fresh.push_back(std::make_shared<DerivedObserver>(*derived));
    else
      fresh.push_back(make_observer(observer->args()));
  }
  for (const std::shared_ptr<Observer>& observer : fresh)
    if (auto* derived = dynamic_cast<DerivedObserver*>(observer.get()))
      for (size_t group = 0; group < fresh.size(); ++group)
        derived->replace_source(observed.observers[group], fresh[group]);
  return fresh;
}

void replace_observer(ObservedGraph& observed, size_t group,
                      const std::shared_ptr<Observer>& observer,
                      const std::function<void(size_t derived_group)>& followed) {
  std::shared_ptr<Observer>& place = observed.observers.at(group);
  if (place == observer) return;
  for (size_t other = 0; other < observed.observers.size(); ++other) {
    auto* derived = dynamic_cast<DerivedObserver*>(observed.observers[other].get());
    if (derived != nullptr && derived->replace_source(place, observer) && followed) followed(other);
  }
  place = observer;
}

std::shared_ptr<Observer> observer_with_range(const Observer& observer, float min, float max) {
  ObserverArgs args = observer.args();
  args.choice.name = "min_max";
  std::shared_ptr<Observer> result = make_observer(args);
  result->set_state({.min = {min}, .max = {max}});
  return result;
}

}  // namespace octet
