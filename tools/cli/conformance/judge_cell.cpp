#include "tools/cli/conformance/judge_cell.h"

#include <chrono>
#include <cmath>
#include <memory>

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "annotate/compare/metric.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/tensor_file.h"

namespace octet::conformance {
namespace {

constexpr int64_t kIntegers = 10;

bool tells_elements(const at::Tensor& example) {
  return example.defined() && example.numel() > 0 &&
         (!example.is_floating_point() ||
          example.min().item<double>() != example.max().item<double>());
}

// Libraries flush floats below about 1e-38 to 0.
constexpr double kVanished = 1e-30;

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

CellResult judge_cell(const std::string& name, const std::string& kind,
                      const std::function<void(CellResult& result)>& run) {
  const auto start = std::chrono::steady_clock::now();
  CellResult result;
  result.name = name;
  result.kind = kind;
  try {
    run(result);
  } catch (const Error& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.stage() == "conformance" ? error.without_stage() : error.what();
  } catch (const std::exception& error) {
    result.outcome = Outcome::kWrong;
    result.detail = error.what();
  }
  if (result.passed()) result.program.clear();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

RunBatch interpreted(const Graph& graph) {
  return [interpreter = std::make_shared<Interpreter>(graph)](
             const std::vector<c10::IValue>& batch) { return interpreter->run(batch); };
}

Batches run_all(const Batches& batches, const RunBatch& run) {
  Batches outputs;
  for (const std::vector<c10::IValue>& batch : batches) {
    std::vector<c10::IValue> copy;
    for (const c10::IValue& input : batch)
      copy.push_back(input.isTensor() ? input.toTensor().clone() : input);
    outputs.push_back(run(copy));
  }
  return outputs;
}

double least_sqnr(const Batches& want, const Batches& got) {
  double least = INFINITY;
  for (size_t output = 0; output < want[0].size(); ++output) {
    ErrorStats sum;
    for (size_t batch = 0; batch < want.size(); ++batch)
      if (want[batch][output].isTensor() && want[batch][output].toTensor().is_floating_point())
        sum.merge(compare_tensors(want[batch][output].toTensor(), got[batch][output].toTensor()));
    const double vanished = kVanished * kVanished * static_cast<double>(sum.elements);
    if (sum.has_data() && (sum.signal + sum.energy > vanished || sum.strange > 0))
      least = std::min(least, sum.sqnr_db());
  }
  return least;
}

void check_close(const char* what, const Batches& want, const Batches& got, double least) {
  if (const double ratio = least_sqnr(want, got); !(ratio >= least))
    throw Error(
        "conformance", "close",
        fmt::format("{} have {:.1f} dB to the program's, want at least {}", what, ratio, least));
}

}  // namespace octet::conformance
