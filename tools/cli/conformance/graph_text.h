// Writes the text of a small network, layer by layer, for the cells of quantizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octet::conformance {

struct GraphTensor {
  std::string name;  // "%x"
  std::vector<int64_t> shape;
};

class GraphText {
 public:
  GraphTensor input(std::vector<int64_t> shape, const std::string& type = "f32");
  GraphTensor param(std::vector<int64_t> shape, const std::string& name = "weight");
  // Adds "aten." + `call`, in which @ is the tensor: "relu(@)", "add.Tensor(@, %other)".
  GraphTensor op(const GraphTensor& x, std::string_view call, std::vector<int64_t> shape);
  GraphTensor op(const GraphTensor& x, std::string_view call) { return op(x, call, x.shape); }
  // A line in full, for ops with several results.
  void line(const std::string& text) { body_ += "  " + text + "\n"; }

  struct Conv {
    int64_t channels = 8, kernel = 3, stride = 1, padding = 1, dilation = 1, groups = 1;
    bool has_bias = true;
  };
  GraphTensor conv(const GraphTensor& x, const Conv& conv);  // 1 to 3 spatial dimensions
  GraphTensor conv_transpose(const GraphTensor& x, int64_t channels, int64_t stride = 2);
  GraphTensor batch_norm(const GraphTensor& x);
  GraphTensor linear(const GraphTensor& x, int64_t features, bool has_bias = true);
  GraphTensor pool(const GraphTensor& x, std::string_view kind);  // "max_pool2d": windows of 2
  GraphTensor flatten(const GraphTensor& x);                      // all but the first dimension
  GraphTensor cat(const std::vector<GraphTensor>& parts, size_t dim);
  GraphTensor global_pool(const GraphTensor& x);

  // The graph with these outputs.
  std::string returning(const std::vector<GraphTensor>& outputs) const;

 private:
  std::string fresh(std::string_view base);
  std::string inputs_, constants_, body_;
  int count_ = 0;
};

}  // namespace octet::conformance
