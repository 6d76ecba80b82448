#include "core/text/lexer.h"

#include <cctype>
#include <cstring>

#include <fmt/format.h>

namespace octet {
namespace {

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    do {
      skip_blanks();
      tokens.push_back(next());
    } while (tokens.back().kind != Token::Kind::kEnd);
    return tokens;
  }

 private:
  char at(size_t offset = 0) const {
    return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
  }
  bool is_done() const { return position_ >= text_.size(); }

  void skip_blanks() {
    for (; !is_done(); ++position_) {
      if (at() == '#') position_ = std::min(text_.find('\n', position_), text_.size());
      if (at() == '\n') ++line_;
      if (is_done() || std::isspace(static_cast<unsigned char>(at())) == 0) return;
    }
  }

  Token next() {
    Token token{Token::Kind::kEnd, "", line_};
    if (is_done()) return token;
    const char c = at();
    if (c == '%') {
      ++position_;
      token.kind = Token::Kind::kName;
      token.text = at() == '"' ? string() : word();
      if (token.text.empty())
        throw text_error(line_, "a name is missing after %, want one like %x");
    } else if (c == '"') {
      token.kind = Token::Kind::kString;
      token.text = string();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-') {
      token.kind = Token::Kind::kNumber;
      token.text = number();
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      token.kind = Token::Kind::kWord;
      token.text = word();
    } else if (std::strchr("()[]{}=:,@", c) != nullptr) {
      token.kind = Token::Kind::kSymbol;
      token.text = c;
      ++position_;
    } else {
      throw text_error(
          line_,
          fmt::format(
              "'{}' is not part of the notation; write names as %x and strings in double quotes",
              c));
    }
    return token;
  }

  std::string word() {
    const size_t start = position_;
    while (!is_done() && is_word_char(at())) ++position_;
    return std::string(text_.substr(start, position_ - start));
  }

  // Digits with sign, point and exponent, or -inf.
  std::string number() {
    const size_t start = position_;
    if (at() == '-') ++position_;
    while (is_word_char(at()) || ((at() == '-' || at() == '+') && position_ > start &&
                                  at(static_cast<size_t>(-1)) == 'e'))
      ++position_;
    return std::string(text_.substr(start, position_ - start));
  }

  std::string string() {
    std::string out;
    const int first_line = line_;
    for (++position_; at() != '"'; ++position_) {
      if (is_done()) throw text_error(first_line, "the string has no closing quote");
      if (at() == '\n') ++line_;
      out += at() == '\\' ? escaped() : at();
    }
    ++position_;
    return out;
  }

  char escaped() {
    ++position_;
    switch (at()) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case '"':
        return '"';
      case '\\':
        return '\\';
      case 'x':
        if (std::isxdigit(static_cast<unsigned char>(at(1))) != 0 &&
            std::isxdigit(static_cast<unsigned char>(at(2))) != 0) {
          position_ += 2;
          return static_cast<char>(
              std::stoi(std::string(text_.substr(position_ - 1, 2)), nullptr, 16));
        }
        [[fallthrough]];
      default:
        throw text_error(
            line_, fmt::format("unknown escape \\{}, want one of \\n \\t \\\" \\\\ \\xNN", at()));
    }
  }

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> split_words(std::string_view text) { return Lexer(text).run(); }

Error text_error(int line, const std::string& message) {
  return Error("text", fmt::format("line {}", line), message);
}

}  // namespace octet
