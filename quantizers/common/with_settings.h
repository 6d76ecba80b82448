// Settings for a quantizer that knows of none.
#pragma once

#include <memory>

#include "quantizers/common/configurable_quantizer.h"

namespace octet {

// Does what `quantizer`, any subclass of Quantizer, does, and keeps it out of what the settings
// leave float: those ops are annotated without specs while it works, so that rules pass them over
// as they pass over another quantizer's; what it annotates there all the same is dropped.
// Registered quantizers have this by themselves. Not null. Throws Error as the quantizer does.
std::unique_ptr<ConfigurableQuantizer> with_settings(std::unique_ptr<Quantizer> quantizer);

}  // namespace octet
