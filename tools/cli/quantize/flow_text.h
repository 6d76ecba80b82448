// How a program was prepared, as text: for files that have to be read without the command line.
#pragma once

#include <string>

#include "tools/cli/quantize/flow.h"

namespace octet {

// JSON on one line, with what --config says. Neither the model nor libraries are in it. Throws
// Error("quantizer", config, ...) when that cannot be read.
std::string text_of_flow(const QuantizeFlow& flow);

// The other way: of a program that is trained. Throws nlohmann's exceptions for other text.
QuantizeFlow flow_of_text(const std::string& text);

}  // namespace octet
