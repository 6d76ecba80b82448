// One pass over the program finds the bytes, one over the weights.
#include "backends/onednn/saturation.h"

#include <algorithm>
#include <cstdlib>

#include "backends/onednn/form.h"
#include "backends/onednn/functions.h"

namespace octet::onednn {
namespace {

constexpr uint8_t kHighest = 255;
// Ops whose outputs hold only values of their inputs.
constexpr OpKind kMoves[] = {"reshape", "permute", "slice", "expand", "copy", "max_pool", "cat"};

bool is_move(const ProgramOp& op) {
  return std::find(std::begin(kMoves), std::end(kMoves), op.kind) != std::end(kMoves);
}

// The highest byte of an integer per-tensor output.
uint8_t highest_written(const Program& program, const ProgramOp& op,
                        const std::vector<uint8_t>& highest) {
  const ProgramTensor& y = program.tensor(op.outputs[0]);
  const int shift = y.dtype == DType::kInt8 ? 128 : 0;
  if (op.is("quantize") || op.is("requantize"))
    return static_cast<uint8_t>(
        std::clamp<int64_t>(op.get(attr::kQuantMax, kHighest - shift) + shift, 0, kHighest));
  if (is_move(op)) {
    uint8_t most = 0;
    for (int input : op.inputs) {
      const ProgramTensor& x = program.tensor(input);
      if (x.dtype != y.dtype || x.qparams != y.qparams) return kHighest;
      most = std::max(most, highest[static_cast<size_t>(input)]);
    }
    return most;
  }
  const std::optional<double> most = op.find(attr::kPostMax);
  if (!most) return kHighest;
  const QuantParams steps{ElementType::u8, y.qparams->scale[0], y.qparams->zero_point[0] + shift};
  return static_cast<uint8_t>(clamp_in_steps(steps, Clamp{std::nullopt, most}).high);
}

}  // namespace

bool sums_in_16_bits() {
#if defined(__x86_64__)
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::sse41 || isa == dnnl::cpu_isa::avx || isa == dnnl::cpu_isa::avx2 ||
         isa == dnnl::cpu_isa::avx512_core;
#else
  return false;
#endif
}

std::vector<uint8_t> highest_bytes(const Program& program) {
  std::vector<uint8_t> highest(program.tensors.size(), kHighest);
  for (const ProgramOp& op : program.ops) {
    if (op.outputs.size() != 1) continue;
    const ProgramTensor& y = program.tensor(op.outputs[0]);
    const bool is_byte = y.dtype == DType::kUInt8 || y.dtype == DType::kInt8;
    if (is_byte && y.qparams && y.qparams->is_per_tensor())
      highest[static_cast<size_t>(op.outputs[0])] = highest_written(program, op, highest);
  }
  return highest;
}

int greatest_magnitude(const Tensor& weights) {
  const Tensor data = weights.contiguous();
  const int8_t* values = data.data<int8_t>();
  int most = 0;
  for (int64_t i = 0; i < data.numel(); ++i)
    most = std::max(most, std::abs(static_cast<int>(values[i])));
  return most;
}

bool fits_16_bits(uint8_t highest, int magnitude) {
  return 2 * magnitude * static_cast<int>(highest) <= 32767;
}

uint8_t Saturation::highest_byte(int index) {
  if (highest_bytes_.empty()) highest_bytes_ = highest_bytes(program_);
  return highest_bytes_[static_cast<size_t>(index)];
}

bool Saturation::may_saturate(const ProgramOp& op, int magnitude) {
  if (!sums_in_16_bits() || fits_16_bits(highest_byte(op.inputs[0]), magnitude)) return false;
  ops_.insert(op.name);
  return true;
}

bool Saturation::may_saturate(const ProgramOp& op, const Tensor& weights) {
  return sums_in_16_bits() && may_saturate(op, greatest_magnitude(weights));
}

Warning saturation_warning(const std::set<std::string>& names) {
  return {
      "computed in floats, as this CPU has no AVX2 and sums of int8 products may not fit into 16 "
      "bits; quantize with --quantizer x86 "
      "--reduce-range",
      {names.begin(), names.end()}};
}

}  // namespace octet::onednn
