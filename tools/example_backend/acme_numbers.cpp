#include "acme_numbers.h"

#include <algorithm>
#include <cmath>

namespace acme {

using namespace octet;

namespace {

constexpr double kGreatestBias = 1 << 30;

// real / scale as an int8.
int32_t steps_of(double real, double scale) {
  return static_cast<int32_t>(std::clamp(std::nearbyint(real / scale), -128.0, 127.0));
}

double bias_at(const Tensor& data, int64_t channel, double step) {
  return data.dtype() == DType::kInt32 ? data.data<int32_t>()[channel]
                                       : double{data.data<float>()[channel]} / step;
}

bool has_one_scale(const ProgramTensor& tensor) {
  return tensor.dtype == DType::kInt8 && tensor.qparams && tensor.qparams->is_per_tensor() &&
         tensor.qparams->zero_point[0] == 0;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Verdict check_activation(const ProgramTensor& tensor) {
  if (tensor.is_constant()) return Verdict::refuse(tensor.name + " is a constant");
  if (!has_one_scale(tensor))
    return Verdict::refuse(tensor.name + " is not int8 with one scale and zero point 0");
  return Verdict::accept();
}

Verdict check_weight(const ProgramTensor& tensor) {
  if (!tensor.is_constant()) return Verdict::refuse(tensor.name + " is not a constant");
  if (!has_one_scale(tensor))
    return Verdict::refuse(tensor.name + " is not int8 with one scale and zero point 0");
  // 32 products of -128 and -128 would have 21 bits
  const int8_t* data = tensor.data.data<int8_t>();
  if (std::find(data, data + tensor.numel(), -128) != data + tensor.numel())
    return Verdict::refuse(tensor.name + " has weights of -128, the NPU multiplies by -127 to 127");
  return Verdict::accept();
}

Verdict check_same_numbers(const Program& program, const ProgramOp& op) {
  const ProgramTensor &x = program.input(op, 0), &y = program.output(op);
  for (const ProgramTensor* tensor : {&x, &y})
    if (Verdict fits = check_activation(*tensor); !fits) return fits;
  if (x.qparams != y.qparams) return Verdict::refuse("its scales differ");
  return Verdict::accept();
}

Verdict check_bias(const Program& program, const ProgramOp& op) {
  const ProgramTensor& bias = program.input(op, 2);
  if (!bias.is_constant() || !bias.data.defined())
    return Verdict::refuse("the bias is not a plain constant");
  const double step = sum_step(program, op);
  for (int64_t c = 0; c < bias.numel(); ++c)
    if (!(std::abs(bias_at(bias.data, c, step)) <= kGreatestBias))
      return Verdict::refuse("the bias has more than 2^30 steps of the sums");
  return Verdict::accept();
}

Verdict check_sram(int64_t bytes) {
  if (bytes <= kSramBytes) return Verdict::accept();
  return Verdict::refuse("its smallest tile has " + std::to_string(bytes) + " bytes, the SRAM " +
                         std::to_string(kSramBytes));
}

double scale_of(const ProgramTensor& activation) { return double{activation.qparams->scale[0]}; }

double sum_step(const Program& program, const ProgramOp& op) {
  return scale_of(program.input(op, 0)) * scale_of(program.input(op, 1));
}

std::optional<Ratio> find_ratio(double value) {
  int exponent = 0;
  int64_t multiplier = std::llround(std::ldexp(std::frexp(value, &exponent), 31));
  if (multiplier > INT32_MAX) {  // rounded up to 2^31
    multiplier /= 2;
    ++exponent;
  }
  const int shift = 31 - exponent;
  if (shift < 1 || shift > 62) return std::nullopt;
  return Ratio{static_cast<int32_t>(multiplier), shift};
}

Tensor bias_in_steps(const Program& program, const ProgramOp& op, int64_t channels) {
  Tensor result = Tensor::zeros(DType::kInt32, {channels});
  if (!op.has_input(2)) return result;
  const Tensor& data = program.input(op, 2).data;
  for (int64_t c = 0; c < channels; ++c)
    result.data<int32_t>()[c] =
        static_cast<int32_t>(std::nearbyint(bias_at(data, c, sum_step(program, op))));
  return result;
}

Range post_range(const ProgramOp& op, const ProgramTensor& y) {
  return {steps_of(op.get(attr::kPostMin, -INFINITY), scale_of(y)),
          steps_of(op.get(attr::kPostMax, INFINITY), scale_of(y))};
}

Function find_function(const ProgramOp& op) {
  if (op.is("requantize")) return [](const ProgramOp&, double x) { return x; };
  if (op.is("clamp"))
    return [](const ProgramOp& clamp, double x) {
      return std::min(std::max(x, clamp.get(attr::kMin, -INFINITY)),
                      clamp.get(attr::kMax, INFINITY));
    };
  const std::string& name = op.get(attr::kFn);
  if (name == "sigmoid") return [](const ProgramOp&, double x) { return sigmoid(x); };
  if (name == "silu") return [](const ProgramOp&, double x) { return x * sigmoid(x); };
  if (name == "tanh") return [](const ProgramOp&, double x) { return std::tanh(x); };
  return nullptr;
}

Tensor table_of(const Program& program, const ProgramOp& op) {
  const Function function = find_function(op);
  const double x_scale = scale_of(program.input(op, 0)), y_scale = scale_of(program.output(op));
  const int64_t low = op.is("requantize") ? op.get(attr::kQuantMin, -128) : -128;
  const int64_t high = op.is("requantize") ? op.get(attr::kQuantMax, 127) : 127;
  Tensor table = Tensor::zeros(DType::kInt8, {kTableBytes});
  for (int x = -128; x < 128; ++x)
    table.data<int8_t>()[x + 128] = static_cast<int8_t>(
        std::clamp<int64_t>(steps_of(function(op, x * x_scale), y_scale), low, high));
  return table;
}

}  // namespace acme
