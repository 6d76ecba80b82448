// Any quantizer, kept out of parts of the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/forwarding_quantizer.h"

namespace octet {

// Does what `inner` does. prepare_pt2e hides the parts from it, those of `inner` included, and lets
// their own quantizers work inside.
class OpaqueQuantizer : public ForwardingQuantizer<Quantizer> {
 public:
  // `inner` is not null. Throws as check_opaque_part does.
  OpaqueQuantizer(std::unique_ptr<Quantizer> inner, std::vector<OpaquePart> parts);

  std::string name() const override { return inner().name(); }
  // Throws Error("quantizer", ...) too for a part that covers nothing of the model, with the
  // closest names.
  void check_model(const Graph& model) const override;
  const std::vector<OpaquePart>* opaque_parts() const override { return &parts_; }

 private:
  std::vector<OpaquePart> parts_;  // first its own, then those of the inner quantizer
};

}  // namespace octet
