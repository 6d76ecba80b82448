// A Graph as a function that can be trained: its parameters and buffers are torch tensors outside
// of it, and it runs under autograd.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  // Copies the program and its tensors; what is trained is the copy. `handlers` as those of
  // Interpreter, to be differentiable where gradients shall pass. Throws Error("train", ...) when
  // parameters overlap in memory without being the same tensor, and as Interpreter does for unknown
  // ops.
  explicit TrainableGraph(const Graph& graph, std::map<std::string, Handler> handlers = {});
  TrainableGraph(TrainableGraph&&) noexcept = default;

  // As Interpreter::run. Records gradients unless they are switched off (torch::NoGradGuard). What
  // the program writes into buffers is kept for the next run.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& user_inputs);

  // Each tensor once, however many names it has: what the export says requires gradients, in the
  // order of the program's inputs.
  std::vector<at::Tensor> parameters() const;
  // Parameters, buffers and constants by fqn; tied ones are one tensor.
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  // Throws Error("train", ...) when the name is unknown.
  const at::Tensor& tensor(const std::string& fqn) const;

  // Dropout, batch norm and their like: how they run. `mode` is that of the program as it came
  // until it is set.
  void set_mode(Mode mode);
  // While frozen, batch norms use their running statistics and leave them, in training too.
  void freeze_batch_norm(bool is_frozen);

  // Puts the tensors as they are now into the constants of `graph`, which must have the names of
  // the program that this was made from.
  void store(Graph& graph) const;

 private:
  void add_tensors(const Graph& graph);
  void make_inputs();
  void apply_mode();

  std::unique_ptr<Graph> program_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Interpreter> interpreter_;  // of program_; made anew when that changes
  std::map<std::string, at::Tensor> tensors_;
  std::vector<std::string> order_;      // fqn of each input behind the caller's
  std::vector<std::string> mutations_;  // fqn of each output behind the caller's: its new value
  std::optional<Mode> mode_;            // absent: as the program came
  bool is_frozen_ = false;
  std::vector<Node*> frozen_;  // batch norms that would train
};

// A prepared program as a function that LibTorch's autograd and optimizers train.
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
  // handlers: how to run ops that LibTorch does not know, by target. parts: where each step's batch
  // is run in parts; must outlive this. Throws Error("train", ...) as TrainableGraph does, and with
  // parts as check_parts does.
  explicit QatModel(ObservedGraph prepared, std::map<std::string, Handler> handlers = {},
                    BatchParts* parts = nullptr);

  // inputs: flattened, as for Interpreter::run; returns the user outputs. Values pass through the
  // fake-quants: gradients are 1 inside of the quantized range and 0 outside. Throws Error("train",
  // ...) for unfit inputs and for NaN or infinities at an observer, which it names.
  std::vector<c10::IValue> forward(const std::vector<c10::IValue>& inputs);

  // What an optimizer trains: the program's parameters, then range_parameters().
  std::vector<at::Tensor> parameters() const;
  // Scales and zero points of learnable fake-quants (learnable_fake_quantize.h); they get gradients
  // while range learning is enabled.
  std::vector<at::Tensor> range_parameters() const;
  // Parameters, buffers and constants by fqn.
  const std::map<std::string, at::Tensor>& tensors() const { return program_.tensors(); }

  // How dropout and batch norm run; at first as the program was exported. Observers and fake-quants
  // stay as they are switched: turn observers off before evaluating.
  void train() { program_.set_mode(Mode::kTraining); }
  void eval() { program_.set_mode(Mode::kEvaluation); }
  // In training too, batch norms use their running statistics and leave them.
  void freeze_batch_norm(bool is_frozen = true) { program_.freeze_batch_norm(is_frozen); }
  // whether fake-quants follow the ranges of what they see
  void enable_observers(bool enabled = true);
  void enable_fake_quants(bool enabled = true);  // whether they round, or hand on what they get
  // Whether scales and zero points of learnable fake-quants are trained; switches their observers
  // off, and ends when observers are enabled.
  void enable_range_learning(bool enabled = true);

  // With the tensors as they were prepared; for observers.
  const ObservedGraph& prepared() const { return *prepared_; }
  ObservedGraph& prepared() { return *prepared_; }
  // The prepared program with what was learned, in evaluation mode; for convert_pt2e.
  ObservedGraph finish() &&;

 private:
  std::map<std::string, Handler> with_points(std::map<std::string, Handler> handlers,
                                             BatchParts* parts) const;

  std::unique_ptr<ObservedGraph> prepared_;  // its address is known to the handlers
  TrainableGraph program_;
};

}  // namespace octet
