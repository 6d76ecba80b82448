// Compares a lowered program with the q/dq graph that it was made from: runs each op by itself on
// the tensors of the graph, as soon as all of them are known.
#include "tools/cli/compare/report.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "annotate/graph/aliasing.h"
#include "annotate/graph/qdq_nodes.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/program/control.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/compare/border.h"
#include "tools/cli/compare/op_runs.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;

// Runs each op of the program by itself, as soon as all of its tensors are there.
class OpByOp {
 public:
  explicit OpByOp(const Program& program) : program_(program), sized_(program) {
    const std::vector<std::string> backends = backends_of_ops(program);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const ProgramOp& op = program.ops[i];
      if (is_control(op)) {
        for (int output : op.outputs) given_.insert(program.tensor(output).name);
        continue;
      }
      Step step{.op = {op.name, op.kind, backends[i], op.module, op.sources}, .index = i};
      for (int output : op.outputs) {
        if (output < 0) continue;
        given_.insert(program.tensor(output).name);
        if (program.tensor(output).qparams) step.op.is_integer = true;
      }
      steps_.push_back(std::move(step));
    }
  }

  // The names of all tensors, except constants, that ops read or give.
  std::unordered_set<std::string> wanted() const {
    std::unordered_set<std::string> names = given_;
    for (const Step& step : steps_)
      for (const std::string& name : tensors_of(program_.ops[step.index])) names.insert(name);
    return names;
  }

  void begin_batch(const Values& batch) {
    if (sized_.bind(batch))
      for (Step& step : steps_) step.session.reset();
    alive_.clear();
    missing_.clear();
    readers_.clear();
    for (size_t i = 0; i < steps_.size(); ++i) {
      const std::vector<std::string> names = tensors_of(sized_.at().ops[steps_[i].index]);
      missing_.push_back(names.size());
      for (const std::string& name : names) readers_[name].push_back(i);
    }
  }

  // Runs and compares each op whose tensors are complete now. Keeps the tensor while other ops need
  // it.
  void take(const std::string& name, const at::Tensor& tensor) {
    has_seen_any_ = has_seen_any_ || given_.contains(name);
    const auto readers = readers_.find(name);
    if (readers == readers_.end() || alive_.contains(name)) return;
    alive_[name] = {tensor, readers->second.size()};
    for (size_t step : readers->second)
      if (--missing_[step] == 0) compare(steps_[step]);
  }

  // Whether any tensor that ops give was there; otherwise the programs do not belong together.
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
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    return names;
  }

  void compare(Step& step) {
    const ProgramOp& op = sized_.at().ops[step.index];
    if (!step.session)
      step.session = std::make_unique<Session>(single_op(sized_.at(), step.index, step.op.backend));
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
  SizedProgram sized_;
  std::vector<Step> steps_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;  // by tensor
  std::unordered_map<std::string, Alive> alive_;
  std::unordered_set<std::string> given_;
  bool has_seen_any_ = false;
  std::vector<size_t> missing_;  // by step: tensors that did not come yet
};

// Finds tensors that the lowered program moves as integers where the graph moves floats: "pool_q"
// for %pool.
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

void merge_outputs(ErrorStats& stats, const Values& all_wanted, const Values& found) {
  const Values wanted = only_tensors(all_wanted);
  for (size_t i = 0; i < wanted.size() && i < found.size(); ++i)
    if (wanted[i].isTensor() && found[i].isTensor() && wanted[i].toTensor().is_floating_point() &&
        found[i].toTensor().is_floating_point())
      stats.merge(compare_tensors(wanted[i].toTensor(), found[i].toTensor()));
}

// Adds the times of the kernels in the whole program. A kernel of several ops counts for the first.
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
    throw Error("compare", "the data", "holds no batches; give at least one set of inputs");
  // If the programs are unrelated, no op finds its tensors. Ops that read only states find none
  // either.
  if (!ops.has_seen_any() && !comparison.ops.empty())
    throw Error("compare", "%" + comparison.ops.front().name,
                "is the first op of the lowered program, and none of its ops has its tensors in "
                "the other program; give the .pt2 that it was lowered from");
  add_latency(comparison.ops, session, *batch);
  return comparison;
}

bool has_integers(const Program& program) {
  return std::ranges::any_of(
             program.tensors,
             [](const ProgramTensor& tensor) { return tensor.qparams.has_value(); }) ||
         std::ranges::any_of(program.bodies, has_integers);
}

// Refuses a quantized graph with a lowered float program: the comparison would measure the float
// program against the quantized one.
void check_order(const Graph& graph, const Program& program) {
  const std::vector<Node*> nodes = graph.nodes();
  if (std::ranges::any_of(nodes, is_quantize) && !has_integers(program))
    throw Error("compare", "the programs",
                "the first has quantize ops and the lowered one computes in float, want a lowered "
                "program that was made from the first; lower it, or give the float .pt2");
}

// A batch in the form that each of two programs needs.
struct Inputs {
  Values others, own;
};

Inputs inputs_of(const Values& batch, const QuantizedIo& others_io, const QuantizedIo& io) {
  const Values reals = with_reals(with_reals(batch, io.inputs), others_io.inputs);
  return {with_integers(reals, others_io), with_integers(reals, io)};
}

// Maps names of tensors between two programs if only one takes integers: its input then corresponds
// to the result of a quantize in the other.
class BorderNames {
 public:
  BorderNames(const Program& a, const Program& b) {
    for (size_t i = 0; i < a.inputs.size() && i < b.inputs.size(); ++i) {
      if (a.inputs[i] < 0 || b.inputs[i] < 0) continue;
      add(a, a.inputs[i], b, b.inputs[i]);
      add(b, b.inputs[i], a, a.inputs[i]);
    }
  }

  // Null if the tensor has the same name in both.
  const std::string* find(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : &found->second;
  }

 private:
  void add(const Program& integer, int input, const Program& real, int real_input) {
    const ProgramTensor& taken = integer.tensor(input);
    if (!taken.qparams || real.tensor(real_input).qparams) return;
    for (const ProgramOp& op : real.ops) {
      if (!op.is("quantize") || op.inputs.front() != real_input) continue;
      const ProgramTensor& rounded = real.tensor(op.outputs.front());
      if (rounded.qparams != taken.qparams || rounded.dtype != taken.dtype) continue;
      names_[taken.name] = rounded.name;
      names_[rounded.name] = taken.name;
    }
  }

  std::unordered_map<std::string, std::string> names_;
};

}  // namespace

LoweredComparison compare_lowered(const Program& reference, const Program& program,
                                  const BatchSource& data) {
  OpRuns source(reference);
  if (reference.inputs.size() != program.inputs.size())
    throw Error("compare", "the programs",
                fmt::format("take {} and {} inputs; give programs of the same model",
                            reference.inputs.size(), program.inputs.size()));
  OpByOp ops(program);
  Session wanted(reference), session(program);
  const QuantizedIo wanted_io = quantized_io_of(reference), io = quantized_io_of(program);
  const BorderNames names(reference, program);
  LoweredComparison comparison;
  size_t batches = 0;
  std::optional<Values> last;
  for (std::optional<Values> batch; (batch = data()); ++batches) {
    const auto [others, own] = inputs_of(*batch, wanted_io, io);
    last = own;
    ops.begin_batch(own);
    source.run(others, [&](const std::string& name, const at::Tensor& tensor) {
      const std::string* other = names.find(name);
      ops.take(other == nullptr ? name : *other, tensor);
    });
    merge_outputs(comparison.outputs, with_reals(run_whole(wanted, others), wanted_io.outputs),
                  with_reals(run_whole(session, own), io.outputs));
  }
  return finished(std::move(comparison), ops, session, last, batches);
}

LoweredComparison compare_lowered(const Graph& exported, const Program& program,
                                  const BatchSource& data) {
  check_order(exported, program);
  const QuantizedIo graph_io = read_quantized_io(exported), io = quantized_io_of(program);
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
    const auto [others, own] = inputs_of(*batch, graph_io, io);
    last = own;
    ops.begin_batch(own);
    for (size_t i = 0; i < inputs.size() && i < others.size(); ++i) take(*inputs[i], others[i]);
    merge_outputs(comparison.outputs, with_reals(interpreter.run(others), graph_io.outputs),
                  with_reals(run_whole(session, own), io.outputs));
  }
  return finished(std::move(comparison), ops, session, last, batches);
}

}  // namespace octet
