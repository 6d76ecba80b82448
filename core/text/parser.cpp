#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "core/text/parser.h"
#include "core/text/words.h"

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
      case 'n': return '\n';
      case 't': return '\t';
      case '"': return '"';
      case '\\': return '\\';
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

using namespace text_words;

Value* ArgumentParser::parse_value(const Graph& graph) {
  const int line = peek().line;
  const std::string name = expect_name("value");
  Value* value = graph.find_value(name);
  if (value == nullptr)
    throw text_error(line, fmt::format("%{} is not defined before its use", name));
  return value;
}

bool ArgumentParser::expect_bool() {
  if (take_word("True")) return true;
  if (take_word("False")) return false;
  fail("bool", "True or False");
}

Argument ArgumentParser::parse_argument(const Graph& graph) {
  switch (peek().kind) {
    case Token::Kind::kName: return parse_value(graph);
    case Token::Kind::kString: return next().text;
    case Token::Kind::kNumber:
      return is_float(peek().text) ? Argument(expect_float("number"))
                                   : Argument(expect_int("number"));
    case Token::Kind::kWord: return parse_word_argument(graph);
    default: break;
  }
  if (is_symbol('[')) return parse_plain_list(graph);
  if (is_symbol('{')) return parse_map(graph);
  fail("argument", "a value like %x or a literal");
}

Argument ArgumentParser::parse_word_argument(const Graph& graph) {
  const Token word = peek();
  if (take_word("None")) return None{};
  if (is_word("True") || is_word("False")) return expect_bool();
  if (is_number()) return expect_float("number");
  next();
  if (is_symbol('[')) return parse_prefixed_list(word.text, graph);
  if (const auto dtype = find_dtype_by_short_name(word.text)) return *dtype;
  if (word.text.starts_with("layout.")) return parse_layout(word);
  if (word.text.starts_with("memory_format."))
    if (const auto format = find_by_word(kMemoryFormats, std::string_view(word.text).substr(14)))
      return *format;
  if (word.text == "graph") {
    Subgraph subgraph{expect_string("name of the subgraph"), std::make_shared<Graph>()};
    parse_graph_body(*subgraph.graph);
    return subgraph;
  }
  return parse_call_literal(word, graph);
}

// optional(%x), device("cpu"), ...; `word` has been read.
Argument ArgumentParser::parse_call_literal(const Token& word, const Graph& graph) {
  if (!is_symbol('('))
    throw text_error(word.line, fmt::format("unknown word '{}', want a literal", word.text));
  next();
  Argument result;
  if (word.text == "optional") {
    result = OptionalTensor{parse_value_or_none(graph)};
  } else if (word.text == "device") {
    result = parse_device(expect_string("device"), word.line);
  } else if (word.text == "op") {
    result = OperatorRef{expect_string("op")};
  } else if (word.text == "complex") {
    const double real = expect_float("complex");
    expect(',', "complex");
    result = std::complex<double>(real, expect_float("complex"));
  } else if (word.text == "sym") {
    const Argument literal = parse_argument(graph);
    if (const auto* number = literal.find<int64_t>())
      result = SymIntLiteral{*number};
    else if (const auto* real = literal.find<double>())
      result = SymFloatLiteral{*real};
    else if (const auto* flag = literal.find<bool>())
      result = SymBoolLiteral{*flag};
    else
      throw text_error(word.line, "sym() takes an int, a float or a bool");
  } else {
    throw text_error(
        word.line,
        fmt::format("unknown literal '{}(...)', want optional, device, op, complex or sym",
                    word.text));
  }
  expect(')', word.text);
  return result;
}

// The entries determine the kind; int when empty.
Argument ArgumentParser::parse_plain_list(const Graph& graph) {
  const Token& first = peek(1);
  if (first.kind == Token::Kind::kString)
    return items([&] { return expect_string("list of strings"); });
  if (first.text == "True" || first.text == "False") return items([&] { return expect_bool(); });
  if (is_symbol('[', 1)) {
    if (peek(2).kind == Token::Kind::kName)
      return NestedTensors{items([&] { return items([&] { return parse_value(graph); }); })};
    return items([&] { return items([&] { return expect_int("list of lists of ints"); }); });
  }
  bool has_value = false, has_none = false, has_number = false, has_real = false,
       is_symbolic = false;
  for (size_t i = 1; !is_symbol(']', i) && peek(i).kind != Token::Kind::kEnd; ++i) {
    const Token& token = peek(i);
    has_none |= token.kind == Token::Kind::kWord && token.text == "None";
    has_number |= token.kind == Token::Kind::kNumber;
    has_real |= token.text == "inf" || token.text == "nan" ||
                (token.kind == Token::Kind::kNumber && is_float(token.text));
    has_value |= token.kind == Token::Kind::kName;
    const Value* value = token.kind == Token::Kind::kName ? graph.find_value(token.text) : nullptr;
    is_symbolic |= value != nullptr && value->kind() == ValueKind::kSymInt;
  }
  if (has_none) return OptionalTensors{items([&] { return parse_value_or_none(graph); })};
  if (has_value && (has_number || is_symbolic)) return parse_prefixed_list("sym_ints", graph);
  if (has_value) return items([&] { return parse_value(graph); });
  if (has_real) return items([&] { return expect_float("list of floats"); });
  return items([&] { return expect_int("list of ints"); });
}

Argument ArgumentParser::parse_prefixed_list(const std::string& prefix, const Graph& graph) {
  const auto value = [&] { return parse_value(graph); };
  const auto symbol_or = [&](const auto& literal) {
    using Item = std::variant<std::invoke_result_t<decltype(literal)>, Value*>;
    return [this, literal, value]() -> Item {
      return peek().kind == Token::Kind::kName ? Item(value()) : Item(literal());
    };
  };
  const auto number = [&] { return expect_int(prefix); };
  const auto real = [&] { return expect_float(prefix); };
  if (prefix == "values") return items(value);
  if (prefix == "optionals")
    return OptionalTensors{items([&] { return parse_value_or_none(graph); })};
  if (prefix == "nested") return NestedTensors{items([&] { return items(value); })};
  if (prefix == "floats") return items(real);
  if (prefix == "bools") return items([&] { return expect_bool(); });
  if (prefix == "strings") return items([&] { return expect_string(prefix); });
  if (prefix == "int_lists") return items([&] { return items(number); });
  if (prefix == "float_lists")
    return items([&] {
      take_word("floats");
      return items(real);
    });
  if (prefix == "sym_ints") return SymIntList{items(symbol_or(number))};
  if (prefix == "sym_floats") return SymFloatList{items(symbol_or(real))};
  if (prefix == "sym_bools") return SymBoolList{items(symbol_or([&] { return expect_bool(); }))};
  fail(fmt::format("unknown kind of list '{}'", prefix),
       "floats, bools, strings, values, optionals, nested, int_lists, float_lists or sym_ints");
}

Argument ArgumentParser::parse_map(const Graph& graph) {
  next();
  ArgumentMap map;
  list('}', "map", [&] {
    const std::string key = expect_string("key of the map");
    expect(':', "map");
    map.items[key] = std::make_shared<Argument>(parse_argument(graph));
  });
  return map;
}

}  // namespace octet
