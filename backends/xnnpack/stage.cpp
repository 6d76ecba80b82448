#include "backends/xnnpack/stage.h"

#include <limits>
#include <new>

#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

xnn_datatype datatype_of(DType dtype, bool is_per_channel) {
  switch (dtype) {
    case DType::kFloat32: return xnn_datatype_fp32;
    case DType::kInt8:
    case DType::kUInt8: return is_per_channel ? xnn_datatype_qcint8 : xnn_datatype_qint8;
    case DType::kInt32: return is_per_channel ? xnn_datatype_qcint32 : xnn_datatype_qint32;
    default: OCTET_ASSERT(false, "no XNNPACK datatype");
  }
}

}  // namespace

OutputRange post_range_of(const ProgramOp& op) {
  const double infinity = std::numeric_limits<double>::infinity();
  return {static_cast<float>(op.find(attr::kPostMin).value_or(-infinity)),
          static_cast<float>(op.find(attr::kPostMax).value_or(infinity))};
}

OutputRange quantized_range_of(const Program& program, const ProgramOp& op) {
  const auto real = [&](const attr::Integer& key, float fallback) {
    const std::optional<int64_t> end = op.find(key);
    if (!end) return fallback;
    const TensorQParams& qparams = *program.output(op).qparams;
    return static_cast<float>(double{qparams.scale[0]} *
                              static_cast<double>(*end - qparams.zero_point[0]));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  return {real(attr::kQuantMin, -infinity), real(attr::kQuantMax, infinity)};
}

StageBuilder::StageBuilder(const Program& program, const Stage& stage)
    : program_(program), stage_(stage) {
  uint32_t next = 0;
  for (const BufferKey& key : stage.reads) result_.ids[key] = next++;
  for (const BufferKey& key : stage.writes) result_.ids[key] = next++;
  xnn_subgraph_t subgraph = nullptr;
  const xnn_status status = xnn_create_subgraph(next, 0, &subgraph);
  subgraph_.reset(subgraph);
  require_success(status, "xnn_create_subgraph");
}

template <typename T>
const T* StageBuilder::keep(std::vector<T> values, std::vector<std::shared_ptr<void>>& place) {
  std::shared_ptr<std::vector<T>> kept = std::make_shared<std::vector<T>>(std::move(values));
  const T* data = kept->data();
  place.push_back(std::move(kept));
  return data;
}

uint32_t StageBuilder::define(DType dtype, const std::vector<size_t>& dims,
                              const Quantization* quantization, const void* data,
                              uint32_t external_id, uint32_t flags) {
  uint32_t id = XNN_INVALID_VALUE_ID;
  if (quantization == nullptr) {
    require_success(xnn_define_tensor_value(subgraph(), datatype_of(dtype, false), dims.size(),
                                            dims.data(), data, external_id, flags, &id),
                    "xnn_define_tensor_value");
  } else if (quantization->scale.size() == 1) {
    require_success(
        xnn_define_quantized_tensor_value(subgraph(), datatype_of(dtype, false),
                                          quantization->zero_point, quantization->scale[0],
                                          dims.size(), dims.data(), data, external_id, flags, &id),
        "xnn_define_quantized_tensor_value");
  } else {
    const float* scales = keep(quantization->scale);
    require_success(xnn_define_channelwise_quantized_tensor_value(
                        subgraph(), datatype_of(dtype, true), scales, dims.size(),
                        quantization->channel_dim, dims.data(), data, external_id, flags, &id),
                    "xnn_define_channelwise_quantized_tensor_value");
  }
  return id;
}

uint32_t StageBuilder::define_like(const ProgramTensor& tensor, const std::vector<size_t>& dims,
                                   const void* data, uint32_t external_id, uint32_t flags) {
  if (tensor.dtype == DType::kFloat32)
    return define(tensor.dtype, dims, nullptr, data, external_id, flags);
  const Quantization quantization{.scale = tensor.qparams->scale,
                                  .zero_point = signed_zero_point(tensor)};
  return define(tensor.dtype, dims, &quantization, data, external_id, flags);
}

uint32_t StageBuilder::input(int index, Form form, size_t rank) {
  const ProgramTensor& tensor = program_.tensor(index);
  if (tensor.is_constant()) {
    const std::vector<std::byte> bytes = constant_bytes(tensor, form, rank);
    return define_like(tensor, dims_of(padded_shape(tensor.shape, rank), form), keep(bytes),
                       XNN_INVALID_VALUE_ID, 0);
  }
  auto it = values_.find({index, form});
  if (it != values_.end()) return it->second;
  const std::vector<size_t> dims = dims_of(tensor.shape, form);
  const Order order = order_of(tensor.shape, form);
  for (const std::pair<const std::pair<int, Form>, uint32_t>& value : values_) {
    if (value.first.first != index || order_of(tensor.shape, value.first.second) != order) continue;
    const uint32_t id = define_like(tensor, dims, nullptr, XNN_INVALID_VALUE_ID, 0);
    require_success(
        xnn_define_static_reshape(subgraph(), dims.size(), dims.data(), value.second, id, 0),
        "xnn_define_static_reshape");
    return values_[{index, form}] = id;
  }
  const BufferKey key{index, order};
  OCTET_ASSERT(stage_.reads.count(key), "the plan lists what a stage reads");
  return values_[{index, form}] =
             define_like(tensor, dims, nullptr, result_.ids.at(key), XNN_VALUE_FLAG_EXTERNAL_INPUT);
}

uint32_t StageBuilder::output(int index, Form form) {
  const ProgramTensor& tensor = program_.tensor(index);
  const BufferKey key{index, order_of(tensor.shape, form)};
  const bool is_external = stage_.writes.count(key) != 0;
  const uint32_t id = define_like(tensor, dims_of(tensor.shape, form), nullptr,
                                  is_external ? result_.ids.at(key) : XNN_INVALID_VALUE_ID,
                                  is_external ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0);
  return values_[{index, form}] = id;
}

uint32_t StageBuilder::scratch(const ProgramTensor& like, const std::vector<size_t>& dims) {
  return define_like(like, dims, nullptr, XNN_INVALID_VALUE_ID, 0);
}

uint32_t StageBuilder::scalar_f32(float value) {
  // One element, with padding for kernels that read a whole vector.
  return define(DType::kFloat32, {1}, nullptr,
                keep(std::vector<float>(1 + kExtraBytes / sizeof(float), value)),
                XNN_INVALID_VALUE_ID, 0);
}

uint32_t StageBuilder::scalar_s8(int8_t value, float scale) {
  const Quantization quantization{.scale = {scale}};
  return define(DType::kInt8, {1}, &quantization, keep(std::vector<int8_t>(1 + kExtraBytes, value)),
                XNN_INVALID_VALUE_ID, 0);
}

uint32_t StageBuilder::filter(DType dtype, const std::vector<size_t>& dims, const void* data,
                              std::shared_ptr<void> owner, Quantization quantization) {
  packed_.push_back(std::move(owner));
  return define(dtype, dims, dtype == DType::kFloat32 ? nullptr : &quantization, data,
                XNN_INVALID_VALUE_ID, 0);
}

uint32_t StageBuilder::bias_f32(std::vector<float> values) {
  const std::vector<size_t> dims{values.size()};
  return define(DType::kFloat32, dims, nullptr, keep(std::move(values), packed_),
                XNN_INVALID_VALUE_ID, 0);
}

uint32_t StageBuilder::bias_s32(std::vector<int32_t> values, Quantization quantization) {
  const std::vector<size_t> dims{values.size()};
  return define(DType::kInt32, dims, &quantization, keep(std::move(values), packed_),
                XNN_INVALID_VALUE_ID, 0);
}

StageRuntime StageBuilder::finish(pthreadpool_t pool) {
  xnn_runtime_t runtime = nullptr;
  const xnn_status status = xnn_create_runtime_v2(subgraph(), pool, 0, &runtime);
  result_.runtime.reset(runtime);
  require_success(status, "xnn_create_runtime_v2");
  // If memory for buffers runs out, XNNPACK reports success without a runtime, which later calls
  // would dereference.
  if (runtime == nullptr) throw std::bad_alloc();
  subgraph_.reset();
  packed_.clear();
  return std::move(result_);
}

}  // namespace octet::xnnpack
