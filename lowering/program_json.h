// A Program without its constants' bytes as JSON text, and back.
#pragma once

#include <string>

#include "lowering/program.h"

namespace octet {

std::string to_json_text(const Program& program);

// Constants come back without data; the artifact fills it in. Throws Error("artifact", file, ...) on anything malformed.
Program program_from_json_text(const std::string& text, const std::string& file);

}  // namespace octet
