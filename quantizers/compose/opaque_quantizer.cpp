#include "quantizers/compose/opaque_quantizer.h"

#include "quantizers/common/config_check.h"

namespace octet {

OpaqueQuantizer::OpaqueQuantizer(std::unique_ptr<Quantizer> inner, std::vector<OpaquePart> parts)
    : ForwardingQuantizer(std::move(inner)), parts_(std::move(parts)) {
  if (const std::vector<OpaquePart>* more = ForwardingQuantizer::opaque_parts())
    parts_.insert(parts_.end(), more->begin(), more->end());
  for (const OpaquePart& part : parts_) check_opaque_part(part);
}

void OpaqueQuantizer::check_model(const Graph& model) const {
  inner().check_model(model);
  check_opaque_parts(parts_, model);
}

}  // namespace octet
