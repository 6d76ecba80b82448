// Dequantizes constants and reorders them into packed layouts.
#include "backends/onednn/builder/constants.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/onednn/library.h"
#include "backends/onednn/packed.h"
#include "core/base/error.h"
#include "lowering/program/stored_constant.h"

namespace octet::onednn {
namespace {

template <typename T>
std::vector<float> dequantized(const ProgramTensor& tensor) {
  const Tensor data = constant_data(tensor).contiguous();
  const T* values = data.data<T>();
  const size_t count = static_cast<size_t>(tensor.numel());
  std::vector<float> reals(count);
  if (!tensor.qparams) {
    std::copy(values, values + count, reals.begin());
    return reals;
  }
  const TensorQParams& q = *tensor.qparams;
  const size_t axis = q.is_per_tensor() ? 0 : static_cast<size_t>(q.axis);
  const int64_t slices = static_cast<int64_t>(q.scale.size());
  int64_t inner = 1;
  for (size_t d = q.is_per_tensor() ? tensor.shape.size() : axis + 1; d < tensor.shape.size(); ++d)
    inner *= tensor.shape[d];
  for (size_t i = 0; i < count; ++i) {
    const size_t slice =
        slices == 1 ? 0 : static_cast<size_t>(static_cast<int64_t>(i) / inner % slices);
    reals[i] =
        static_cast<float>(q.scale[slice] * (static_cast<double>(values[i]) -
                                             q.zero_point[q.zero_point.size() == 1 ? 0 : slice]));
  }
  return reals;
}

PackedBlock pack(const dnnl::memory::desc& plain, const void* data,
                 const dnnl::memory::desc& packed) {
  const std::shared_ptr<std::byte> block = aligned_block(static_cast<int64_t>(packed.get_size()));
  dnnl::memory source(plain, cpu_engine(), const_cast<void*>(data));
  dnnl::memory target(packed, cpu_engine(), block.get());
  dnnl::stream stream(cpu_engine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  return {block, packed.get_size()};
}

bool is_run(const SegmentBuilder& builder) {
  return builder.purpose() == SegmentBuilder::Purpose::kRun;
}

}  // namespace

std::vector<float> real_values(const ProgramTensor& t) {
  OCTET_ASSERT(t.is_constant(), t.name);
  switch (t.dtype) {
    case DType::kFloat32: return dequantized<float>(t);
    case DType::kUInt8: return dequantized<uint8_t>(t);
    case DType::kInt8: return dequantized<int8_t>(t);
    case DType::kInt32: return dequantized<int32_t>(t);
    default:
      throw Refusal{fmt::format("the constant {} is {}, want float32, int8, uint8 or int32", t.name,
                                name_of(t.dtype))};
  }
}

std::vector<float> parameter(const SegmentBuilder& builder, const ProgramOp& op, size_t i,
                             int64_t count, float fallback) {
  return op.has_input(i) ? real_values(builder.tensor(op.inputs[i]))
                         : std::vector<float>(static_cast<size_t>(count), fallback);
}

Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain, const Tensor& constant,
                 const dnnl::memory::desc& packed) {
  std::shared_ptr<void> bytes;
  if (is_run(builder))
    bytes = find_or_pack(constant, {"", plain, packed, packed.get_size()},
                         [&] { return pack(plain, constant.contiguous().raw(), packed); });
  return builder.add_bytes(std::move(bytes), static_cast<int64_t>(packed.get_size()));
}

Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const ProgramTensor& constant, const dnnl::memory::desc& packed) {
  if (!constant.stored) return add_packed(builder, plain, constant.data, packed);
  const StoredConstant& stored = *constant.stored;
  std::shared_ptr<void> bytes;
  if (is_run(builder))
    bytes = find_or_pack(stored, {"", plain, packed, packed.get_size()},
                         [&] { return pack(plain, expand(stored).raw(), packed); });
  return builder.add_bytes(std::move(bytes), static_cast<int64_t>(packed.get_size()));
}

Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const std::vector<float>& values, const dnnl::memory::desc& packed) {
  return builder.add_bytes(is_run(builder) ? pack(plain, values.data(), packed).bytes : nullptr,
                           static_cast<int64_t>(packed.get_size()));
}

}  // namespace octet::onednn
