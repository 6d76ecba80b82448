// The built-in observers as values for specs: .observer_or_fake_quant_ctr = histogram(kBackendEps).
// annotate/OBSERVERS.md describes them. eps: the least scale.
#pragma once

#include <utility>

#include "annotate/annotation/quant_spec.h"

namespace octet {

using Eps = std::optional<double>;

// Any other observer, by its registered name.
inline ObserverChoice observer(std::string name, Eps eps = {}) {
  ObserverChoice choice;
  choice.name = std::move(name);
  choice.eps = eps;
  return choice;
}

inline ObserverChoice min_max(Eps eps = {}) { return observer("min_max", eps); }
inline ObserverChoice per_channel_min_max(Eps eps = {}) {
  return observer("per_channel_min_max", eps);
}
// averaging_constant: the weight of the newest batch.
inline ObserverChoice moving_average(double averaging_constant = 0.01, Eps eps = {}) {
  ObserverChoice choice = observer("moving_average_min_max", eps);
  choice.averaging_constant = averaging_constant;
  return choice;
}
inline ObserverChoice histogram(Eps eps = {}, int bins = 2048) {
  ObserverChoice choice = observer("histogram", eps);
  choice.bins = bins;
  return choice;
}
inline ObserverChoice mse(Eps eps = {}) { return observer("mse", eps); }
inline ObserverChoice per_channel_mse(Eps eps = {}) { return observer("per_channel_mse", eps); }
// percent: of the values that are not clipped.
inline ObserverChoice percentile(double percent, Eps eps = {}) {
  ObserverChoice choice = observer("percentile", eps);
  choice.percentile = percent;
  return choice;
}
// For scales computed at run time, and for float16.
inline ObserverChoice placeholder(Eps eps = {}) { return observer("placeholder", eps); }

}  // namespace octet
