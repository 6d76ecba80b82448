// Single layers and pairs that backends fuse, in several shapes.
#include <fmt/format.h>

#include "tools/cli/conformance/graph_text.h"
#include "tools/cli/conformance/quantizer_cells.h"

namespace octet::conformance {
namespace {

using Conv = GraphText::Conv;

void add(std::vector<GraphCell>& cells, const std::string& kind, const std::string& name,
         const std::function<std::vector<GraphTensor>(GraphText&)>& build) {
  cells.push_back({kind + "/" + name, kind, [build](uint32_t) {
                     GraphText graph;
                     const std::vector<GraphTensor> outputs = build(graph);
                     return graph.returning(outputs);
                   }});
}

struct Named {
  const char* name;
  const char* call;  // without "aten.", @ is the input
};

constexpr Named kActivations[] = {{"relu", "relu(@)"},
                                  {"relu6", "relu6(@)"},
                                  {"hardtanh", "hardtanh(@)"},
                                  {"clamp", "clamp(@, -0.5, 2.0)"},
                                  {"hardswish", "hardswish(@)"},
                                  {"sigmoid", "sigmoid(@)"},
                                  {"tanh", "tanh(@)"},
                                  {"gelu", "gelu(@)"},
                                  {"silu", "silu(@)"},
                                  {"leaky_relu", "leaky_relu(@, 0.1)"},
                                  {"elu", "elu(@)"},
                                  {"hardsigmoid", "hardsigmoid(@)"},
                                  {"relu_", "relu_(@)"},
                                  {"square", "mul.Tensor(@, @)"},
                                  {"neg", "neg(@)"},
                                  {"scaled", "mul.Tensor(@, 0.5)"},
                                  {"softmax", "softmax.int(@, 1)"}};

void add_convs(std::vector<GraphCell>& cells) {
  struct Row {
    const char* name;
    std::vector<int64_t> x;
    Conv conv;
  };
  const Row rows[] = {{"plain", {2, 8, 9, 9}, {.channels = 16}},
                      {"pointwise", {1, 16, 7, 7}, {.channels = 8, .kernel = 1, .padding = 0}},
                      {"stride", {1, 4, 11, 11}, {.channels = 8, .stride = 2}},
                      {"dilation", {1, 4, 11, 11}, {.channels = 8, .padding = 2, .dilation = 2}},
                      {"groups", {1, 8, 7, 7}, {.channels = 16, .groups = 4}},
                      {"depthwise", {1, 8, 7, 7}, {.channels = 8, .groups = 8}},
                      {"odd", {1, 3, 5, 7}, {.channels = 5}},
                      {"one_element", {1, 1, 1, 1}, {.channels = 1, .kernel = 1, .padding = 0}},
                      {"one_channel", {1, 6, 5, 5}, {.channels = 1}},
                      {"no_bias", {1, 8, 7, 7}, {.channels = 8, .has_bias = false}},
                      {"1d", {2, 6, 20}, {.channels = 8}},
                      {"3d", {1, 4, 5, 6, 6}, {.channels = 6}}};
  for (const Row& row : rows) {
    add(cells, "conv", row.name,
        [row](GraphText& g) { return std::vector{g.conv(g.input(row.x), row.conv)}; });
    add(cells, "conv", std::string(row.name) + "_relu", [row](GraphText& g) {
      return std::vector{g.op(g.conv(g.input(row.x), row.conv), "relu(@)")};
    });
    add(cells, "conv_bn", row.name, [row](GraphText& g) {
      return std::vector{g.batch_norm(g.conv(g.input(row.x), row.conv))};
    });
    add(cells, "conv_bn", std::string(row.name) + "_relu6", [row](GraphText& g) {
      return std::vector{g.op(g.batch_norm(g.conv(g.input(row.x), row.conv)), "relu6(@)")};
    });
  }
  for (int64_t stride : {1, 2})
    for (std::vector<int64_t> x : {std::vector<int64_t>{1, 6, 5, 5}, {1, 4, 9}})
      for (bool has_relu : {false, true})
        add(cells, "conv_transpose",
            fmt::format("{}d_stride{}{}", x.size() - 2, stride, has_relu ? "_relu" : ""),
            [=](GraphText& g) {
              const GraphTensor y = g.conv_transpose(g.input(x), 8, stride);
              return std::vector{has_relu ? g.op(y, "relu(@)") : y};
            });
}

void add_products(std::vector<GraphCell>& cells) {
  const std::vector<int64_t> shapes[] = {{4, 16}, {1, 7}, {2, 5, 12}, {1, 3, 4, 10}, {9, 1}};
  for (const std::vector<int64_t>& x : shapes)
    for (int64_t features : {1, 8, 13}) {
      const std::string name = fmt::format("{}d_{}to{}", x.size(), x.back(), features);
      add(cells, "linear", name,
          [=](GraphText& g) { return std::vector{g.linear(g.input(x), features)}; });
      add(cells, "linear", name + "_relu", [=](GraphText& g) {
        return std::vector{g.op(g.linear(g.input(x), features), "relu(@)")};
      });
      add(cells, "linear", name + "_no_bias",
          [=](GraphText& g) { return std::vector{g.linear(g.input(x), features, false)}; });
    }
  add(cells, "linear", "addmm", [](GraphText& g) {
    const GraphTensor x = g.input({4, 12}), b = g.param({6}, "bias"), w = g.param({12, 6});
    return std::vector{g.op(b, fmt::format("addmm(@, {}, {})", x.name, w.name), {4, 6})};
  });
  add(cells, "linear", "mm", [](GraphText& g) {
    const GraphTensor x = g.input({4, 12}), w = g.param({12, 6});
    return std::vector{g.op(x, fmt::format("mm(@, {})", w.name), {4, 6})};
  });
  add(cells, "matmul", "activations", [](GraphText& g) {
    const GraphTensor x = g.input({2, 4, 12}), y = g.input({2, 12, 6});
    return std::vector{g.op(x, fmt::format("matmul(@, {})", y.name), {2, 4, 6})};
  });
  add(cells, "matmul", "bmm", [](GraphText& g) {
    const GraphTensor x = g.input({2, 4, 12}), y = g.input({2, 12, 6});
    return std::vector{g.op(x, fmt::format("bmm(@, {})", y.name), {2, 4, 6})};
  });
}

// Each activation alone and after each kind of layer.
void add_activations(std::vector<GraphCell>& cells) {
  for (const Named& activation : kActivations) {
    const std::string call = activation.call;
    if (call.find("_(@)") == std::string::npos)  // which would write to an input of the program
      add(cells, "activation", activation.name,
          [=](GraphText& g) { return std::vector{g.op(g.input({2, 8, 5, 5}), call)}; });
    add(cells, "activation", fmt::format("conv_{}", activation.name),
        [=](GraphText& g) { return std::vector{g.op(g.conv(g.input({1, 4, 7, 7}), {}), call)}; });
    add(cells, "activation", fmt::format("linear_{}", activation.name),
        [=](GraphText& g) { return std::vector{g.op(g.linear(g.input({4, 16}), 8), call)}; });
    add(cells, "activation", fmt::format("add_{}", activation.name), [=](GraphText& g) {
      const GraphTensor a = g.input({1, 8, 5, 5}), b = g.input({1, 8, 5, 5});
      return std::vector{g.op(g.op(a, fmt::format("add.Tensor(@, {})", b.name)), call)};
    });
    add(cells, "activation", fmt::format("between_{}", activation.name), [=](GraphText& g) {
      const GraphTensor y = g.op(g.conv(g.input({1, 4, 7, 7}), {}), call);
      return std::vector{g.conv(y, {.channels = 4})};
    });
  }
}

void add_binaries(std::vector<GraphCell>& cells) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes[] = {
      {{2, 8, 5, 5}, {2, 8, 5, 5}},
      {{1, 8, 5, 5}, {8, 1, 1}},
      {{4, 16}, {4, 16}},
      {{4, 16}, {16}},
      {{1}, {1}}};
  for (const char* op : {"add", "sub", "mul", "div"})
    for (const auto& [a, b] : shapes)
      add(cells, "binary",
          fmt::format("{}_{}d_{}d", op, a.size(), b.size()) + (a.back() == 1 ? "_one" : ""),
          [=, a = a, b = b](GraphText& g) {
            const GraphTensor x = g.input(a), y = g.input(b);
            return std::vector{g.op(x, fmt::format("{}.Tensor(@, {})", op, y.name))};
          });
  add(cells, "binary", "add_itself",
      [](GraphText& g) { return std::vector{g.op(g.input({1, 8, 5, 5}), "add.Tensor(@, @)")}; });
  add(cells, "binary", "add_constant", [](GraphText& g) {
    const GraphTensor x = g.input({1, 8, 5, 5}), c = g.param({8, 1, 1}, "offset");
    return std::vector{g.op(x, fmt::format("add.Tensor(@, {})", c.name))};
  });
  add(cells, "binary", "add_scalar", [](GraphText& g) {
    return std::vector{g.op(g.conv(g.input({1, 8, 5, 5}), {}), "add.Tensor(@, 1.5)")};
  });
  add(cells, "binary", "add_relu_", [](GraphText& g) {
    const GraphTensor x = g.input({1, 8, 5, 5}), y = g.conv(x, {});
    return std::vector{g.op(g.op(y, fmt::format("add_.Tensor(@, {})", x.name)), "relu_(@)")};
  });
}

// Ops that move elements or average them, between two layers and at both ends of a program.
void add_movements(std::vector<GraphCell>& cells) {
  struct Row {
    const char* name;
    const char* call;
    std::vector<int64_t> y;  // of x [1, 8, 6, 6]
  };
  const Row rows[] = {{"max_pool2d", "max_pool2d(@, [2, 2])", {1, 8, 3, 3}},
                      {"max_pool2d_odd", "max_pool2d(@, [3, 3], [2, 2], [1, 1])", {1, 8, 3, 3}},
                      {"avg_pool2d", "avg_pool2d(@, [2, 2])", {1, 8, 3, 3}},
                      {"adaptive_avg_pool2d", "adaptive_avg_pool2d(@, [2, 2])", {1, 8, 2, 2}},
                      {"mean", "mean.dim(@, [2, 3], True)", {1, 8, 1, 1}},
                      {"view", "view(@, [1, 4, 12, 6])", {1, 4, 12, 6}},
                      {"reshape", "reshape(@, [2, 4, 6, 6])", {2, 4, 6, 6}},
                      {"permute", "permute(@, [0, 1, 3, 2])", {1, 8, 6, 6}},
                      {"transpose", "transpose.int(@, 2, 3)", {1, 8, 6, 6}},
                      {"slice", "slice.Tensor(@, 1, 2, 6)", {1, 4, 6, 6}},
                      {"pad", "constant_pad_nd(@, [1, 1, 1, 1])", {1, 8, 8, 8}},
                      {"upsample", "upsample_nearest2d(@, [12, 12])", {1, 8, 12, 12}},
                      {"dropout", "dropout(@, 0.5, False)", {1, 8, 6, 6}},
                      {"clone", "clone(@)", {1, 8, 6, 6}},
                      {"pixel_shuffle", "pixel_shuffle(@, 2)", {1, 2, 12, 12}}};
  for (const Row& row : rows) {
    const std::vector<int64_t> x = {1, 8, 6, 6};
    add(cells, "movement", row.name,
        [=](GraphText& g) { return std::vector{g.op(g.input(x), row.call, row.y)}; });
    add(cells, "movement", std::string("conv_") + row.name,
        [=](GraphText& g) { return std::vector{g.op(g.conv(g.input(x), {}), row.call, row.y)}; });
    add(cells, "movement", std::string("between_") + row.name, [=](GraphText& g) {
      return std::vector{g.conv(g.op(g.conv(g.input(x), {}), row.call, row.y), {})};
    });
    add(cells, "movement", std::string("read_twice_") + row.name, [=](GraphText& g) {
      const GraphTensor y = g.conv(g.input(x), {});
      return std::vector{g.op(y, row.call, row.y), g.conv(y, {})};
    });
  }
  for (size_t count : {2, 3, 4})
    for (const char* which : {"inputs", "convs", "mixed", "nested", "same"}) {
      const std::string name = which;
      add(cells, "cat", fmt::format("{}_of_{}", name, count), [=](GraphText& g) {
        std::vector<GraphTensor> parts;
        const GraphTensor x = g.input({1, 8, 6, 6});
        for (size_t i = 0; i < count; ++i)
          parts.push_back(name == "inputs"               ? g.input({1, 8, 6, 6})
                          : name == "same" && i % 2 == 0 ? x
                          : name == "mixed" && i == 0    ? x
                                                         : g.conv(x, {}));
        const GraphTensor y = g.cat(parts, 1);
        return std::vector{name == "nested" ? g.cat({y, g.conv(x, {})}, 1) : y};
      });
    }
}

}  // namespace

void add_layers(std::vector<GraphCell>& cells) {
  add_convs(cells);
  add_products(cells);
  add_activations(cells);
  add_binaries(cells);
  add_movements(cells);
}

}  // namespace octet::conformance
