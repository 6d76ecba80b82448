// Reads UTF-8 from untrusted files, and escapes it for printing on a terminal. Free of torch.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octet {

// How many bytes the valid character at the start of `text` has; 0 if there is none. A prefix of a
// valid character may then be `prefix` bytes long, and U+FFFD takes its place.
size_t character_size(std::string_view text, size_t* prefix = nullptr);
// The number of one valid character.
char32_t code_point(std::string_view character);

// Escapes, as \x1b or \u{202e}, whatever a terminal would obey or show as something else: control
// characters except line feed and tab, marks that change the direction of writing, and invalid
// UTF-8.
std::string printable(std::string_view text);
// printable(text) with line feeds as \n, for output that must stay on one line.
std::string printable_line(std::string_view text);
// The text before the first line feed: what an exception of a library says, without its backtrace.
std::string first_line(std::string_view text);

// printable_line(text), shortened to about `most` bytes: the first and last bytes, with the number
// of omitted ones in between.
std::string short_line(std::string_view text, size_t most);

}  // namespace octet
