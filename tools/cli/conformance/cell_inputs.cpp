#include "tools/cli/conformance/cell_inputs.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/pt2/tensor_file.h"

namespace octet::conformance {
namespace {

constexpr int64_t kIntegers = 10;

bool tells_elements(const at::Tensor& example) {
  return example.defined() && example.numel() > 0 &&
         (!example.is_floating_point() ||
          example.min().item<double>() != example.max().item<double>());
}

}  // namespace

CellInputs::CellInputs(const Graph& graph, at::Generator generator)
    : graph_(graph), generator_(std::move(generator)), example_(read_example_inputs(graph)) {}

std::vector<c10::IValue> CellInputs::next(const ShapeOf& shape_of) {
  std::vector<c10::IValue> values;
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind != InputKind::kUserInput && input.kind != InputKind::kConstant) continue;
    const size_t index = values.size();
    const Value* value = input.value;
    if (input.kind == InputKind::kUserInput && value != nullptr && value->meta)
      values.push_back(draw(index, *value->meta,
                            shape_of ? shape_of(index, *value->meta) : value->meta->shape()));
    else if (example_)
      values.push_back((*example_)[index]);
    else
      throw Error("conformance", value == nullptr ? "inputs" : "%" + value->name(),
                  "is not a tensor, and the file has no example of it; save the program with its "
                  "example inputs");
  }
  ++batch_;
  return values;
}

c10::IValue CellInputs::draw(size_t input, const TensorMeta& meta,
                             const std::vector<int64_t>& shape) {
  if (example_ && (*example_)[input].isTensor()) {
    const at::Tensor example = (*example_)[input].toTensor();
    if (tells_elements(example)) {
      if (batch_ == 0 && example.sizes() == at::IntArrayRef(shape)) return example.clone();
      const at::Tensor places = at::randint(example.numel(), shape, generator_, at::kLong);
      return example.flatten().index({places});
    }
  }
  const at::ScalarType type = to_scalar_type(meta.dtype);
  if (meta.dtype == DType::kBool) return at::full(shape, batch_ % 2 == 0, at::kBool);
  if (!at::isFloatingType(type)) return at::randint(kIntegers, shape, generator_, type);
  return at::randn(shape, generator_).to(type);
}

}  // namespace octet::conformance
