#include "quantizers/compose/opaque_quantizer.h"

#include "core/base/error.h"
#include "quantizers/common/config_check.h"

namespace octet {

OpaqueQuantizer::OpaqueQuantizer(std::unique_ptr<Quantizer> inner, std::vector<OpaquePart> parts)
    : inner_(std::move(inner)), parts_(std::move(parts)) {
  OCTET_ASSERT(inner_ != nullptr, "null quantizer");
  if (const std::vector<OpaquePart>* more = inner_->opaque_parts())
    parts_.insert(parts_.end(), more->begin(), more->end());
  for (const OpaquePart& part : parts_) check_opaque_part(part);
}

void OpaqueQuantizer::check_model(const Graph& model) const {
  inner_->check_model(model);
  check_opaque_parts(parts_, model);
}

}  // namespace octet
