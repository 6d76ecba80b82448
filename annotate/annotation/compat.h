// Whose choices are made where torchao's differ.
#pragma once

namespace octet {

// Octet's own, or torchao's with all their defects (annotate/DIFFERENCES.md). A caller says it once
// and passes it to the quantizer, to prepare and to convert.
enum class Compat { kNone, kTorchao };

}  // namespace octet
