#include "annotate/observers/recording.h"

#include "core/base/error.h"

namespace octet {

RecordingObserver::RecordingObserver(ObserverArgs args) : Observer(args, IntegerRange{0, 0}) {
  if (args_.is_dynamic)
    throw Error("prepare", args_.choice.name,
                "this observer cannot serve dynamic quantization; use placeholder");
}

QParams RecordingObserver::calculate_qparams() const {
  throw Error("convert", args_.choice.name,
              "a recording observer has no scale; read its tensors, or choose min_max");
}

void RecordingObserver::merge(const Observer& other) {
  check_mergeable(other);
  const std::vector<at::Tensor> theirs = dynamic_cast<const RecordingObserver&>(other).tensors_;
  tensors_.insert(tensors_.end(), theirs.begin(), theirs.end());
}

}  // namespace octet
