// Reads UTF-8 from untrusted text. Free of torch.
#pragma once

#include <cstddef>
#include <string_view>

namespace octet {

// How many bytes the valid character at the start of `text` has; 0 if there is none. A prefix of a
// valid character may then be `prefix` bytes long, and U+FFFD takes its place.
size_t character_size(std::string_view text, size_t* prefix = nullptr);
// The number of one valid character.
char32_t code_point(std::string_view character);

}  // namespace octet
