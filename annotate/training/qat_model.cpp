#include "annotate/training/qat_model.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/training/qat_conv_bn.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

using c10::IValue;

// Whether it counts the batches that a norm saw, in a graph before make_inputs().
bool is_counter(const Graph& graph, const Node& node) {
  const Argument* other = node.find_argument("other");
  const int64_t* number = other == nullptr ? nullptr : other->find<int64_t>();
  if (node.target() != "aten.add_.Tensor" || number == nullptr || *number != 1) return false;
  const GraphInput* input = graph.find_input(node.find_input("self"));
  return input != nullptr && input->fqn.ends_with("num_batches_tracked");
}

bool is_callers(const GraphInput& input) {
  return input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
}

// Names of the same tensor have the same key.
using Place = std::tuple<const std::byte*, DType, std::vector<int64_t>, std::vector<int64_t>>;
Place place_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.dtype(), tensor.shape(), tensor.strides()};
}

std::unique_ptr<Graph> as_it_runs(const Graph& prepared) {
  std::unique_ptr<Graph> program = clone(prepared);
  move_scale_to_weight(*program);
  return program;
}

std::vector<c10::IValue> run_point(const ObservedGraph& observed, const Node& point,
                                   const std::vector<c10::IValue>& arguments, BatchParts* parts) {
  Observer& observer = *observed.observers.at(static_cast<size_t>(group_of(point)));
  const at::Tensor x = arguments.at(0).toTensor();
  try {
    return {parts == nullptr ? observer.forward(x) : forward_part(observer, x, *parts)};
  } catch (const Error& error) {
    throw Error("train", "%" + observed_value(point)->name(), error.without_stage());
  }
}

}  // namespace

TrainableGraph::TrainableGraph(const Graph& graph, std::map<std::string, Handler> handlers)
    : program_(clone(graph)), handlers_(std::move(handlers)) {
  add_tensors(graph);
  for (Node* node : program_->nodes())
    if (is_counter(*program_, *node)) counters_.push_back(node);
  make_inputs();
  apply_mode();
}

void TrainableGraph::add_tensors(const Graph& graph) {
  std::map<Place, std::string> seen;
  std::map<const Storage*, std::string> trained;  // storage of a parameter -> its name
  for (const auto& [fqn, constant] : graph.constants) {
    if (!constant.tensor.defined()) continue;
    const bool is_empty = constant.tensor.numel() == 0;
    const auto [known, is_new] = seen.try_emplace(place_of(constant.tensor), fqn);
    if (!is_new && !is_empty) {
      tensors_[fqn] = tensors_.at(known->second);
      continue;
    }
    at::Tensor tensor = to_aten(constant.tensor).clone();
    if (constant.is_parameter && constant.requires_grad && tensor.is_floating_point()) {
      const auto [other, is_alone] = trained.try_emplace(constant.tensor.storage().get(), fqn);
      const Tensor& first = graph.constants.at(other->second).tensor;
      const bool overlaps = constant.tensor.raw() < first.raw() + first.nbytes() &&
                            first.raw() < constant.tensor.raw() + constant.tensor.nbytes();
      if (!is_alone && overlaps && !is_empty)
        throw Error("train", fqn,
                    fmt::format("overlaps \"{}\" in memory with another shape; export the model "
                                "with one tensor, and views of it",
                                other->second));
      tensor.requires_grad_(true);
    }
    tensors_[fqn] = tensor;
  }
}

// Parameters, buffers and constants become inputs after the caller's; new values of buffers become
// outputs after the caller's.
void TrainableGraph::make_inputs() {
  Graph& program = *program_;
  std::vector<GraphInput> stored;
  for (const GraphInput& input : program.inputs())
    if (is_stored(input) && input.value != nullptr && tensors_.contains(input.fqn))
      stored.push_back(input);
  std::vector<Value*> replaced;
  for (const GraphInput& input : stored) {
    Value* fresh =
        program.add_input(program.fresh_name("trained"), input.value->kind(), input.value->meta);
    program.replace_uses(input.value, fresh);
    order_.push_back(input.fqn);
    replaced.push_back(input.value);
  }
  const std::vector<GraphOutput> outputs = program.outputs();
  for (const GraphOutput& output : outputs) {
    if (output.kind != OutputKind::kBufferMutation && output.kind != OutputKind::kParameterMutation)
      continue;
    mutations_.push_back(output.target);
    program.add_output({output.value, OutputKind::kUserOutput, ""});
  }
  program.erase_inputs(replaced);
}

void TrainableGraph::apply_mode() {
  interpreter_.reset();
  for (Node* node : frozen_) node->set_argument("training", true);
  frozen_.clear();
  if (mode_) set_training(*program_, *mode_);
  if (is_frozen_)
    for (Node* node : program_->nodes_of("aten.batch_norm"))
      if (node->bool_or("training", false)) frozen_.push_back(node);
  for (Node* node : frozen_) node->set_argument("training", false);
  const bool counts = mode_.value_or(Mode::kTraining) == Mode::kTraining && !is_frozen_;
  for (Node* node : counters_) node->set_argument("other", int64_t{counts ? 1 : 0});
  interpreter_ = std::make_unique<Interpreter>(
      *program_,
      InterpreterOptions{.after_node = {}, .handlers = handlers_, .record_gradients = true});
}

std::vector<IValue> TrainableGraph::run(const std::vector<IValue>& user_inputs) {
  const size_t wanted = static_cast<size_t>(std::ranges::count_if(
      program_->inputs(), [](const GraphInput& input) { return is_callers(input); }));
  if (user_inputs.size() + order_.size() != wanted)
    throw Error("train", "inputs",
                fmt::format("got {} inputs, want {}; give them flattened, None included",
                            user_inputs.size(), wanted - order_.size()));
  std::vector<IValue> inputs = user_inputs;
  for (const std::string& fqn : order_) inputs.emplace_back(tensors_.at(fqn));
  std::vector<IValue> outputs = interpreter_->run(inputs);
  OCTET_ASSERT(outputs.size() >= mutations_.size(), "outputs of a trainable program");
  const size_t callers = outputs.size() - mutations_.size();
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < mutations_.size(); ++i) {
    const at::Tensor& target = tensor(mutations_[i]);
    if (!outputs[callers + i].toTensor().is_same(target))
      target.copy_(outputs[callers + i].toTensor());
  }
  outputs.resize(callers);
  return outputs;
}

std::vector<at::Tensor> TrainableGraph::parameters() const {
  std::vector<at::Tensor> result;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const std::string& fqn : order_) {
    const at::Tensor& tensor = tensors_.at(fqn);
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second)
      result.push_back(tensor);
  }
  return result;
}

const at::Tensor& TrainableGraph::tensor(const std::string& fqn) const {
  const auto found = tensors_.find(fqn);
  if (found == tensors_.end()) throw Error("train", fqn, "no such parameter, buffer or constant");
  return found->second;
}

void TrainableGraph::set_mode(Mode mode) {
  mode_ = mode;
  apply_mode();
}

void TrainableGraph::freeze_batch_norm(bool is_frozen) {
  if (is_frozen_ == is_frozen) return;
  is_frozen_ = is_frozen;
  apply_mode();
}

void TrainableGraph::store(Graph& graph) const {
  std::map<const c10::TensorImpl*, Tensor> stored;  // tied names stay one tensor
  for (const auto& [fqn, tensor] : tensors_) {
    const auto place = graph.constants.find(fqn);
    OCTET_ASSERT(place != graph.constants.end(), fqn);
    const auto [known, is_new] = stored.try_emplace(tensor.unsafeGetTensorImpl());
    if (is_new) known->second = from_aten(tensor.detach().clone());
    place->second.tensor = known->second;
  }
}

QatModel::QatModel(ObservedGraph prepared, std::map<std::string, Handler> handlers,
                   BatchParts* parts)
    : prepared_(std::make_unique<ObservedGraph>(std::move(prepared))),
      program_(*as_it_runs(prepared_->graph), with_points(std::move(handlers), parts)) {}

std::map<std::string, Handler> QatModel::with_points(std::map<std::string, Handler> handlers,
                                                     BatchParts* parts) const {
  const ObservedGraph* observed = prepared_.get();
  if (parts != nullptr) {
    check_parts(*observed);
    handlers["aten.batch_norm.default"] = [parts](const Node& node,
                                                  const std::vector<c10::IValue>& arguments) {
      return run_shared_batch_norm(node, arguments, *parts);
    };
    const std::set<std::string> shared = points_of_batch(observed->graph);
    handlers[std::string(kObserveTarget)] = [=](const Node& point,
                                                const std::vector<c10::IValue>& arguments) {
      return run_point(*observed, point, arguments,
                       shared.contains(point.name()) ? parts : nullptr);
    };
    return handlers;
  }
  handlers[std::string(kObserveTarget)] = [observed](const Node& point,
                                                     const std::vector<c10::IValue>& arguments) {
    return run_point(*observed, point, arguments, nullptr);
  };
  return handlers;
}

std::vector<c10::IValue> QatModel::forward(const std::vector<c10::IValue>& inputs) {
  try {
    return program_.run(inputs);
  } catch (const Error& error) {
    if (error.stage() == "train") throw;
    throw Error("train", error.subject(), error.message());
  }
}

void QatModel::enable_observers(bool enabled) {
  octet::enable_observers(prepared_->observers, enabled);
}

void QatModel::enable_fake_quants(bool enabled) {
  octet::enable_fake_quants(prepared_->observers, enabled);
}

void QatModel::enable_range_learning(bool enabled) {
  octet::enable_range_learning(prepared_->observers, enabled);
}

std::vector<at::Tensor> QatModel::parameters() const {
  std::vector<at::Tensor> result = program_.parameters();
  for (const at::Tensor& parameter : range_parameters()) result.push_back(parameter);
  return result;
}

std::vector<at::Tensor> QatModel::range_parameters() const {
  return octet::range_parameters(prepared_->observers);
}

ObservedGraph QatModel::finish() && {
  program_.store(prepared_->graph);
  set_training(prepared_->graph, Mode::kEvaluation);
  return std::move(*prepared_);
}

}  // namespace octet
