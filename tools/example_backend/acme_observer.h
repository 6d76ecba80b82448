// Observes activations for the NPU: scales are powers of two, so that rescaling is a shift.
#pragma once

#include "annotate/observers/observer.h"

namespace acme {

// The least power of two that covers the largest magnitude seen; zero point 0.
class PowerOfTwoObserver : public octet::Observer {
 public:
  using Observer::Observer;
  void observe(const at::Tensor& x) override;
  octet::QParams calculate_qparams() const override;
  bool has_data() const override { return !largest_.empty(); }
  // For `octet calibrate --state`, and for merging such states.
  octet::ObserverState state() const override;
  void set_state(const octet::ObserverState& state) override { largest_ = state.max; }
  void merge(const octet::Observer& other) override;

 private:
  std::vector<float> largest_;  // empty before the first batch
};

}  // namespace acme
