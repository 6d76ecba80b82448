// Runs segments of a Program with XNNPACK. Activations are channels-last inside, u8 is shifted to
// s8; both change back at the segment's border.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lowering/program/backend.h"

namespace octet {

class XNNPACKBackend : public Backend {
 public:
  std::string name() const override { return "xnnpack"; }
  std::map<std::string, std::string> versions() const override;
  bool takes_channels_last() const override { return true; }
  // Throws Error when XNNPACK does not start on this machine, or refuses an op (as an artifact of
  // another XNNPACK release may meet).
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

}  // namespace octet
