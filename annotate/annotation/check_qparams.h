// Scales and zero points that code outside of this tree may have computed.
#pragma once

#include <string>

#include "annotate/annotation/qparams.h"

namespace octet {

// Throws Error("convert", subject, ...), which names `source` (who computed them), unless there are
// as many zero points as scales, each scale is finite and above 0, each integral zero point within
// `range` and each other one finite.
void check_qparams(const QParams& qparams, IntegerRange range, const std::string& source,
                   const std::string& subject = "");

}  // namespace octet
