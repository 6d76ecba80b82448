// A Program without its constants' bytes as JSON text, and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "lowering/program/program.h"

namespace octet {

// Where the parameters of tensors with a scale for each slice stand: in the text, or elsewhere (the
// text then tells their axis alone).
enum class SliceParameters { kInText, kElsewhere };
std::string to_json_text(const Program& program, SliceParameters place = SliceParameters::kInText);

// Constants come back without data, and parameters that stand elsewhere without scales and zero
// points; the artifact fills them in. Throws Error("artifact", file, ...) on anything malformed.
Program program_from_json_text(const std::string& text, const std::string& file);

// A zero point outside of the tensor's dtype.
std::optional<int32_t> find_misplaced_zero_point(const ProgramTensor& tensor);

// Whether lists and objects stand in each other deeper than `limit`: JSON that is not ours, and
// that recursive readers would run out of stack on.
inline constexpr size_t kDeepestJson = 16;
bool nests_deeper(std::string_view json, size_t limit);

}  // namespace octet
