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
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/training/batch_parts.h"
#include "annotate/training/trainable_graph.h"

namespace octet {

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
