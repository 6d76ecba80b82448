#include "quantizers/common/observer_option.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/observers/observer.h"
#include "core/base/error.h"

namespace octet {

void choose_observer(QuantizationSpec& spec, const ObserverChoice& choice, const char* option) {
  const auto refuse = [&](const std::string& message) {
    throw Error("quantizer", option, message);
  };
  if (spec.is_dynamic)
    refuse(fmt::format(
        "got {} beside is_dynamic, want one of them; dynamic activations have no observer",
        choice.name));
  if (spec.observer_or_fake_quant_ctr.affine)
    refuse(
        fmt::format("got {} beside groups of weights, want one of them; the scales of groups come "
                    "from their minimum and maximum",
                    choice.name));
  if (choice.affine)
    refuse(
        fmt::format("got {}, want an observer of tensors or channels, e.g. mse or per_channel_mse",
                    choice.name));
  const std::optional<double> eps = choice.eps ? choice.eps : spec.observer_or_fake_quant_ctr.eps;
  spec.observer_or_fake_quant_ctr = choice;
  spec.observer_or_fake_quant_ctr.eps = eps;
  std::shared_ptr<Observer> observer;
  try {
    observer = make_observer(observer_args(spec));
  } catch (const Error& error) {
    refuse(error.without_stage());
  }
  if (!observer->keeps_state())
    refuse(fmt::format("got {}, which learns no range; want e.g. histogram, mse or percentile",
                       choice.name));
}

}  // namespace octet
