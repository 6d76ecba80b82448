#include "annotate/calibrate/shared_calibration.h"

#include <fmt/format.h>

#include "annotate/observed/observer_state.h"

namespace octet {

void merge_parts(ObservedGraph& observed, const std::vector<std::string>& states) {
  bool is_first = true;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].empty()) continue;
    const std::string source = fmt::format("process {}", i);
    if (is_first)
      observer_state_from_json(observed, states[i], source);
    else
      merge_observer_state_from_json(observed, states[i], source);
    is_first = false;
  }
}

void calibrate_together(ObservedGraph& observed, const BatchSource& data, size_t total,
                        Peers* peers, const ProgressCallback& progress) {
  if (peers == nullptr) {
    calibrate(observed, data, progress);
    return;
  }
  const size_t first = total * peers->rank() / peers->count();
  const size_t end = total * (peers->rank() + 1) / peers->count();
  for (size_t i = 0; i < first; ++i) data();
  size_t next = first;
  const BatchSource part = [&]() -> std::optional<std::vector<c10::IValue>> {
    return next++ < end ? data() : std::nullopt;
  };
  if (first < end)
    calibrate(observed, part,
              {.progress = progress, .handlers = {}, .recorded = {}, .first_batch = first});
  merge_parts(observed, peers->share(first < end ? observer_state_to_json(observed) : ""));
}

}  // namespace octet
