// A Program without its constants' bytes as JSON text, and back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lowering/program.h"

namespace octet {

std::string to_json_text(const Program& program);

// Constants come back without data; the artifact fills it in. Throws Error("artifact", file, ...) on anything malformed.
Program program_from_json_text(const std::string& text, const std::string& file);

// Whether lists and objects stand in each other deeper than `limit`: JSON that is not ours, and that recursive readers would run out of stack on.
inline constexpr size_t kDeepestJson = 16;
bool nests_deeper(std::string_view json, size_t limit);

}  // namespace octet
