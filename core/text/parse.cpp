// Parses the text form into a Graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/ops/op_schema.h"
#include "core/text/parser.h"
#include "core/text/text.h"
#include "core/text/words.h"

namespace octet {
namespace {

using namespace text_words;

void apply(const ParsedType& type, Value& value) {
  value.symbol = type.symbol;
  value.has_symbol_hint = type.has_hint;
  value.symbol_hint = type.hint;
  value.symbol_hint_float = type.hint_float;
  value.class_fqn = type.class_fqn;
}

struct ParsedName {
  std::optional<std::string> name;  // nothing: None
  ParsedType type;
};

struct ParsedSlot {
  ResultSlot::Kind kind = ResultSlot::Kind::kSingle;
  std::vector<ParsedName> names;
  Argument literal;
};

Tensor zeros_like(const TensorMeta& meta, int line) {
  if (!meta.is_static()) throw text_error(line, "a constant has a symbolic size, want numbers");
  std::vector<int64_t> strides;
  int64_t extent = meta.storage_offset.value + 1;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    strides.push_back(meta.strides[i].value);
    if (meta.sizes[i].value < 0)
      throw text_error(line, fmt::format("size {} of a constant is negative", meta.sizes[i].value));
    extent += std::max<int64_t>(meta.sizes[i].value - 1, 0) * meta.strides[i].value;
  }
  return Tensor(Tensor::zeros(meta.dtype, {extent}).storage(), meta.dtype, meta.shape(), strides,
                meta.storage_offset.value);
}

class Parser : private ArgumentParser {
 public:
  using ArgumentParser::ArgumentParser;

  Graph run() {
    expect_word("graph");
    Graph graph;
    parse_graph_body(graph);
    if (peek().kind != Token::Kind::kEnd) fail("after the graph's return", "nothing more");
    return graph;
  }

 private:
  // ---- graphs
  void parse_graph_body(Graph& graph) override {
    expect('(', "graph");
    list(')', "inputs", [&] { parse_input(graph); });
    expect(':', "graph");
    while (!is_word("return")) {
      if (peek().kind == Token::Kind::kEnd) fail("graph", "a node or return");
      parse_node(graph);
    }
    next();
    expect('(', "return");
    list(')', "return", [&] { parse_output(graph); });
  }

  void parse_input(Graph& graph) {
    const int line = peek().line;
    const std::string name = expect_name("input");
    check_new(graph, name, line);
    GraphInput input;
    ParsedType type;
    if (take('=')) {
      parse_input_kind(graph, input, type);
    } else if (take(':')) {
      type = parse_type();
      if (type.kind == ValueKind::kToken) input.kind = InputKind::kToken;
    }
    const bool has_data = input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
                          input.kind == InputKind::kTensorConstant;
    if (has_data && !type.meta)
      throw text_error(
          line, fmt::format("%{} = \"{}\" has no type, want one like f32[2, 3] for its data", name,
                            input.fqn));
    if (has_data && !graph.constants.contains(input.fqn))
      graph.constants[input.fqn] = {zeros_like(*type.meta, line),
                                    input.kind == InputKind::kParameter, type.meta->requires_grad};
    apply(type, *graph.add_input(std::move(input), name, type.kind, type.meta));
  }

  void parse_input_kind(Graph& graph, GraphInput& input, ParsedType& type) {
    const Token word = next();
    if (word.text == "const" || word.text == "input") {
      input.kind = word.text == "const" ? InputKind::kConstant : InputKind::kUserInput;
      type.kind = ValueKind::kNone;
      input.constant = parse_argument(graph);
      return;
    }
    const auto kind = word.text == kLocalBuffer ? std::optional(InputKind::kBuffer)
                                                : find_by_word(kInputs, word.text);
    if (!kind)
      throw text_error(word.line, fmt::format("unknown input kind '{}', want param, buffer, "
                                              "local_buffer, tensor, object, const or input",
                                              word.text));
    input.kind = *kind;
    input.persistent = word.text != kLocalBuffer;
    input.fqn = expect_string(word.text);
    if (take(':')) type = parse_type(*kind == InputKind::kParameter);
  }

  void parse_output(Graph& graph) {
    GraphOutput output;
    if (peek().kind == Token::Kind::kWord)
      for (const OutputWord& row : kOutputs) {
        if (!take_word(row.word)) continue;
        output.kind = row.kind;
        if (row.has_target) {
          output.target = expect_string(std::string(row.word));
          expect('=', std::string(row.word));
        }
        break;
      }
    output.value = parse_argument(graph);
    graph.add_output(std::move(output));
  }

  // ---- nodes
  static void check_new(const Graph& graph, const std::string& name, int line) {
    if (graph.find_value(name) != nullptr)
      throw text_error(line, fmt::format("%{} is defined twice, want another name", name));
  }

  ParsedName parse_result(const Graph& graph) {
    if (take_word("None")) return {};
    ParsedName result;
    const int line = peek().line;
    result.name = expect_name("result");
    check_new(graph, *result.name, line);
    if (take(':')) result.type = parse_type();
    return result;
  }

  ParsedSlot parse_slot(Graph& graph) {
    ParsedSlot slot;
    if (take_word("literal")) {
      slot.kind = ResultSlot::Kind::kLiteral;
      expect('(', "literal");
      slot.literal = parse_argument(graph);
      expect(')', "literal");
    } else if (is_symbol('[') || is_word("optional")) {
      slot.kind = take_word("optional") ? ResultSlot::Kind::kOptionalList : ResultSlot::Kind::kList;
      expect('[', "list of results");
      list(']', "list of results", [&] { slot.names.push_back(parse_result(graph)); });
      for (const ParsedName& name : slot.names)
        if (!name.name && slot.kind == ResultSlot::Kind::kList)
          fail("list of results with None", "optional[...]");
    } else {
      slot.names.push_back(parse_result(graph));
      if (!slot.names.front().name) fail("result", "a name");
    }
    return slot;
  }

  void parse_node(Graph& graph) {
    const int line = peek().line;
    std::vector<ParsedSlot> slots;
    const bool has_results =
        peek().kind != Token::Kind::kWord ||
        ((is_word("literal") || is_word("optional")) && (is_symbol('(', 1) || is_symbol('[', 1)));
    if (has_results) {
      do slots.push_back(parse_slot(graph));
      while (take(','));
      expect('=', "results");
    }
    if (peek().kind != Token::Kind::kWord)
      fail(has_results ? "call" : "node", "an op like aten.relu.default, or return");
    std::string target = next().text;
    expect('(', target);
    std::vector<NamedArgument> arguments;
    list(')', target, [&] { arguments.push_back(parse_named_argument(graph)); });
    complete(target, arguments, line);

    const ParsedName* only = nullptr;
    int count = 0;
    for (const ParsedSlot& slot : slots)
      for (const ParsedName& name : slot.names)
        if (name.name && ++count > 0) only = &name;
    std::string name = count == 1 ? *only->name : std::string(default_node_name(target, nullptr));
    if (take_word("as"))
      name = peek().kind == Token::Kind::kString || peek().kind == Token::Kind::kWord
                 ? next().text
                 : expect_string("name of the node");
    add_results(graph, *graph.add_node(target, std::move(arguments), name), slots);
  }

  static void add_results(Graph& graph, Node& node, const std::vector<ParsedSlot>& slots) {
    for (const ParsedSlot& slot : slots) {
      std::vector<std::optional<std::string>> names;
      std::vector<std::string> plain;
      std::vector<std::optional<TensorMeta>> metas;
      for (const ParsedName& name : slot.names) {
        names.push_back(name.name);
        plain.push_back(name.name.value_or(""));
        metas.push_back(name.type.meta);
      }
      switch (slot.kind) {
        case ResultSlot::Kind::kSingle:
          graph.add_result(node, plain.front(), metas.front(), slot.names.front().type.kind);
          break;
        case ResultSlot::Kind::kList: graph.add_list_result(node, plain, metas); break;
        case ResultSlot::Kind::kOptionalList:
          graph.add_optional_list_result(node, names, metas);
          break;
        case ResultSlot::Kind::kLiteral: graph.add_literal_result(node, slot.literal); break;
      }
      for (size_t i = 0; i < slot.names.size(); ++i)
        if (names[i]) apply(slot.names[i].type, *node.results().back().values[i]);
    }
  }

  // Adds the overload when it is missing, and gives positional arguments their names.
  static void complete(std::string& target, std::vector<NamedArgument>& arguments, int line) {
    const OpSchema* schema = find_op_schema(target);
    if (schema == nullptr) {
      std::vector<std::string> candidates;
      const std::string chosen = choose_overload(target, arguments, &candidates);
      if (chosen.empty() && !candidates.empty())
        throw text_error(line, fmt::format("{} does not say which overload, want one of {}", target,
                                           fmt::join(candidates, ", ")));
      if (!chosen.empty()) target = chosen;
      schema = find_op_schema(target);
    }
    if (schema == nullptr) return;  // not an op of the dispatcher: keeps names as written
    for (size_t i = 0; i < arguments.size(); ++i) {
      NamedArgument& argument = arguments[i];
      if (!argument.name.empty()) {
        if (schema->find(argument.name) == nullptr)
          throw text_error(line, fmt::format("{} has no argument \"{}\"", target, argument.name));
        continue;
      }
      if (i >= schema->arguments.size() || schema->arguments[i].kwarg_only)
        throw text_error(
            line,
            fmt::format("{} takes {} positional arguments, got more; name the others", target, i));
      argument.name = schema->arguments[i].name;
      coerce_empty_list(argument.value, schema->arguments[i].type);
    }
  }

  static void coerce_empty_list(Argument& argument, const std::string& type) {
    const auto* ints = argument.find<std::vector<int64_t>>();
    if (ints != nullptr && ints->empty() && type.starts_with("Tensor"))
      argument = std::vector<Value*>();
  }

  // ---- arguments
  NamedArgument parse_named_argument(Graph& graph) {
    NamedArgument argument;
    const bool is_named =
        (peek().kind == Token::Kind::kWord || peek().kind == Token::Kind::kString) &&
        is_symbol('=', 1);
    if (is_named) {
      argument.name = next().text;
      argument.kind = ArgumentKind::kKeyword;
      next();
    }
    argument.value = parse_argument(graph);
    return argument;
  }
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace octet
