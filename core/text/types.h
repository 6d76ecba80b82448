// Reads words, numbers and types of the text form: the lower half of its parser. Private to
// core/text_*.cpp.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/graph/graph.h"
#include "core/text/lexer.h"

namespace octet {

// The kind and the facts of a Value, as its type gives them.
struct ParsedType {
  ValueKind kind = ValueKind::kTensor;
  std::optional<TensorMeta> meta;
  std::string symbol;
  bool has_hint = false;
  int64_t hint = -1;
  double hint_float = 0;
  std::string class_fqn;
};

// `where` names what is being read, for messages.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : tokens_(split_words(text)) {}

  // ---- words
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  Token next();
  bool is_symbol(char symbol, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::kSymbol && peek(ahead).text[0] == symbol;
  }
  bool is_word(std::string_view word) const {
    return peek().kind == Token::Kind::kWord && peek().text == word;
  }
  bool take(char symbol);
  bool take_word(std::string_view word);
  [[noreturn]] void fail(const std::string& where, const std::string& want) const;
  void expect(char symbol, const std::string& where);
  void expect_word(std::string_view word);
  std::string expect_string(const std::string& where);
  std::string expect_name(const std::string& where);
  // Calls item() for each entry up to `close`, which it takes.
  template <typename Item>
  void list(char close, const std::string& where, const Item& item) {
    if (take(close)) return;
    do {
      if (is_symbol(close)) break;  // a comma before the end
      item();
    } while (take(','));
    if (!take(close)) fail(where, fmt::format("',' or '{}'", close));
  }

  // ---- numbers
  static bool is_float(const std::string& text) {
    return text.find_first_of(".en") != std::string::npos;
  }
  int64_t expect_int(const std::string& where);
  int64_t to_int(const Token& token) const;
  bool is_number() const {
    return peek().kind == Token::Kind::kNumber || is_word("inf") || is_word("nan");
  }
  double expect_float(const std::string& where);

  // ---- types
  Dim parse_dim();

  Device parse_device(const std::string& text, int line) const;

  Layout parse_layout(const Token& word) const;

  TensorMeta parse_meta(DType dtype, bool grad_by_default);

  ParsedType parse_type(bool grad_by_default = false);

 private:
  void parse_symbol(ParsedType& type);

  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace octet
