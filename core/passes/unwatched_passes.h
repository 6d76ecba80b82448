// Hides the passes that a command runs besides its main work from OCTET_DEBUG=passes and
// --print-after.
#pragma once

namespace octet {

// While one exists, run_passes() in this thread prints nothing for OCTET_DEBUG and print_after(),
// and the passes do not count as run.
class UnwatchedPasses {
 public:
  UnwatchedPasses();
  ~UnwatchedPasses();
  UnwatchedPasses(const UnwatchedPasses&) = delete;
  UnwatchedPasses& operator=(const UnwatchedPasses&) = delete;
};

}  // namespace octet
