// Text from files that anyone may have made, for a terminal. Free of torch.
#pragma once

#include <string>
#include <string_view>

namespace octet {

// The text without what a terminal would obey or show as something else: control characters but
// line feed and tab, marks that change the direction of writing, and bytes that are no UTF-8 stand
// as \x1b, \u{202e}.
std::string printable(std::string_view text);
// The same with line feeds as \n, for what is to stay one line.
std::string printable_line(std::string_view text);

// printable_line(text), shortened to about `most` bytes: its first and its last bytes, and between
// them the number of those left out.
std::string short_line(std::string_view text, size_t most);

}  // namespace octet
