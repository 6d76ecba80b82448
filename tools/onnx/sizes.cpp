#include "tools/onnx/sizes.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/size.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

const char* operator_of(SizeExpr::Kind kind) {
  switch (kind) {
    case SizeExpr::Kind::kAdd:
      return "Add";
    case SizeExpr::Kind::kMultiply:
      return "Mul";
    case SizeExpr::Kind::kModulo:
      return "Mod";
    case SizeExpr::Kind::kMinimum:
      return "Min";
    case SizeExpr::Kind::kMaximum:
      return "Max";
    default:
      return "Div";
  }
}

std::string add_size_node(OnnxExporter& exporter, const char* op, std::vector<std::string> inputs,
                          OnnxAttributes attributes = {}) {
  const std::string name = exporter.fresh_name("size");
  exporter.model().nodes.push_back(
      {op, name + "/" + op, std::move(inputs), {name}, std::move(attributes), {}});
  return name;
}

// The input and dimension that are this symbol.
std::string symbol_tensor(OnnxExporter& exporter, const std::string& symbol,
                          const std::string& subject) {
  for (Value* input : exporter.graph().user_inputs()) {
    if (!input->meta) continue;
    for (size_t d = 0; d < input->meta->sizes.size(); ++d) {
      const int64_t start = static_cast<int64_t>(d);
      if (input->meta->sizes[d].is_symbolic() && size_text(input->meta->sizes[d]) == symbol)
        return add_size_node(exporter, "Shape", {exporter.name_of(input)},
                             {{"start", start}, {"end", start + 1}});
    }
  }
  throw Error("onnx", subject,
              fmt::format("has the size {}, which no input's shape gives; export with a dimension "
                          "that is this symbol, or a fixed one",
                          symbol));
}

}  // namespace

std::string size_text(const Dim& dim) {
  try {
    return parse_size(dim.expr, "").to_text();
  } catch (const Error&) {
    return dim.expr;
  }
}

// Computed again for each reader: a few cheap nodes.
std::string size_tensor(OnnxExporter& exporter, const SizeExpr& size, const std::string& subject) {
  if (size.is_number()) return exporter.ints({size.number()});
  std::vector<std::string> stack;
  for (const SizeExpr::Step& step : size.steps()) {
    if (step.kind == SizeExpr::Kind::kNumber) {
      stack.push_back(exporter.ints({step.number}));
    } else if (step.kind == SizeExpr::Kind::kSymbol) {
      stack.push_back(symbol_tensor(exporter, step.symbol, subject));
    } else {
      const std::string b = stack.back();
      stack.pop_back();
      // Sizes are not negative, so that a division that truncates is one that rounds down.
      stack.back() = add_size_node(exporter, operator_of(step.kind), {stack.back(), b});
    }
  }
  return stack.front();
}

std::string size_tensor(OnnxExporter& exporter, const Value& symbol) {
  const std::string subject = "%" + symbol.name();
  if (symbol.symbol.empty())
    throw Error("onnx", subject,
                "is a size without a recorded expression; export the program "
                "with torch.export");
  return size_tensor(exporter, parse_size(symbol.symbol, subject), subject);
}

namespace {

// Sizes are made where they are read; assertions about them have no form.
void convert_nothing(OnnxSteps&) {}

constexpr OnnxRow kSizeRows[] = {
    {"aten._assert_scalar", convert_nothing},
    {"aten._assert_tensor_metadata", convert_nothing},
    {"aten.sym_constrain_range", convert_nothing},
    {"aten.sym_constrain_range_for_size", convert_nothing},
    {"aten._assert_async", convert_nothing},
    {"aten._functional_assert_async", convert_nothing},
};

}  // namespace

std::span<const OnnxRow> size_onnx_rows() { return kSizeRows; }

}  // namespace octet
