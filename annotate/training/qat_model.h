// Runs graphs as functions that LibTorch's autograd and optimizers can train.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/training/batch_parts.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/set_training.h"

namespace octet {

class TrainableGraph {
 public:
  // Copies the program and its tensors; the copy is trained. `handlers`: as for Interpreter; must
  // be differentiable where gradients pass. Throws Error("train", ...) when parameters overlap in
  // memory without being the same tensor, and as Interpreter does for unknown ops.
  explicit TrainableGraph(const Graph& graph, std::map<std::string, Handler> handlers = {});
  TrainableGraph(TrainableGraph&&) noexcept = default;

  // As Interpreter::run. Records gradients unless torch::NoGradGuard is active. Keeps what the
  // program writes into buffers for the next run.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& user_inputs);

  // The tensors that require gradients according to the export, each once even if it has several
  // names, in the order of the program's inputs.
  std::vector<at::Tensor> parameters() const;
  // Parameters, buffers and constants by fqn; tied ones are one tensor.
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  // Throws Error("train", ...) when the name is unknown.
  const at::Tensor& tensor(const std::string& fqn) const;

  // Whether dropout, batch norm and the like run in training or evaluation mode; at first as the
  // program was exported.
  void set_mode(Mode mode);
  // While frozen, batch norms use their running statistics and do not update them, also in training
  // mode. They count batches (num_batches_tracked) when they train.
  void freeze_batch_norm(bool is_frozen);

  // Stores the current tensors into the constants of `graph`, which must have the same names as the
  // program that this was made from.
  void store(Graph& graph) const;

 private:
  void add_tensors(const Graph& graph);
  void make_inputs();
  void apply_mode();

  std::unique_ptr<Graph> program_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Interpreter> interpreter_;  // of program_; recreated when that changes
  std::map<std::string, at::Tensor> tensors_;
  std::vector<std::string> order_;      // fqn of each input after the caller's
  std::vector<std::string> mutations_;  // fqn of each output after the caller's: its new value
  std::optional<Mode> mode_;            // absent: as exported
  bool is_frozen_ = false;
  std::vector<Node*> frozen_;    // batch norms that would train
  std::vector<Node*> counters_;  // add 1 to the num_batches_tracked of a norm
};

// A prepared program that LibTorch's autograd and optimizers train.
//
//   QatModel model(prepare_qat_pt2e(read_pt2("model.pt2"), *quantizer, report));
//   torch::optim::SGD optimizer(model.parameters(), 0.01);
//   model.train();
//   for (const auto& [x, target] : batches) {
//     const at::Tensor loss =
//         torch::nn::functional::cross_entropy(model.forward({x})[0].toTensor(), target);
//     optimizer.zero_grad();
//     loss.backward();
//     optimizer.step();
//   }
//   Graph quantized = convert_pt2e(std::move(model).finish(), {}, report);

class QatModel {
 public:
  // handlers: how to run ops that LibTorch does not know, by target. parts: splits each step's
  // batch across processes; must outlive this. Throws Error("train", ...) as TrainableGraph does
  // and, with parts, as check_parts does.
  explicit QatModel(ObservedGraph prepared, std::map<std::string, Handler> handlers = {},
                    BatchParts* parts = nullptr);

  // inputs: flattened, as for Interpreter::run. Returns the user outputs. Values pass through the
  // fake-quants: gradients are 1 inside the quantized range and 0 outside. Throws Error("train",
  // ...) for inputs that do not fit and for NaN or infinities at an observer, which it names.
  std::vector<c10::IValue> forward(const std::vector<c10::IValue>& inputs);

  // What an optimizer trains: the program's parameters, then range_parameters().
  std::vector<at::Tensor> parameters() const;
  // Scales and zero points of learnable fake-quants (learnable_fake_quantize.h); they get gradients
  // while range learning is enabled.
  std::vector<at::Tensor> range_parameters() const;
  // Parameters, buffers and constants by fqn.
  const std::map<std::string, at::Tensor>& tensors() const { return program_.tensors(); }

  // Whether dropout and batch norm run in training or evaluation mode; at first as exported. Does
  // not switch observers and fake-quants: turn observers off before evaluating.
  void train() { program_.set_mode(Mode::kTraining); }
  void eval() { program_.set_mode(Mode::kEvaluation); }
  // Batch norms use their running statistics and do not update them, also in training mode.
  void freeze_batch_norm(bool is_frozen = true) { program_.freeze_batch_norm(is_frozen); }
  // whether fake-quants follow the ranges of their inputs
  void enable_observers(bool enabled = true);
  void enable_fake_quants(bool enabled = true);  // whether they round, or return their input
  // Whether scales and zero points of learnable fake-quants are trained. Switches their observers
  // off; ends when observers are enabled.
  void enable_range_learning(bool enabled = true);

  // The prepared graph, with its original tensors; for access to observers.
  const ObservedGraph& prepared() const { return *prepared_; }
  ObservedGraph& prepared() { return *prepared_; }
  // The prepared program with the trained tensors, in evaluation mode; for convert_pt2e.
  ObservedGraph finish() &&;

 private:
  std::map<std::string, Handler> with_points(std::map<std::string, Handler> handlers,
                                             BatchParts* parts) const;

  std::unique_ptr<ObservedGraph> prepared_;  // the handlers hold its address
  TrainableGraph program_;
};

}  // namespace octet
