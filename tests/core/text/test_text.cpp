// The text form: what is printed parses again, and errors name their line.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "support/graph_matchers.h"

namespace octet::test_text {
using Catch::Contains;
using test::PrintsAs;
using test::PrintsAsUntyped;

namespace {

void check_round_trip(const std::string& text) {
  const Graph graph = parse_graph(text);
  const std::string printed = to_text(graph);
  INFO(printed);
  const Graph again = parse_graph(printed);
  CHECK(to_text(again) == printed);
}

}  // namespace

TEST_CASE("text: a graph on one line is read", "[core][text]") {
  Graph graph =
      parse_graph("graph(%x: f32[1,3,8,8]):  %y = aten.max_pool2d(%x, [2,2])  return (%y)");
  REQUIRE(graph.node_count() == 1);
  const Node& pool = *graph.nodes().front();
  CHECK(pool.target() == "aten.max_pool2d.default");
  CHECK(pool.name() == "y");
  CHECK(pool.ints_or("kernel_size", {}) == std::vector<int64_t>{2, 2});
  CHECK(graph.find_value("x")->meta->shape() == std::vector<int64_t>{1, 3, 8, 8});
  CHECK_FALSE(pool.output()->meta.has_value());
  verify(graph);
}

TEST_CASE("text: the form of the documentation is printed back", "[core][text]") {
  const char* text =
      R"(graph(%x: f32[1,3,8,8], %w = param "conv.weight": f32[4,3,3,3], %n = buffer "bn.running_mean": f32[4]):
  %y: f32[1,4,6,6] = aten.conv2d.default(%x, %w, None, stride=[1, 1])
  %v: f32[1,4,6], %i: i64[1,4,6] = aten.max.dim(%y, 3)
  [%a: f32[1,2,6], %b: f32[1,2,6]] = aten.split.Tensor(%v, 2, 1)
  return (%a, mutate "bn.running_mean" = %n)
)";
  Graph graph = parse_graph(text);
  CHECK(to_text(graph) == text);
  verify(graph);
  CHECK(graph.find_node("max")->outputs().size() == 2);
  CHECK(graph.constants.at("conv.weight").is_parameter);
  CHECK(graph.constants.at("conv.weight").tensor.shape() == std::vector<int64_t>{4, 3, 3, 3});
}

TEST_CASE("text: types can be left out", "[core][text]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y: f32[2] = aten.relu(%x) return (%y)");
  CHECK_THAT(graph, PrintsAsUntyped("graph(%x): %y = aten.relu.default(%x) return (%y)"));
}

TEST_CASE("text: every kind of argument survives", "[core][text]") {
  check_round_trip(
      R"(graph(%x: f32[2], %y: f32[2], %n: int{"s0": 3}, %f: float{"s1": 0.5}, %b: bool):
    my.op.none(a=None, b=%x, c=[%x, %y], d=optional(%x), e=optional(None), f=[%x, None], g=optionals[%x], h=nested[[%x], [%y, %x]])
    my.op.numbers(a=1, b=-2, c=[1, 2], d=[], e=[[1], [2, 3]], f=1.5, g=1.0, h=1e-05, i=inf, j=-inf, k=nan, l=[1.0, inf], m=floats[], n=float_lists[[1.0], floats[]])
    my.op.others(a=True, b=[True, False], c=bools[], d="a \"b\" \\ \n\t\x01", e=["p", "q"], f=strings[], g=complex(1.0, -2.5), h=values[], i=int_lists[])
    my.op.symbols(a=sym(1), b=sym(1.5), c=sym(True), d=[1, %n], e=[%n], f=sym_ints[1], g=sym_floats[%f, 1.0], h=sym_bools[%b, False], i=%n, j=values[%n])
    my.op.enums(a=f32, b=bf16, c=memory_format.channels_last, d=layout.strided, e=device("cpu"), f=device("cuda:1"), g=op("aten.add.Tensor"), h={"k": [1], "m": {"n": %x}})
    return (%x, 1, None))");
}

TEST_CASE("text: argument kinds are told apart after reading", "[core][text]") {
  Graph graph = parse_graph(
      R"(graph(%x: f32[2], %n: int): my.op.a(a=[], b=floats[], c=[1.0], d=[1, %n], e=[%x, None], f=f32, g="f32", h=1) return ())");
  const Node& node = *graph.nodes().front();
  CHECK(node.find_argument("a")->find<std::vector<int64_t>>() != nullptr);
  CHECK(node.find_argument("b")->find<std::vector<double>>() != nullptr);
  CHECK(node.find_argument("c")->find<std::vector<double>>() != nullptr);
  CHECK(node.find_argument("d")->find<SymIntList>() != nullptr);
  CHECK(node.find_argument("e")->find<OptionalTensors>() != nullptr);
  CHECK(node.find_argument("f")->find<DType>() != nullptr);
  CHECK(node.find_argument("g")->find<std::string>() != nullptr);
  CHECK(node.find_argument("h")->find<int64_t>() != nullptr);
}

TEST_CASE("text: floats are exact", "[core][text]") {
  Graph graph = parse_graph(
      "graph(%x: f32[2]): my.op.a(a=0.1, b=0.003921568859368563, c=1e300, d=-0.0) return ()");
  const Graph again = parse_graph(to_text(graph));
  const Node& node = *again.nodes().front();
  CHECK(node.float_or("a", 0) == 0.1);
  CHECK(node.float_or("b", 0) == 0.003921568859368563);
  CHECK(node.float_or("c", 0) == 1e300);
  CHECK(std::signbit(node.float_or("d", 1)));
}

TEST_CASE("text: all kinds of inputs, outputs and results survive", "[core][text]") {
  check_round_trip(
      R"text(graph(%t: token, %w = param "a.w": f32[2] nograd, %b = buffer "a.b": f32[2,2]{1,2}, %l = local_buffer "a.l": i64[], %c = tensor "c0": f64[3],
        %o = object "obj": object "__torch__.Foo", %x: f32[{"Symbol('s0')": 2},3]{
  {"3*s0" : 6}, 1
}@4 on "cuda:0" grad, %k = const 3, %u = input "text", %z: bf16[0]):
    %a: f32[2], %n: int{"s0": 2} = my.op.two(%x) as other_name
    [%p, %q: f32[1]] = my.op.list(%a)
    optional[%r, None] = my.op.gaps(%a)
    %s, literal(None) = my.op.literal(%a)
    [] = my.op.empty(%a)
    aten._assert_scalar.default(%n, "must hold")
    return (%a, 2, mutate "a.b" = %b, mutate_param "a.w" = %w, mutate_input "x" = %x, loss %a, grad_param "a.w" = %a, grad_input "x" = %a, token %t))text");
}

TEST_CASE("text: subgraphs are nested", "[core][text]") {
  const std::string text = R"(graph(%p: b8[], %x: f32[2]):
    [%y: f32[2]] = higher_order.cond(%p, graph "true_graph" (%a: f32[2]): %r: f32[2] = aten.relu.default(%a) return (%r), graph "false_graph" (%b: f32[2]): return (%b), [%x]) as cond
    return (%y))";
  check_round_trip(text);
  Graph graph = parse_graph(text);
  const Subgraph* body = graph.find_node("cond")->arguments()[1].value.find<Subgraph>();
  REQUIRE(body != nullptr);
  CHECK(body->name == "true_graph");
  CHECK(body->graph->node_count() == 1);
}

TEST_CASE("text: a missing overload is the default one, or the only one that fits",
          "[core][text]") {
  Graph graph = parse_graph(
      "graph(%x: f32[2]): %a = aten.relu(%x) %b = aten.add(%a, %x) %c = aten.add(%b, 2) %d, %i = "
      "aten.max(%c, 0) return (%d)");
  CHECK(graph.find_node("max")->target() == "aten.max.dim");
  CHECK(graph.find_node("a")->target() == "aten.relu.default");
  CHECK(graph.find_node("b")->target() == "aten.add.Tensor");
  CHECK(graph.find_node("c")->target() == "aten.add.Scalar");
}

TEST_CASE("text: names beyond the schema are marked", "[core][text]") {
  Graph graph = parse_graph(
      "graph(%x: f32[1,1,4,4], %w: f32[1,1,1,1]): %y = aten.conv2d.default(%x, %w, padding=[1, 1]) "
      "return (%y)");
  CHECK(graph.find_node("y")->arguments()[2].kind == ArgumentKind::kKeyword);
  CHECK_THAT(graph, PrintsAs("graph(%x: f32[1,1,4,4], %w: f32[1,1,1,1]): %y = "
                             "aten.conv2d.default(%x, %w, padding=[1, 1]) return (%y)"));
}

TEST_CASE("text: faults name the line", "[core][text][error]") {
  const auto check = [](const char* text, const char* message) {
    INFO(text);
    CHECK_THROWS_WITH(parse_graph(text), Contains(message));
  };
  check("", "text: line 1: here: got the end, want 'graph'");
  check("graph(%x: f32[2]):\n  %y = aten.relu(%z)\n  return (%y)",
        "line 2: %z is not defined before its use");
  check("graph(%x: f32[2]):\n  %x = aten.relu(%x)\n  return (%x)", "line 2: %x is defined twice");
  check("graph(%x: f32[2], %x: f32[2]): return ()", "%x is defined twice");
  check("graph(%x: q32[2]): return ()", "unknown type 'q32'");
  check("graph(%x: f32[2): return ()", "got ')', want ',' or ']'");
  check("graph(%x: f32[2]):\n\n  %y = aten.relu.default(%x, 3)\n  return ()",
        "line 3: aten.relu.default takes 1 positional arguments");
  check("graph(%x: f32[2]): %y = aten.relu.default(%x, bogus=3) return ()",
        "has no argument \"bogus\"");
  check("graph(%x: f32[2]): %y = aten.add(%x, \"a\") return ()", "does not say which overload");
  check("graph(%x: f32[2]): %y = aten.relu.default(%x)",
        "graph: got the end, want a node or return");
  check("graph(%w = param \"w\"): return ()", "has no type");
  check("graph(%w = weird \"w\"): return ()", "unknown input kind 'weird'");
  check("graph(%x: f32[2]): return (\"abc)", "no closing quote");
  check("graph(%x: f32[2]): return (%x) more", "after the graph's return: got 'more'");
  check("graph(%x: f32[2]): return (99999999999999999999)", "is not a number");
  check("graph(%x: f32[2]): return (~)", "'~' is not part of the notation");
}

TEST_CASE("text: the graphs of the golden archives print, parse and verify", "[core][text][long]") {
  const char* folder = std::getenv("OCTET_GOLDEN_DIR");
  if (folder == nullptr) {
    WARN("skipped: OCTET_GOLDEN_DIR is not set");
    return;
  }
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".pt2") continue;
    INFO(entry.path().string());
    Graph graph;
    CHECK_NOTHROW(graph = read_pt2(entry.path()));
    ++files;
    CHECK_NOTHROW(verify(graph));
    const std::string printed = to_text(graph);
    Graph again;
    CHECK_NOTHROW(again = parse_graph(printed));
    CHECK(to_text(again) == printed);
    CHECK_NOTHROW(verify(again));
  }
  CHECK(files > 0);
}

}  // namespace octet::test_text
