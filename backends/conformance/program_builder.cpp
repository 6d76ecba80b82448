// Builds small programs, fills tensors and compares backends.
#include "backends/conformance/program_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "backends/reference/kernel.h"
#include "backends/registry.h"
#include "core/base/error.h"
#include "lowering/program/stored_constant.h"

namespace octet {

TensorQParams quantized(float scale, int32_t zero_point) { return {{scale}, {zero_point}, -1}; }

std::optional<TensorQParams> qparams_of(DType dtype, float scale, int32_t zero_point) {
  if (dtype == DType::kFloat32) return std::nullopt;
  return quantized(scale, dtype == DType::kUInt8 ? zero_point + 128 : zero_point);
}

TensorQParams per_channel(std::vector<float> scales, int axis) {
  const std::vector<int32_t> zeros(scales.size(), 0);
  return {std::move(scales), zeros, axis};
}

Attributes mapping(const std::string& name, int64_t low, int64_t high,
                   std::vector<int64_t> blocks) {
  return {{"mapping", name},
          {"quant_min", low},
          {"quant_max", high},
          {"zero_point", (low + high + 1) / 2},
          {"blocks", std::move(blocks)}};
}

Tensor random_integers(DType dtype, std::vector<int64_t> shape, uint32_t seed,
                       std::optional<int64_t> low, std::optional<int64_t> high) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  const bool is_small = dtype == DType::kInt64 || dtype == DType::kBool;
  const IntegerRange range = is_small ? IntegerRange{0, 1} : integer_range(dtype);
  std::uniform_int_distribution<int64_t> distribution(low.value_or(range.min),
                                                      high.value_or(range.max));
  for (int64_t i = 0, n = tensor.numel(); i < n; ++i) {
    const int64_t value = distribution(random);
    // little endian
    std::memcpy(tensor.raw() + i * static_cast<int64_t>(size_of(dtype)), &value, size_of(dtype));
  }
  return tensor;
}

Tensor random_floats(std::vector<int64_t> shape, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  Tensor tensor = Tensor::zeros(DType::kFloat32, std::move(shape));
  for (int64_t i = 0, n = tensor.numel(); i < n; ++i)
    tensor.data<float>()[i] = distribution(random);
  return tensor;
}

Tensor random_elements(DType dtype, std::vector<int64_t> shape, uint32_t seed, float reach) {
  return dtype == DType::kFloat32 ? random_floats(std::move(shape), -reach, reach, seed)
                                  : random_integers(dtype, std::move(shape), seed);
}

std::vector<float> random_scales(size_t count, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> scales(count);
  for (float& scale : scales) scale = distribution(random);
  return scales;
}

int ProgramBuilder::add(ProgramTensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<int>(program_.tensors.size()) - 1;
}

int ProgramBuilder::input(const std::string& name, DType dtype, std::vector<int64_t> shape,
                          std::optional<TensorQParams> qparams) {
  program_.inputs.push_back(
      add({name, dtype, std::move(shape), std::move(qparams), ProgramTensor::Role::kInput, {}}));
  return program_.inputs.back();
}

int ProgramBuilder::constant(const std::string& name, Tensor data,
                             std::optional<TensorQParams> qparams) {
  return add({name, data.dtype(), data.shape(), std::move(qparams), ProgramTensor::Role::kConstant,
              data.contiguous()});
}

int ProgramBuilder::constant(const std::string& name, StoredConstant stored) {
  return add(constant_tensor(name, std::move(stored)));
}

int ProgramBuilder::op(const std::string& kind, std::vector<int> inputs, const std::string& output,
                       DType dtype, std::vector<int64_t> shape,
                       std::optional<TensorQParams> qparams, Attributes attributes) {
  const int index = add({output,
                         dtype,
                         std::move(shape),
                         std::move(qparams),
                         ProgramTensor::Role::kIntermediate,
                         {}});
  ProgramOp op;
  op.kind = kind;
  op.name = output;
  op.inputs = std::move(inputs);
  op.outputs = {index};
  op.attributes = std::move(attributes);
  op.sources = {output};
  program_.ops.push_back(std::move(op));
  return index;
}

int ProgramBuilder::second_output(const std::string& output, std::vector<int64_t> shape,
                                  DType dtype) {
  program_.ops.back().outputs.push_back(
      add({output, dtype, std::move(shape), {}, ProgramTensor::Role::kIntermediate, {}}));
  return program_.ops.back().outputs.back();
}

int64_t ProgramBuilder::body(Program body) {
  program_.bodies.push_back(std::move(body));
  return static_cast<int64_t>(program_.bodies.size()) - 1;
}

void ProgramBuilder::output(int tensor) {
  ProgramTensor& entry = program_.tensors.at(static_cast<size_t>(tensor));
  if (entry.role == ProgramTensor::Role::kIntermediate) entry.role = ProgramTensor::Role::kOutput;
  program_.outputs.push_back(tensor);
}

int ProgramBuilder::state(const std::string& name, DType dtype, std::vector<int64_t> shape,
                          int start) {
  const int value = add({name, dtype, std::move(shape), {}, ProgramTensor::Role::kState, {}});
  program_.states.push_back({"module." + name, value, -1, start});
  return value;
}

void ProgramBuilder::becomes(int state, int tensor) {
  for (ProgramState& each : program_.states)
    if (each.value == state) each.next = tensor;
}

Program ProgramBuilder::finish() {
  verify(program_);
  return program_;
}

Program with_one_segment(Program program, const std::string& backend) {
  Segment segment;
  segment.backend = backend;
  segment.ops.resize(program.ops.size());
  std::iota(segment.ops.begin(), segment.ops.end(), 0);
  for (int index : program.given())
    if (index >= 0) segment.inputs.push_back(index);
  std::set<int> made;
  for (const ProgramOp& op : program.ops) made.insert(op.outputs.begin(), op.outputs.end());
  for (int index : program.results())
    if (made.erase(index) == 1) segment.outputs.push_back(index);
  program.backend = backend;
  program.segments = {std::move(segment)};
  return program;
}

std::optional<std::string> refusal(const Program& program, const std::string& backend) {
  const std::unique_ptr<BackendSupport> support = make_support(backend);
  for (const ProgramOp& op : program.ops) {
    const Verdict verdict = support->accepts(program, op);
    if (!verdict) return op.name + ": " + verdict.reason();
  }
  return std::nullopt;
}

std::vector<Tensor> run_segment(const Program& program, const std::string& backend,
                                const std::vector<Tensor>& inputs, int threads) {
  const Program whole = with_one_segment(program, backend);
  const Segment& segment = whole.segments.front();
  std::vector<Tensor> outputs;
  for (int index : segment.outputs) {
    const ProgramTensor& tensor = whole.tensor(index);
    outputs.push_back(Tensor::zeros(tensor.dtype, tensor.shape));
    // What the backend leaves unwritten differs from what it should write.
    std::fill_n(outputs.back().raw(), outputs.back().nbytes(),
                std::byte(tensor.dtype == DType::kBool ? 1 : 0x5A));
  }
  make_backend(backend)->compile(whole, segment, threads)->run(inputs, outputs);
  return outputs;
}

double number_at(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return tensor.data<float>()[i];
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kInt32: return reference::integer_at(tensor, i);
    case DType::kInt64: return static_cast<double>(tensor.data<int64_t>()[i]);
    case DType::kBool: return tensor.data<bool>()[i] ? 1 : 0;
    default: throw Error("conformance", std::string(name_of(tensor.dtype())), "cannot be compared");
  }
}

double check_against_reference(const Program& program, const std::string& backend,
                               const std::vector<Tensor>& inputs) {
  if (const std::optional<std::string> refused = refusal(program, backend))
    throw Error("backend", backend, *refused + "\n" + to_text(program));
  const std::vector<Tensor> got = run_segment(program, backend, inputs);
  const std::vector<Tensor> want = run_segment(program, "reference", inputs);
  double greatest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    for (int64_t j = 0, n = got[i].numel(); j < n; ++j) {
      const double difference = std::abs(number_at(got[i], j) - number_at(want[i], j));
      greatest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                        : std::max(greatest, difference);
    }
  }
  return greatest;
}

}  // namespace octet
