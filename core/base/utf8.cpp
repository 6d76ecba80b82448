#include "core/base/utf8.h"

#include <cstdint>

namespace octet {

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

}  // namespace octet
