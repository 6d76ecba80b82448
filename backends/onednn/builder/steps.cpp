// Adds steps, and describes them for `kernels()`.
#include "backends/onednn/builder/steps.h"

#include <fmt/format.h>

namespace octet::onednn {

dnnl::primitive_attr new_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void refuse_reference_kernel(const char* what, const char* implementation) {
  const std::string name = implementation;
  if (name.rfind("ref", 0) == 0 || name.find(":ref") != std::string::npos)
    throw Refusal{fmt::format("this {} only has oneDNN's slow reference kernel ({})", what, name)};
}

void StepList::add_loop(const char* what, Loop loop, std::vector<Place> arguments,
                        const char* kernel) {
  Step step;
  step.what = what;
  if (kernel != nullptr) step.kernel = fmt::format("custom {}", kernel);
  step.loop = std::move(loop);
  for (const Place& place : arguments) step.arguments.push_back({0, {}, place});
  steps_.push_back(std::move(step));
}

void StepList::begin_op(const ProgramOp& op) {
  doing_ = {&op};
  first_step_ = steps_.size();
}

void StepList::absorb(const ProgramOp& op) {
  absorbed_.insert(&op);
  doing_.push_back(&op);
}

void StepList::end_op(const std::string& layout) {
  for (size_t i = first_step_; i < steps_.size(); ++i) {
    steps_[i].ops = doing_;
    steps_[i].layout = layout;
  }
  first_step_ = steps_.size();
}

std::string StepList::describe(const dnnl::post_ops& post_ops) {
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

}  // namespace octet::onednn
