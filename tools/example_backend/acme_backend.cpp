// Implements the backend with int32 sums of products and one multiplier per output channel, rounded
// half to even. Results are within one step of the reference.
#include "acme_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/registry.h"

namespace acme {

using namespace octet;

namespace {

constexpr const char* kDriverVersion = "1.0";

// ---- what is accepted ----

Verdict check_activation(const ProgramTensor& tensor) {
  if (tensor.dtype != DType::kInt8 || !tensor.qparams || !tensor.qparams->is_per_tensor())
    return Verdict::refuse(tensor.name + " is not int8 with one scale, as the NPU wants it");
  return Verdict::accept();
}

Verdict check_product(const Program& program, const ProgramOp& op) {
  if (Verdict x = check_activation(program.tensor(op.inputs[0])); !x) return x;
  if (Verdict y = check_activation(program.tensor(op.outputs[0])); !y) return y;
  const ProgramTensor& w = program.tensor(op.inputs[1]);
  if (!w.is_constant() || w.dtype != DType::kInt8 || !w.qparams)
    return Verdict::refuse(w.name + " is not a constant of int8");
  for (int32_t zero_point : w.qparams->zero_point)
    if (zero_point != 0) return Verdict::refuse(w.name + " has a zero point, want 0");
  if (op.inputs.size() > 2 && op.inputs[2] >= 0 && !program.tensor(op.inputs[2]).is_constant())
    return Verdict::refuse("the bias is not constant");
  return Verdict::accept();
}

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
}

Verdict check_conv(const Program& program, const ProgramOp& op) {
  if (program.tensor(op.inputs[0]).shape.size() != 4) return Verdict::refuse("it is not 2-d");
  if (op.get(attr::kGroups) != 1) return Verdict::refuse("it has groups");
  if (!all_are(op.get(attr::kDilation), 1)) return Verdict::refuse("it is dilated");
  if (op.get(attr::kPaddingEnd, op.get(attr::kPadding)) != op.get(attr::kPadding))
    return Verdict::refuse("its padding differs before and after");
  return check_product(program, op);
}

// ---- what runs ----

// Treats a linear layer as a convolution of one pixel.
struct Sizes {
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  int64_t stride_y = 1, stride_x = 1, pad_y = 0, pad_x = 0;
};

Sizes sizes_of(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = program.tensor(op.inputs[0]).shape;
  const std::vector<int64_t>& w = program.tensor(op.inputs[1]).shape;
  const std::vector<int64_t>& y = program.tensor(op.outputs[0]).shape;
  if (op.is("linear")) return {product(x) / w[1], w[1], 1, 1, w[0], 1, 1, 1, 1};
  const std::vector<int64_t> stride = op.get(attr::kStride, {1, 1});
  const std::vector<int64_t> pad = op.get(attr::kPadding, {0, 0});
  return {x[0], x[1], x[2],      x[3],      w[0],   w[2],  w[3],
          y[2], y[3], stride[0], stride[1], pad[0], pad[1]};
}

struct Product {
  Sizes sizes;
  int x, y;  // tensors of the program
  std::vector<int8_t> weight;
  std::vector<int32_t> bias;      // in steps of the accumulator
  std::vector<float> multiplier;  // steps of the output per step of the accumulator
  int32_t x_zero, y_zero, low, high;
};

Product make_product(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = program.tensor(op.inputs[0]);
  const ProgramTensor& w = program.tensor(op.inputs[1]);
  const ProgramTensor& y = program.tensor(op.outputs[0]);
  Product product{sizes_of(program, op), op.inputs[0], op.outputs[0], {}, {}, {}, 0, 0, 0, 0};
  product.weight.assign(w.data.data<int8_t>(), w.data.data<int8_t>() + w.data.numel());
  product.x_zero = x.qparams->zero_point[0];
  product.y_zero = y.qparams->zero_point[0];
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  for (int64_t c = 0; c < product.sizes.out; ++c) {
    const float w_scale = w.qparams->scale[w.qparams->is_per_tensor() ? 0 : static_cast<size_t>(c)];
    const float step = x.qparams->scale[0] * w_scale;
    product.multiplier.push_back(step / y.qparams->scale[0]);
    int32_t bias = 0;
    if (has_bias) {
      const Tensor& data = program.tensor(op.inputs[2]).data;
      bias = data.dtype() == DType::kInt32
                 ? data.data<int32_t>()[c]
                 : static_cast<int32_t>(std::nearbyint(data.data<float>()[c] / step));
    }
    product.bias.push_back(bias);
  }
  // the clamp from a relu, in steps of the output
  const auto bound = [&](const attr::Real& key, int32_t end) {
    const std::optional<double> real = op.find(key);
    if (!real || std::isinf(*real)) return end;
    return std::clamp(
        static_cast<int32_t>(std::nearbyint(*real / y.qparams->scale[0])) + product.y_zero, -128,
        127);
  };
  product.low = bound(attr::kPostMin, -128);
  product.high = bound(attr::kPostMax, 127);
  return product;
}

void run_product(const Product& p, const int8_t* x, int8_t* y) {
  const Sizes& s = p.sizes;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out; ++o)
      for (int64_t i = 0; i < s.out_height; ++i)
        for (int64_t j = 0; j < s.out_width; ++j) {
          int32_t sum = p.bias[static_cast<size_t>(o)];
          for (int64_t c = 0; c < s.in; ++c)
            for (int64_t u = 0; u < s.kernel_height; ++u)
              for (int64_t v = 0; v < s.kernel_width; ++v) {
                const int64_t row = i * s.stride_y - s.pad_y + u;
                const int64_t column = j * s.stride_x - s.pad_x + v;
                if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
                const int64_t at = ((o * s.in + c) * s.kernel_height + u) * s.kernel_width + v;
                const int32_t value = x[((n * s.in + c) * s.height + row) * s.width + column];
                sum += (value - p.x_zero) * p.weight[static_cast<size_t>(at)];
              }
          const float real =
              std::nearbyint(static_cast<float>(sum) * p.multiplier[static_cast<size_t>(o)]);
          const float low = static_cast<float>(p.low - p.y_zero);
          const float high = static_cast<float>(p.high - p.y_zero);
          y[((n * s.out + o) * s.out_height + i) * s.out_width + j] =
              static_cast<int8_t>(static_cast<int32_t>(std::clamp(real, low, high)) + p.y_zero);
        }
}

class NpuSegment : public CompiledSegment {
 public:
  NpuSegment(const Program& program, const Segment& segment)
      : segment_(segment), tensors_(program.tensors.size()) {
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      names_.push_back(op.name);
      products_.push_back(make_product(program, op));
      const ProgramTensor& y = program.tensor(op.outputs[0]);
      tensors_[static_cast<size_t>(op.outputs[0])] = Tensor::zeros(y.dtype, y.shape);
    }
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    for (size_t i = 0; i < inputs.size(); ++i)
      tensors_[static_cast<size_t>(segment_.inputs[i])] = inputs[i];
    for (size_t i = 0; i < outputs.size(); ++i)
      tensors_[static_cast<size_t>(segment_.outputs[i])] = outputs[i];
    for (const Product& product : products_)
      run_product(product, tensors_[static_cast<size_t>(product.x)].data<int8_t>(),
                  tensors_[static_cast<size_t>(product.y)].data<int8_t>());
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> reports;
    for (const std::string& name : names_)
      reports.push_back({{name}, "product", "acme", "i8 -> i8", "", 0, ""});
    return reports;
  }

 private:
  const Segment segment_;
  std::vector<Tensor> tensors_;  // by index in the program
  std::vector<Product> products_;
  std::vector<std::string> names_;
};

}  // namespace

std::map<std::string, std::string> NpuSupport::versions() const {
  return {{"acme_driver", kDriverVersion}};
}

Verdict NpuSupport::accepts(const Program& program, const ProgramOp& op) const {
  if (op.is("linear")) return check_product(program, op);
  if (op.is("conv")) return check_conv(program, op);
  return Verdict::refuse("the NPU has no " + op.kind);
}

std::vector<Tolerance> NpuSupport::tolerances() const {
  const char* const reason = "a float bias is rounded to the steps of the sums";
  return {{"conv", 1, 0, reason}, {"linear", 1, 0, reason}, {"model", 3, 0, reason}};
}

std::map<std::string, std::string> NpuBackend::versions() const { return NpuSupport().versions(); }

std::unique_ptr<CompiledSegment> NpuBackend::compile(const Program& program, const Segment& segment,
                                                     int) const {
  return std::make_unique<NpuSegment>(program, segment);
}

void register_npu() {
  register_backend(
      "acme", [] { return std::make_unique<NpuBackend>(); },
      [] { return std::make_unique<NpuSupport>(); });
}

}  // namespace acme
