#include "annotate/fresh_observers.h"

#include "annotate/data_free_observers.h"

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
      for (size_t group = 0; group < fresh.size(); ++group) derived->replace_source(observed.observers[group], fresh[group]);
  return fresh;
}

}  // namespace octet
