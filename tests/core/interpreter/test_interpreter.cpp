// Runs graphs written as text in the interpreter.
#include <memory>

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/max.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"

// Last, because the torch headers also define CHECK.
#include <catch2/catch.hpp>

#include "support/tensor_matchers.h"

namespace octet::test_interpreter {
namespace {

using c10::IValue;
using test::BitEqual;
using Values = std::vector<IValue>;

Values run(const std::string& text, const Values& inputs) {
  const Graph graph = parse_graph(text);
  return Interpreter(graph).run(inputs);
}

at::Tensor run_one(const std::string& text, const Values& inputs) {
  return run(text, inputs).at(0).toTensor();
}

// ---- arguments

TEST_CASE("a node runs the op with the schema's defaults", "[core][interpreter]") {
  const at::Tensor x = at::randn({1, 3, 8, 8});
  const at::Tensor w = at::randn({4, 3, 3, 3});
  const at::Tensor y = run_one(
      "graph(%x: f32[1,3,8,8], %w: f32[4,3,3,3]): %y = aten.conv2d.default(%x, %w, None, [2, 2]) "
      "return (%y)",
      {x, w});
  CHECK_THAT(y, BitEqual(at::conv2d(x, w, {}, {2, 2})));
}

TEST_CASE("a number given for a tensor takes no part in type promotion", "[core][interpreter]") {
  const at::Tensor bytes = at::ones({3}, at::kByte);
  const at::Tensor sum =
      run_one("graph(%x: u8[3]): %y = aten.add.Tensor(%x, 1) return (%y)", {bytes});
  CHECK_THAT(sum, BitEqual(at::full({3}, 2, at::kByte)));
  const at::Tensor real =
      run_one("graph(%x: f32[3]): %y = aten.mul.Tensor(%x, 0.5) return (%y)", {at::ones({3})});
  CHECK(real.scalar_type() == at::kFloat);
}

TEST_CASE("numbers become what the schema wants: floats, scalars, lists of one size",
          "[core][interpreter]") {
  const at::Tensor x = at::randn({1, 2, 4, 4});
  CHECK_THAT(
      run_one("graph(%x: f32[1,2,4,4]): %y = aten.max_pool2d.default(%x, 2) return (%y)", {x}),
      BitEqual(at::max_pool2d(x, {2, 2})));
  CHECK_THAT(
      run_one("graph(%x: f32[1,2,4,4]): %y = aten.hardtanh.default(%x, 0, 6) return (%y)", {x}),
      BitEqual(at::hardtanh(x, 0, 6)));
  CHECK_THAT(run_one("graph(%x: f32[1,2,4,4]): %y = aten.to.dtype(%x, i32) return (%y)", {x}),
             BitEqual(x.to(at::kInt)));
  CHECK_THAT(run_one("graph(%x: f32[1,2,4,4]): %y = aten.clone.default(%x, "
                     "memory_format=memory_format.channels_last) return (%y)",
                     {x}),
             BitEqual(x));
  CHECK_THAT(run_one("graph(): %y = aten.full.default([2, 3], 1.5, dtype=f64, "
                     "device=device(\"cpu\"), pin_memory=False) return (%y)",
                     {}),
             BitEqual(at::full({2, 3}, 1.5, at::kDouble)));
}

TEST_CASE("lists of tensors, with gaps, reach the op", "[core][interpreter]") {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor index = at::arange(2, at::kLong);
  CHECK_THAT(run_one("graph(%x: f32[3,4], %i: i64[2]): %y = aten.index.Tensor(%x, optionals[None, "
                     "%i]) return (%y)",
                     {x, index}),
             BitEqual(x.slice(1, 0, 2)));
  CHECK_THAT(run_one("graph(%x: f32[3,4]): %y = aten.cat.default([%x, %x], 1) return (%y)", {x}),
             BitEqual(at::cat({x, x}, 1)));
}

// ---- results

TEST_CASE("ops with several results and with lists define each of their values",
          "[core][interpreter]") {
  const at::Tensor x = at::randn({4, 6});
  const Values both = run("graph(%x: f32[4,6]): %v, %i = aten.max.dim(%x, 1) return (%v, %i)", {x});
  CHECK_THAT(both.at(0).toTensor(), BitEqual(std::get<0>(at::max(x, 1))));
  CHECK(both.at(1).toTensor().scalar_type() == at::kLong);
  const Values parts = run(
      "graph(%x: f32[4,6]): [%a, %b] = aten.split.Tensor(%x, 3, 1) return (%b, None, 3, %a)", {x});
  REQUIRE(parts.size() == 4);
  CHECK_THAT(parts[0].toTensor(), BitEqual(x.slice(1, 3, 6)));
  CHECK(parts[1].isNone());
  CHECK(parts[2].toInt() == 3);
}

TEST_CASE("symbols are plain numbers at run time", "[core][interpreter]") {
  const at::Tensor x = at::randn({6, 2});
  const at::Tensor y = run_one(
      "graph(%x: f32[6,2]):"
      "  %n: int = aten.sym_size.int(%x, 0)"
      "  %h: int = _operator.floordiv(a=%n, b=4)"
      "  %m: int = _operator.mul(a=%h, b=2)"
      "  %y = aten.view.default(%x, [%n, %m])"
      "  return (%y)",
      {x});
  CHECK_THAT(y, BitEqual(x));
}

TEST_CASE("functions on numbers follow Python", "[core][interpreter]") {
  const auto value = [](const std::string& call) {
    return run("graph(): %r: int = " + call + " return (%r)", {}).at(0);
  };
  CHECK(value("_operator.floordiv(a=-7, b=2)").toInt() == -4);
  CHECK(value("_operator.mod(a=-7, b=3)").toInt() == 2);
  CHECK(value("_operator.truediv(a=7, b=2)").toDouble() == 3.5);
  CHECK(value("_operator.pow(a=3, b=4)").toInt() == 81);
  CHECK(value("_operator.pow(a=2, b=-1)").toDouble() == 0.5);
  CHECK(value("_operator.lt(a=1, b=1.5)").toBool());
  CHECK(value("_operator.and_(a=True, b=False)").isBool());
  CHECK(value("_operator.neg(a=3)").toInt() == -3);
  CHECK(value("_operator.lshift(a=3, b=4)").toInt() == 48);
  CHECK(value("math.trunc(x=-2.7)").toInt() == -2);
  CHECK(value("torch.sym_max(a=2, b=3)").toInt() == 3);
  CHECK(value("torch.sym_min(a=2, b=3.5)").toDouble() == 2);
  CHECK_FALSE(value("torch.sym_not(a=True)").toBool());
  CHECK(value("torch.sym_float(a=2)").isDouble());
  CHECK(value("torch.sym_ite(b=False, t=1, f=2)").toInt() == 2);
  CHECK(value("torch._sym_sqrt(a=9)").toDouble() == 3);
  CHECK_THROWS_WITH(value("_operator.floordiv(a=1, b=0)"),
                    Catch::Contains("run: %r (_operator.floordiv): division by zero"));
  CHECK_THROWS_WITH(value("_operator.mul(a=4611686018427387904, b=4)"),
                    Catch::Contains("does not fit an int of 64 bits"));
}

TEST_CASE("assertion nodes run", "[core][interpreter]") {
  const std::string text =
      "graph(%x: f32[2]): aten._assert_tensor_metadata.default(%x, None, None, f32) %y = "
      "aten.relu.default(%x) return (%y)";
  CHECK_THAT(run_one(text, {at::ones({2})}), BitEqual(at::ones({2})));
}

// ---- writes

TEST_CASE(
    "what a graph writes into a buffer stays for the next run and leaves the graph's constants "
    "alone",
    "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%n = buffer \"count\": i64[], %x: f32[2]): %m = aten.add_.Tensor(%n, 1) %y = "
      "aten.add.Tensor(%x, %m) return (%y)");
  Interpreter interpreter(graph);
  CHECK_THAT(interpreter.run({at::zeros({2})}).at(0).toTensor(), BitEqual(at::full({2}, 1.0F)));
  CHECK_THAT(interpreter.run({at::zeros({2})}).at(0).toTensor(), BitEqual(at::full({2}, 2.0F)));
  CHECK(interpreter.constant("count").item().toLong() == 2);
  CHECK(graph.constants.at("count").tensor.data<int64_t>()[0] == 0);
  interpreter.reset();
  CHECK(interpreter.constant("count").item().toLong() == 0);
  CHECK_THAT(interpreter.run({at::zeros({2})}).at(0).toTensor(), BitEqual(at::full({2}, 1.0F)));
  CHECK_THROWS_WITH(interpreter.constant("cuont"),
                    Catch::Contains("no such parameter, buffer or constant"));
}

TEST_CASE("a write through a view of a constant does not reach the graph either",
          "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%w = param \"w\": f32[2,3], %x: f32[6]): %v = aten.view.default(%w, [6]) %a = "
      "aten.add_.Tensor(%v, %x) %y = aten.clone.default(%w) "
      "return (%y)");
  Interpreter interpreter(graph);
  CHECK_THAT(interpreter.run({at::ones({6})}).at(0).toTensor(), BitEqual(at::ones({2, 3})));
  CHECK(graph.constants.at("w").tensor.data<float>()[5] == 0);
}

TEST_CASE("a buffer mutation among the outputs updates the buffer", "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%n = buffer \"sum\": f32[2], %x: f32[2]): %m = aten.add.Tensor(%n, %x) return (mutate "
      "\"sum\" = %m, %m)");
  Interpreter interpreter(graph);
  interpreter.run({at::ones({2})});
  const Values results = interpreter.run({at::ones({2})});
  REQUIRE(results.size() == 1);
  CHECK_THAT(results[0].toTensor(), BitEqual(at::full({2}, 2.0F)));
  CHECK(graph.constants.at("sum").tensor.data<float>()[0] == 0);
}

TEST_CASE("batch_norm in training updates its running statistics", "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%m = buffer \"mean\": f32[2], %v = buffer \"var\": f32[2], %x: f32[4,2]):"
      "  %y = aten.batch_norm.default(%x, None, None, %m, %v, True, 1.0, 1e-5, False) return (%y)");
  Interpreter interpreter(graph);
  const at::Tensor x = at::randn({4, 2});
  interpreter.run({x});
  CHECK_THAT(interpreter.constant("mean"), test::AllClose(x.mean(0), 1e-6));
  CHECK(graph.constants.at("mean").tensor.data<float>()[0] == 0);
}

TEST_CASE("a write into a user input reaches the caller's tensor", "[core][interpreter]") {
  const at::Tensor x = at::zeros({3});
  run("graph(%x: f32[3]): %y = aten.add_.Tensor(%x, 1) return (%y)", {x});
  CHECK_THAT(x, BitEqual(at::ones({3})));
  run("graph(%x: f32[3]): %y = aten.add.Tensor(%x, 1) return (mutate_input \"x\" = %y)", {x});
  CHECK_THAT(x, BitEqual(at::full({3}, 2.0F)));
}

// ---- lifetime, hooks, handlers

TEST_CASE("a value is freed after its last use", "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[64]): %a = aten.add.Tensor(%x, 1) %b = aten.mul.Tensor(%a, 2) %c = "
      "aten.relu.default(%b) %d = aten.neg.default(%c) return (%d)");
  std::map<std::string, c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  std::map<std::string, std::vector<std::string>> alive;
  InterpreterOptions options;
  options.after_node = [&](const Node& node, const Values& results) {
    for (const auto& [name, storage] : storages)
      if (!storage.expired()) alive[node.name()].push_back(name);
    storages.emplace(node.name(), results.at(0).toTensor().storage().getWeakStorageImpl());
  };
  Interpreter(graph, options).run({at::ones({64})});
  CHECK(alive["b"] == std::vector<std::string>{"a"});
  CHECK(alive["c"] == std::vector<std::string>{"b"});
  CHECK(alive["d"] == std::vector<std::string>{"c"});
}

TEST_CASE("the hook sees each node with its results in order", "[core][interpreter]") {
  const Graph graph = parse_graph(
      "graph(%x: f32[2,4]): [%a, %b] = aten.split.Tensor(%x, 2, 1) %c = aten.add.Tensor(%a, %b) "
      "return (%c)");
  std::vector<std::pair<std::string, size_t>> seen;
  InterpreterOptions options;
  options.after_node = [&](const Node& node, const Values& results) {
    seen.emplace_back(node.target(), results.size());
  };
  Interpreter(graph, options).run({at::ones({2, 4})});
  const std::vector<std::pair<std::string, size_t>> expected = {{"aten.split.Tensor", 2},
                                                                {"aten.add.Tensor", 1}};
  CHECK(seen == expected);
}

TEST_CASE("a handler runs the nodes of its target", "[core][interpreter]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y = aten.relu.default(%x) return (%y)");
  Node* relu = graph.find_node("y");
  Node* observe = graph.insert("octet.observe.default",
                               {{"input", graph.find_value("x")}, {"group", int64_t{3}}}, "seen",
                               std::nullopt, relu);
  relu->replace_input(graph.find_value("x"), observe->output());
  InterpreterOptions options;
  int64_t group = -1;
  options.handlers["octet.observe.default"] = [&](const Node&, const Values& arguments) -> Values {
    group = arguments.at(1).toInt();
    return {arguments.at(0)};
  };
  CHECK_THAT(Interpreter(graph, options).run({at::ones({2})}).at(0).toTensor(),
             BitEqual(at::ones({2})));
  CHECK(group == 3);
}

TEST_CASE("no gradients are kept", "[core][interpreter]") {
  const at::Tensor x = at::ones({2}).requires_grad_(true);
  CHECK_FALSE(
      run_one("graph(%x: f32[2]): %y = aten.mul.Tensor(%x, 2) return (%y)", {x}).requires_grad());
}

// ---- control flow

TEST_CASE("cond runs the branch of its predicate", "[core][interpreter]") {
  const std::string text =
      "graph(%p: b8[], %x: f32[2]):"
      "  [%y] = higher_order.cond(%p, graph \"yes\" (%a: f32[2]): %r = aten.add.Tensor(%a, 1) "
      "return (%r),"
      "                           graph \"no\" (%b: f32[2]): %s = aten.neg.default(%b) return "
      "(%s), [%x])"
      "  return (%y)";
  const at::Tensor x = at::ones({2});
  CHECK_THAT(run_one(text, {at::ones({}, at::kBool), x}), BitEqual(at::full({2}, 2.0F)));
  CHECK_THAT(run_one(text, {at::zeros({}, at::kBool), x}), BitEqual(at::full({2}, -1.0F)));
}

TEST_CASE("while_loop runs until its condition fails", "[core][interpreter]") {
  const std::string text =
      "graph(%i: i64[], %x: f32[2]):"
      "  [%n, %y] = higher_order.while_loop("
      "     graph \"condition\" (%a: i64[], %b: f32[2]): %r = aten.lt.Scalar(%a, 5) return (%r),"
      "     graph \"body\" (%c: i64[], %d: f32[2]): %s = aten.add.Tensor(%c, 1) %t = "
      "aten.mul.Tensor(%d, 2) return (%s, %t), [%i, %x], values[])"
      "  return (%n, %y)";
  const Values results = run(text, {at::full({}, 2, at::kLong), at::ones({2})});
  CHECK(results.at(0).toTensor().item().toLong() == 5);
  CHECK_THAT(results.at(1).toTensor(), BitEqual(at::full({2}, 8.0F)));
}

TEST_CASE("scan carries a state along the rows and stacks what the body gives",
          "[core][interpreter]") {
  const std::string text =
      "graph(%s: f32[2], %x: f32[3,2]):"
      "  [%last, %all] = higher_order.scan("
      "     graph \"combine\" (%a: f32[2], %b: f32[2]): %r = aten.add.Tensor(%a, %b) %t = "
      "aten.clone.default(%r) return (%r, %t), [%s], [%x], "
      "values[])"
      "  return (%last, %all)";
  const at::Tensor x = at::randn({3, 2});
  const Values results = run(text, {at::zeros({2}), x});
  CHECK_THAT(results.at(1).toTensor(), test::AllClose(x.cumsum(0), 1e-6));
  CHECK_THAT(results.at(0).toTensor(), BitEqual(results.at(1).toTensor()[2]));
}

// ---- bad input

TEST_CASE("inputs are checked against what the graph was exported for", "[core][interpreter]") {
  const std::string text =
      "graph(%x: f32[1,3,8,8], %n = const 2): %y = aten.relu.default(%x) return (%y)";
  const at::Tensor x = at::randn({1, 3, 8, 8});
  CHECK_THAT(run_one(text, {x, 2}), BitEqual(x.relu()));
  CHECK_THROWS_WITH(
      run(text, {at::randn({1, 3, 5, 5}), 2}),
      Catch::StartsWith("run: input 0 (%x): got f32[1, 3, 5, 5], want f32[1, 3, 8, 8]; "));
  CHECK_THROWS_WITH(
      run(text, {at::randn({3, 8, 8}), 2}),
      Catch::Contains("got f32[3, 8, 8], want f32[1, 3, 8, 8]; give it an input of that rank"));
  CHECK_THROWS_WITH(run(text, {x.to(at::kDouble), 2}),
                    Catch::Contains("got f64[1, 3, 8, 8], want f32[1, 3, 8, 8]; convert"));
  CHECK_THROWS_WITH(
      run(text, {x, 3}),
      Catch::Contains("got int 3, want int 2; the program was exported for this value only"));
  CHECK_THROWS_WITH(run(text, {IValue(), 2}),
                    Catch::Contains("input 0 (%x): got None, want f32[1, 3, 8, 8]"));
  CHECK_THROWS_WITH(run(text, {x}),
                    Catch::Contains("run: inputs: got 1 inputs, want 2 (%x: f32[1, 3, 8, 8], "));
  CHECK_THROWS_WITH(run(text, {x, 2, x}), Catch::Contains("got 3 inputs, want 2"));
}

TEST_CASE("symbolic sizes are held to their range and to each other", "[core][interpreter]") {
  const std::string symbol = "{\"Symbol('s0', positive=True, integer=True)\": 4}";
  Graph graph = parse_graph("graph(%x: f32[" + symbol + ",2], %y: f32[" + symbol +
                            ",2]): %z = aten.add.Tensor(%x, %y) return (%z)");
  graph.range_constraints["s0"] = {2, 8};
  Interpreter interpreter(graph);
  CHECK(interpreter.run({at::ones({5, 2}), at::ones({5, 2})}).at(0).toTensor().size(0) == 5);
  CHECK_THROWS_WITH(
      interpreter.run({at::ones({9, 2}), at::ones({9, 2})}),
      Catch::Contains("got f32[9, 2], want f32[2..8, 2]; dimension 0 is 9, want at most 8"));
  CHECK_THROWS_WITH(interpreter.run({at::ones({1, 2}), at::ones({1, 2})}),
                    Catch::Contains("want at least 2"));
  CHECK_THROWS_WITH(
      interpreter.run({at::ones({4, 2}), at::ones({5, 2})}),
      Catch::Contains("dimension 0 is 5, but dimension 0 of input 0 (%x) is 4; give sizes"));
}

TEST_CASE("an input with a stride of 0 runs", "[core][interpreter]") {
  const at::Tensor x = at::randn({4}).as_strided({1, 4}, {0, 1});
  CHECK_THAT(run_one("graph(%x: f32[1,4]): %y = aten.relu.default(%x) return (%y)", {x}),
             BitEqual(x.relu()));
}

TEST_CASE("what an op refuses becomes one line that names the node", "[core][interpreter]") {
  try {
    run("graph(%x: f32[2], %z: f32[3]): %y = aten.add.Tensor(%x, %z) return (%y)",
        {at::ones({2}), at::ones({3})});
    FAIL("no error");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK_THAT(text,
               Catch::StartsWith("run: %y (aten.add.Tensor): The size of tensor a (2) must match"));
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("an unknown op is named before anything runs", "[core][interpreter]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y = aten.relu.default(%x) return (%y)");
  graph.find_node("y")->set_target("my_library.my_op.default");
  CHECK_THROWS_WITH(Interpreter(graph),
                    Catch::Equals("run: %y (my_library.my_op.default): the op is not "
                                  "registered; load the library that registers it with --library"));
  graph.find_node("y")->set_target("higher_order.associative_scan");
  CHECK_THROWS_WITH(Interpreter(graph), Catch::Contains("the higher-order op is not supported"));
}

TEST_CASE("an argument that does not fit the op is named", "[core][interpreter]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y = aten.softmax.int(%x, 0) return (%y)");
  graph.find_node("y")->set_argument("dim", "zero");
  CHECK_THROWS_WITH(
      Interpreter(graph),
      Catch::Contains("argument \"dim\" does not fit the op, got \"zero\", want int"));
  graph.find_node("y")->erase_argument("dim");
  CHECK_THROWS_WITH(Interpreter(graph),
                    Catch::Contains("argument \"dim\" is missing and has no default"));
  graph.find_node("y")->set_argument("dim", 0);
  graph.find_node("y")->set_argument("color", 0);
  CHECK_THROWS_WITH(Interpreter(graph), Catch::Contains("the op has no argument \"color\""));
}

}  // namespace
}  // namespace octet::test_interpreter
