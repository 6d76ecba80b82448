// Values, buffers and reorders of a segment under construction.
#include "backends/onednn/builder.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "backends/onednn/kernels/byte_loops.h"
#include "backends/onednn/library.h"
#include "backends/onednn/packed.h"
#include "backends/onednn/saturation.h"
#include "core/base/error.h"
#include "lowering/program/stored_constant.h"

namespace octet::onednn {
namespace {

const std::string_view kChannelsLastOps[] = {"conv", "conv_transpose", "max_pool", "avg_pool",
                                             "adaptive_avg_pool"};

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

std::shared_ptr<void> copy_of(const void* data, size_t bytes) {
  const std::shared_ptr<std::byte> block = aligned_block(static_cast<int64_t>(bytes));
  if (bytes > 0) std::memcpy(block.get(), data, bytes);
  return block;
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

}  // namespace

dnnl::primitive_attr new_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

SegmentBuilder::SegmentBuilder(const Program& program, const Segment& segment, Purpose purpose)
    : program_(program),
      segment_(segment),
      purpose_(purpose),
      kept_(program.tensors.size()),
      late_(program.tensors.size()),
      dynamic_(program.tensors.size()),
      is_read_inside_(program.tensors.size()),
      is_read_channels_last_(program.tensors.size()),
      is_second_factor_(program.tensors.size()),
      integers_(program.tensors.size()),
      only_reader_(program.tensors.size()) {
  for (int op_index : segment.ops) {
    const ProgramOp& op = program.op(op_index);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] < 0) continue;
      const size_t input = static_cast<size_t>(op.inputs[i]);
      const bool is_second_factor = op.kind == "matmul" && i == 1;
      is_second_factor_[input] =
          is_second_factor && (!is_read_inside_[input] || is_second_factor_[input]);
      only_reader_[input] = is_read_inside_[input] ? nullptr : &op;
      is_read_inside_[input] = true;
      if (i == 0 && std::find(std::begin(kChannelsLastOps), std::end(kChannelsLastOps), op.kind) !=
                        std::end(kChannelsLastOps))
        is_read_channels_last_[input] = true;
    }
  }
  for (int index : segment.outputs) only_reader_[static_cast<size_t>(index)] = nullptr;
  for (size_t i = 0; i < segment.inputs.size(); ++i)
    kept_[static_cast<size_t>(segment.inputs[i])] =
        load_external(segment.inputs[i], static_cast<int>(i));
}

void SegmentBuilder::begin_op(const ProgramOp& op) {
  doing_ = {&op};
  first_step_ = steps_.size();
}

void SegmentBuilder::end_op() {
  const ProgramOp& op = *doing_.front();
  const auto form = [&](int index) {
    const Stored* kept = index < 0 ? nullptr : find_kept(index);
    return kept == nullptr ? std::string("?") : to_text(*kept);
  };
  const std::string layout =
      fmt::format("{} -> {}", form(op.inputs[0]), form(doing_.back()->outputs[0]));
  for (size_t i = first_step_; i < steps_.size(); ++i) {
    steps_[i].ops = doing_;
    steps_[i].layout = layout;
  }
  first_step_ = steps_.size();
}

std::string SegmentBuilder::describe(const dnnl::post_ops& post_ops) {
  std::string text;
  for (int i = 0; i < post_ops.len(); ++i) {
    std::string one = "sum";
    if (post_ops.kind(i) == dnnl::primitive::kind::eltwise) {
      dnnl::algorithm algorithm{};
      float alpha = 0, beta = 0;
      post_ops.get_params_eltwise(i, algorithm, alpha, beta);
      one = dnnl_alg_kind2str(dnnl::convert_to_c(algorithm));
    } else if (post_ops.kind(i) == dnnl::primitive::kind::binary) {
      dnnl::algorithm algorithm{};
      dnnl::memory::desc operand;
      post_ops.get_params_binary(i, algorithm, operand);
      one = fmt::format("{} {}", dnnl_alg_kind2str(dnnl::convert_to_c(algorithm)),
                        dnnl_dt2str(dnnl::memory::convert_to_c(operand.get_data_type())));
    }
    text += (i == 0 ? "" : ", ") + one.substr(one.starts_with("eltwise_") ? 8 : 0);
  }
  return text;
}

int SegmentBuilder::add_buffer(Buffer buffer) {
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

Stored SegmentBuilder::load_external(int index, int position) {
  const ProgramTensor& t = tensor(index);
  const Quantity quantity = declared_quantity(index);
  const int buffer =
      add_buffer({BufferKind::kInput, t.numel() * bytes_of(quantity.type), position, nullptr});
  return {
      {buffer, 0},
      quantity, t.shape, row_major(t.shape)
  };
}

Stored SegmentBuilder::load_constant(int index) {
  const ProgramTensor& t = tensor(index);
  const Tensor data = constant_data(t).contiguous();
  return add_constant(t.shape, declared_quantity(index), row_major(t.shape),
                      std::shared_ptr<void>(std::make_shared<Tensor>(data), data.raw()));
}

std::vector<float> SegmentBuilder::real_values(int index) const {
  const ProgramTensor& t = tensor(index);
  OCTET_ASSERT(is_constant(index), t.name);
  switch (t.dtype) {
    case DType::kFloat32:
      return dequantized<float>(t);
    case DType::kUInt8:
      return dequantized<uint8_t>(t);
    case DType::kInt8:
      return dequantized<int8_t>(t);
    case DType::kInt32:
      return dequantized<int32_t>(t);
    default:
      throw Refusal{fmt::format("the constant {} is {}, want float32, int8, uint8 or int32", t.name,
                                name_of(t.dtype))};
  }
}

std::vector<float> SegmentBuilder::parameter(const ProgramOp& op, size_t i, int64_t count,
                                             float fallback) const {
  return op.has_input(i) ? real_values(op.inputs[i])
                         : std::vector<float>(static_cast<size_t>(count), fallback);
}

const Stored& SegmentBuilder::read(int index) {
  std::optional<Stored>& kept = kept_[static_cast<size_t>(index)];
  if (!kept && is_constant(index)) kept = load_constant(index);
  if (!kept && late_[static_cast<size_t>(index)]) kept = late_[static_cast<size_t>(index)]();
  OCTET_ASSERT(kept.has_value(), fmt::format("{} is read before it is made", tensor(index).name));
  return *kept;
}

const DynamicRows* SegmentBuilder::find_dynamic(int index) const {
  return dynamic_[static_cast<size_t>(index)].get();
}

uint8_t SegmentBuilder::highest_byte(int index) {
  if (highest_bytes_.empty()) highest_bytes_ = highest_bytes(program_);
  return highest_bytes_[static_cast<size_t>(index)];
}

bool SegmentBuilder::may_saturate(const ProgramOp& op, int magnitude) {
  if (!sums_in_16_bits() || fits_16_bits(highest_byte(op.inputs[0]), magnitude)) return false;
  saturating_.insert(op.name);
  return true;
}

bool SegmentBuilder::may_saturate(const ProgramOp& op, const Tensor& weights) {
  return sums_in_16_bits() && may_saturate(op, greatest_magnitude(weights));
}

Quantity SegmentBuilder::as_unsigned(Quantity quantity) {
  if (quantity.type == ElementType::s8)
    quantity = {ElementType::u8, quantity.scale, quantity.zero_point + 128};
  return quantity;
}

Quantity SegmentBuilder::declared_quantity(int index) const {
  const ProgramTensor& t = tensor(index);
  const ElementType type = element_type(t.dtype);
  if (type == ElementType::f32) return {};
  if (!t.qparams)
    throw Refusal{fmt::format("{} is {} without scale and zero point", t.name, name_of(t.dtype))};
  if (!t.qparams->is_per_tensor())
    throw Refusal{fmt::format("{} is quantized per channel, want per tensor", t.name)};
  if (type == ElementType::s32)
    throw Refusal{fmt::format("{} is int32, want int8, uint8 or float32", t.name)};
  return {type, t.qparams->scale[0], t.qparams->zero_point[0]};
}

Quantity SegmentBuilder::output_quantity(int index) const {
  const Quantity declared = declared_quantity(index);
  if (!is_read_inside_[static_cast<size_t>(index)]) return declared;
  if (!is_second_factor_[static_cast<size_t>(index)]) return as_unsigned(declared);
  if (declared.type == ElementType::u8)
    return {ElementType::s8, declared.scale, declared.zero_point - 128};
  return declared;
}

Stored SegmentBuilder::allocate(const Dims& shape, const Quantity& quantity, const Dims& strides) {
  const int buffer =
      add_buffer({BufferKind::kArena, product(shape) * bytes_of(quantity.type), -1, nullptr});
  return {
      {buffer, 0},
      quantity, shape, strides
  };
}

bool SegmentBuilder::place_inside(const Stored& made, const Stored& part) {
  if (made.place.buffer < 0 || made.place.offset != 0 || made.place.buffer == part.place.buffer)
    return false;
  Buffer& buffer = buffers_[static_cast<size_t>(made.place.buffer)];
  const bool is_own = buffer.kind == BufferKind::kArena && buffer.inside.buffer < 0 &&
                      buffer.bytes == made.numel() * bytes_of(made.quantity.type);
  if (!is_own || made.quantity != part.quantity || !is_dense(made.shape, made.strides) ||
      !same_strides(made.shape, made.strides, part.strides))
    return false;
  buffer.inside = part.place;
  return true;
}

Place SegmentBuilder::resolve(Place place) const {
  while (place.buffer >= 0 && buffers_[static_cast<size_t>(place.buffer)].inside.buffer >= 0) {
    const Place& inside = buffers_[static_cast<size_t>(place.buffer)].inside;
    place = {inside.buffer, inside.offset + place.offset};
  }
  return place;
}

Stored SegmentBuilder::add_constant(const Dims& shape, const Quantity& quantity,
                                    const Dims& strides, std::shared_ptr<void> data) {
  const int buffer = add_buffer(
      {BufferKind::kConstant, product(shape) * bytes_of(quantity.type), -1, std::move(data)});
  return {
      {buffer, 0},
      quantity, shape, strides
  };
}

Stored SegmentBuilder::add_floats(const std::vector<float>& values) {
  return add_constant({static_cast<int64_t>(values.size())}, {}, {1},
                      copy_of(values.data(), values.size() * sizeof(float)));
}

Stored SegmentBuilder::add_integers(const std::vector<int32_t>& values) {
  return add_constant({static_cast<int64_t>(values.size())}, {ElementType::s32, 1, 0}, {1},
                      copy_of(values.data(), values.size() * sizeof(int32_t)));
}

Place SegmentBuilder::add_bytes(std::shared_ptr<void> bytes, int64_t count) {
  return {add_buffer({BufferKind::kConstant, count, -1, std::move(bytes)}), 0};
}

Place SegmentBuilder::add_packed(const dnnl::memory::desc& plain, const Tensor& constant,
                                 const dnnl::memory::desc& packed) {
  std::shared_ptr<void> bytes;
  if (purpose_ == Purpose::kRun)
    bytes = find_or_pack(constant, {"", plain, packed},
                         [&] { return pack(plain, constant.contiguous().raw(), packed); });
  return add_bytes(std::move(bytes), static_cast<int64_t>(packed.get_size()));
}

Place SegmentBuilder::add_packed(const dnnl::memory::desc& plain, const ProgramTensor& constant,
                                 const dnnl::memory::desc& packed) {
  if (!constant.stored) return add_packed(plain, constant.data, packed);
  const StoredConstant& stored = *constant.stored;
  std::shared_ptr<void> bytes;
  if (purpose_ == Purpose::kRun)
    bytes = find_or_pack(stored, {"", plain, packed},
                         [&] { return pack(plain, expand(stored).raw(), packed); });
  return add_bytes(std::move(bytes), static_cast<int64_t>(packed.get_size()));
}

Place SegmentBuilder::add_packed(const dnnl::memory::desc& plain, const std::vector<float>& values,
                                 const dnnl::memory::desc& packed) {
  return add_bytes(purpose_ == Purpose::kRun ? pack(plain, values.data(), packed).bytes : nullptr,
                   static_cast<int64_t>(packed.get_size()));
}

void SegmentBuilder::refuse_reference_kernel(const char* what, const char* implementation) {
  const std::string name = implementation;
  if (name.rfind("ref", 0) == 0 || name.find(":ref") != std::string::npos)
    throw Refusal{fmt::format("this {} only has oneDNN's slow reference kernel ({})", what, name)};
}

void SegmentBuilder::add_loop(const char* what, Loop loop, std::vector<Place> arguments,
                              const char* kernel) {
  Step step;
  step.what = what;
  if (kernel != nullptr) step.kernel = fmt::format("own {}", kernel);
  step.loop = std::move(loop);
  for (const Place& place : arguments) step.arguments.push_back({0, {}, place});
  steps_.push_back(std::move(step));
}

Stored SegmentBuilder::convert(const Stored& from, const Quantity& quantity, const Dims& strides) {
  if (from.quantity == quantity && same_strides(from.shape, from.strides, strides))
    return {from.place, quantity, from.shape, strides};
  for (const Conversion& known : conversions_)
    if (known.from.place == from.place && known.from.shape == from.shape &&
        known.from.strides == from.strides && known.from.quantity == from.quantity &&
        known.to.quantity == quantity && same_strides(from.shape, known.to.strides, strides))
      return {known.to.place, quantity, from.shape, strides};
  const Stored to = allocate(from.shape, quantity, strides);
  add_reorder(from, to);
  conversions_.push_back({from, to});
  return to;
}

Stored SegmentBuilder::to_dense(const Stored& from, const Quantity& quantity) {
  return convert(from, quantity, dense_like(from.shape, from.strides));
}

Stored SegmentBuilder::to_real(int index, const Dims& strides) {
  return convert(read(index), Quantity{}, strides);
}

// One step when either only the quantity or only the order changes, else two. oneDNN 3.2's reorder
// computes wrong values for some shapes when it changes the order and has zero points as well, so
// it only ever changes the order here.
void SegmentBuilder::add_reorder(const Stored& from, const Stored& to) {
  if (from.quantity == to.quantity) {
    add_copy(*this, from, to);
    return;
  }
  const bool is_from_dense = is_dense(from.shape, from.strides);
  if (is_from_dense && same_strides(from.shape, from.strides, to.strides)) {
    add_change_of_quantity(*this, from, to);
    return;
  }
  // move the fewer bytes
  const bool moves_first =
      !is_from_dense || bytes_of(from.quantity.type) < bytes_of(to.quantity.type);
  const Stored middle = moves_first ? allocate(from.shape, from.quantity, to.strides)
                                    : allocate(from.shape, to.quantity, from.strides);
  if (moves_first) {
    add_copy(*this, from, middle);
    add_change_of_quantity(*this, middle, to);
  } else {
    add_change_of_quantity(*this, from, middle);
    add_copy(*this, middle, to);
  }
}

void SegmentBuilder::define(int index, const Stored& stored) {
  OCTET_ASSERT(product(stored.shape) == tensor(index).numel(), tensor(index).name);
  kept_[static_cast<size_t>(index)] = stored;
}

bool SegmentBuilder::redirect_output(const Stored& kept, int output_position) {
  Buffer& buffer = buffers_[static_cast<size_t>(kept.place.buffer)];
  if (buffer.kind != BufferKind::kArena || buffer.inside.buffer >= 0 || kept.place.offset != 0 ||
      buffer.bytes != kept.numel() * bytes_of(kept.quantity.type))
    return false;
  buffer.kind = BufferKind::kOutput;
  buffer.external = output_position;
  return true;
}

void SegmentBuilder::finish_outputs() {
  for (size_t i = 0; i < segment_.outputs.size(); ++i) {
    const int index = segment_.outputs[i];
    const ProgramTensor& t = tensor(index);
    const Stored kept = read(index);
    const Quantity quantity = declared_quantity(index);
    const Dims plain = row_major(t.shape);
    if (kept.quantity == quantity && same_strides(t.shape, kept.strides, plain) &&
        redirect_output(kept, static_cast<int>(i)))
      continue;
    const int buffer = add_buffer(
        {BufferKind::kOutput, t.numel() * bytes_of(quantity.type), static_cast<int>(i), nullptr});
    add_reorder(kept, {
                          {buffer, 0},
                          quantity, t.shape, plain
    });
  }
}

}  // namespace octet::onednn
