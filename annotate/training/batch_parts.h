// A training step whose batch is run in parts, each by another process: what they tell each other
// so that the step is that of the whole batch. Fake-quants see the range of the whole batch, batch
// norms its statistics.
#pragma once

#include "annotate/observed/peers.h"

namespace octet {

// Of the step that runs.
struct BatchPart {
  double share = 1;  // of the batch's rows that are run here, in (0, 1]
  // false: the batch has fewer rows than there are parts, and the row that is run here is another
  // part's; its loss is multiplied with 0
  bool counts = true;
};

class BatchParts : public Peers {
 public:
  virtual BatchPart part() const = 0;
};

}  // namespace octet
