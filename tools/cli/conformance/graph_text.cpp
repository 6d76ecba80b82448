#include "tools/cli/conformance/graph_text.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet::conformance {
namespace {

using Shape = std::vector<int64_t>;

std::string list(int64_t value, size_t count) {
  return fmt::format("[{}]", fmt::join(Shape(count, value), ", "));
}

}  // namespace

std::string GraphText::fresh(std::string_view base) {
  return fmt::format("%{}_{}", base, ++count_);
}

GraphTensor GraphText::input(Shape shape, const std::string& type) {
  const GraphTensor tensor{fresh("x"), std::move(shape)};
  inputs_ += fmt::format("{}{}: {}[{}]", inputs_.empty() ? "" : ", ", tensor.name, type,
                         fmt::join(tensor.shape, ","));
  return tensor;
}

GraphTensor GraphText::param(Shape shape, const std::string& name) {
  const GraphTensor tensor{fresh("p"), std::move(shape)};
  constants_ += fmt::format("{} = param \"{}.{}\": f32[{}],\n    ", tensor.name,
                            tensor.name.substr(1), name, fmt::join(tensor.shape, ","));
  return tensor;
}

GraphTensor GraphText::op(const GraphTensor& x, std::string_view call, Shape shape) {
  std::string text(call);
  for (size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, x.name);
  const GraphTensor y{fresh(call.substr(0, call.find_first_of(".("))), std::move(shape)};
  line(fmt::format("{} = aten.{}", y.name, text));
  return y;
}

GraphTensor GraphText::conv(const GraphTensor& x, const Conv& conv) {
  const size_t spatial = x.shape.size() - 2;
  Shape filter = {conv.channels, x.shape[1] / conv.groups};
  filter.insert(filter.end(), spatial, conv.kernel);
  const std::string weight = param(filter).name;
  const std::string bias = conv.has_bias ? param({conv.channels}, "bias").name : "None";
  Shape shape = {x.shape[0], conv.channels};
  const int64_t reach = conv.dilation * (conv.kernel - 1) + 1;
  for (size_t d = 2; d < x.shape.size(); ++d)
    shape.push_back((x.shape[d] + 2 * conv.padding - reach) / conv.stride + 1);
  return op(x,
            fmt::format("conv{}d(@, {}, {}, {}, {}, {}, {})", spatial, weight, bias,
                        list(conv.stride, spatial), list(conv.padding, spatial),
                        list(conv.dilation, spatial), conv.groups),
            shape);
}

GraphTensor GraphText::conv_transpose(const GraphTensor& x, int64_t channels, int64_t stride) {
  const size_t spatial = x.shape.size() - 2;
  Shape filter = {x.shape[1], channels}, shape = {x.shape[0], channels};
  filter.insert(filter.end(), spatial, 2);
  for (size_t d = 2; d < x.shape.size(); ++d) shape.push_back((x.shape[d] - 1) * stride + 2);
  const std::string weight = param(filter).name, bias = param({channels}, "bias").name;
  return op(
      x,
      fmt::format("conv_transpose{}d(@, {}, {}, {})", spatial, weight, bias, list(stride, spatial)),
      shape);
}

GraphTensor GraphText::batch_norm(const GraphTensor& x) {
  std::vector<std::string> names;
  for (const char* name : {"weight", "bias", "mean", "var"})
    names.push_back(param({x.shape[1]}, name).name);
  return op(x, fmt::format("batch_norm(@, {}, False, 0.1, 1e-05, True)", fmt::join(names, ", ")));
}

GraphTensor GraphText::linear(const GraphTensor& x, int64_t features, bool has_bias) {
  const std::string weight = param({features, x.shape.back()}).name;
  const std::string bias = has_bias ? param({features}, "bias").name : "None";
  Shape shape = x.shape;
  shape.back() = features;
  return op(x, fmt::format("linear(@, {}, {})", weight, bias), shape);
}

GraphTensor GraphText::pool(const GraphTensor& x, std::string_view kind) {
  Shape shape = x.shape;
  for (size_t d = 2; d < shape.size(); ++d) shape[d] /= 2;
  return op(x, fmt::format("{}(@, {})", kind, list(2, shape.size() - 2)), shape);
}

GraphTensor GraphText::global_pool(const GraphTensor& x) {
  return op(x, "adaptive_avg_pool2d(@, [1, 1])", {x.shape[0], x.shape[1], 1, 1});
}

GraphTensor GraphText::flatten(const GraphTensor& x) {
  const int64_t rest =
      std::accumulate(x.shape.begin() + 1, x.shape.end(), int64_t{1}, std::multiplies<>());
  return op(x, "flatten.using_ints(@, 1)", {x.shape[0], rest});
}

GraphTensor GraphText::cat(const std::vector<GraphTensor>& parts, size_t dim) {
  std::vector<std::string> names;
  Shape shape = parts.front().shape;
  shape[dim] = 0;
  for (const GraphTensor& part : parts) {
    names.push_back(part.name);
    shape[dim] += part.shape[dim];
  }
  return op(parts.front(), fmt::format("cat([{}], {})", fmt::join(names, ", "), dim), shape);
}

std::string GraphText::returning(const std::vector<GraphTensor>& outputs) const {
  std::vector<std::string> names;
  for (const GraphTensor& output : outputs) names.push_back(output.name);
  return fmt::format("graph({}{}):\n{}  return ({})", constants_, inputs_, body_,
                     fmt::join(names, ", "));
}

}  // namespace octet::conformance
