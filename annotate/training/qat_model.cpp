#include "annotate/training/qat_model.h"

#include <set>
#include <string_view>

#include <fmt/format.h>

#include "annotate/graph/observe_op.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/training/qat_conv_bn.h"
#include "annotate/training/shared_batch_norm.h"
#include "annotate/training/shared_points.h"
#include "core/base/error.h"

namespace octet {
namespace {

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
