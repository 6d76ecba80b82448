// Reads the tensors of an op as real numbers and writes its results, for the reference kernels.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/reference/scratch.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/number_types.h"
#include "core/base/report.h"
#include "core/base/shape.h"
#include "lowering/program/program.h"

namespace octet::reference {

// One op about to run. Tensors are contiguous. Absent inputs are undefined, and so are inputs that
// the kernel reads in their stored form.
struct KernelCall {
  const Program& program;
  const ProgramOp& op;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;

  size_t input_count() const { return inputs.size(); }
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  const ProgramTensor& input(size_t i) const { return program.tensor(op.inputs[i]); }
  const ProgramTensor& output(size_t i = 0) const { return program.tensor(op.outputs[i]); }
  const std::vector<int64_t>& input_shape(size_t i) const { return input(i).shape; }
  const std::vector<int64_t>& output_shape() const { return output().shape; }

  // As op.get(key, fallback), without heap allocation.
  Sizes sizes(const attr::Integers& key, const Sizes& fallback) const;
};

// Whether the kernel reads this input in its stored form, so that it need not be expanded: the
// table of an embedding.
inline bool reads_as_stored(const ProgramOp& op, size_t input, const ProgramTensor& tensor) {
  return tensor.stored && input == 0 && (op.is("embedding") || op.is("embedding_bag"));
}

// NaN wins, as in torch.
inline double lesser(double a, double b) { return std::isnan(a) || a < b ? a : b; }
inline double greater(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// Convolutions and pooling compute in three dimensions; missing leading dimensions have size 1.
inline constexpr size_t kMaxSpatial = 3;
using Size3 = std::array<int64_t, kMaxSpatial>;

// The windows of a convolution or pooling, with leading spatial dimensions of size 1 up to three.
struct SpatialWindows {
  Size3 in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
  // sizes: of the kernel. default_stride: if the op has none.
  void set(const KernelCall& call, std::span<const int64_t> sizes, const Sizes& default_stride);
};

using Kernel = void (*)(const KernelCall&);

struct KernelRow {
  OpKind kind;
  Kernel run;
  // checks shapes, dtypes and combinations of attributes. May assume valid tensor indices and that
  // the op satisfies the contract of its kind
  Verdict (*check)(const Program&, const ProgramOp&);
};
// Null for kinds without a reference kernel: control flow, and ops of other backends only.
const KernelRow* find_kernel(std::string_view kind);

// The rows of each family.
std::span<const KernelRow> conv_kernels();
std::span<const KernelRow> matmul_kernels();
std::span<const KernelRow> elementwise_kernels();
std::span<const KernelRow> binary_kernels();
std::span<const KernelRow> index_kernels();
std::span<const KernelRow> order_kernels();
std::span<const KernelRow> linalg_kernels();
std::span<const KernelRow> sample_kernels();
std::span<const KernelRow> pool_kernels();
std::span<const KernelRow> reduce_kernels();
std::span<const KernelRow> norm_kernels();
std::span<const KernelRow> shape_kernels();

// The elements of a tensor as reals, row-major: a view if they are stored as T, else a converted
// copy. Integers with qparams give scale * (q - zero_point), others their value.
template <typename T>
class Reals {
 public:
  Reals(const Tensor& tensor, const ProgramTensor& info);
  const T* data() const { return view_.data(); }
  T operator[](int64_t i) const { return view_[static_cast<size_t>(i)]; }
  size_t size() const { return view_.size(); }

 private:
  Buffer<T> owned_;
  std::span<const T> view_;
};

inline Reals<float> floats(const KernelCall& call, size_t i) {
  return Reals<float>(call.inputs[i], call.input(i));
}
inline Reals<double> doubles(const KernelCall& call, size_t i) {
  return Reals<double>(call.inputs[i], call.input(i));
}
template <typename T>
Reals<T> reals_of(const KernelCall& call, size_t i) {
  return Reals<T>(call.inputs[i], call.input(i));
}
// Runs the kernel for double if the first input is float64, else the kernel for float.
template <Kernel kSingle, Kernel kDouble>
void by_precision(const KernelCall& call) {
  call.input(0).dtype == DType::kFloat64 ? kDouble(call) : kSingle(call);
}

// Reads row `row` of a table [rows, values.size()] as reals. `table` is ignored when the table is
// stored.
void read_row(const Tensor& table, const ProgramTensor& info, int64_t row, std::span<float> values);

// Applies the op's post_min and post_max and stores `values` in the output's dtype: quantized if it
// has qparams, rounded to even and clamped for other integers, else cast.
template <typename T>
void store(const KernelCall& call, std::span<const T> values, size_t output = 0);

// round_half_even, NaN gives 0, clamped to the dtype's range.
int64_t round_to(double value, const IntegerRange& range);

// Reads one integer of up to 32 bits.
inline int32_t integer_at(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kInt8: return tensor.data<int8_t>()[i];
    case DType::kUInt8: return tensor.data<uint8_t>()[i];
    case DType::kInt16: return tensor.data<int16_t>()[i];
    case DType::kUInt16: return tensor.data<uint16_t>()[i];
    default: return tensor.data<int32_t>()[i];
  }
}

// Whether the dtype is an integer of up to 16 bits with qparams, so that products fit 64-bit
// accumulators.
bool is_small_quantized(const ProgramTensor& tensor);

// Integer values minus their zero point (per tensor, or along axis 0). They need at most 17 bits,
// for 16-bit dtypes.
Buffer<int32_t> centered(const Tensor& tensor, const ProgramTensor& info);

// Scale of slice `channel` (the same for all when per tensor).
inline double scale_at(const TensorQParams& qparams, int64_t channel) {
  return qparams.scale[qparams.is_per_tensor() ? 0 : static_cast<size_t>(channel)];
}

// A bias [channels] in real units, zeros when absent.
Buffer<double> bias_or_zeros(const KernelCall& call, size_t input, int64_t channels);

// Walks the elements of `shape` in row-major order and gives their offsets under `strides` (0 in
// broadcast dimensions).
class StridedWalk {
 public:
  StridedWalk(std::span<const int64_t> shape, Sizes strides)
      : shape_(shape.begin(), shape.end()),
        strides_(std::move(strides)),
        index_(shape_.size(), 0) {}
  int64_t offset() const { return offset_; }
  void next() {
    for (size_t d = shape_.size(); d-- > 0;) {
      offset_ += strides_[d];
      if (++index_[d] < shape_[d]) return;
      offset_ -= strides_[d] * shape_[d];
      index_[d] = 0;
    }
  }

 private:
  Sizes shape_;
  Sizes strides_;
  Sizes index_;
  int64_t offset_ = 0;
};

// Row-major strides of `shape`.
Sizes strides_of(std::span<const int64_t> shape);
// Strides of `shape` seen as `target` (aligned at the last dimension), 0 where it is broadcast.
Sizes broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> target);
bool is_broadcastable(const std::vector<int64_t>& shape, const std::vector<int64_t>& target);

// Size before, of, and after dimension `dim`.
struct DimSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
DimSplit split_at(const std::vector<int64_t>& shape, size_t dim);

// ---- helpers of the checks

// The limit of sizes in attributes, so that sums and products with dimensions fit 64 bits.
inline constexpr int64_t kLargestAttribute = int64_t{1} << 30;

// The tensor of input i; null when absent.
const ProgramTensor* find_input(const Program& program, const ProgramOp& op, size_t i);
// Checks the attributes that have an entry per spatial dimension: the number of entries, and the
// range of each.
Verdict check_windows(const ProgramOp& op, size_t spatial);
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace octet::reference
