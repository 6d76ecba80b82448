// The steps between a text and the words of a vocabulary, and back: normalizers, pre-tokenizers and
// decoders of the package tokenizers, by its names. Free of torch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/tokenizer/regex.h"

namespace octet::tokenizer {

using Words = std::vector<std::string>;
// Changes a text before it is split.
using Normalizer = std::function<std::string(const std::string&)>;
// Splits and changes the words of a text. is_start: the first word starts the whole text.
using PreTokenizer = std::function<Words(const Words&, bool is_start)>;
// Changes tokens so that together they are the text.
using Decoder = std::function<Words(const Words&)>;

// How a Split treats the parts that match.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class Prepend { kAlways, kFirst, kNever };

// The regex of GPT-2, which ByteLevel has built in.
extern const char* const kGpt2Regex;

Normalizer replace(const std::string& text, const std::string& by);
Normalizer prepend(const std::string& text);

PreTokenizer split(const std::string& regex, Behavior behavior, bool inverts);
PreTokenizer digits(bool each_alone);
PreTokenizer byte_level(bool adds_space, bool splits);
PreTokenizer metaspace(const std::string& mark, Prepend scheme, bool splits);

Decoder decode_byte_level();
Decoder decode_byte_fallback();
Decoder decode_replace(const std::string& text, const std::string& by);
Decoder decode_strip(const std::string& text, size_t at_start, size_t at_end);
Decoder decode_metaspace(const std::string& mark, Prepend scheme);
Decoder fuse();

// A regex that matches just the text.
std::string quoted_regex(const std::string& text);

}  // namespace octet::tokenizer
