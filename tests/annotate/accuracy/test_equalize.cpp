// Equalization: which channels may be scaled, weights before and after, and outputs that are equal
// to the bit.
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "annotate/accuracy/channel_space.h"
#include "annotate/flow_helpers.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_equalize {
namespace {

// conv -> %act -> conv, two channels between.
Graph two_convolutions(const std::string& activation) {
  return parse_graph(R"(
    graph(%w = param "a.weight": f32[2,3,1,1], %b = param "a.bias": f32[2], %v = param "b.weight": f32[4,2,1,1], %x: f32[1,3,4,4]):
      %y: f32[1,2,4,4] = aten.conv2d.default(%x, %w, %b)
      %z: f32[1,2,4,4] = )" +
                     activation + R"(
      %u: f32[1,4,4,4] = aten.conv2d.default(%z, %v)
      return (%u))");
}

// conv -> relu -> depthwise conv -> relu -> conv
constexpr const char* kDepthwise = R"(
  graph(%w = param "a.weight": f32[4,3,1,1], %b = param "a.bias": f32[4], %d = param "d.weight": f32[4,1,3,3], %v = param "b.weight": f32[2,4,1,1], %x: f32[1,3,6,6]):
    %y: f32[1,4,6,6] = aten.conv2d.default(%x, %w, %b)
    %r: f32[1,4,6,6] = aten.relu.default(%y)
    %p: f32[1,4,8,8] = aten.pad.default(%r, [1, 1, 1, 1])
    %e: f32[1,4,6,6] = aten.conv2d.default(%p, %d, None, [1, 1], [0, 0], [1, 1], 4)
    %s: f32[1,4,6,6] = aten.relu.default(%e)
    %u: f32[1,2,6,6] = aten.conv2d.default(%s, %v)
    return (%u))";

void set(Graph& graph, const std::string& fqn, const std::vector<float>& values) {
  Tensor& tensor = graph.constants.at(fqn).tensor;
  tensor = Tensor::from<float>(DType::kFloat32, tensor.shape(), values);
}

std::vector<float> get(const Graph& graph, const std::string& fqn) {
  const Tensor tensor = graph.constants.at(fqn).tensor.contiguous();
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

at::Tensor run(const Graph& graph) {
  return Interpreter(graph).run(test::random_inputs(graph)).at(0).toTensor();
}

TEST_CASE("reshapes move channels when they split or merge whole dimensions",
          "[annotate][equalize]") {
  CHECK(dims_after_reshape({1, 128, 384}, {1, 128, 12, 32}, {2}) == ChannelDims{2, 3});
  CHECK(dims_after_reshape({1, 128, 12, 32}, {1, 128, 384}, {2, 3}) == ChannelDims{2});
  CHECK(dims_after_reshape({1, 4, 1, 1}, {1, 4}, {1}) == ChannelDims{1});
  CHECK(dims_after_reshape({2, 6}, {3, 4}, {1}) == std::nullopt);
  CHECK(dims_after_reshape({1, 4, 2, 2}, {1, 16}, {1}) == std::nullopt);
  CHECK(dims_after_reshape({1, 12, 128, 32}, {1, 12, 4096}, {1, 3}) == std::nullopt);
}

TEST_CASE(
    "equalization gives both weights of a channel the same reach and the program the same bits",
    "[annotate][equalize]") {
  Graph graph = two_convolutions("aten.relu.default(%y)");
  set(graph, "a.weight", {8, 1, -2, 0.5, 0.25, -0.5});
  set(graph, "a.bias", {4, 1});
  set(graph, "b.weight", {0.5, 8, 0.25, -1, -0.5, 2, 0.125, 4});
  const at::Tensor before = run(graph);
  CHECK(equalize_layers(graph) == 1);
  CHECK(get(graph, "a.weight") == std::vector<float>{2, 0.25, -0.5, 2, 1, -2});
  CHECK(get(graph, "a.bias") == std::vector<float>{1, 4});
  CHECK(get(graph, "b.weight") == std::vector<float>{2, 2, 1, -0.25, -2, 0.5, 0.5, 1});
  CHECK(at::equal(run(graph), before));
  CHECK(equalize_layers(graph) == 0);
}

TEST_CASE("equalization leaves channels alone that a clamp, an output or another reader sees",
          "[annotate][equalize]") {
  for (const char* activation : {"aten.relu6.default(%y)", "aten.hardtanh.default(%y, 0.0, 6.0)",
                                 "aten.sigmoid.default(%y)", "aten.add.Tensor(%y, 1.0)"}) {
    Graph graph = two_convolutions(activation);
    test::fill_floats(graph);
    INFO(activation);
    CHECK(equalize_layers(graph) == 0);
  }
  Graph graph = two_convolutions("aten.relu.default(%y)");
  graph.add_output({.value = graph.find_value("z"), .kind = OutputKind::kUserOutput, .target = ""});
  CHECK(find_channel_spaces(graph).empty());
}

TEST_CASE("equalization goes through depthwise convolutions and padding", "[annotate][equalize]") {
  Graph graph = parse_graph(kDepthwise);
  test::fill_floats(graph);
  std::vector<float> rows = get(graph, "a.weight");
  for (size_t i = 0; i < 3; ++i) rows[i] *= 100;
  set(graph, "a.weight", rows);
  const at::Tensor before = run(graph);
  REQUIRE(find_channel_spaces(graph).size() == 2);
  CHECK(equalize_layers(graph) > 0);
  CHECK(at::equal(run(graph), before));
  CHECK(equalize_layers(graph) == 0);
}

TEST_CASE("channels of a residual sum are scaled together", "[annotate][equalize]") {
  Graph graph = parse_graph(R"(
    graph(%w = param "a.weight": f32[4,3,1,1], %v = param "b.weight": f32[4,4,1,1], %u = param "c.weight": f32[2,4,1,1], %x: f32[1,3,4,4]):
      %a: f32[1,4,4,4] = aten.conv2d.default(%x, %w)
      %r: f32[1,4,4,4] = aten.relu.default(%a)
      %b: f32[1,4,4,4] = aten.conv2d.default(%r, %v)
      %s: f32[1,4,4,4] = aten.add.Tensor(%b, %r)
      %c: f32[1,2,4,4] = aten.conv2d.default(%s, %u)
      return (%c))");
  test::fill_floats(graph);
  const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].makers.size() == 2);
  CHECK(spaces[0].takers.size() == 2);
  const at::Tensor before = run(graph);
  scale_channels(graph, spaces[0], at::tensor({2.0, 0.25, 1.0, 8.0}));
  CHECK(at::equal(run(graph), before));
}

TEST_CASE("the values of an attention are channels of its output layer, queries and keys are not",
          "[annotate][equalize]") {
  Graph graph = parse_graph(R"(
    graph(%q = param "q.weight": f32[6,4], %k = param "k.weight": f32[6,4], %v = param "v.weight": f32[6,4], %o = param "o.weight": f32[4,6], %x: f32[1,5,4]):
      %a: f32[1,5,6] = aten.linear.default(%x, %q)
      %a2: f32[1,5,2,3] = aten.view.default(%a, [1, 5, 2, 3])
      %a3: f32[1,2,5,3] = aten.transpose.int(%a2, 1, 2)
      %b: f32[1,5,6] = aten.linear.default(%x, %k)
      %b2: f32[1,5,2,3] = aten.view.default(%b, [1, 5, 2, 3])
      %b3: f32[1,2,5,3] = aten.transpose.int(%b2, 1, 2)
      %c: f32[1,5,6] = aten.linear.default(%x, %v)
      %c2: f32[1,5,2,3] = aten.view.default(%c, [1, 5, 2, 3])
      %c3: f32[1,2,5,3] = aten.transpose.int(%c2, 1, 2)
      %d: f32[1,2,5,3] = aten.scaled_dot_product_attention.default(%a3, %b3, %c3)
      %e: f32[1,5,2,3] = aten.transpose.int(%d, 1, 2)
      %f: f32[1,5,6] = aten.reshape.default(%e, [1, 5, 6])
      %g: f32[1,5,4] = aten.linear.default(%f, %o)
      return (%g))");
  test::fill_floats(graph);
  const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].makers.front().op->name() == "c");
  CHECK(spaces[0].channels == 6);
  const at::Tensor before = run(graph);
  scale_channels(graph, spaces[0], at::tensor({2.0, 4.0, 0.5, 1.0, 8.0, 0.25}));
  CHECK(at::equal(run(graph), before));
}

// Values whose two heads are each read by two heads of queries, through a cache. write: writes %v2
// into it; end: the other results.
Graph grouped_heads(const std::string& write, const std::string& end = "") {
  Graph graph = parse_graph(R"(
    graph(%vw = param "v": f32[6,4], %ow = param "o": f32[5,12], %b = buffer "cache": f32[1,2,8,3], %at = tensor "at": i64[7], %x: f32[1,{"s0": 7},4], %q: f32[1,4,{"s0": 7},3], %k: f32[1,4,8,3]):
      %v: f32[1,{"s0": 7},6] = aten.linear.default(%x, %vw)
      %v1: f32[1,{"s0": 7},2,3] = aten.view.default(%v, [1, 7, 2, 3])
      %v2: f32[1,2,{"s0": 7},3] = aten.transpose.int(%v1, 1, 2)
      %c: f32[1,2,8,3] = )" +
                            write + R"(
      %u: f32[1,2,1,8,3] = aten.unsqueeze.default(%c, 2)
      %e: f32[1,2,2,8,3] = aten.expand.default(%u, [1, 2, 2, 8, 3])
      %r: f32[1,4,8,3] = aten.reshape.default(%e, [1, 4, 8, 3])
      %a: f32[1,4,{"s0": 7},3] = aten.scaled_dot_product_attention.default(%q, %k, %r)
      %t: f32[1,{"s0": 7},4,3] = aten.transpose.int(%a, 1, 2)
      %m: f32[1,{"s0": 7},12] = aten.reshape.default(%t, [1, 7, 12])
      %y: f32[1,{"s0": 7},5] = aten.linear.default(%m, %ow)
      return ()" + (end.starts_with("mutate") ? end + ", %y)" : "%y" + end + ")"));
  test::fill_floats(graph);
  to_aten(graph.constants.at("cache").tensor).zero_();
  graph.constants.at("at").tensor =
      Tensor::from<int64_t>(DType::kInt64, {7}, std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  return graph;
}

TEST_CASE("values that grouped heads share are channels through a cache", "[annotate][equalize]") {
  const at::Tensor factors = at::tensor({2.0, 4.0, 0.5, 1.0, 8.0, 0.25});
  for (const auto& [write, end] :
       {std::pair("aten.index_copy_.default(%b, 2, %at, %v2)", ""),
        std::pair("aten.index_copy.default(%b, 2, %at, %v2)", "mutate \"cache\" = %c"),
        std::pair("aten.index_put_.default(%b, optionals[None, None, %at], %v2)", "")}) {
    CAPTURE(write);
    Graph graph = grouped_heads(write, end);
    const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
    REQUIRE(spaces.size() == 1);
    CHECK(spaces[0].makers.front().op->name() == "v");
    CHECK(spaces[0].takers.front().op->name() == "y");
    CHECK(spaces[0].channels == 6);
    CHECK(spaces[0].takers.front().repeats == ChannelRepeats{2, 3});
    const at::Tensor before = run(graph);
    const std::vector<float> weight = get(graph, "o");
    scale_channels(graph, spaces[0], factors);
    CHECK(at::equal(run(graph), before));
    // heads 0 and 1 of the queries read the first head of the values
    const std::vector<float> scaled = get(graph, "o");
    CHECK(scaled[1] == 4 * weight[1]);
    CHECK(scaled[4] == 4 * weight[4]);
    CHECK(scaled[7] == 8 * weight[7]);
  }
  // another op reads the cache, or it does not start as zeros
  for (const char* end : {", %c", ", %b"}) {
    Graph read = grouped_heads("aten.index_copy_.default(%b, 2, %at, %v2)", end);
    CHECK(find_channel_spaces(read).empty());
  }
  Graph begun = grouped_heads("aten.index_copy_.default(%b, 2, %at, %v2)");
  to_aten(begun.constants.at("cache").tensor).fill_(1);
  CHECK(find_channel_spaces(begun).empty());
}

TEST_CASE("sums of channels that are repeated in other orders stay unchanged",
          "[annotate][equalize]") {
  for (const auto& [dim, is_same] : {std::pair(3, true), std::pair(4, false)}) {
    CAPTURE(dim);
    Graph graph = parse_graph(fmt::format(
        R"(
    graph(%aw = param "a": f32[12,4], %bw = param "b": f32[12,4], %ow = param "o": f32[5,24], %x: f32[1,7,4]):
      %a: f32[1,7,12] = aten.linear.default(%x, %aw)
      %a1: f32[1,7,2,2,3] = aten.view.default(%a, [1, 7, 2, 2, 3])
      %a2: f32[1,7,2,1,2,3] = aten.unsqueeze.default(%a1, 3)
      %a3: f32[1,7,2,2,2,3] = aten.expand.default(%a2, [1, 7, 2, 2, 2, 3])
      %b: f32[1,7,12] = aten.linear.default(%x, %bw)
      %b1: f32[1,7,2,2,3] = aten.view.default(%b, [1, 7, 2, 2, 3])
      %b2: f32[1,7,2,{},3] = aten.unsqueeze.default(%b1, {})
      %b3: f32[1,7,2,2,2,3] = aten.expand.default(%b2, [1, 7, 2, 2, 2, 3])
      %s: f32[1,7,2,2,2,3] = aten.add.Tensor(%a3, %b3)
      %r: f32[1,7,24] = aten.reshape.default(%s, [1, 7, 24])
      %y: f32[1,7,5] = aten.linear.default(%r, %ow)
      return (%y))",
        dim == 3 ? "1,2" : "2,1", dim));
    test::fill_floats(graph);
    const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
    REQUIRE(spaces.size() == (is_same ? 1 : 0));
    if (!is_same) continue;
    CHECK(spaces[0].takers.front().repeats == ChannelRepeats{2, 6});
    const at::Tensor before = run(graph);
    scale_channels(graph, spaces[0],
                   at::tensor({2.0, 4.0, 0.5, 1.0, 8.0, 0.25, 2.0, 1.0, 4.0, 0.5, 0.25, 8.0}));
    CHECK(at::equal(run(graph), before));
  }
}

TEST_CASE("attention repeats the values of grouped heads by itself", "[annotate][equalize]") {
  Graph graph = parse_graph(R"(
    graph(%vw = param "v": f32[6,4], %ow = param "o": f32[5,12], %x: f32[1,8,4], %q: f32[1,4,8,3], %k: f32[1,2,8,3]):
      %v: f32[1,8,6] = aten.linear.default(%x, %vw)
      %v1: f32[1,8,2,3] = aten.view.default(%v, [1, 8, 2, 3])
      %v2: f32[1,2,8,3] = aten.transpose.int(%v1, 1, 2)
      %a: f32[1,4,8,3] = aten.scaled_dot_product_attention.default(%q, %k, %v2, enable_gqa=True)
      %t: f32[1,8,4,3] = aten.transpose.int(%a, 1, 2)
      %m: f32[1,8,12] = aten.reshape.default(%t, [1, 8, 12])
      %y: f32[1,8,5] = aten.linear.default(%m, %ow)
      return (%y))");
  test::fill_floats(graph);
  const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].takers.front().repeats == ChannelRepeats{2, 3});
  const at::Tensor before = run(graph);
  scale_channels(graph, spaces[0], at::tensor({2.0, 4.0, 0.5, 1.0, 8.0, 0.25}));
  CHECK(at::equal(run(graph), before));
}

TEST_CASE("a weight that two ops share is copied before one of them is scaled",
          "[annotate][equalize]") {
  Graph graph = parse_graph(R"(
    graph(%w = param "a.weight": f32[3,3], %v = param "b.weight": f32[2,3], %x: f32[4,3]):
      %a: f32[4,3] = aten.linear.default(%x, %w)
      %r: f32[4,3] = aten.relu.default(%a)
      %b: f32[4,2] = aten.linear.default(%r, %v)
      %c: f32[4,3] = aten.linear.default(%x, %w)
      return (%b, %c))");
  test::fill_floats(graph);
  const std::vector<float> shared = get(graph, "a.weight");
  const std::vector<c10::IValue> before = Interpreter(graph).run(test::random_inputs(graph));
  const std::vector<ChannelSpace> spaces = find_channel_spaces(graph);
  REQUIRE(spaces.size() == 1);
  scale_channels(graph, spaces[0], at::tensor({4.0, 0.5, 2.0}));
  CHECK(get(graph, "a.weight") == shared);
  const std::vector<c10::IValue> after = Interpreter(graph).run(test::random_inputs(graph));
  CHECK(at::equal(after[0].toTensor(), before[0].toTensor()));
  CHECK(at::equal(after[1].toTensor(), before[1].toTensor()));
}

}  // namespace
}  // namespace octet::test_equalize
