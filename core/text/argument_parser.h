// Reads the arguments of the text form: values, literals, lists, maps and subgraphs. Private to
// core/text_*.cpp.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "core/text/types.h"

namespace octet {

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
