// Code points for tokenizers: UTF-8, general categories and normalization form C. Free of torch.
//
// The tables are small and written by a script (tools/dev/unicode_tables.py), because ICU and PCRE
// would be the largest dependencies of a runtime, and their categories change with the version that
// a machine has, which changes tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/printable.h"

namespace octet::tokenizer {

// The code points of a text. Throws Error("tokenizer", "text", ...) if it is not valid UTF-8.
std::u32string decode_utf8(std::string_view text);
void append_utf8(std::string& text, char32_t point);
std::string encode_utf8(std::u32string_view points);
// The text with U+FFFD for whatever is not valid.
std::string valid_utf8(std::string_view bytes);

// One bit for each general category, in the order of kCategories.
inline constexpr std::string_view kCategories =
    "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCoCn";
uint32_t category_bit(char32_t point);
// The bits of "Lu", or of all that start with "L"; 0 for an unknown name.
uint32_t category_bits(std::string_view name);
bool is_number(char32_t point);
bool is_space(char32_t point);

std::string normalization_form_c(const std::string& text);

}  // namespace octet::tokenizer
