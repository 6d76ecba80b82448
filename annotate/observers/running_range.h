// Minimum and maximum over batches, one pair or one per channel: running, or averaged. What the
// min-max observers have in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "annotate/observers/observer.h"

namespace octet {

enum class Averaging { kRunning, kMoving };  // min(old, new), or old + constant * (new - old)

class RunningRange {
 public:
  // constant: of kMoving, 0 < constant <= 1.
  RunningRange(Averaging averaging, double constant)
      : averaging_(averaging), constant_(static_cast<float>(constant)) {}

  // Takes in one batch: as many values of each as there were before. Throws Error("calibrate", ...)
  // on NaN and infinities, then with nothing taken in.
  void update(std::span<const float> low, std::span<const float> high);
  // Takes in the state of the range over the data that follows. kRunning: exact. kMoving: with n
  // batches in `next`, whose first alone had the range f,
  //   result = next + (1 - constant)^n * (this - f),
  // which is what one pass gives but for rounding: within 2^-21 / constant of the largest
  // magnitude. For n = 1 it is computed as update() does, to the bit. Throws Error("state",
  // subject, ...) when the numbers of ranges differ, and for kMoving without `batches` and the
  // first range.
  void merge(const ObserverState& next, const std::string& subject);

  bool has_data() const { return !min_.empty(); }
  const std::vector<float>& min() const { return min_; }
  const std::vector<float>& max() const { return max_; }
  Averaging averaging() const { return averaging_; }
  ObserverState state() const;
  // Throws Error("state", subject, ...) when the vectors differ in length.
  void set_state(const ObserverState& state, const std::string& subject);

 private:
  Averaging averaging_;
  float constant_;
  std::vector<float> min_;
  std::vector<float> max_;
  int64_t batches_ = 0;  // of kMoving, like the two below
  std::vector<float> first_min_;
  std::vector<float> first_max_;
};

}  // namespace octet
