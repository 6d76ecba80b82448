// Random networks: layers whose inputs are any earlier tensors.
#include <random>

#include <fmt/format.h>

#include "tools/cli/conformance/graph_cells.h"
#include "tools/cli/conformance/graph_text.h"

namespace octet::conformance {
namespace {

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
      case 2:
        return add(convolution(x));
      case 3:
        return add(activation(x));
      case 4:
        return add(joined(x));
      case 5:
        return add(moved(x));
      case 6:
        if (x.shape[2] >= 4 && x.shape[2] % 2 == 0)
          return add(graph_.pool(x, one_of({"max_pool2d", "avg_pool2d"})));
        return;
      case 7:
        return add(graph_.op(x, "mul.Tensor(@, 0.5)"));
      default:
        return add(activation(convolution(x)));
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

void add_random(std::vector<GraphCell>& cells) {
  for (size_t i = 0; i < kCount; ++i)
    cells.push_back({fmt::format("random/{}", i), "random", [i](uint32_t seed) {
                       return RandomNetwork(seed * 1009 + static_cast<uint32_t>(i)).text();
                     }});
}

std::vector<GraphCell> graph_cells() {
  std::vector<GraphCell> cells;
  add_layers(cells);
  add_networks(cells);
  add_random(cells);
  return cells;
}

}  // namespace octet::conformance
