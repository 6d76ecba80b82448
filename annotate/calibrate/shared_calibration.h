// Calibration by several processes, each on a run of the batches.
#pragma once

#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/peers.h"

namespace octet {

// The states of all parts of the data in order, as if one process had seen them: observers merge as
// Observer::merge says. "": of a part without data.
void merge_parts(ObservedGraph& observed, const std::vector<std::string>& states);

// Calibrates on the batches 0 .. total - 1 of `data` (all that it has), of which each process takes
// a run of nearly equal length; each ends with the observers of all. peers may be null. progress:
// batches of this process. Throws as calibrate().
void calibrate_together(ObservedGraph& observed, const BatchSource& data, size_t total,
                        Peers* peers, const ProgressCallback& progress = {});

}  // namespace octet
