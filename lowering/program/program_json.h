// Converts a Program, without the bytes of its constants, to JSON text and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "lowering/program/program.h"

namespace octet {

// Where the qparams of per-channel tensors are: in the text, or elsewhere; then the text has only
// their axis.
enum class SliceParameters { kInText, kElsewhere };
std::string to_json_text(const Program& program, SliceParameters place = SliceParameters::kInText);

// Constants have no data after reading, and per-channel qparams that are elsewhere have no scales
// and zero points; the artifact reader fills them in. Throws Error("artifact", file, ...) on
// malformed text.
Program program_from_json_text(const std::string& text, const std::string& file);

// The first zero point that is out of range for the tensor's dtype, if any.
std::optional<int32_t> find_misplaced_zero_point(const ProgramTensor& tensor);

// Whether lists and objects are nested deeper than `limit`. Octet writes no such JSON, and
// recursive readers would overflow the stack on it.
inline constexpr size_t kDeepestJson = 16;
bool nests_deeper(std::string_view json, size_t limit);

}  // namespace octet
