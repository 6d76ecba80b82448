// The observers of a prepared graph before they saw data: for passes that change the graph behind calibration.
#pragma once

#include <memory>
#include <vector>

#include "annotate/prepare.h"

namespace octet {

// By group, of the same kinds and arguments; those with fixed qparams are the same ones, derived ones follow the new ones.
std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed);

}  // namespace octet
