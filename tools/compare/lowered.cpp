#include "tools/compare/lowered.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "annotate/graph/aliasing.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/program/control.h"
#include "lowering/program/specialize.h"
#include "lowering/program/symbols.h"
#include "tools/common/run_session.h"
#include "tools/compare/fold_as_lowered.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;
// A tensor of the other program under its name, when it is there.
using Sink = std::function<void(const std::string& name, const at::Tensor& tensor)>;

std::vector<std::string> backends_of_ops(const Program& program) {
  std::vector<std::string> backends(program.ops.size());
  for (const Segment& segment : program.segments)
    for (int op : segment.ops) backends[static_cast<size_t>(op)] = segment.backend;
  return backends;
}

// One op of a program as a program of its own: what it reads are inputs or constants, what it gives
// are outputs.
Program single_op(const Program& program, size_t index, const std::string& backend) {
  Program part;
  part.backend = backend;
  part.versions = program.versions;
  part.symbols = program.symbols;
  ProgramOp op = program.ops[index];
  std::map<int, int> places;
  Segment segment{.backend = backend, .ops = {0}, .inputs = {}, .outputs = {}};
  const auto place_of = [&](int tensor, bool is_output) {
    const auto [known, is_new] = places.emplace(tensor, static_cast<int>(part.tensors.size()));
    if (!is_new) return known->second;
    part.tensors.push_back(program.tensor(tensor));
    ProgramTensor& own = part.tensors.back();
    if (own.is_constant()) return known->second;
    own.role = is_output ? ProgramTensor::Role::kOutput : ProgramTensor::Role::kInput;
    (is_output ? part.outputs : part.inputs).push_back(known->second);
    (is_output ? segment.outputs : segment.inputs).push_back(known->second);
    return known->second;
  };
  for (int& input : op.inputs)
    if (input >= 0) input = place_of(input, /*is_output=*/false);
  for (int& output : op.outputs)
    if (output >= 0) output = place_of(output, /*is_output=*/true);
  part.ops.push_back(std::move(op));
  part.segments.push_back(std::move(segment));
  return part;
}

// Every op that can run by itself, waiting for its tensors.
class OpByOp {
 public:
  explicit OpByOp(const Program& program) : program_(program), bound_(program) {
    const std::vector<std::string> backends = backends_of_ops(program);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const ProgramOp& op = program.ops[i];
      if (is_control(op)) continue;
      Step step{
          .op = {op.name, op.kind, backends[i], op.module, op.sources},
            .index = i
      };
      for (int output : op.outputs) {
        if (output < 0) continue;
        given_.insert(program.tensor(output).name);
        if (program.tensor(output).qparams) step.op.is_integer = true;
      }
      steps_.push_back(std::move(step));
    }
  }

  // Names of all tensors that ops read or give, but constants.
  std::unordered_set<std::string> wanted() const {
    std::unordered_set<std::string> names;
    for (const Step& step : steps_)
      for (const std::string& name : tensors_of(program_.ops[step.index])) names.insert(name);
    return names;
  }

  void begin_batch(const Values& batch) {
    bind(batch);
    alive_.clear();
    missing_.clear();
    readers_.clear();
    for (size_t i = 0; i < steps_.size(); ++i) {
      const std::vector<std::string> names = tensors_of(bound_.ops[steps_[i].index]);
      missing_.push_back(names.size());
      for (const std::string& name : names) readers_[name].push_back(i);
    }
  }

  // Runs and compares each op that has all its tensors now; keeps a tensor while ops wait for it.
  void take(const std::string& name, const at::Tensor& tensor) {
    const auto readers = readers_.find(name);
    if (readers == readers_.end() || alive_.contains(name)) return;
    has_seen_any_ = has_seen_any_ || given_.contains(name);
    alive_[name] = {tensor, readers->second.size()};
    for (size_t step : readers->second)
      if (--missing_[step] == 0) compare(steps_[step]);
  }

  // Whether a tensor that ops give was there, so that the programs belong together.
  bool has_seen_any() const { return has_seen_any_; }

  std::vector<LoweredOp> results() const {
    std::vector<LoweredOp> ops;
    for (const Step& step : steps_) ops.push_back(step.op);
    return ops;
  }

 private:
  struct Step {
    LoweredOp op;
    size_t index = 0;  // in Program::ops
    std::unique_ptr<Session> session = {};
  };
  struct Alive {
    at::Tensor tensor;
    size_t readers = 0;  // that have not run yet
  };

  std::vector<std::string> tensors_of(const ProgramOp& op) const {
    std::vector<std::string> names;
    for (const std::vector<int>* side : {&op.inputs, &op.outputs})
      for (int tensor : *side) {
        if (tensor < 0 || program_.tensor(tensor).is_constant()) continue;
        const std::string& name = program_.tensor(tensor).name;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    return names;
  }

  // Open sizes become those of the batch.
  void bind(const Values& batch) {
    if (program_.symbols.empty()) return;
    std::vector<const int64_t*> shapes;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const bool is_read = program_.inputs[i] >= 0 && i < batch.size() && batch[i].isTensor();
      shapes.push_back(is_read ? batch[i].toTensor().sizes().data() : nullptr);
    }
    SymbolValues values = bind_symbols(program_, shapes, "compare");
    if (values == values_) return;
    values_ = std::move(values);
    bound_ = specialize(program_, values_);
    for (Step& step : steps_) step.session.reset();
  }

  void compare(Step& step) {
    const ProgramOp& op = bound_.ops[step.index];
    if (!step.session)
      step.session = std::make_unique<Session>(single_op(bound_, step.index, step.op.backend));
    const Program& own = step.session->program();
    std::vector<Tensor> inputs;
    bool fits = true;
    for (int input : own.inputs) {
      const at::Tensor& tensor = alive_.at(own.tensor(input).name).tensor;
      fits = fits && tensor.scalar_type() == to_scalar_type(own.tensor(input).dtype) &&
             tensor.dim() == static_cast<int64_t>(own.tensor(input).shape.size());
      inputs.push_back(from_aten(tensor.contiguous()));
    }
    if (fits) {
      const std::vector<Tensor> outputs = step.session->run(inputs);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const ProgramTensor& given = own.tensor(own.outputs[i]);
        const at::Tensor& wanted = alive_.at(given.name).tensor;
        if (wanted.is_floating_point() != is_floating_point(given.dtype) ||
            wanted.dim() != static_cast<int64_t>(given.shape.size()))
          continue;
        step.op.error.merge(
            compare_tensors(in_steps(wanted, given), in_steps(to_aten(outputs[i]), given)));
      }
    }
    for (const std::string& name : tensors_of(op)) {
      const auto alive = alive_.find(name);
      if (--alive->second.readers == 0) alive_.erase(alive);
    }
  }

  static at::Tensor in_steps(const at::Tensor& tensor, const ProgramTensor& given) {
    if (!given.qparams || !given.qparams->is_per_tensor()) return tensor;
    return tensor.to(at::kFloat).sub(given.qparams->zero_point.front());
  }

  const Program& program_;
  Program bound_;  // at the sizes of the batch
  SymbolValues values_ = {};
  std::vector<Step> steps_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;  // by tensor
  std::unordered_map<std::string, Alive> alive_;
  std::unordered_set<std::string> given_;
  bool has_seen_any_ = false;
  std::vector<size_t> missing_;  // by step: tensors that did not come yet
};

// Integers that the lowered program moves where the graph moves their floats: "pool_q" for %pool.
std::unordered_map<std::string, const ProgramTensor*> find_moved(const Program& program,
                                                                 const Graph& graph) {
  constexpr std::string_view kSuffix = "_q";
  std::unordered_map<std::string, const ProgramTensor*> moved;
  for (const ProgramTensor& tensor : program.tensors) {
    if (!tensor.qparams || !tensor.qparams->is_per_tensor() || !tensor.name.ends_with(kSuffix) ||
        graph.find_value(tensor.name) != nullptr)
      continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSuffix.size());
    if (graph.find_value(name) != nullptr) moved[name] = &tensor;
  }
  return moved;
}

at::Tensor quantized(const at::Tensor& real, const ProgramTensor& tensor) {
  const TensorQParams& qparams = *tensor.qparams;
  const IntegerRange range = integer_range(tensor.dtype);
  return real.to(at::kFloat)
      .div(qparams.scale.front())
      .round()
      .add(qparams.zero_point.front())
      .clamp(range.min, range.max)
      .to(to_scalar_type(tensor.dtype));
}

Values run_whole(Session& session, const Values& batch) {
  if (batch.size() > session.program().inputs.size())
    throw Error("compare", "the data",
                fmt::format("has {} inputs, the lowered program takes {}", batch.size(),
                            session.program().inputs.size()));
  return run_session(session, batch);
}

void merge_outputs(ErrorStats& stats, const Values& wanted, const Values& found) {
  for (size_t i = 0; i < wanted.size() && i < found.size(); ++i)
    if (wanted[i].isTensor() && found[i].isTensor() && wanted[i].toTensor().is_floating_point() &&
        found[i].toTensor().is_floating_point())
      stats.merge(compare_tensors(wanted[i].toTensor(), found[i].toTensor()));
}

// What the kernels take in the whole program. A kernel of several ops counts to the first.
void add_latency(std::vector<LoweredOp>& ops, Session& session, const Values& batch) {
  constexpr int kRuns = 10;
  session.time_kernels(true);
  for (int i = 0; i < kRuns; ++i) run_whole(session, batch);
  std::unordered_map<std::string, double> seconds;
  for (const KernelReport& kernel : session.kernels())
    if (!kernel.ops.empty()) seconds[kernel.ops.front()] += kernel.seconds;
  session.time_kernels(false);
  for (LoweredOp& op : ops)
    if (const auto found = seconds.find(op.name); found != seconds.end())
      op.seconds = found->second;
}

LoweredComparison finished(LoweredComparison comparison, OpByOp& ops, Session& session,
                           const std::optional<Values>& batch, size_t batches) {
  comparison.ops = ops.results();
  if (batches == 0)
    throw Error("compare", "the data", "holds no batch; give at least one set of inputs");
  // Ops of a program from elsewhere find none of their tensors; those that read states alone, too.
  if (!ops.has_seen_any() && !comparison.ops.empty())
    throw Error("compare", "%" + comparison.ops.front().name,
                "is the first op of the lowered program, and none of its ops has its tensors in "
                "the other program; give the .pt2 that it was lowered from");
  add_latency(comparison.ops, session, *batch);
  return comparison;
}

// Runs a program op by op, each on what the ones before gave.
class Source {
 public:
  explicit Source(const Program& program) : program_(program) {
    const std::vector<std::string> backends = backends_of_ops(program);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Program part = single_op(program, i, backends[i]);
      for (int input : part.inputs) last_use_[part.tensor(input).name] = i;
      sessions_.push_back(std::make_unique<Session>(part));
    }
  }

  void run(const Values& batch, const Sink& sink) {
    std::unordered_map<std::string, Tensor> alive;
    for (size_t i = 0; i < program_.inputs.size() && i < batch.size(); ++i) {
      if (program_.inputs[i] < 0 || !batch[i].isTensor()) continue;
      const std::string& name = program_.tensor(program_.inputs[i]).name;
      alive[name] = from_aten(batch[i].toTensor().contiguous());
      sink(name, batch[i].toTensor());
    }
    for (size_t i = 0; i < sessions_.size(); ++i) {
      const Program& own = sessions_[i]->program();
      std::vector<Tensor> inputs;
      for (int input : own.inputs) inputs.push_back(alive.at(own.tensor(input).name));
      const std::vector<Tensor> outputs = sessions_[i]->run(inputs);
      for (size_t j = 0; j < outputs.size(); ++j) {
        const std::string& name = own.tensor(own.outputs[j]).name;
        alive[name] = outputs[j];
        sink(name, to_aten(outputs[j]));
      }
      for (int input : own.inputs) {
        const std::string& name = own.tensor(input).name;
        if (last_use_.at(name) == i) alive.erase(name);
      }
    }
  }

 private:
  const Program& program_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unordered_map<std::string, size_t> last_use_;
};

// Runs alone op by op: what keeps state, branches or has open sizes is compared with its .pt2.
void check_can_run_op_by_op(const Program& program) {
  const bool has_control = std::any_of(program.ops.begin(), program.ops.end(),
                                       [](const ProgramOp& op) { return is_control(op); });
  if (has_control || !program.states.empty() || !program.symbols.empty())
    throw Error("compare", "the first .octet program",
                "has states, open sizes or control flow, which two lowered programs cannot be "
                "compared with; give the .pt2 that it was lowered from");
}

}  // namespace

LoweredComparison compare_lowered(const Program& reference, const Program& program,
                                  const BatchSource& data) {
  check_can_run_op_by_op(reference);
  if (reference.inputs.size() != program.inputs.size())
    throw Error("compare", "the programs",
                fmt::format("take {} and {} inputs; give programs of the same model",
                            reference.inputs.size(), program.inputs.size()));
  OpByOp ops(program);
  Source source(reference);
  Session wanted(reference), session(program);
  LoweredComparison comparison;
  size_t batches = 0;
  std::optional<Values> last;
  for (std::optional<Values> batch; (batch = data()); ++batches) {
    last = batch;
    ops.begin_batch(*batch);
    source.run(*batch,
               [&](const std::string& name, const at::Tensor& tensor) { ops.take(name, tensor); });
    merge_outputs(comparison.outputs, run_whole(wanted, *batch), run_whole(session, *batch));
  }
  return finished(std::move(comparison), ops, session, last, batches);
}

LoweredComparison compare_lowered(const Graph& exported, const Program& program,
                                  const BatchSource& data) {
  const std::unique_ptr<Graph> folded = fold_as_lowered(exported, program);
  const Graph& graph = *folded;
  OpByOp ops(program);
  const std::unordered_set<std::string> wanted = ops.wanted();
  LoweredComparison comparison;
  Session session(program);
  const std::unordered_set<const Value*> overwritten = overwritten_values(graph);
  const std::unordered_map<std::string, const ProgramTensor*> moved = find_moved(program, graph);
  const auto take = [&](const Value& value, const c10::IValue& content) {
    if (!content.isTensor()) return;
    if (const auto integers = moved.find(value.name()); integers != moved.end())
      ops.take(integers->second->name, quantized(content.toTensor(), *integers->second));
    if (!wanted.contains(value.name())) return;
    ops.take(value.name(),
             overwritten.contains(&value) ? content.toTensor().clone() : content.toTensor());
  };
  const NodeHook hook = [&](const Node& node, const Values& results) {
    if (&node.graph() != &graph) return;
    const std::vector<Value*> outputs = node.outputs();
    for (size_t i = 0; i < outputs.size() && i < results.size(); ++i) take(*outputs[i], results[i]);
  };
  Interpreter interpreter(graph, {.after_node = hook, .handlers = {}});
  const std::vector<Value*> inputs = graph.user_inputs();
  size_t batches = 0;
  std::optional<Values> last;
  for (std::optional<Values> batch; (batch = data()); ++batches) {
    last = batch;
    ops.begin_batch(*batch);
    for (size_t i = 0; i < inputs.size() && i < batch->size(); ++i) take(*inputs[i], (*batch)[i]);
    merge_outputs(comparison.outputs, interpreter.run(*batch), run_whole(session, *batch));
  }
  return finished(std::move(comparison), ops, session, last, batches);
}

}  // namespace octet
