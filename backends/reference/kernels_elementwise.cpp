// Elementwise ops with one operand: clamps, prelu, conversions, unary functions.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backends/kernels/dynamic_rows.h"
#include "backends/reference/elements.h"
#include "lowering/program/blocks.h"
#include "lowering/program/dynamic_range.h"
#include "lowering/program/real_functions.h"

namespace octet::reference {
namespace {

// ---- one operand

void clamp_whole(const KernelCall& call) {
  const int64_t low = least_integer(call.op, attr::kMin),
                high = greatest_integer(call.op, attr::kMax);
  Buffer<int64_t> y = elements<int64_t>(call, 0);
  for (int64_t& value : y) value = std::min(std::max(value, low), high);
  store_elements<int64_t>(call, y);
}

void clamp(const KernelCall& call) {
  if (is_all_whole(call)) return clamp_whole(call);
  const double low = call.op.get(attr::kMin, -INFINITY);
  const double high = call.op.get(attr::kMax, INFINITY);
  const Reals<double> x = doubles(call, 0);
  Buffer<double> y(x.data(), x.data() + x.size());
  for (double& value : y) value = std::isnan(value) ? value : std::min(std::max(value, low), high);
  store<double>(call, y);
}

void prelu(const KernelCall& call) {
  const Reals<double> x = doubles(call, 0);
  const Reals<double> weight = doubles(call, 1);
  const DimSplit split = weight.size() == 1 ? DimSplit{1, 1, static_cast<int64_t>(x.size())}
                                            : split_at(call.input_shape(0), 1);
  Buffer<double> y(x.size());
  size_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t c = 0; c < split.size; ++c)
      for (int64_t inner = 0; inner < split.inner; ++inner, ++i)
        y[i] = x[static_cast<int64_t>(i)] >= 0 ? x[static_cast<int64_t>(i)]
                                               : weight[c] * x[static_cast<int64_t>(i)];
  store<double>(call, y);
}

// ---- conversions

// quantize, dequantize, requantize: reads reals and stores them. quant_min and quant_max narrow the
// dtype's range.
void convert(const KernelCall& call) {
  const Reals<float> x = floats(call, 0);
  store<float>(call, {x.data(), x.size()});
  const ProgramTensor& info = call.output();
  if (!call.op.has(attr::kQuantMin) && !call.op.has(attr::kQuantMax)) return;
  const IntegerRange range = integer_range(info.dtype);
  const int64_t low = call.op.get(attr::kQuantMin, range.min);
  const int64_t high = call.op.get(attr::kQuantMax, range.max);
  const Tensor& out = call.outputs[0];
  for (int64_t i = 0, n = out.numel(); i < n; ++i) {
    const int64_t value = std::clamp<int64_t>(integer_at(out, i), low, high);
    // little endian
    std::memcpy(out.raw() + i * static_cast<int64_t>(size_of(info.dtype)), &value,
                size_of(info.dtype));
  }
}

void cast(const KernelCall& call) {
  if (is_all_whole(call)) return store_elements<int64_t>(call, elements<int64_t>(call, 0));
  const Reals<double> x = doubles(call, 0);
  store<double>(call, {x.data(), x.size()});
}

// As torch's ops do, adds the zero point after rounding in float, or before rounding in double.
void fake_quantize(float* values, int64_t count, const DynamicStep& step,
                   const DynamicMapping& mapping) {
  const float scale = static_cast<float>(step.scale), zero = static_cast<float>(step.zero_point);
  if (mapping.rounds_last()) {
    const double inverse = 1.0 / step.scale, low = static_cast<double>(mapping.quant_min),
                 high = static_cast<double>(mapping.quant_max);
    for (int64_t i = 0; i < count; ++i) {
      const double q = std::min(
          std::max(std::nearbyint(static_cast<double>(values[i]) * inverse + step.zero_point), low),
          high);
      values[i] = static_cast<float>((q - step.zero_point) * step.scale);
    }
    return;
  }
  const float inverse = 1.0f / scale;
  for (int64_t i = 0; i < count; ++i)
    values[i] = (std::min(std::max(std::nearbyint(values[i] * inverse) + zero, mapping.quant_min),
                          mapping.quant_max) -
                 zero) *
                scale;
}

// Maps the range of each block, widened to include 0, onto [quant_min, quant_max].
void fake_quantize_dynamic(const KernelCall& call) {
  const DynamicMapping mapping = dynamic_mapping(call.op);
  const Sizes blocks = call.sizes(attr::kBlocks, Sizes(call.input_shape(0).size(), 1));
  const Reals<float> x = floats(call, 0);
  Buffer<float> y(x.data(), x.data() + x.size());
  const size_t block_count = static_cast<size_t>(product(blocks));
  Buffer<float> low(block_count, 0.0f), high(block_count, 0.0f);
  for_each_block_run(call.input_shape(0), blocks, [&](int64_t first, int64_t count, int64_t block) {
    float& least = low[static_cast<size_t>(block)];
    float& most = high[static_cast<size_t>(block)];
    for (int64_t i = first; i < first + count; ++i) {
      least = std::min(least, y[static_cast<size_t>(i)]);
      most = std::max(most, y[static_cast<size_t>(i)]);
    }
  });
  Buffer<DynamicStep> steps;
  for (size_t block = 0; block < block_count; ++block)
    steps.push_back(choose_step(mapping, low[block], high[block]));
  for_each_block_run(call.input_shape(0), blocks, [&](int64_t first, int64_t count, int64_t block) {
    fake_quantize(y.data() + first, count, steps[static_cast<size_t>(block)], mapping);
  });
  store<float>(call, y);
}

void quantize_dynamic(const KernelCall& call) {
  const DynamicMapping mapping = {static_cast<float>(call.op.get(attr::kQuantMin)),
                                  static_cast<float>(call.op.get(attr::kQuantMax)),
                                  static_cast<float>(call.op.get(attr::kEps)), 0,
                                  call.op.get(attr::kMapping)};
  const Reals<float> x = floats(call, 0);
  const int64_t width = call.input_shape(0).back();
  uint8_t* const q = reinterpret_cast<uint8_t*>(call.outputs[0].raw());
  float* const scales = call.outputs[1].data<float>();
  for (int64_t row = 0, rows = call.outputs[1].numel(); row < rows; ++row) {
    const float* const from = x.data() + row * width;
    float low = 0, high = 0;
    find_range(from, width, &low, &high);
    const DynamicStep step = choose_step(mapping, low, high);
    quantize_block(from, q + row * width, width, mapping, step,
                   static_cast<int>(call.op.get(attr::kQuantMin)));
    const bool is_finite =
        std::all_of(from, from + width, [](float value) { return std::isfinite(value); });
    scales[row] = is_finite ? static_cast<float>(step.scale) : NAN;
  }
}

void give_size(const KernelCall& call) {
  *call.outputs[0].data<int64_t>() = call.op.get(attr::kSizeValue);
}

// ---- checks

Verdict check_dynamic(const Program& program, const ProgramOp& op) {
  if (Verdict same = check_same_shape(program, op); !same) return same;
  const std::vector<int64_t>& shape = find_input(program, op, 0)->shape;
  const std::vector<int64_t> blocks = op.get(attr::kBlocks, std::vector<int64_t>(shape.size(), 1));
  bool divides = blocks.size() == shape.size();
  for (size_t d = 0; divides && d < shape.size(); ++d)
    divides = blocks[d] > 0 ? shape[d] % blocks[d] == 0 : blocks[d] == 0 && shape[d] == 0;
  if (!divides)
    return Verdict::refuse(fmt::format("shape {} is cut into {} blocks, want divisors",
                                       shape_text(shape), shape_text(blocks)));
  if (op.get(attr::kQuantMin) >= op.get(attr::kQuantMax))
    return Verdict::refuse("quant_min is not below quant_max");
  return Verdict::accept();
}

Verdict check_quantize_dynamic(const Program& program, const ProgramOp& op) {
  if (Verdict same = check_same_shape(program, op); !same) return same;
  const ProgramTensor &x = program.input(op, 0), &q = program.output(op);
  if (x.dtype != DType::kFloat32 || q.dtype != DType::kInt8 || !q.qparams ||
      !q.qparams->is_identity() || program.output(op, 1).dtype != DType::kFloat32)
    return Verdict::refuse("it does not turn float32 into int8 with scale 1 and float32 scales");
  const IntegerRange range = integer_range(q.dtype);
  const int64_t low = op.get(attr::kQuantMin), high = op.get(attr::kQuantMax);
  if (low < range.min || low >= 0 || high > range.max || high <= 0)
    return Verdict::refuse(fmt::format("quant_min {} and quant_max {} do not fit int8", low, high));
  std::vector<int64_t> scales = x.shape;
  if (scales.empty()) return Verdict::refuse("its input has no rows");
  scales.back() = 1;
  return check_output_shape(program, op, 1, scales);
}

// quantize, dequantize, requantize
Verdict check_convert(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_same_shape(program, op); !shapes) return shapes;
  const ProgramTensor& y = program.tensor(op.outputs[0]);
  if (!y.qparams && !op.is("dequantize"))
    return Verdict::refuse("its output has no scale and zero point");
  if (!op.has(attr::kQuantMin) && !op.has(attr::kQuantMax)) return Verdict::accept();
  if (!y.qparams) return Verdict::refuse("it narrows the range of an output that is not quantized");
  const IntegerRange range = integer_range(y.dtype);
  const int64_t low = op.get(attr::kQuantMin, range.min), high = op.get(attr::kQuantMax, range.max);
  if (low < range.min || high > range.max || low > high)
    return Verdict::refuse(fmt::format("quant_min {} and quant_max {} are outside of {}", low, high,
                                       name_of(y.dtype)));
  return Verdict::accept();
}

Verdict check_prelu(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_same_shape(program, op); !shapes) return shapes;
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const int64_t count = find_input(program, op, 1)->numel();
  if (count != 1 && (x.size() < 2 || count != x[1]))
    return Verdict::refuse(fmt::format("{} slopes do not fit input {}", count, shape_text(x)));
  return Verdict::accept();
}

Verdict check_size(const Program& program, const ProgramOp& op) {
  const ProgramTensor& y = program.tensor(op.outputs[0]);
  if (y.dtype != DType::kInt64 || !y.shape.empty())
    return Verdict::refuse(fmt::format("gives {} of shape {}, want int64 without dimensions",
                                       name_of(y.dtype), shape_text(y.shape)));
  return Verdict::accept();
}

// ---- unary

// For bools and integers without qparams, without converting to reals.
struct WholeFunction {
  const char* name;
  int64_t (*value)(int64_t);
};

int64_t opposite(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
int64_t same(int64_t x) { return x; }

constexpr WholeFunction kWholeFunctions[] = {
    {"bitwise_not", [](int64_t x) { return ~x; }},
    {"neg", opposite},
    {"abs", [](int64_t x) { return x < 0 ? opposite(x) : x; }},
    {"sign", [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }},
    {"square",
     [](int64_t x) {
       return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
     }},
    {"ceil", same},
    {"floor", same},
    {"round", same},
    {"trunc", same},
};

// Returns a bool, from any dtype.
struct Predicate {
  const char* name;
  bool (*value)(double);
};
constexpr Predicate kPredicates[] = {
    {"logical_not", [](double x) { return x == 0; }},
    {"isnan", [](double x) { return std::isnan(x); }},
    {"isinf", [](double x) { return std::isinf(x); }},
    {"isfinite", [](double x) { return std::isfinite(x); }},
};

template <typename Row, size_t kCount>
const Row* find_row(const Row (&rows)[kCount], std::string_view name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

// For float32 and narrower operands, rounds once, to float.
template <typename T>
void map_real(const KernelCall& call, const RealFunction& function) {
  const double alpha = call.op.get(attr::kAlpha, function.alpha),
               threshold = call.op.get(attr::kThreshold);
  const Reals<T> x(call.inputs[0], call.input(0));
  Buffer<T> y(x.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<T>(
        function.value(static_cast<double>(x[static_cast<int64_t>(i)]), alpha, threshold));
  store<T>(call, y);
}

void unary(const KernelCall& call) {
  const std::string_view name = call.op.get(attr::kFn);
  if (const Predicate* predicate = find_row(kPredicates, name)) {
    const Reals<double> x = doubles(call, 0);
    Buffer<double> y(x.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = predicate->value(x[static_cast<int64_t>(i)]);
    return store<double>(call, y);
  }
  const WholeFunction* whole = find_row(kWholeFunctions, name);
  if (whole != nullptr && is_all_whole(call)) {
    Buffer<int64_t> y = elements<int64_t>(call, 0);
    // bitwise_not of a bool is logical not
    const bool is_not = call.input(0).dtype == DType::kBool && name == "bitwise_not";
    for (int64_t& value : y) value = is_not ? int64_t{value == 0} : whole->value(value);
    return store_elements<int64_t>(call, y);
  }
  const RealFunction& function = *find_real_function(name);
  call.input(0).dtype == DType::kFloat64 ? map_real<double>(call, function)
                                         : map_real<float>(call, function);
}

Verdict check_unary(const Program& program, const ProgramOp& op) {
  const std::string name = op.get(attr::kFn);
  const ProgramTensor& x = *find_input(program, op, 0);
  const ProgramTensor& y = program.output(op);
  if (find_row(kPredicates, name) != nullptr) {
    if (y.dtype != DType::kBool)
      return Verdict::refuse(
          fmt::format("{} returns bools, but its output is {}", name, name_of(y.dtype)));
  } else if (find_real_function(name) == nullptr && (!is_whole(x) || !is_whole(y))) {
    return Verdict::refuse(name + " wants integers or bools");
  }
  return check_output_shape(program, op, 0, x.shape);
}

// ---- the rows

constexpr KernelRow kElementwiseKernels[] = {
    {"clamp", clamp, check_same_shape},
    {"prelu", prelu, check_prelu},
    {"quantize", convert, check_convert},
    {"dequantize", convert, check_convert},
    {"requantize", convert, check_convert},
    {"cast", cast, check_same_shape},
    {"copy", cast, check_same_shape},
    {"size", give_size, check_size},
    {"fake_quantize_dynamic", fake_quantize_dynamic, check_dynamic},
    {"quantize_dynamic", quantize_dynamic, check_quantize_dynamic},
    {"unary", unary, check_unary},
};

}  // namespace

std::span<const KernelRow> elementwise_kernels() { return kElementwiseKernels; }

}  // namespace octet::reference
