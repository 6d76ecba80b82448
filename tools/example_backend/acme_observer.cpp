#include "acme_observer.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>

#include "core/base/error.h"

namespace acme {

void PowerOfTwoObserver::observe(const at::Tensor& x) {
  const float largest = at::max(at::abs(x)).item<float>();
  largest_ = {has_data() ? std::max(largest_[0], largest) : largest};
}

octet::QParams PowerOfTwoObserver::calculate_qparams() const {
  if (!has_data())
    throw octet::Error("convert", args_.choice.name, "saw no data; run calibration before");
  const float step = std::max(largest_[0] / static_cast<float>(quant_max()), eps());
  octet::QParams result;
  result.scale = {std::exp2(std::ceil(std::log2(step)))};
  result.zero_point = {0};
  return result;
}

octet::ObserverState PowerOfTwoObserver::state() const {
  if (!has_data()) return {};
  return {.min = {-largest_[0]}, .max = largest_};  // a state needs as many minima as maxima
}

void PowerOfTwoObserver::merge(const Observer& other) {
  check_mergeable(other);
  const PowerOfTwoObserver& theirs = static_cast<const PowerOfTwoObserver&>(other);
  if (theirs.has_data())
    largest_ = {has_data() ? std::max(largest_[0], theirs.largest_[0]) : theirs.largest_[0]};
}

}  // namespace acme
