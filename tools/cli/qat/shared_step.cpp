// Splits a training step across processes: each one computes some rows of the batch, and the
// gradients are added up.
#include "tools/cli/qat/train.h"

#include <algorithm>
#include <array>

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/optim/optimizer.h>

#include "core/base/error.h"

namespace octet {
namespace {

struct Rows {
  int64_t begin = 0, count = 0;
};

Rows share_of_rows(int64_t rows, size_t rank, size_t processes) {
  const int64_t each = rows / static_cast<int64_t>(processes);
  const int64_t more = rows % static_cast<int64_t>(processes);
  const int64_t index = static_cast<int64_t>(rank);
  return {index * each + std::min(index, more), each + (index < more ? 1 : 0)};
}

// The gradients of the parameters. They are the same parameters in each process, because all run
// the same program.
std::vector<at::Tensor> gradients_of(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> gradients;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params())
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

at::Tensor view_of(float* numbers, const at::Tensor& like) {
  return at::from_blob(numbers, like.sizes(), at::kFloat);
}

std::string shape_of(const Value& input) {
  std::vector<std::string> sizes;
  for (const Dim& dim : input.meta->sizes)
    sizes.push_back(dim.is_symbolic() ? dim.expr : fmt::to_string(dim.value));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace

SharedStep::SharedStep(Processes& processes, const Graph& model) : processes_(processes) {
  for (const GraphInput& input : model.inputs())
    if (input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant)
      inputs_.push_back(input.value);
}

// A symbolic first dimension takes any number of rows. A fixed one of n rows takes the part of a
// batch of n * processes rows.
bool SharedStep::is_divided(const at::Tensor& tensor, const Value* input) const {
  if (tensor.dim() == 0 || input == nullptr || !input->meta || input->meta->sizes.empty())
    return false;
  const Dim& rows = input->meta->sizes.front();
  return rows.is_symbolic() ||
         (rows.value > 0 &&
          tensor.size(0) == rows.value * static_cast<int64_t>(processes_.count()));
}

std::vector<c10::IValue> SharedStep::rows_of(const std::vector<c10::IValue>& batch,
                                             const std::string& subject) {
  if (is_alone()) return batch;
  const size_t given = std::min(batch.size(), inputs_.size());
  int64_t rows = 0;  // rows of the batch
  const Value* first = nullptr;
  for (size_t i = 0; i < given && rows == 0; ++i) {
    if (!batch[i].isTensor()) continue;
    if (first == nullptr) first = inputs_[i];
    if (is_divided(batch[i].toTensor(), inputs_[i])) rows = batch[i].toTensor().size(0);
  }
  if (rows == 0 && first != nullptr && first->meta)
    throw Error(
        "train", subject,
        fmt::format("{} processes cannot share it, as the program takes %{} of {}; export "
                    "the program with an open batch size, or for 1/{} of the rows of a batch",
                    processes_.count(), first->name(), shape_of(*first), processes_.count()));
  if (rows == 0)
    throw Error("train", subject, "has no rows that processes could share; start one process");
  const Rows own = share_of_rows(rows, processes_.rank(), processes_.count());
  rows_ = rows;
  part_.counts = own.count > 0;
  part_.share = static_cast<double>(std::max<int64_t>(own.count, 1)) / static_cast<double>(rows);
  std::vector<c10::IValue> part = batch;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].isTensor()) continue;
    const at::Tensor& tensor = batch[i].toTensor();
    const bool is_target = i >= inputs_.size();
    // a target may have several rows per input row, such as tokens
    if (is_target ? tensor.dim() == 0 || tensor.size(0) % rows != 0
                  : !is_divided(tensor, inputs_[i]) || tensor.size(0) != rows)
      continue;
    const int64_t each = tensor.size(0) / rows;
    part[i] = tensor.narrow(0, each * (part_.counts ? own.begin : 0),
                            each * std::max<int64_t>(own.count, 1));
  }
  return part;
}

void SharedStep::check_rows(const std::vector<c10::IValue>& batch, const std::string& subject) {
  rows_of(batch, subject);
  if (is_alone() || rows_ >= static_cast<int64_t>(processes_.count())) return;
  throw Error("train", subject,
              fmt::format("batches of {} rows for {} processes; start at most {}, or make "
                          "larger batches",
                          rows_, processes_.count(), rows_));
}

void SharedStep::seed(int64_t seed, int64_t epoch, int64_t batch) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads neighbors over all bits
  uint64_t number = static_cast<uint64_t>(seed);
  for (const uint64_t next : {static_cast<uint64_t>(epoch), static_cast<uint64_t>(batch),
                              static_cast<uint64_t>(processes_.rank())})
    number = (number ^ next) * kOdd + (number >> 29);
  seed_random_numbers(static_cast<int64_t>(number));
}

void SharedStep::sum_gradients(torch::optim::Optimizer& optimizer) {
  if (is_alone()) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(optimizer);
  size_t count = 0;
  for (const at::Tensor& gradient : gradients) count += static_cast<size_t>(gradient.numel());
  gradients_.resize(count);
  ++steps_;
  float* place = gradients_.data();
  for (const at::Tensor& gradient : gradients) {
    view_of(place, gradient).copy_(gradient);
    place += gradient.numel();
  }
  processes_.sum(std::span<float>(gradients_));
  place = gradients_.data();
  for (const at::Tensor& gradient : gradients) {
    gradient.copy_(view_of(place, gradient));
    place += gradient.numel();
  }
}

std::string SharedStep::traffic() const {
  const double steps = static_cast<double>(std::max<size_t>(1, steps_));
  const double gradients = static_cast<double>(gradients_.size() * sizeof(float));
  const double exchanges = static_cast<double>(processes_.exchanges()) / steps - 1;
  const double bytes = static_cast<double>(processes_.exchanged_bytes()) / steps - gradients;
  return fmt::format(
      "{} processes; in a step each gives {:.3f} MB of gradients, and {:.3f} MB in {:.0f} small "
      "exchanges",
      processes_.count(), 1e-6 * gradients, 1e-6 * bytes, exchanges);
}

RunningLoss SharedStep::sum(const RunningLoss& sums) {
  std::vector<double> numbers = sums.numbers();
  processes_.sum(std::span<double>(numbers));
  return RunningLoss::from_numbers(numbers.data());
}

void SharedStep::check_equal(const std::vector<at::Tensor>& tensors) {
  if (is_alone()) return;
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.detach().sum(at::kDouble).item<double>();
  std::array<double, 2> ends{sum, -sum};
  processes_.max(ends);
  if (ends[0] != -ends[1])
    throw Error("train", "mpirun",
                "the processes' weights have drifted apart; start them on machines of one kind, "
                "with the same octet");
}

}  // namespace octet
