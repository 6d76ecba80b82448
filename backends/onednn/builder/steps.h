// The steps of a segment: oneDNN primitives and custom kernels, with the places of their arguments.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"
#include "lowering/program/program.h"

namespace octet::onednn {

struct Argument {
  int kind = 0;             // DNNL_ARG_...; not used by loops
  dnnl::memory::desc desc;  // not used by loops
  Place place;
};

struct Step {
  const char* what = "";
  std::string kernel = "custom";  // oneDNN's name for the implementation
  std::string post_ops;
  std::string layout;
  std::vector<const ProgramOp*> ops;
  dnnl::primitive primitive;  // empty for loops, and when proving
  Loop loop;
  std::vector<Argument> arguments;
  int64_t scratch_bytes = 0;
  // DNNL_ARG_DST may share memory with DNNL_ARG_SRC; in loops, the last argument with the first
  bool can_be_in_place = false;
};

// The place of the scratchpad, which all primitives share.
inline constexpr Place kScratchpad = {-2, 0};

// Attributes with a user scratchpad.
dnnl::primitive_attr new_attributes();

// Throws Refusal when `implementation` is one of oneDNN's slow reference kernels.
void refuse_reference_kernel(const char* what, const char* implementation);

class StepList {
 public:
  // kProve stops at primitive descriptors: no code is generated, and nothing is packed or run.
  enum class Purpose { kRun, kProve };

  explicit StepList(Purpose purpose) : purpose_(purpose) {}
  Purpose purpose() const { return purpose_; }

  // Adds the scratchpad argument itself. The descriptor must use a user scratchpad.
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
      step.arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), kScratchpad});
    steps_.push_back(std::move(step));
  }
  // kernel: its name in `kernels()`, after "custom".
  void add_loop(const char* what, Loop loop, std::vector<Place> arguments,
                const char* kernel = nullptr);
  // Allows the last step to write over its source.
  void allow_in_place() { steps_.back().can_be_in_place = true; }

  // Assigns the steps that follow to `op` in `kernels()`, until end_op().
  void begin_op(const ProgramOp& op);
  // Marks an op whose work the current op does, so that it is not emitted.
  void absorb(const ProgramOp& op);
  bool is_absorbed(const ProgramOp& op) const { return absorbed_.contains(&op); }

  std::vector<Step>& steps() { return steps_; }

 protected:
  // The op that is being emitted, and the ops it absorbed.
  const std::vector<const ProgramOp*>& current_ops() const { return doing_; }
  // layout: of the op's inputs and outputs.
  void end_op(const std::string& layout);

 private:
  static std::string describe(const dnnl::post_ops& post_ops);

  Purpose purpose_;
  std::vector<Step> steps_;
  std::set<const ProgramOp*> absorbed_;
  std::vector<const ProgramOp*> doing_;
  size_t first_step_ = 0;  // of the current op
};

}  // namespace octet::onednn
