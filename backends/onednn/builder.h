// Collects the steps of one segment: oneDNN primitives and own loops on buffers whose addresses are
// planned afterwards.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/onednn/form.h"
#include "lowering/program/program.h"

namespace octet::onednn {

enum class BufferKind { kArena, kInput, kOutput, kConstant };

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  int64_t bytes = 0;
  int external = -1;               // kInput, kOutput: index into the segment's inputs or outputs
  std::shared_ptr<void> constant;  // kConstant: keeps the bytes alive
  // kArena: the part of another buffer that it is; none when its buffer is -1
  Place inside = {};
};

// An own loop; gets the addresses of the step's arguments, in their order.
using Loop = std::function<void(std::byte* const* arguments)>;

struct Argument {
  int kind = 0;             // DNNL_ARG_...; not used by loops
  dnnl::memory::desc desc;  // not used by loops
  Place place;
};

struct Step {
  const char* what = "";
  std::string kernel = "own";  // oneDNN's name of the implementation
  std::string post_ops;
  std::string layout;
  std::vector<const ProgramOp*> ops;
  dnnl::primitive primitive;  // empty for loops, and when proving
  Loop loop;
  std::vector<Argument> arguments;
  int64_t scratch_bytes = 0;
  // DNNL_ARG_DST may be the memory of DNNL_ARG_SRC; of loops, the last argument that of the first
  bool can_be_in_place = false;
};

struct DynamicRows;  // backends/onednn/kernels/rows.h

class SegmentBuilder {
 public:
  // Proving stops at primitive descriptors: nothing is generated, packed or run.
  enum class Purpose { kRun, kProve };

  SegmentBuilder(const Program& program, const Segment& segment, Purpose purpose);

  const ProgramTensor& tensor(int index) const { return program_.tensor(index); }
  bool is_constant(int index) const { return tensor(index).is_constant(); }
  // The constant's values as floats in real units, row-major. `index` must be a constant.
  std::vector<float> real_values(int index) const;
  // The constant input as floats, or `fallback` repeated when it is absent.
  std::vector<float> parameter(const ProgramOp& op, size_t i, int64_t count, float fallback) const;

  // How the tensor is kept now.
  const Stored& read(int index);
  // In place of define(), for a tensor that some ops read in another form: `make` gives the usual
  // form when the first op asks for it.
  void define_later(int index, std::function<Stored()> make) {
    late_[static_cast<size_t>(index)] = std::move(make);
  }
  // The integers that a float tensor was dequantized from; null when there are none. `kept` is how
  // they are kept.
  const Stored* find_integers(int index) const {
    return integers_[static_cast<size_t>(index)] ? &*integers_[static_cast<size_t>(index)]
                                                 : nullptr;
  }
  void define_integers(int index, const Stored& kept) {
    integers_[static_cast<size_t>(index)] = kept;
  }
  // Whether read() gives it already.
  bool is_made(int index) const {
    return is_constant(index) || find_kept(index) != nullptr ||
           late_[static_cast<size_t>(index)] != nullptr;
  }
  // As it is kept now, null when nothing asked for it yet.
  const Stored* find_kept(int index) const {
    return kept_[static_cast<size_t>(index)] ? &*kept_[static_cast<size_t>(index)] : nullptr;
  }
  // The only op in here that reads the tensor; null when there are others, or when the tensor
  // leaves the segment.
  const ProgramOp* find_only_reader(int index) const {
    return only_reader_[static_cast<size_t>(index)];
  }
  // The op's work is part of an earlier one; nothing is to be emitted for it.
  void absorb(const ProgramOp& op) {
    absorbed_.insert(&op);
    doing_.push_back(&op);
  }
  bool is_absorbed(const ProgramOp& op) const { return absorbed_.contains(&op); }
  // Between the two stand the steps of one op: what `kernels()` tells of them.
  void begin_op(const ProgramOp& op);
  void end_op();
  // The integers behind a float tensor that was quantized at run time; null when there are none.
  const DynamicRows* find_dynamic(int index) const;
  void define_dynamic(int index, std::shared_ptr<const DynamicRows> rows) {
    dynamic_[static_cast<size_t>(index)] = std::move(rows);
  }
  // The same reals in another order and quantity: itself, or through a reorder (made once).
  Stored convert(const Stored& from, const Quantity& quantity, const Dims& strides);
  // Of any order without gaps.
  Stored to_dense(const Stored& from, const Quantity& quantity);
  Stored to_real(int index, const Dims& strides);  // f32
  // u8 or s8 as u8 with its zero point shifted; f32 stays.
  static Quantity as_unsigned(Quantity quantity);

  // In which quantity the op that makes the tensor should write it: as_unsigned of the declared one
  // when ops in here read it.
  Quantity output_quantity(int index) const;
  // The declared one. Throws Refusal when the tensor is quantized per channel.
  Quantity declared_quantity(int index) const;
  // Whether the product of the op's first input and weights of at most `magnitude` is to be
  // computed in floats: saturation.h. Such ops are remembered.
  bool may_saturate(const ProgramOp& op, int magnitude);
  bool may_saturate(const ProgramOp& op, const Tensor& weights);  // int8
  const std::set<std::string>& saturating_ops() const { return saturating_; }
  // The greatest byte that the tensor can hold, kept as u8.
  uint8_t highest_byte(int index);
  // An op in here that works channels-last reads the tensor.
  bool prefers_channels_last(int index) const {
    return is_read_channels_last_[static_cast<size_t>(index)];
  }
  // A new buffer for an op's result.
  Stored allocate(const Dims& shape, const Quantity& quantity, const Dims& strides);
  // From now on what was made in a buffer of its own is made at `part`, in memory of another
  // buffer: true. False when the elements would lie in another order, or the buffer is not the
  // tensor's alone.
  bool place_inside(const Stored& made, const Stored& part);
  // Ends an op: the tensor is kept like this. Changes of quantity against the declared reals are
  // made by a conversion.
  void define(int index, const Stored& stored);

  Stored add_constant(const Dims& shape, const Quantity& quantity, const Dims& strides,
                      std::shared_ptr<void> data);
  Stored add_floats(const std::vector<float>& values);  // 1-D
  Stored add_integers(const std::vector<int32_t>& values);

  // `packed` weights: the constant in the layout that the primitive asked for, shared with other
  // segments that want it so (packed.h).
  Place add_packed(const dnnl::memory::desc& plain, const Tensor& constant,
                   const dnnl::memory::desc& packed);
  Place add_packed(const dnnl::memory::desc& plain, const ProgramTensor& constant,
                   const dnnl::memory::desc& packed);
  // The same of values that were computed: not shared.
  Place add_packed(const dnnl::memory::desc& plain, const std::vector<float>& values,
                   const dnnl::memory::desc& packed);
  // A constant of ready bytes.
  Place add_bytes(std::shared_ptr<void> bytes, int64_t count);

  // Throws Refusal when the descriptor is that of one of oneDNN's slow reference kernels.
  static void refuse_reference_kernel(const char* what, const char* implementation);

  // Adds the scratchpad argument itself. The descriptor must have a user scratchpad.
  template <typename PrimitiveDesc>
  void add_primitive(const char* what, const PrimitiveDesc& desc, std::vector<Argument> arguments) {
    Step step;
    step.what = what;
    step.kernel = desc.impl_info_str();
    step.post_ops = describe(desc.get_primitive_attr().get_post_ops());
    if (purpose_ == Purpose::kRun) step.primitive = dnnl::primitive(desc.get());
    step.scratch_bytes = static_cast<int64_t>(desc.scratchpad_desc().get_size());
    step.arguments = std::move(arguments);
    if (step.scratch_bytes > 0)
      step.arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), scratch_place()});
    steps_.push_back(std::move(step));
  }
  // kernel: its name for `kernels()`, after "own".
  void add_loop(const char* what, Loop loop, std::vector<Place> arguments,
                const char* kernel = nullptr);

  // Where the elements are, when the buffer is part of another one.
  Place resolve(Place place) const;

  // The step that was added last may write over its source.
  void allow_in_place() { steps_.back().can_be_in_place = true; }

  // Copies what the segment gives back to where its caller wants it, or lets the last op write
  // there. To be called after the last op.
  void finish_outputs();

  Purpose purpose() const { return purpose_; }

  std::vector<Step>& steps() { return steps_; }
  std::vector<Buffer>& buffers() { return buffers_; }
  static Place scratch_place() { return {-2, 0}; }

 private:
  struct Conversion {
    Stored from;
    Stored to;
  };

  static std::string describe(const dnnl::post_ops& post_ops);
  int add_buffer(Buffer buffer);
  void add_reorder(const Stored& from, const Stored& to);
  bool redirect_output(const Stored& kept, int output_position);
  Stored load_external(int index, int position);
  Stored load_constant(int index);

  const Program& program_;
  const Segment& segment_;
  Purpose purpose_;
  std::vector<std::optional<Stored>> kept_;                  // per Program tensor
  std::vector<std::function<Stored()>> late_;                // per Program tensor
  std::vector<std::shared_ptr<const DynamicRows>> dynamic_;  // per Program tensor
  std::vector<char> is_read_inside_;                         // per Program tensor
  std::vector<char> is_read_channels_last_;                  // per Program tensor
  // per Program tensor: read only as the second input of matmul
  std::vector<char> is_second_factor_;
  std::vector<std::optional<Stored>> integers_;  // per Program tensor
  std::vector<const ProgramOp*> only_reader_;    // per Program tensor
  std::set<const ProgramOp*> absorbed_;
  std::vector<const ProgramOp*> doing_;  // the op that is being emitted, and what it absorbed
  size_t first_step_ = 0;                // of that op
  std::set<std::string> saturating_;     // names
  std::vector<uint8_t> highest_bytes_;   // per Program tensor; empty until it is asked for
  std::vector<Conversion> conversions_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
};

// Attributes with a user scratchpad.
dnnl::primitive_attr new_attributes();

}  // namespace octet::onednn
