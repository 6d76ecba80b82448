// One segment under construction: its buffers, its steps, and the state of each tensor, updated as
// ops are emitted in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/onednn/builder/buffers.h"
#include "backends/onednn/builder/steps.h"
#include "backends/onednn/form.h"
#include "backends/onednn/saturation.h"
#include "lowering/program/program.h"

namespace octet::onednn {

struct DynamicRows;  // backends/onednn/builder/dynamic_rows.h

// What the builder knows about one tensor of the Program: who reads it, and how it is stored.
struct TensorState {
  // The only op of the segment that reads it; null when there are others, or when the tensor is an
  // output of the segment.
  const ProgramOp* only_reader = nullptr;
  bool is_read = false;                // by ops of the segment
  bool is_read_channels_last = false;  // by an op that works channels-last
  bool is_second_factor = false;       // read only as the second input of matmul
  bool is_read_in_bfloat16 = false;    // a float that ops of the segment read so, and no others

  std::optional<Stored> kept;  // how it is stored now
  // makes the usual form when the first op asks for it
  std::function<Stored()> late;
  // the integers that a float tensor was dequantized from
  std::optional<Stored> integers;
  // the integers of a float tensor that was quantized at run time
  std::shared_ptr<const DynamicRows> dynamic;
};

// A tensor in two forms.
struct Conversion {
  Stored from;
  Stored to;
};

class SegmentBuilder : public Buffers, public StepList {
 public:
  SegmentBuilder(const Program& program, const Segment& segment, Purpose purpose);

  const Segment& segment() const { return segment_; }
  const Program& program() const { return program_; }
  const ProgramTensor& tensor(int index) const { return program_.tensor(index); }
  bool is_constant(int index) const { return tensor(index).is_constant(); }

  // How the tensor is stored now.
  const Stored& read(int index);
  // Ends an op: `stored` holds the tensor from now on. If type or scale differ from the declared
  // ones, a conversion follows.
  void define(int index, const Stored& stored);
  // Replaces define() for a tensor that some ops read in another form: `make` produces the usual
  // form when the first op asks for it.
  void define_later(int index, std::function<Stored()> make) {
    state(index).late = std::move(make);
  }
  // The integers that a float tensor was dequantized from; null when there are none. `kept`: how
  // they are stored.
  const Stored* find_integers(int index) const { return address_of(state(index).integers); }
  void define_integers(int index, const Stored& kept) { state(index).integers = kept; }
  // The integers of a float tensor that was quantized at run time; null when there are none.
  const DynamicRows* find_dynamic(int index) const { return state(index).dynamic.get(); }
  void define_dynamic(int index, std::shared_ptr<const DynamicRows> rows) {
    state(index).dynamic = std::move(rows);
  }
  // Whether read() needs no further op.
  bool is_made(int index) const {
    return is_constant(index) || state(index).kept.has_value() || state(index).late != nullptr;
  }
  // How the tensor is stored now; null when no op has asked for it yet.
  const Stored* find_kept(int index) const { return address_of(state(index).kept); }
  // The only op of the segment that reads the tensor; null when there are others, or when the
  // tensor is an output of the segment.
  const ProgramOp* find_only_reader(int index) const { return state(index).only_reader; }
  // Whether an op of the segment that works channels-last reads the tensor.
  bool prefers_channels_last(int index) const { return state(index).is_read_channels_last; }

  // Type and scale that the op should write: as_unsigned of the declared ones when ops of the
  // segment read the tensor.
  QuantParams output_quant_params(int index) const;
  // bfloat16 if all ops that read the float tensor read it so; else float32. Valid for outputs of
  // products that read bfloat16, and of ops that copy or apply functions.
  QuantParams float_form(int index) const {
    return state(index).is_read_in_bfloat16 ? kBfloat16 : QuantParams{};
  }
  // Whether a product of floats reads bfloat16: the program and the CPU allow it, and
  // compute_in_float32 was not called for it.
  bool computes_in_bfloat16(const ProgramOp& op) const;
  void compute_in_float32(const ProgramOp& op) { in_float32_.insert(&op); }
  // The names of ops that compute in float32 because the CPU lacks bfloat16.
  const std::set<std::string>& without_bfloat16() const { return without_bfloat16_; }
  // The declared type and scale. Throws Refusal when the tensor is quantized per channel.
  QuantParams declared_quant_params(int index) const;

  // Which products are computed in floats.
  Saturation& saturation() { return saturation_; }
  // Conversions that convert() has added (conversions.h).
  std::vector<Conversion>& conversions() { return conversions_; }

  void end_op();

 private:
  static const Stored* address_of(const std::optional<Stored>& stored) {
    return stored ? &*stored : nullptr;
  }
  TensorState& state(int index) const { return states_[index]; }
  Stored load_constant(int index);

  const Program& program_;
  const Segment& segment_;
  mutable std::map<int, TensorState> states_;  // by tensor; absent: nothing is known yet
  Saturation saturation_;
  std::vector<Conversion> conversions_;
  std::set<const ProgramOp*> in_float32_;
  mutable std::set<std::string> without_bfloat16_;
};

}  // namespace octet::onednn
