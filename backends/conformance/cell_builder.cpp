// Builds programs of cells and chooses the scales of their results from a run in floats.
#include "backends/conformance/cell_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/runtime/session.h"

namespace octet::conformance {
namespace {

constexpr int64_t kAsBuilt = -1;
constexpr int64_t kRowsOfRuns[] = {kAsBuilt, 5, 1, 0, kAsBuilt};  // of an open size

double greatest_magnitude(const std::vector<Tensor>& tensors) {
  double greatest = 0;
  for (int64_t i = 0; i < tensors[0].numel(); ++i)
    if (const double value = std::abs(number_at(tensors[0], i)); std::isfinite(value))
      greatest = std::max(greatest, value);
  return greatest == 0 ? 1 : greatest;
}

}  // namespace

CellBuilder::CellBuilder(const Form& form, uint32_t seed, bool open)
    : form_(form), seed_(seed), is_open_(open) {}

int CellBuilder::add_input(DType dtype, std::vector<int64_t> shape,
                           std::optional<TensorQParams> qparams,
                           std::function<Tensor(std::vector<int64_t>, uint32_t)> fill) {
  const std::string name(1, static_cast<char>('a' + inputs_.size()));
  inputs_.push_back(
      {builder_.input(name, dtype, std::move(shape), std::move(qparams)), std::move(fill)});
  return inputs_.back().tensor;
}

int CellBuilder::x(std::vector<int64_t> shape) {
  if (is_float()) return reals(std::move(shape));
  // of each input another scale
  const float scale = form_.scale * (1 + 0.7f * static_cast<float>(inputs_.size()));
  const DType dtype = form_.x;
  return add_input(dtype, std::move(shape), quantized(scale, form_.zero_point),
                   [dtype](std::vector<int64_t> of_run, uint32_t seed) {
                     return random_integers(dtype, std::move(of_run), seed);
                   });
}

int CellBuilder::reals(std::vector<int64_t> shape, float low, float high) {
  return add_input(DType::kFloat32, std::move(shape), {},
                   [low, high](std::vector<int64_t> of_run, uint32_t seed) {
                     return random_floats(std::move(of_run), low, high, seed);
                   });
}

int CellBuilder::indices(std::vector<int64_t> shape, int64_t limit) {
  return add_input(DType::kInt64, std::move(shape), {},
                   [limit](std::vector<int64_t> of_run, uint32_t seed) {
                     return random_integers(DType::kInt64, std::move(of_run), seed, 0, limit - 1);
                   });
}

int CellBuilder::bools(std::vector<int64_t> shape) {
  return add_input(DType::kBool, std::move(shape), {},
                   [](std::vector<int64_t> of_run, uint32_t seed) {
                     return random_integers(DType::kBool, std::move(of_run), seed, 0, 1);
                   });
}

int CellBuilder::weight(std::vector<int64_t> shape, int axis) {
  const uint32_t seed = seed_ * 31 + 7;
  if (is_float()) return constant(random_floats(std::move(shape), -0.5f, 0.5f, seed));
  const size_t count =
      form_.is_per_channel ? static_cast<size_t>(shape[static_cast<size_t>(axis)]) : 1;
  weight_scales_ = random_scales(count, 0.001f, 0.01f, seed);
  Tensor values = random_integers(DType::kInt8, std::move(shape), seed, -127, 127);
  return constant(std::move(values), form_.is_per_channel ? per_channel(weight_scales_, axis)
                                                          : quantized(weight_scales_[0], 0));
}

int CellBuilder::bias(int64_t count) {
  const std::vector<int64_t> shape = {count};
  const bool is_first = builder_.unfinished().ops.empty();  // then form_.scale is that of its input
  if (is_float() || !is_first || seed_ % 2 == 0) {
    const float reach = is_float() ? 1 : form_.scale;
    return constant(random_floats(shape, -reach, reach, seed_ * 31 + 8));
  }
  std::vector<float> scales;  // steps of the sums; the groups of a transposed filter share theirs
  for (size_t i = 0; i < (form_.is_per_channel ? static_cast<size_t>(count) : 1); ++i)
    scales.push_back(weight_scales_[i % weight_scales_.size()] * form_.scale);
  return constant(
      random_integers(DType::kInt32, shape, seed_ * 31 + 9, -2000, 2000),
      form_.is_per_channel ? per_channel(std::move(scales), 0) : quantized(scales[0], 0));
}

int CellBuilder::constant(std::vector<int64_t> shape, float low, float high) {
  const uint32_t seed = seed_ * 31 + 10 + static_cast<uint32_t>(results_);  // each has other values
  return constant(random_floats(std::move(shape), low, high, seed));
}

int CellBuilder::constant(Tensor data, std::optional<TensorQParams> qparams) {
  return builder_.constant("c" + std::to_string(results_++), std::move(data), std::move(qparams));
}

int CellBuilder::constant(StoredConstant stored) {
  return builder_.constant("c" + std::to_string(results_++), std::move(stored));
}

int CellBuilder::op(const std::string& kind, std::vector<int> inputs, std::vector<int64_t> shape,
                    Attributes attributes, DType dtype, std::optional<TensorQParams> qparams) {
  return builder_.op(kind, std::move(inputs), "y" + std::to_string(results_++), dtype,
                     std::move(shape), std::move(qparams), std::move(attributes));
}

int CellBuilder::second_output(std::vector<int64_t> shape, DType dtype) {
  return builder_.second_output("y" + std::to_string(results_++), std::move(shape), dtype);
}

int CellBuilder::state(std::vector<int64_t> shape, int like, int start) {
  const std::string name = "s" + std::to_string(results_++);
  const DType dtype = like < 0 ? DType::kFloat32
                               : builder_.unfinished().tensors.at(static_cast<size_t>(like)).dtype;
  const int value = builder_.state(name, dtype, std::move(shape), start);
  if (like >= 0) scaled_like_.emplace_back(value, like);
  return value;
}

std::vector<Tensor> CellBuilder::inputs_of_run(size_t run, int64_t rows) const {
  std::vector<Tensor> tensors;
  for (const Input& input : inputs_) {
    std::vector<int64_t> shape = program_.tensor(input.tensor).shape;
    if (rows != kAsBuilt) shape[0] = rows;
    const size_t stream = run * 16 + tensors.size();
    tensors.push_back(input.fill(std::move(shape), seed_ * 977 + static_cast<uint32_t>(stream)));
  }
  return tensors;
}

void CellBuilder::fit_result(size_t index) {
  ProgramOp& op = program_.ops[index];
  const OpContract* contract = find_contract(op.kind);
  ProgramTensor& y = program_.tensor(op.outputs[0]);
  if (contract->nature == Nature::kMovement) {
    const ProgramTensor& from = program_.tensor(op.inputs[0]);
    y.dtype = from.dtype;
    y.qparams = from.qparams;
  }
  if (contract->nature != Nature::kCompute || y.dtype != DType::kFloat32) return;
  const bool is_clamped = contract->has_post_ops() && (form_.low != 0 || form_.high != 0);
  if (form_.y == DType::kFloat32 && !is_clamped) return;
  Program until = program_;
  until.ops.resize(index + 1);
  until.outputs = op.outputs;
  for (ProgramState& state : until.states) state.next = state.value;  // computed later
  for (int output : until.outputs) until.tensor(output).role = ProgramTensor::Role::kOutput;
  Session session(with_one_segment(std::move(until), "reference"));
  const double greatest = greatest_magnitude(session.run(inputs_of_run(0, kAsBuilt)));
  if (is_clamped) {
    op.attributes[attr::kPostMin] = form_.low * greatest;
    op.attributes[attr::kPostMax] = form_.high * greatest;
  }
  if (form_.y == DType::kFloat32) return;
  y.dtype = form_.y;
  const IntegerRange range = integer_range(form_.y);
  const double steps =
      static_cast<double>(std::max(range.max - form_.y_zero_point, form_.y_zero_point - range.min));
  y.qparams = quantized(static_cast<float>(greatest * form_.reach / steps), form_.y_zero_point);
}

CellProgram CellBuilder::finish() {
  program_ = builder_.unfinished();
  for (const auto& [state, like] : scaled_like_)
    program_.tensor(state).qparams = program_.tensor(like).qparams;
  for (size_t i = 0; i < program_.ops.size(); ++i) fit_result(i);
  for (int output : program_.ops.back().outputs) {
    program_.tensor(output).role = ProgramTensor::Role::kOutput;
    program_.outputs.push_back(output);
  }
  CellProgram made;
  if (is_open_) {
    program_.symbols = {{"n", 0, 64, program_.tensor(inputs_[0].tensor).shape[0]}};
    for (ProgramTensor& tensor : program_.tensors) {
      if (tensor.is_constant()) continue;
      tensor.sizes.assign(tensor.shape.begin(), tensor.shape.end());
      tensor.sizes[0] = SizeExpr::symbol("n");
    }
    for (size_t run = 0; run < std::size(kRowsOfRuns); ++run)
      made.runs.push_back(inputs_of_run(run, kRowsOfRuns[run]));
  } else {
    for (size_t run = 0; run < 2; ++run) made.runs.push_back(inputs_of_run(run, kAsBuilt));
  }
  verify(program_);
  made.program = std::move(program_);
  return made;
}

}  // namespace octet::conformance
