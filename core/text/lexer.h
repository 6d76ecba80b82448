// Words of the text form. Private to core/text_*.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace octet {

struct Token {
  // %x; aten.relu, None, f32; -1.5; "text"; one of ()[]{}=:,@
  enum class Kind { kName, kWord, kNumber, kString, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // of kName without the %, of kString unescaped
  int line = 1;
};

// White space and `#` comments only separate. Throws Error("text", "line 3", ...) on what is no
// word; ends with one kEnd.
std::vector<Token> split_words(std::string_view text);

Error text_error(int line, const std::string& message);

}  // namespace octet
