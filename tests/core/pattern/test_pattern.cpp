// Patterns: what they match and bind, and errors for wrong ones.
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/pattern/pattern.h"
#include "core/text/text.h"

namespace octet::test_pattern {
using Catch::Contains;

namespace {

std::optional<Match> match_at(const Graph& graph, const char* pattern, const char* root,
                              InnerUse inner_use = InnerUse::kOnlyInMatch) {
  return match(parse_pattern(pattern), *graph.find_node(root), inner_use);
}

}  // namespace

TEST_CASE("pattern: a chain binds its variables and lists its nodes outermost first",
          "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: f32[2,3], %w: f32[4,3], %b: f32[4]):
    %l = aten.linear(%x, %w, %b) %r = aten.relu(%l) return (%r))");
  const std::optional<Match> found = match_at(graph, "relu(linear(x, w, b?))", "r");
  REQUIRE(found);
  CHECK(found->root == graph.find_node("r"));
  CHECK(found->nodes == std::vector<Node*>{graph.find_node("r"), graph.find_node("l")});
  CHECK(found->find("x") == graph.find_value("x"));
  CHECK(found->find("w") == graph.find_value("w"));
  CHECK(found->find("b") == graph.find_value("b"));
  CHECK(found->consumer("w") == graph.find_node("l"));
}

TEST_CASE("pattern: an optional argument may be absent or None", "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2,3], %w: f32[4,3]): %l = aten.linear(%x, %w) %m = aten.linear(%x, %w, None) "
      "return (%l, %m)");
  for (const char* root : {"l", "m"}) {
    const std::optional<Match> found = match_at(graph, "linear(x, w, b?)", root);
    REQUIRE(found);
    CHECK(found->find("b") == nullptr);
    CHECK_FALSE(match_at(graph, "linear(x, w, b)", root));
  }
}

TEST_CASE("pattern: a tensor that is not named must be absent", "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2,3], %w: f32[4,3], %b: f32[4]): %l = aten.linear(%x, %w, %b) return (%l)");
  CHECK_FALSE(match_at(graph, "linear(x, w)", "l"));
  CHECK(match_at(graph, "linear(x, w, ...)", "l"));
  CHECK(match_at(graph, "linear(x, _, _)", "l"));
}

TEST_CASE("pattern: bare names cover overloads and in-place twins, dotted ones are exact",
          "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2]): %a = aten.relu_(%x) %b = aten.add.Tensor(%a, %x) %c = aten.relu(%b) "
      "return (%c)");
  CHECK(match_at(graph, "relu(x)", "a"));
  CHECK(match_at(graph, "relu(x)", "c"));
  CHECK(match_at(graph, "relu_(x)", "a"));
  CHECK_FALSE(match_at(graph, "relu_(x)", "c"));
  CHECK_FALSE(match_at(graph, "aten.relu.default(x)", "a"));
  CHECK(match_at(graph, "aten.add.Tensor(a, b)", "b"));
  CHECK_FALSE(match_at(graph, "aten.add.Scalar(a, b)", "b"));
}

TEST_CASE("pattern: an op with a scalar operand has one tensor less", "[core][pattern]") {
  const Graph graph = parse_graph("graph(%x: f32[2]): %a = aten.add.Tensor(%x, 1) return (%a)");
  CHECK_FALSE(match_at(graph, "add(a, b)", "a"));
  CHECK(match_at(graph, "add(a)", "a"));
}

TEST_CASE("pattern: an inner node with another user, or that is an output, does not match",
          "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: f32[2]):
    %a = aten.sigmoid(%x) %b = aten.relu(%a) %c = aten.tanh(%a) %d = aten.sigmoid(%x) %e = aten.relu(%d) return (%b, %c, %d, %e))");
  CHECK_FALSE(match_at(graph, "relu(sigmoid(x))", "b"));
  CHECK_FALSE(match_at(graph, "relu(sigmoid(x))", "e"));
  CHECK(match_at(graph, "relu(sigmoid(x))", "b", InnerUse::kAnywhere));
  CHECK(match_at(graph, "relu(sigmoid(x))", "e", InnerUse::kAnywhere));
}

TEST_CASE("pattern: the same variable twice is the same value", "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2], %y: f32[2]): %a = aten.add.Tensor(%x, %x) %b = aten.add.Tensor(%x, %y) "
      "return (%a, %b)");
  CHECK(match_at(graph, "add(x, x)", "a"));
  CHECK_FALSE(match_at(graph, "add(x, x)", "b"));
  CHECK(match_at(graph, "add(x, y)", "a"));
}

TEST_CASE("pattern: a list binds all its values in order", "[core][pattern]") {
  const Graph graph =
      parse_graph("graph(%x: f32[2], %y: f32[2]): %c = aten.cat([%y, %x, %y], 0) return (%c)");
  const std::optional<Match> found = match_at(graph, "cat(x...)", "c");
  REQUIRE(found);
  CHECK(found->find_all("x") ==
        std::vector<Value*>{graph.find_value("y"), graph.find_value("x"), graph.find_value("y")});
  CHECK_FALSE(match_at(graph, "cat(x)", "c"));
}

TEST_CASE("pattern: each value of a list comes from an op", "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: i8[2], %y: i8[2]):
    %a = quantized_decomposed.dequantize_per_tensor.default(%x, 0.5, 0, -128, 127, i8)
    %b = quantized_decomposed.dequantize_per_tensor.default(%y, 0.5, 0, -128, 127, i8)
    %c = aten.cat([%a, %b]) %q = quantized_decomposed.quantize_per_tensor.default(%c, 0.5, 0, -128, 127, i8) return (%q))");
  const std::optional<Match> found = match_at(graph, "q(cat(dq(x)...))", "q");
  REQUIRE(found);
  CHECK(found->find_all("x") == std::vector<Value*>{graph.find_value("x"), graph.find_value("y")});
  CHECK(found->nodes.size() == 4);
}

TEST_CASE("pattern: dq need not name the scales of channels", "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: f32[1,3], %w: i8[4,3], %s: f32[4], %z: i64[4]):
    %d = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8) %l = aten.linear(%x, %d) return (%l))");
  const std::optional<Match> found = match_at(graph, "linear(x, dq(w), b?)", "l");
  REQUIRE(found);
  CHECK(found->find("w") == graph.find_value("w"));
}

TEST_CASE("pattern: alternatives are any of the ops", "[core][pattern]") {
  const Graph graph =
      parse_graph("graph(%x: f32[2]): %a = aten.hardtanh(%x) %b = aten.sigmoid(%a) return (%b)");
  CHECK(match_at(graph, "{relu|hardtanh|aten.relu6.default}(x)", "a"));
  CHECK_FALSE(match_at(graph, "{relu|hardtanh}(x)", "b"));
}

TEST_CASE("pattern: custom ops without a schema match by their recorded arguments",
          "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2]): %a = my_ns.my_op.default(input=%x, scale=2.0, other=None) return (%a)");
  CHECK(match_at(graph, "my_ns.my_op.default(x, y?)", "a"));
  CHECK(match_at(graph, "my_ns.my_op.default(x)", "a"));
}

TEST_CASE("pattern: a keyword argument matches at its place in the schema", "[core][pattern]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2,3], %w: f32[4,3], %b: f32[4]): %l = aten.linear.default(bias=%b, weight=%w, "
      "input=%x) return (%l)");
  const std::optional<Match> found = match_at(graph, "linear(x, w, b)", "l");
  REQUIRE(found);
  CHECK(found->find("x") == graph.find_value("x"));
  CHECK(found->find("b") == graph.find_value("b"));
}

TEST_CASE("pattern: variables are listed in order with their kind", "[core][pattern]") {
  const Pattern pattern = parse_pattern("cat(relu(x)..., y?)");
  REQUIRE(pattern.variables.size() == 2);
  CHECK(pattern.variables[0].is_list);
  CHECK(pattern.variables[1].is_optional);
  CHECK(pattern.find_variable("z") == nullptr);
}

TEST_CASE("pattern: an optional op may be missing", "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: f32[2,3], %w: f32[4,3]):
    %l = aten.linear(%x, %w) %r = aten.relu(%l) %m = aten.linear(%x, %w) %t = aten.tanh(%m)
    return (%r, %t))");
  const char* const pattern = "relu?(linear(x, w))";
  REQUIRE(match_at(graph, pattern, "r"));
  CHECK(match_at(graph, pattern, "r")->nodes.size() == 2);
  REQUIRE(match_at(graph, pattern, "m"));
  CHECK(match_at(graph, pattern, "m")->nodes.size() == 1);
  CHECK_FALSE(match_at(graph, pattern, "t"));
}

TEST_CASE("pattern: arguments in brackets match in either order", "[core][pattern]") {
  const Graph graph = parse_graph(R"(graph(%x: f32[2,3], %w: f32[4,3], %y: f32[2,4]):
    %l = aten.linear(%x, %w) %a = aten.add.Tensor(%l, %y)
    %m = aten.linear(%x, %w) %b = aten.add.Tensor(%y, %m) return (%a, %b))");
  for (const char* root : {"a", "b"}) {
    const std::optional<Match> found = match_at(graph, "add[linear(x, w), y]", root);
    REQUIRE(found);
    CHECK(found->find("y") == graph.find_value("y"));
    CHECK(found->nodes.back()->is("aten.linear"));
  }
  CHECK_FALSE(match_at(graph, "add(linear(x, w), y)", "b"));
}

TEST_CASE("pattern: variants with inner optional ops come first", "[core][pattern]") {
  const Pattern pattern = parse_pattern("relu?(add?[batch_norm?(conv2d(x, w), ...), y])");
  std::string seen;
  for (const PatternVariant& variant : pattern.variants) {
    seen += seen.empty() ? "" : " ";
    for (const bool has : variant.has_op) seen += has ? '1' : '0';
  }
  CHECK(seen == "111 111 011 011 101 001 110 110 010 010 100 000");
  CHECK(pattern.find_variable("y")->is_optional);
  CHECK_FALSE(pattern.find_variable("x")->is_optional);
}

TEST_CASE("pattern: faults name the column", "[core][pattern][error]") {
  const auto check = [](const char* text, const char* message) {
    INFO(text);
    CHECK_THROWS_WITH(parse_pattern(text), Contains(message));
  };
  check("", "column 1: got the end, want a name");
  check("x", "column 1: got 'x', want an op");
  check("relu(x", "column 7: got the end, want ',' or ')'");
  check("relu(x))", "column 8: got ')', want nothing more");
  check("relu(2)", "column 6: got '2)', want a name");
  check("relu(a.b)", "column 6: got 'a.b)', want a variable without dots");
  check("linear(x, b?, w)", "column 15: got 'w)', want only optional arguments");
  check("{relu|}(x)", "column 7: got '}(x)', want a name");
  check("{relu}", "want '('");
  check("add(relu(x)?, y)", "column 5: got 'relu(x)?, y)', want '?' before the arguments");
  check("relu?(x)", "column 1: got 'relu?(x)', want an op that is not optional");
  check("add[x, y, z]", "column 4: got '[x, y, z]', want two arguments");
  check("add[x, y?]", "want two arguments in '[' and ']'");
  check("relu(add?(_, y))", "want an argument that takes the place of the optional op");
  check("cat(relu?(sigmoid(x))...)", "want one form of each element of a list");
  std::string nested = "sigmoid(x)";
  for (int i = 0; i < 8; ++i) nested = "add[" + nested + ", y" + std::to_string(i) + "]";
  check(nested.c_str(), "has more than 64 forms");
  check("cat(x..., relu(x))", "want the variable as a list everywhere or nowhere");
}

}  // namespace octet::test_pattern
