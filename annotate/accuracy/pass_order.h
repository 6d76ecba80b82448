// In which order the accuracy passes run.
#pragma once

#include <algorithm>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"

namespace octet {

// Which passes run when; calibration stands behind `equalize`.
struct PassOrder {
  explicit PassOrder(std::vector<AccuracyPass> passes) {
    std::sort(passes.begin(), passes.end());
    for (const AccuracyPass pass : passes) {
      if (pass == AccuracyPass::kEqualize)
        equalize.push_back(pass);
      else if (pass == AccuracyPass::kSmooth)
        smooth.push_back(pass);
      else if (pass == AccuracyPass::kRanges)
        ranges.push_back(pass);
      else
        behind.push_back(pass);
    }
  }
  std::vector<AccuracyPass> equalize, smooth, ranges, behind;
};

}  // namespace octet
