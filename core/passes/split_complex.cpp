// Splits complex tensors into their real and imaginary parts (split_complex in rewrites.h).
#include "core/passes/rewrites.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"

namespace octet {
namespace {

// Linear in their one complex argument, with real coefficients.
constexpr std::string_view kPartwise[] = {
    "aten.alias",
    "aten.cat",
    "aten.chunk",
    "aten.clone",
    "aten.contiguous",
    "aten.cumsum",
    "aten.detach",
    "aten.expand",
    "aten.flatten",
    "aten.flip",
    "aten.index_select",
    "aten.mean",
    "aten.movedim",
    "aten.narrow",
    "aten.neg",
    "aten.permute",
    "aten.repeat",
    "aten.reshape",
    "aten.roll",
    "aten.select",
    "aten.slice",
    "aten.split",
    "aten.split_with_sizes",
    "aten.squeeze",
    "aten.stack",
    "aten.sum",
    "aten.t",
    "aten.transpose",
    "aten.unbind",
    "aten.unflatten",
    "aten.unsqueeze",
    "aten.view",
};
constexpr std::string_view kPads[] = {"aten.pad", "aten.constant_pad_nd"};
constexpr std::string_view kProducts[] = {"aten.bmm", "aten.einsum", "aten.matmul", "aten.mm"};

bool is_one_of(const Node& node, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return node.is(name); });
}

bool is_complex_tensor(const Value* value) {
  return value != nullptr && value->kind() == ValueKind::kTensor && value->meta &&
         value->meta->dtype == DType::kComplex64;
}

// Fills with another number than 0, which has no imaginary part.
bool pads_with_number(const Node& node) { return node.float_or("value", 0) != 0; }

TensorMeta with_dtype(const Value& value, DType dtype) {
  TensorMeta meta = *value.meta;
  meta.dtype = dtype;
  return meta;
}

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph) {}

  int run() {
    int count = 0;
    for (Node* node : graph_.nodes()) count += split(*node) ? 1 : 0;
    return count;
  }

 private:
  struct Parts {
    Value* real = nullptr;
    Value* imaginary = nullptr;
  };
  using Values = std::unordered_map<const Value*, Value*>;

  bool split(Node& node) {
    const std::vector<Value*> outputs = node.outputs();
    if (outputs.empty() || !std::ranges::all_of(outputs, is_complex_tensor)) return false;
    if (const Argument* dtype = node.find_argument("dtype"); dtype && dtype->find<DType>())
      return false;
    if (is_one_of(node, kPartwise) || (is_one_of(node, kPads) && !pads_with_number(node)))
      return split_linear(node);
    return is_one_of(node, kProducts) && split_product(node);
  }

  // The parts of a complex value, computed once.
  Parts parts_of(Value* value, Node* before) {
    const auto [at, is_new] = parts_.try_emplace(value);
    if (is_new) {
      const auto part = [&](const char* op, const char* suffix) {
        return graph_
            .insert(op, {{"self", value}}, value->name() + suffix,
                    with_dtype(*value, DType::kFloat32), before)
            ->output();
      };
      at->second = {part("aten.real.default", "_real"), part("aten.imag.default", "_imaginary")};
    }
    return at->second;
  }

  // A copy of the node on real tensors.
  std::vector<Value*> copied(const Node& node, Values map) {
    for (Value* input : node.inputs()) map.try_emplace(input, input);
    copy_node(node, graph_, map, &const_cast<Node&>(node));
    std::vector<Value*> results;
    for (const Value* output : node.outputs()) {
      results.push_back(map.at(output));
      results.back()->meta->dtype = DType::kFloat32;
    }
    return results;
  }

  void give(Node& node, const std::vector<Value*>& real, const std::vector<Value*>& imaginary) {
    const std::vector<Value*> outputs = node.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      Node* whole =
          graph_.insert("aten.complex.default", {{"real", real[i]}, {"imag", imaginary[i]}},
                        outputs[i]->name(), *outputs[i]->meta, &node);
      parts_[whole->output()] = {real[i], imaginary[i]};
      graph_.replace_uses(outputs[i], whole->output());
    }
    graph_.erase(node);
  }

  bool split_linear(Node& node) {
    Values real, imaginary;
    for (Value* input : node.inputs()) {
      if (!is_complex_tensor(input)) {
        if (input->meta && is_floating_point(input->meta->dtype))
          return false;  // such as cat[x, real]
        continue;
      }
      const Parts parts = parts_of(input, &node);
      real[input] = parts.real;
      imaginary[input] = parts.imaginary;
    }
    give(node, copied(node, real), copied(node, imaginary));
    return true;
  }

  bool split_product(Node& node) {
    const std::vector<Value*> inputs = node.inputs();
    if (inputs.size() != 2 || inputs[0] == inputs[1] || !is_complex_tensor(inputs[0]) ||
        !is_complex_tensor(inputs[1]))
      return false;
    const Parts a = parts_of(inputs[0], &node), b = parts_of(inputs[1], &node);
    const auto product = [&](Value* x, Value* y) {
      return copied(node, {{inputs[0], x}, {inputs[1], y}}).front();
    };
    const auto joined = [&](const char* op, Value* x, Value* y) {
      return graph_.insert(op, {{"self", x}, {"other", y}}, node.name() + "_part", *x->meta, &node)
          ->output();
    };
    Value* const real =
        joined("aten.sub.Tensor", product(a.real, b.real), product(a.imaginary, b.imaginary));
    Value* const imaginary =
        joined("aten.add.Tensor", product(a.real, b.imaginary), product(a.imaginary, b.real));
    give(node, {real}, {imaginary});
    return true;
  }

  Graph& graph_;
  std::unordered_map<const Value*, Parts> parts_;
};

}  // namespace

int split_complex(Graph& graph) { return Splitter(graph).run(); }

}  // namespace octet
