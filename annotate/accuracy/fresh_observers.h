// Other observers in the place of those of a prepared graph: for passes that change the graph or
// its ranges behind calibration.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

// By group, of the same kinds and arguments; those with fixed qparams are the same ones, derived
// ones follow the new ones.
std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed);

// Puts `observer` in the place of group's; derived observers follow it. Calls back for each of
// those.
void replace_observer(ObservedGraph& observed, size_t group,
                      const std::shared_ptr<Observer>& observer,
                      const std::function<void(size_t derived_group)>& followed = {});
// A min_max observer of the same spec with this range.
std::shared_ptr<Observer> observer_with_range(const Observer& observer, float min, float max);

}  // namespace octet
