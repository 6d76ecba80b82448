// Keeps a quantizer out of parts of the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// Forwards to `inner`. prepare_pt2e hides the parts from it, including those of `inner`, and runs
// the parts' own quantizers inside them.
class OpaqueQuantizer : public ForwardingQuantizer<Quantizer> {
 public:
  // `inner` is not null. Throws as check_opaque_part does.
  OpaqueQuantizer(std::unique_ptr<Quantizer> inner, std::vector<OpaquePart> parts);

  std::string name() const override { return inner().name(); }
  // Also throws Error("quantizer", ...) for a part that matches nothing in the model, with the
  // closest names.
  void check_model(const Graph& model) const override;
  const std::vector<OpaquePart>* opaque_parts() const override { return &parts_; }

 private:
  std::vector<OpaquePart> parts_;  // its own parts, then those of `inner`
};

}  // namespace octet
