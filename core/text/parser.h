// Parses the words, numbers, types and arguments of the text form of graphs (text.h); parse.cpp
// parses whole graphs with it. Private to core/text.
#pragma once

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/graph/graph.h"

namespace octet {

struct Token {
  // %x; aten.relu, None, f32; -1.5; "text"; one of ()[]{}=:,@
  enum class Kind { kName, kWord, kNumber, kString, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // kName: without the %; kString: unescaped
  int line = 1;
};

// Splits text into words; white space and `#` comments only separate. Ends with one kEnd. Throws
// Error("text", "line 3", ...) for anything that is not a word.
std::vector<Token> split_words(std::string_view text);

Error text_error(int line, const std::string& message);

// The kind and the facts of a Value according to its type.
struct ParsedType {
  ValueKind kind = ValueKind::kTensor;
  std::optional<TensorMeta> meta;
  std::string symbol;
  bool has_hint = false;
  int64_t hint = -1;
  double hint_float = 0;
  std::string class_fqn;
};

// Reads words, numbers and types. `where` names the text in messages.
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
  // Calls item() for each entry up to and including `close`.
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

class ArgumentParser : public TextReader {
 public:
  using TextReader::TextReader;
  virtual ~ArgumentParser() = default;

  // Values are looked up in `graph`, which is not changed.
  Argument parse_argument(const Graph& graph);
  Value* parse_value(const Graph& graph);

 protected:
  // A subgraph, from its inputs to its return.
  virtual void parse_graph_body(Graph& graph) = 0;

 private:
  Value* parse_value_or_none(const Graph& graph) {
    return take_word("None") ? nullptr : parse_value(graph);
  }
  Argument parse_word_argument(const Graph& graph);
  Argument parse_call_literal(const Token& word, const Graph& graph);
  Argument parse_plain_list(const Graph& graph);
  Argument parse_prefixed_list(const std::string& prefix, const Graph& graph);
  Argument parse_map(const Graph& graph);
  bool expect_bool();

  template <typename Item>
  std::vector<std::invoke_result_t<Item>> items(const Item& item) {
    std::vector<std::invoke_result_t<Item>> out;
    expect('[', "list");
    list(']', "list", [&] { out.push_back(item()); });
    return out;
  }
};

}  // namespace octet
