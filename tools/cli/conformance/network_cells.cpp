// Networks: branches that share tensors, residual blocks, attention, recurrent layers and control
// flow; then random networks, layers whose inputs are any earlier tensors.
#include <random>

#include <fmt/format.h>

#include "tools/cli/conformance/graph_text.h"
#include "tools/cli/conformance/quantizer_cells.h"

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

constexpr size_t kCount = 96;

class RandomNetwork {
 public:
  explicit RandomNetwork(uint32_t seed) : random_(seed) {}

  std::string text() {
    const int64_t size = 6 + 2 * below(2);
    tensors_ = {graph_.input({1, 2 + below(6), size, size})};
    const int64_t layers = 3 + below(9);
    for (int64_t i = 0; i < layers; ++i) add_layer();
    std::vector<GraphTensor> outputs = {tensors_.back()};
    if (below(3) == 0) outputs.push_back(any());
    if (below(3) == 0)
      outputs[0] = graph_.linear(graph_.flatten(graph_.global_pool(outputs[0])), 1 + below(10));
    return graph_.returning(outputs);
  }

 private:
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }
  const GraphTensor& any() { return tensors_[static_cast<size_t>(below(std::ssize(tensors_)))]; }
  GraphTensor recent() { return below(3) == 0 ? any() : tensors_.back(); }
  template <size_t N>
  const char* one_of(const char* const (&choices)[N]) {
    return choices[below(N)];
  }

  void add_layer() {
    const GraphTensor x = recent();
    switch (below(9)) {
      case 0:
      case 1:
      case 2: return add(convolution(x));
      case 3: return add(activation(x));
      case 4: return add(joined(x));
      case 5: return add(moved(x));
      case 6:
        if (x.shape[2] >= 4 && x.shape[2] % 2 == 0)
          return add(graph_.pool(x, one_of({"max_pool2d", "avg_pool2d"})));
        return;
      case 7: return add(graph_.op(x, "mul.Tensor(@, 0.5)"));
      default: return add(activation(convolution(x)));
    }
  }

  GraphTensor convolution(const GraphTensor& x) {
    const bool is_depthwise = below(4) == 0, is_pointwise = below(3) == 0;
    const int64_t kernel = is_pointwise ? 1 : 3, padding = is_pointwise ? 0 : 1;
    const GraphTensor y = graph_.conv(x, {.channels = is_depthwise ? x.shape[1] : 1 + below(12),
                                          .kernel = kernel,
                                          .padding = padding,
                                          .groups = is_depthwise ? x.shape[1] : 1,
                                          .has_bias = below(4) != 0});
    return below(3) == 0 ? graph_.batch_norm(y) : y;
  }

  GraphTensor activation(const GraphTensor& x) {
    return graph_.op(x, one_of({"relu(@)", "relu(@)", "relu6(@)", "hardtanh(@)", "sigmoid(@)",
                                "hardswish(@)", "leaky_relu(@, 0.1)", "tanh(@)"}));
  }

  GraphTensor joined(const GraphTensor& x) {
    std::vector<GraphTensor> fitting, same;
    for (const GraphTensor& tensor : tensors_) {
      if (tensor.shape == x.shape) same.push_back(tensor);
      if (tensor.shape[2] == x.shape[2] && tensor.shape[3] == x.shape[3]) fitting.push_back(tensor);
    }
    const GraphTensor& other = same[static_cast<size_t>(below(std::ssize(same)))];
    if (below(2) == 0)
      return graph_.op(x, fmt::format(fmt::runtime(one_of({"add.Tensor(@, {})", "mul.Tensor(@, {})",
                                                           "sub.Tensor(@, {})"})),
                                      other.name));
    std::vector<GraphTensor> parts = {x};
    for (int64_t i = 1 + below(2); i > 0; --i)
      parts.push_back(fitting[static_cast<size_t>(below(std::ssize(fitting)))]);
    return graph_.cat(parts, 1);
  }

  GraphTensor moved(const GraphTensor& x) {
    if (x.shape[1] >= 2 && below(2) == 0)
      return graph_.op(x, "slice.Tensor(@, 1, 0, 1)", {1, 1, x.shape[2], x.shape[3]});
    return graph_.op(x, "transpose.int(@, 2, 3)", {1, x.shape[1], x.shape[3], x.shape[2]});
  }

  void add(GraphTensor tensor) { tensors_.push_back(std::move(tensor)); }

  std::mt19937 random_;
  GraphText graph_;
  std::vector<GraphTensor> tensors_;
};

}  // namespace

std::vector<GraphCell> graph_cells() {
  std::vector<GraphCell> cells;
  add_layers(cells);
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
  for (size_t i = 0; i < kCount; ++i)
    cells.push_back({fmt::format("random/{}", i), "random", [i](uint32_t seed) {
                       return RandomNetwork(seed * 1009 + static_cast<uint32_t>(i)).text();
                     }});
  return cells;
}

}  // namespace octet::conformance
