#include "tools/cli/qat/checkpoint.h"

#include <span>
#include <sstream>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include "annotate/observed/observer_state.h"
#include "annotate/observers/fake_quantize.h"
#include "core/base/error.h"
#include "core/pt2/archive.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/zip.h"
#include "tools/cli/common/files.h"
#include "tools/cli/qat/train.h"

namespace octet {
namespace {

// The file is a tuple of tensors. The model decides how many each of the last two blocks has.
//   run         u8, text: describe_run()
//   flow        u8, text: how the program was prepared
//   position    f64 [kPositionNumbers]
//   random      u8, state of the generator
//   optimizer   u8, LibTorch's archive of the optimizer
//   model       capture()
//   best        capture(), or nothing
constexpr size_t kHeadTensors = 5;
constexpr const char* kVersion = "octet qat 3;";
constexpr size_t kPositionNumbers = 9;

std::string describe_run(TrainOptions options, size_t batch_count, const QatModel& model) {
  size_t elements = 0;
  for (const auto& [name, tensor] : model.tensors())
    elements += static_cast<size_t>(tensor.numel());
  const std::string epochs = options.schedule == Schedule::kCosine
                                 ? fmt::format("cosine over {} epochs; ", options.epochs)
                                 : std::string();
  return fmt::format("{} {}; {}{} batches; {} tensors of {} elements; {} observers", kVersion,
                     describe(options_of(options)), epochs, batch_count, model.tensors().size(),
                     elements, model.prepared().observers.size());
}

at::Tensor numbers_of(const TrainingPosition& position) {
  std::vector<double> numbers = {
      static_cast<double>(position.epoch), static_cast<double>(position.batch), position.best_loss,
      static_cast<double>(position.epochs_since_best), position.is_stopped ? 1.0 : 0.0};
  for (const double number : position.sums.numbers()) numbers.push_back(number);
  return at::tensor(numbers, at::kDouble);
}

TrainingPosition position_of(const at::Tensor& tensor) {
  const double* numbers = tensor.const_data_ptr<double>();
  TrainingPosition position;
  position.epoch = static_cast<int64_t>(numbers[0]);
  position.batch = static_cast<int64_t>(numbers[1]);
  position.best_loss = numbers[2];
  position.epochs_since_best = static_cast<int64_t>(numbers[3]);
  position.is_stopped = numbers[4] != 0;
  position.sums = RunningLoss::from_numbers(numbers + 5);
  return position;
}

bool fits(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& like,
          size_t begin) {
  for (size_t i = 0; i + 1 < like.size(); ++i)  // the last one is text
    if (tensors[begin + i].scalar_type() != like[i].scalar_type()) return false;
  return tensors[begin + like.size() - 1].scalar_type() == at::kByte;
}

std::vector<at::Tensor> tensors_of(const std::filesystem::path& file, const std::string& stage) {
  constexpr const char* kFormat = "octet qat ";
  const auto refuse = [&](const std::string& message) {
    throw Error(stage, file.string(), message);
  };
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : read_inputs(file)) {
    if (!value.isTensor()) refuse("not a checkpoint of octet qat; give another file, or remove it");
    tensors.push_back(value.toTensor().contiguous());
  }
  if (tensors.size() < kHeadTensors || tensors[0].scalar_type() != at::kByte ||
      tensors[1].scalar_type() != at::kByte || !text_of_tensor(tensors[0]).starts_with(kFormat))
    refuse("not a checkpoint of octet qat; give another file, or remove it");
  if (!text_of_tensor(tensors[0]).starts_with(kVersion))
    refuse("is a checkpoint of another version of Octet; remove it to start over");
  return tensors;
}

}  // namespace

RunningLoss RunningLoss::from_numbers(const double* numbers) {
  RunningLoss result;
  result.sum_ = numbers[0];
  result.samples_ = static_cast<int64_t>(numbers[1]);
  result.right_ = static_cast<int64_t>(numbers[2]);
  result.is_classified_ = numbers[3] != 0;
  return result;
}

std::vector<at::Tensor> capture(const QatModel& model) {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : model.tensors()) result.push_back(tensor.detach().clone());
  for (const std::shared_ptr<Observer>& observer : model.prepared().observers)
    if (const FakeQuantize* fake_quant = dynamic_cast<const FakeQuantize*>(observer.get())) {
      result.push_back(fake_quant->scale().detach().clone());
      result.push_back(fake_quant->zero_point().detach().clone());
    }
  result.push_back(tensor_of_text(observer_state_to_json(model.prepared())));
  return result;
}

void restore(QatModel& model, const std::vector<at::Tensor>& captured) {
  const at::NoGradGuard no_grad;
  observer_state_from_json(model.prepared(), text_of_tensor(captured.back()), "checkpoint");
  size_t next = 0;
  for (const auto& [name, tensor] : model.tensors()) tensor.copy_(captured.at(next++));
  for (const std::shared_ptr<Observer>& observer : model.prepared().observers)
    if (FakeQuantize* fake_quant = dynamic_cast<FakeQuantize*>(observer.get())) {
      fake_quant->set_qparams(captured.at(next), captured.at(next + 1));
      next += 2;
    }
}

void seed_random_numbers(int64_t seed) { at::manual_seed(static_cast<uint64_t>(seed)); }

void save_checkpoint(const TrainOptions& options, size_t batch_count, const QatModel& model,
                     torch::optim::Optimizer& optimizer, const TrainingPosition& position,
                     const std::vector<at::Tensor>& best) {
  std::ostringstream archive;
  torch::serialize::OutputArchive output;
  optimizer.save(output);
  output.save_to(archive);
  std::vector<c10::IValue> values = {tensor_of_text(describe_run(options, batch_count, model)),
                                     tensor_of_text(options.flow), numbers_of(position),
                                     at::detail::getDefaultCPUGenerator().get_state(),
                                     tensor_of_text(archive.str())};
  for (const at::Tensor& tensor : capture(model)) values.emplace_back(tensor);
  for (const at::Tensor& tensor : best) values.emplace_back(tensor);
  write_outputs(options.checkpoint, values);
}

void load_checkpoint(const TrainOptions& options, size_t batch_count, QatModel& model,
                     torch::optim::Optimizer& optimizer, TrainingPosition& position,
                     std::vector<at::Tensor>& best) {
  const std::string& file = options.checkpoint;
  const auto refuse = [&](const std::string& message) { throw Error("train", file, message); };
  const std::vector<at::Tensor> tensors = tensors_of(options.checkpoint, "train");
  const std::vector<at::Tensor> now = capture(model);
  const std::string wanted = describe_run(options, batch_count, model);
  for (const auto& [found, want] : {std::pair(text_of_tensor(tensors[0]), wanted),
                                    std::pair(text_of_tensor(tensors[1]), options.flow)})
    if (found != want)
      refuse(fmt::format("belongs to another run, got {}, want {}; remove it to start over", found,
                         want));
  const bool has_best = tensors.size() == kHeadTensors + 2 * now.size();
  const bool is_whole = (has_best || tensors.size() == kHeadTensors + now.size()) &&
                        tensors[2].scalar_type() == at::kDouble &&
                        tensors[2].numel() == static_cast<int64_t>(kPositionNumbers) &&
                        fits(tensors, now, kHeadTensors);
  if (!is_whole) refuse("is damaged; remove it to start over");
  position = position_of(tensors[2]);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(tensors[3]);
  const std::string optimizer_text = text_of_tensor(tensors[4]);
  check_unpacked_size(std::as_bytes(std::span(optimizer_text)), "train", file);
  std::istringstream archive(optimizer_text);
  torch::serialize::InputArchive input;
  input.load_from(archive);
  optimizer.load(input);
  const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(kHeadTensors);
  const auto end = begin + static_cast<std::ptrdiff_t>(now.size());
  restore(model, {begin, end});
  if (has_best) best.assign(end, tensors.end());
}

SavedTraining read_checkpoint(const std::filesystem::path& file, const std::string& stage) {
  std::vector<at::Tensor> tensors = tensors_of(file, stage);
  SavedTraining saved{text_of_tensor(tensors[0]), text_of_tensor(tensors[1]), {}};
  saved.rest.assign(tensors.begin() + static_cast<std::ptrdiff_t>(kHeadTensors), tensors.end());
  return saved;
}

bool restore_saved(QatModel& model, const SavedTraining& saved) {
  const std::vector<at::Tensor> now = capture(model);
  const bool has_best = saved.rest.size() == 2 * now.size();
  const size_t begin = has_best ? now.size() : 0;
  if (saved.rest.size() != begin + now.size() || !fits(saved.rest, now, begin)) return false;
  for (size_t i = 0; i < model.tensors().size(); ++i)  // ranges get their sizes with the first data
    if (saved.rest[begin + i].sizes() != now[i].sizes()) return false;
  const auto first = saved.rest.begin() + static_cast<std::ptrdiff_t>(begin);
  restore(model, {first, first + static_cast<std::ptrdiff_t>(now.size())});
  return true;
}

}  // namespace octet
