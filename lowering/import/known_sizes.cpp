#include "lowering/import/graph.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/ops/memory.h"
#include "core/passes/rewrites.h"
#include "lowering/import/rows.h"
#include "lowering/import/size.h"

namespace octet {
namespace {

using Indices = std::vector<int64_t>;

// ---- symbols

std::set<std::string> symbols_in(const std::string& expression) {
  const std::string start = "Symbol('";
  std::set<std::string> names;
  for (size_t at = 0; (at = expression.find(start, at)) != std::string::npos;) {
    at += start.size();
    names.insert(expression.substr(at, expression.find('\'', at) - at));
  }
  return names;
}

// Substitutes numbers for the symbols with known values.
std::string with_numbers(std::string expression, const SymbolValues& values) {
  for (const auto& [name, value] : values) {
    const std::string start = fmt::format("Symbol('{}'", name);
    for (size_t at = 0; (at = expression.find(start)) != std::string::npos;)
      expression.replace(at, expression.find(')', at) + 1 - at, fmt::format("Integer({})", value));
  }
  return expression;
}

std::optional<int64_t> number_of(const std::string& expression) {
  if (expression.empty() || expression.find("Symbol(") != std::string::npos) return std::nullopt;
  try {
    return parse_size(expression, "").number();
  } catch (const Error&) {
    return std::nullopt;  // a function that SizeExpr lacks
  }
}

void set_symbols(Dim& dim, const SymbolValues& values) {
  if (!dim.is_symbolic()) return;
  dim.expr = with_numbers(dim.expr, values);
  if (const std::optional<int64_t> number = number_of(dim.expr)) dim = {*number, ""};
}

void set_symbols(Value& value, const SymbolValues& values) {
  if (value.meta) {
    for (Dim& dim : value.meta->sizes) set_symbols(dim, values);
    for (Dim& dim : value.meta->strides) set_symbols(dim, values);
    set_symbols(value.meta->storage_offset, values);
  }
  if (value.symbol.empty()) return;
  value.symbol = with_numbers(value.symbol, values);
  if (value.kind() != ValueKind::kSymInt || value.is_output()) return;
  if (const std::optional<int64_t> number = number_of(value.symbol)) put_number(value, *number);
}

void set_symbols(Graph& graph, const SymbolValues& values) {
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr) set_symbols(*input.value, values);
  for (Node* node : graph.nodes()) {
    for (Value* value : node->outputs()) set_symbols(*value, values);
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* body = argument.value.find<Subgraph>();
          body != nullptr && body->graph != nullptr)
        set_symbols(*body->graph, values);
  }
}

// ---- constant masks and counts

// The indices of set elements, one list for each dimension of the mask.
std::vector<Indices> places_in(const Tensor& mask) {
  const std::vector<int64_t> shape = mask.shape(), strides = contiguous_strides(shape);
  const Tensor flags = mask.contiguous();
  std::vector<Indices> places(shape.size());
  for (int64_t i = 0; i < flags.numel(); ++i)
    for (size_t d = 0; flags.data<bool>()[i] && d < shape.size(); ++d)
      places[d].push_back(i / strides[d] % shape[d]);
  return places;
}

class Selections {
 public:
  explicit Selections(Graph& graph) : graph_(graph), written_(written_constants(graph)) {
    for (const GraphInput& input : graph.inputs())
      if (input.value != nullptr && input.value->meta)
        for (const Dim& dim : input.value->meta->sizes) of_inputs_.merge(symbols_in(dim.expr));
  }

  SymbolValues run() {
    for (Node* node : graph_.nodes()) {
      if (node->is("aten.index") || node->is("aten._unsafe_index"))
        index(*node);
      else if (node->is("aten.masked_select"))
        masked_select(*node);
      else if (node->is("aten.repeat_interleave.self_Tensor"))
        repeat(*node);
    }
    return std::move(found_);
  }

 private:
  const Tensor* fixed(const Value* value, DType dtype) const {
    const Tensor* tensor =
        value == nullptr || written_.contains(value) ? nullptr : graph_.find_constant(value);
    return tensor == nullptr || tensor->dtype() != dtype ? nullptr : tensor;
  }

  Value* constant(const std::string& name, const Indices& values) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    return graph_.add_constant(name, Tensor::from<int64_t>(DType::kInt64, shape, values),
                               InputKind::kTensorConstant);
  }

  // Records that the symbol in the result's shape has the value `count`.
  void note(const Value& result, int64_t count) {
    if (!result.meta) return;
    for (const Dim& dim : result.meta->sizes)
      for (const std::string& name : symbols_in(dim.expr))
        if (dim.expr.starts_with("Symbol(") && !of_inputs_.contains(name)) found_[name] = count;
  }

  void put_places(const Value& mask, const Tensor& flags, OptionalTensors& indices) {
    for (const Indices& places : places_in(flags))
      indices.items.push_back(constant(mask.name() + "_places", places));
  }

  void index(Node& node) {
    OptionalTensors wanted;
    std::optional<int64_t> count;
    for (Value* value : index_values(node)) {
      const Tensor* mask = fixed(value, DType::kBool);
      if (mask == nullptr || mask->shape().empty()) {
        wanted.items.push_back(value);
        continue;
      }
      put_places(*value, *mask, wanted);
      count = graph_.find_constant(wanted.items.back())->numel();
    }
    if (!count) return;
    node.set_argument("indices", std::move(wanted));
    note(*node.output(), *count);
  }

  void masked_select(Node& node) {
    const Value *x = node.find_input("self"), *mask = node.find_input("mask");
    const Tensor* flags = fixed(mask, DType::kBool);
    if (flags == nullptr || x == nullptr || !x->meta || !x->meta->is_static() ||
        x->meta->shape() != flags->shape() || flags->shape().empty())
      return;
    OptionalTensors wanted;
    put_places(*mask, *flags, wanted);
    note(*node.output(), graph_.find_constant(wanted.items.back())->numel());
    node.erase_argument("mask");
    node.set_argument("indices", std::move(wanted));
    node.set_target("aten.index.Tensor");
  }

  // Folds repeat_interleave with constant counts to an index_select.
  void repeat(Node& node) {
    const Value* counts = node.find_input("repeats");
    const Argument* dim = node.find_argument("dim");
    const Tensor* numbers = fixed(counts, DType::kInt64);
    if (numbers == nullptr || numbers->shape().size() != 1 || numbers->numel() < 2 ||
        dim == nullptr || dim->is_none())
      return;
    constexpr size_t kMost = 1 << 24;  // a damaged file may have any number
    const Tensor flat = numbers->contiguous();
    Indices rows;
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const int64_t count = std::max<int64_t>(flat.data<int64_t>()[i], 0);
      if (static_cast<size_t>(count) > kMost - rows.size()) return;
      rows.insert(rows.end(), static_cast<size_t>(count), i);
    }
    note(*node.output(), static_cast<int64_t>(rows.size()));
    Value* index = constant(counts->name() + "_rows", rows);
    for (const char* name : {"repeats", "output_size"}) node.erase_argument(name);
    node.set_argument("index", index);
    node.set_target("aten.index_select.default");
  }

  Graph& graph_;
  const std::unordered_set<const Value*> written_;
  std::set<std::string> of_inputs_;
  SymbolValues found_;
};

}  // namespace

int fold_constants_and_sizes(Graph& graph) {
  int folded = 0;
  while (true) {
    SymbolValues found;
    folded += fold_input_free(graph, FoldFrom::kConstants, &found);
    found.merge(Selections(graph).run());
    if (found.empty()) return folded;
    set_symbols(graph, found);
  }
}

}  // namespace octet
