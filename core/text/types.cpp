// Parses types in the text form (text.h): f32[2,3], symbols, devices, layouts.
#include "core/text/parser.h"

#include <charconv>

#include "core/text/words.h"

namespace octet {

using namespace text_words;

namespace {

std::string describe(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end";
  return token.kind == Token::Kind::kName ? "%" + token.text : "'" + token.text + "'";
}

}  // namespace

Token TextReader::next() {
  Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TextReader::take(char symbol) {
  if (!is_symbol(symbol)) return false;
  next();
  return true;
}

bool TextReader::take_word(std::string_view word) {
  if (!is_word(word)) return false;
  next();
  return true;
}

void TextReader::fail(const std::string& where, const std::string& want) const {
  throw text_error(peek().line, fmt::format("{}: got {}, want {}", where, describe(peek()), want));
}

void TextReader::expect(char symbol, const std::string& where) {
  if (!take(symbol)) fail(where, fmt::format("'{}'", symbol));
}

void TextReader::expect_word(std::string_view word) {
  if (!take_word(word)) fail("here", fmt::format("'{}'", word));
}

std::string TextReader::expect_string(const std::string& where) {
  if (peek().kind != Token::Kind::kString) fail(where, "a string in double quotes");
  return next().text;
}

std::string TextReader::expect_name(const std::string& where) {
  if (peek().kind != Token::Kind::kName) fail(where, "a name like %x");
  return next().text;
}

int64_t TextReader::expect_int(const std::string& where) {
  if (peek().kind != Token::Kind::kNumber || is_float(peek().text)) fail(where, "an int");
  return to_int(next());
}

int64_t TextReader::to_int(const Token& token) const {
  int64_t value = 0;
  const auto [end, status] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (status != std::errc() || end != token.text.data() + token.text.size())
    throw text_error(
        token.line,
        fmt::format("'{}' is not a number, want an int of 64 bits or a float", token.text));
  return value;
}

double TextReader::expect_float(const std::string& where) {
  if (!is_number()) fail(where, "a number");
  const Token token = next();
  double value = 0;
  const auto [end, status] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (status != std::errc() || end != token.text.data() + token.text.size())
    throw text_error(token.line,
                     fmt::format("'{}' is not a number, want an int or a float", token.text));
  return value;
}

Dim TextReader::parse_dim() {
  if (!take('{')) return {expect_int("size"), ""};
  Dim dim;
  dim.expr = expect_string("symbolic size");
  expect(':', "symbolic size");
  dim.value = expect_int("symbolic size");
  expect('}', "symbolic size");
  return dim;
}

Device TextReader::parse_device(const std::string& text, int line) const {
  const size_t colon = text.find(':');
  Device device{text.substr(0, colon), std::nullopt};
  if (colon != std::string::npos)
    device.index = to_int({Token::Kind::kNumber, text.substr(colon + 1), line});
  return device;
}

Layout TextReader::parse_layout(const Token& word) const {
  const auto layout = find_by_word(
      kLayouts, std::string_view(word.text).substr(std::min<size_t>(7, word.text.size())));
  if (!layout)
    throw text_error(word.line, "unknown " + word.text + ", want one like layout.strided");
  return *layout;
}

TensorMeta TextReader::parse_meta(DType dtype, bool grad_by_default) {
  expect('[', "type");
  std::vector<Dim> sizes;
  list(']', "sizes", [&] { sizes.push_back(parse_dim()); });
  std::vector<int64_t> shape;
  for (const Dim& dim : sizes) shape.push_back(dim.value);
  TensorMeta meta = make_meta(dtype, shape);
  meta.sizes = sizes;
  if (take('{')) {
    meta.strides.clear();
    list('}', "strides", [&] { meta.strides.push_back(parse_dim()); });
    if (meta.strides.size() != sizes.size())
      throw text_error(peek().line, fmt::format("got {} strides for {} sizes", meta.strides.size(),
                                                sizes.size()));
  }
  if (take('@')) meta.storage_offset = parse_dim();
  if (take_word("on")) meta.device = parse_device(expect_string("device"), peek().line);
  if (peek().kind == Token::Kind::kWord && peek().text.starts_with("layout."))
    meta.layout = parse_layout(next());
  meta.requires_grad = grad_by_default;
  if (take_word("grad")) meta.requires_grad = true;
  if (take_word("nograd")) meta.requires_grad = false;
  return meta;
}

ParsedType TextReader::parse_type(bool grad_by_default) {
  if (peek().kind != Token::Kind::kWord) fail("type", "one like f32[2, 3]");
  const Token word = next();
  ParsedType type;
  if (const auto dtype = find_dtype_by_short_name(word.text)) {
    type.meta = parse_meta(*dtype, grad_by_default);
  } else if (word.text == "object") {
    type.kind = ValueKind::kCustomObj;
    type.class_fqn = expect_string("class of the object");
  } else if (word.text == "token") {
    type.kind = ValueKind::kToken;
  } else if (word.text == "none") {
    type.kind = ValueKind::kNone;
  } else if (const auto kind = find_by_word(kSymbolKinds, word.text)) {
    type.kind = *kind;
    if (take('{')) parse_symbol(type);
  } else {
    throw text_error(
        word.line,
        fmt::format("unknown type '{}', want one like f32[2, 3], int or token", word.text));
  }
  return type;
}

void TextReader::parse_symbol(ParsedType& type) {
  type.symbol = expect_string("symbol");
  if (take(':')) {
    type.has_hint = true;
    if (type.kind == ValueKind::kSymFloat)
      type.hint_float = expect_float("symbol's value");
    else
      type.hint = expect_int("symbol's value");
  }
  expect('}', "symbol");
}

}  // namespace octet
