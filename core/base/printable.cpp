#include "core/base/printable.h"

#include <cstdint>

#include <fmt/format.h>

namespace octet {
namespace {

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
    const size_t size = character_size(text), bytes = size == 0 ? 1 : size;
    const uint32_t code = size == 0 ? 0 : code_point(text.substr(0, size));
    if (size == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (code == '\n' && !keeps_lines) {
      shown += "\\n";
    } else if (code < 0x20 && code != '\n' && code != '\t') {
      shown += fmt::format("\\x{:02x}", code);
    } else if (is_hidden(code)) {
      shown += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{{{:x}}}", code);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace

size_t character_size(std::string_view text, size_t* prefix) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (prefix != nullptr) *prefix = text.empty() ? 0 : 1;
  if (text.empty()) return 0;
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return 0;
    // Overlong forms, surrogates and numbers above 0x10FFFF.
    const uint8_t least = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t most = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < least || byte(i) > most) return 0;
    if (prefix != nullptr) *prefix = i + 1;
  }
  return size;
}

char32_t code_point(std::string_view character) {
  char32_t point = static_cast<uint8_t>(character[0]);
  if (character.size() > 1) point &= 0x7Fu >> character.size();
  for (const char byte : character.substr(1))
    point = point << 6 | (static_cast<uint8_t>(byte) & 0x3F);
  return point;
}

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
