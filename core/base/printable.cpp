#include "core/base/printable.h"

#include <cstdint>

#include <fmt/format.h>

namespace octet {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: invalid UTF-8
};

// The first character of a text that is not empty.
Character decode(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 && first < 0xf5   ? 4
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xc2 && first < 0xe0 ? 2
                                                       : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {code, bytes};
}

// Marks that change the direction, separate lines, or have no width.
bool is_hidden(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kHidden[] = {
      {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200f},
      {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff},
  };
  for (const Range& range : kHidden)
    if (code >= range.first && code <= range.last) return true;
  return false;
}

std::string escaped(std::string_view text, bool keeps_lines) {
  std::string shown;
  while (!text.empty()) {
    const Character c = decode(text);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    if (c.bytes == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (c.code == '\n' && !keeps_lines) {
      shown += "\\n";
    } else if (c.code < 0x20 && c.code != '\n' && c.code != '\t') {
      shown += fmt::format("\\x{:02x}", c.code);
    } else if (is_hidden(c.code)) {
      shown +=
          c.code < 0x100 ? fmt::format("\\x{:02x}", c.code) : fmt::format("\\u{{{:x}}}", c.code);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, true); }
std::string printable_line(std::string_view text) { return escaped(text, false); }

std::string short_line(std::string_view text, size_t most) {
  const std::string line = printable_line(text);
  if (line.size() <= most) return line;
  const auto continues = [&](size_t at) {
    return (static_cast<unsigned char>(line[at]) >> 6) == 2;
  };
  size_t head = most / 2, tail = line.size() - most / 2;
  while (head > 0 && continues(head)) --head;
  while (tail < line.size() && continues(tail)) ++tail;
  return fmt::format("{} ... ({} bytes) ... {}", std::string_view(line).substr(0, head),
                     tail - head, std::string_view(line).substr(tail));
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace octet
