// Networks: branches that share tensors, residual blocks, attention, recurrent layers and control
// flow.
#include <fmt/format.h>

#include "tools/cli/conformance/graph_cells.h"
#include "tools/cli/conformance/graph_text.h"

namespace octet::conformance {
namespace {

using Build = std::vector<GraphTensor> (*)(GraphText&);

GraphTensor sum(GraphText& g, const GraphTensor& a, const GraphTensor& b) {
  return g.op(a, fmt::format("add.Tensor(@, {})", b.name));
}

GraphTensor relu(GraphText& g, const GraphTensor& x) { return g.op(x, "relu(@)"); }

GraphTensor product(GraphText& g, const GraphTensor& a, const GraphTensor& b,
                    std::vector<int64_t> shape) {
  return g.op(a, fmt::format("matmul(@, {})", b.name), std::move(shape));
}

std::vector<GraphTensor> residual(GraphText& g) {
  const GraphTensor x = g.conv(g.input({1, 3, 8, 8}), {});
  const GraphTensor y = g.batch_norm(g.conv(relu(g, g.batch_norm(g.conv(x, {}))), {}));
  return {relu(g, sum(g, y, x))};
}

std::vector<GraphTensor> residual_chain(GraphText& g) {
  GraphTensor x = g.conv(g.input({1, 3, 8, 8}), {});
  for (int i = 0; i < 3; ++i) x = relu(g, sum(g, g.conv(relu(g, g.conv(x, {})), {}), x));
  return {g.linear(g.flatten(g.global_pool(x)), 10)};
}

std::vector<GraphTensor> bottleneck(GraphText& g) {
  const GraphTensor x = g.input({1, 16, 8, 8});
  const GraphTensor a = g.op(g.conv(x, {.channels = 24, .kernel = 1, .padding = 0}), "relu6(@)");
  const GraphTensor b = g.op(g.conv(a, {.channels = 24, .groups = 24}), "relu6(@)");
  return {sum(g, g.conv(b, {.channels = 16, .kernel = 1, .padding = 0}), x)};
}

std::vector<GraphTensor> squeeze_excite(GraphText& g) {
  const GraphTensor x = relu(g, g.conv(g.input({1, 8, 8, 8}), {}));
  GraphTensor s = relu(g, g.conv(g.global_pool(x), {.channels = 2, .kernel = 1, .padding = 0}));
  s = g.op(g.conv(s, {.channels = 8, .kernel = 1, .padding = 0}), "sigmoid(@)");
  return {g.op(x, fmt::format("mul.Tensor(@, {})", s.name))};
}

std::vector<GraphTensor> inception(GraphText& g) {
  const GraphTensor x = g.input({1, 8, 8, 8});
  const GraphTensor a = relu(g, g.conv(x, {.kernel = 1, .padding = 0}));
  const GraphTensor b = relu(g, g.conv(relu(g, g.conv(x, {.kernel = 1, .padding = 0})), {}));
  const GraphTensor p = g.op(x, "max_pool2d(@, [3, 3], [1, 1], [1, 1])");
  const GraphTensor y = g.cat({a, b, relu(g, g.conv(p, {.kernel = 1, .padding = 0}))}, 1);
  return {g.conv(y, {}), y};
}

std::vector<GraphTensor> dense_block(GraphText& g) {
  GraphTensor x = g.conv(g.input({1, 3, 8, 8}), {});
  for (int i = 0; i < 3; ++i) x = g.cat({x, g.conv(relu(g, x), {})}, 1);
  return {x};
}

std::vector<GraphTensor> shared_input(GraphText& g) {
  const GraphTensor x = g.input({1, 8, 8, 8});
  return {g.conv(x, {}), g.conv(x, {.kernel = 1, .padding = 0}), relu(g, x)};
}

std::vector<GraphTensor> shared_weight(GraphText& g) {
  const GraphTensor x = g.input({4, 8}), w = g.param({8, 8});
  const GraphTensor y = g.op(x, fmt::format("linear(@, {})", w.name));
  return {g.op(relu(g, y), fmt::format("linear(@, {})", w.name))};
}

std::vector<GraphTensor> several_outputs(GraphText& g) {
  const GraphTensor y = g.conv(g.input({1, 3, 8, 8}), {});
  const GraphTensor z = relu(g, y);
  return {y, z, sum(g, y, z), g.input({2, 2})};
}

std::vector<GraphTensor> mlp(GraphText& g) {
  GraphTensor x = g.input({8, 16});
  for (int64_t width : {32, 16, 12, 10}) x = relu(g, g.linear(x, width));
  return {g.op(g.linear(x, 4), "softmax.int(@, 1)")};
}

std::vector<GraphTensor> encoder_decoder(GraphText& g) {
  const GraphTensor a = relu(g, g.conv(g.input({1, 3, 8, 8}), {}));
  const GraphTensor b = relu(g, g.conv(g.pool(a, "max_pool2d"), {.channels = 16}));
  return {g.conv(g.cat({g.conv_transpose(b, 8), a}, 1), {.channels = 4})};
}

std::vector<GraphTensor> attention(GraphText& g) {
  const GraphTensor x = g.input({1, 6, 16});
  std::vector<GraphTensor> heads;
  for (int i = 0; i < 3; ++i) {
    const GraphTensor y = g.op(g.linear(x, 16), "view(@, [1, 6, 2, 8])", {1, 6, 2, 8});
    heads.push_back(g.op(y, "transpose.int(@, 1, 2)", {1, 2, 6, 8}));
  }
  const GraphTensor keys = g.op(heads[1], "transpose.int(@, 2, 3)", {1, 2, 8, 6});
  const GraphTensor scores = g.op(product(g, heads[0], keys, {1, 2, 6, 6}), "mul.Tensor(@, 0.35)");
  const GraphTensor mixed = product(g, g.op(scores, "softmax.int(@, -1)"), heads[2], {1, 2, 6, 8});
  const GraphTensor rows = g.op(mixed, "transpose.int(@, 1, 2)", {1, 6, 2, 8});
  return {g.linear(g.op(rows, "reshape(@, [1, 6, 16])", {1, 6, 16}), 16)};
}

std::vector<GraphTensor> transformer_block(GraphText& g) {
  const GraphTensor x = g.input({1, 6, 16});
  const auto norm = [&](const GraphTensor& t) {
    const std::string scale = g.param({16}).name, shift = g.param({16}, "bias").name;
    return g.op(t, fmt::format("layer_norm(@, [16], {}, {})", scale, shift));
  };
  const GraphTensor n = norm(x), q = g.linear(n, 16), k = g.linear(n, 16), v = g.linear(n, 16);
  const GraphTensor a =
      g.op(q, fmt::format("scaled_dot_product_attention(@, {}, {})", k.name, v.name));
  const GraphTensor y = sum(g, x, g.linear(a, 16));
  return {sum(g, y, g.linear(g.op(g.linear(norm(y), 32), "gelu(@)"), 16))};
}

std::vector<GraphTensor> views(GraphText& g) {
  const GraphTensor x = g.conv(g.input({1, 3, 6, 6}), {});
  const GraphTensor half = g.op(x, "slice.Tensor(@, 1, 0, 4)", {1, 4, 6, 6});
  const GraphTensor other = g.op(x, "slice.Tensor(@, 1, 4, 8)", {1, 4, 6, 6});
  const GraphTensor swapped = g.cat({other, half}, 1);
  return {g.conv(swapped, {}), g.op(half, "permute(@, [0, 2, 3, 1])", {1, 6, 6, 4})};
}

std::vector<GraphTensor> chunks(GraphText& g) {
  const GraphTensor x = g.conv(g.input({1, 3, 6, 6}), {});
  g.line(fmt::format("[%a, %b] = aten.chunk({}, 2, 1)", x.name));
  const GraphTensor a{"%a", {1, 4, 6, 6}}, b{"%b", {1, 4, 6, 6}};
  return {g.cat({a, relu(g, g.conv(b, {.channels = 4}))}, 1)};
}

std::vector<GraphTensor> embedding(GraphText& g) {
  const GraphTensor i = g.input({2, 5}, "i64"), w = g.param({12, 16}, "table");
  return {g.linear(g.op(w, fmt::format("embedding(@, {})", i.name), {2, 5, 16}), 8)};
}

std::vector<GraphTensor> integers(GraphText& g) {
  const GraphTensor x = g.linear(g.input({4, 8}), 6), i = g.input({4, 6}, "i64");
  const GraphTensor best = g.op(x, "argmax(@, 1)", {4});
  return {g.op(x, fmt::format("add.Tensor(@, {})", i.name)), best, g.op(i, "add.Tensor(@, 1)")};
}

struct Network {
  const char* name;
  Build build;
};

constexpr Network kNetworks[] = {{"residual", residual},
                                 {"residual_chain", residual_chain},
                                 {"bottleneck", bottleneck},
                                 {"squeeze_excite", squeeze_excite},
                                 {"inception", inception},
                                 {"dense_block", dense_block},
                                 {"shared_input", shared_input},
                                 {"shared_weight", shared_weight},
                                 {"several_outputs", several_outputs},
                                 {"mlp", mlp},
                                 {"encoder_decoder", encoder_decoder},
                                 {"attention", attention},
                                 {"transformer_block", transformer_block},
                                 {"views", views},
                                 {"chunks", chunks},
                                 {"embedding", embedding},
                                 {"integers", integers}};

struct Text {
  const char* name;
  const char* text;
};

constexpr Text kTexts[] = {
    {"lstm", R"(graph(%wi = param "r.weight_ih": f32[32,6], %wh = param "r.weight_hh": f32[32,8],
    %bi = param "r.bias_ih": f32[32], %bh = param "r.bias_hh": f32[32], %x: f32[1,5,6], %h: f32[1,1,8],
    %c: f32[1,1,8]):
  %y: f32[1,5,8], %hn: f32[1,1,8], %cn: f32[1,1,8] = aten.lstm.input(%x, [%h, %c], [%wi, %wh, %bi, %bh],
    True, 1, 0.0, False, False, True) as lstm
  return (%y, %hn))"},
    {"gru", R"(graph(%wi = param "r.weight_ih": f32[24,6], %wh = param "r.weight_hh": f32[24,8],
    %bi = param "r.bias_ih": f32[24], %bh = param "r.bias_hh": f32[24], %x: f32[1,5,6], %h: f32[1,1,8]):
  %y: f32[1,5,8], %hn: f32[1,1,8] = aten.gru.input(%x, %h, [%wi, %wh, %bi, %bh],
    True, 1, 0.0, False, False, True) as gru
  return (%y))"},
    {"cond", R"(graph(%w = param "l.weight": f32[8,8], %p: b8[], %x: f32[2,8]):
  %y: f32[2,8] = higher_order.cond(%p,
    graph "yes" (%ax: f32[2,8], %aw: f32[8,8]):
      %a: f32[2,8] = aten.linear.default(%ax, %aw)
      return (%a),
    graph "no" (%bx: f32[2,8], %bw: f32[8,8]):
      %b: f32[2,8] = aten.linear.default(%bx, %bw)
      %r: f32[2,8] = aten.relu.default(%b)
      return (%r), [%x, %w]) as cond
  return (%y))"},
    {"scan", R"(graph(%w = param "l.weight": f32[8,8], %b = param "l.bias": f32[8], %c: f32[1,8],
    %x: f32[4,1,8]):
  %last: f32[1,8], %all: f32[4,1,8] = higher_order.scan(
    graph "body" (%carry: f32[1,8], %row: f32[1,8], %bw: f32[8,8], %bb: f32[8]):
      %y: f32[1,8] = aten.linear.default(%row, %bw, %bb)
      %n: f32[1,8] = aten.add.Tensor(%y, %carry)
      return (%n, %y), [%c], [%x], [%w, %b]) as scan
  return (%last, %all))"},
};

}  // namespace

void add_networks(std::vector<GraphCell>& cells) {
  for (const Network& network : kNetworks)
    cells.push_back(
        {fmt::format("network/{}", network.name), "network", [build = network.build](uint32_t) {
           GraphText graph;
           const std::vector<GraphTensor> outputs = build(graph);
           return graph.returning(outputs);
         }});
  for (const Text& text : kTexts)
    cells.push_back({fmt::format("network/{}", text.name), "network",
                     [text](uint32_t) { return std::string(text.text); }});
}

}  // namespace octet::conformance
