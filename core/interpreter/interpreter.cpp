#include "core/interpreter/interpreter.h"

#include <algorithm>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/interpreter/inputs.h"
#include "core/interpreter/ivalue_convert.h"
#include "core/interpreter/special_ops.h"
#include "core/ops/callable_ops.h"

namespace octet {
// Types of the members of Interpreter::State, which is not local to this file.
namespace interpreter {

// An argument of a dispatcher op: its place in the schema and where its value comes from.
struct Operand {
  const c10::Argument* wanted = nullptr;
  const Argument* given = nullptr;  // resolved in each run; null when `ready` holds the value
  c10::IValue ready;
  bool is_write = false;
};

// A node prepared to run.
struct Step {
  const Node* node = nullptr;
  const Handler* handler = nullptr;
  PythonOp python = nullptr;
  HigherOrderOp higher_order = nullptr;
  std::optional<c10::OperatorHandle> op;
  std::vector<Operand> operands;        // of `op`
  std::vector<const Value*> last_uses;  // values that nothing needs after this node
};

struct Block {
  const Graph* graph = nullptr;
  std::vector<Step> steps;
};

}  // namespace interpreter

namespace {

using c10::IValue;
using interpreter::Block;
using interpreter::Operand;
using interpreter::Step;
using Values = std::vector<IValue>;

// batch_norm and instance_norm update their running statistics, which their schemas do not declare.
bool updates_statistics(const Node& node) {
  for (const char* flag : {"training", "train", "use_input_stats"}) {
    const Argument* argument = node.find_argument(flag);
    const bool* value = argument == nullptr ? nullptr : argument->find<bool>();
    if (value != nullptr && *value) return true;
  }
  return false;
}

Step make_dispatcher_step(const Node& node, const c10::OperatorHandle& op) {
  Step step;
  step.node = &node;
  step.op = op;
  const bool statistics = updates_statistics(node);
  const std::vector<c10::Argument>& wanted = op.schema().arguments();
  for (const c10::Argument& argument : wanted) {
    Operand operand;
    operand.wanted = &argument;
    operand.is_write =
        (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
        (statistics && (argument.name() == "running_mean" || argument.name() == "running_var"));
    const Argument* given = node.find_argument(argument.name());
    if (given == nullptr) {
      if (!argument.default_value())
        throw Error("run", subject_of(node),
                    fmt::format("argument \"{}\" is missing and has no default; check the node",
                                argument.name()));
      operand.ready = *argument.default_value();
    } else if (holds_values(*given)) {
      operand.given = given;
    } else {
      operand.ready = coerce(resolve(*given, {}), argument, subject_of(node));
    }
    step.operands.push_back(std::move(operand));
  }
  for (const NamedArgument& given : node.arguments())
    if (std::ranges::none_of(
            wanted, [&](const c10::Argument& argument) { return argument.name() == given.name; }))
      throw Error("run", subject_of(node),
                  fmt::format("the op has no argument \"{}\"; check the node, or load the version "
                              "of the library that it was exported with",
                              given.name));
  return step;
}

// The results that an op left on the stack, one per node.outputs().
Values match_results(const Node& node, Values stack) {
  const std::vector<ResultSlot>& slots = node.results();
  // An op with several results that its node lists in one slot, like higher-order ops.
  if (slots.size() == 1 && slots[0].kind == ResultSlot::Kind::kList && stack.size() != 1) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (IValue& value : stack) list.push_back(std::move(value));
    stack = {IValue(list)};
  }
  if (slots.size() > stack.size())
    throw Error(
        "run", subject_of(node),
        fmt::format(
            "the op returns {} results, want {}; the program is for another version of the op",
            stack.size(), slots.size()));
  Values results;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind == ResultSlot::Kind::kLiteral) continue;
    if (slots[i].kind == ResultSlot::Kind::kSingle) {
      results.push_back(std::move(stack[i]));
      continue;
    }
    if (!stack[i].isList())
      throw Error("run", subject_of(node),
                  fmt::format("result {} is {}, want a list", i, describe(stack[i])));
    const c10::ArrayRef<IValue> items = stack[i].toListRef();
    if (items.size() != slots[i].values.size())
      throw Error("run", subject_of(node),
                  fmt::format("result {} has {} items, want {}; the input's shape does not fit the "
                              "exported program",
                              i, items.size(), slots[i].values.size()));
    for (size_t k = 0; k < items.size(); ++k)
      if (slots[i].values[k] != nullptr) results.push_back(items[k]);
  }
  return results;
}

// The flattened results of a higher-order op, None for a slot without a value.
Values match_flat_results(const Node& node, Values flat) {
  size_t wanted = 0;
  for (const ResultSlot& slot : node.results())
    wanted += slot.kind == ResultSlot::Kind::kLiteral ? 1 : slot.values.size();
  if (flat.size() != wanted)
    throw Error("run", subject_of(node),
                fmt::format("the subgraph returns {} results, want {}; the file is damaged",
                            flat.size(), wanted));
  Values results;
  size_t next = 0;
  for (const ResultSlot& slot : node.results()) {
    if (slot.kind == ResultSlot::Kind::kLiteral) ++next;
    for (const Value* value : slot.values) {
      if (value != nullptr) results.push_back(std::move(flat[next]));
      ++next;
    }
  }
  return results;
}

}  // namespace

struct Interpreter::State {
  State(const Graph& graph, InterpreterOptions given)
      : graph(graph), options(std::move(given)), constants(graph) {
    compile(graph);
  }

  const Graph& graph;
  InterpreterOptions options;
  Constants constants;
  // of subgraphs with constants, as during quantization
  std::map<const Graph*, Constants> body_constants;
  std::unordered_map<const Graph*, interpreter::Block> blocks;

  void before_write(const at::Tensor& tensor);
  void compile(const Graph& body);
  Step make_step(const Node& node);
  Values execute(const Step& step, Frame& frame);
  Values call_operator(const Step& step, const Frame& frame);
  // Runs all steps; the values of the outputs stay in the frame.
  void run_steps(const Graph& body, Frame& frame);
  Values run_subgraph(const Graph& body, Values inputs);
};

void Interpreter::State::before_write(const at::Tensor& tensor) {
  constants.before_write(tensor);
  for (auto& [body, own] : body_constants) own.before_write(tensor);
}

void Interpreter::State::compile(const Graph& body) {
  if (&body != &graph && !body.constants.empty()) body_constants.emplace(&body, body);
  Block block;
  block.graph = &body;
  std::unordered_map<const Value*, size_t> last_step;
  for (const Node* node : body.nodes()) {
    for (const Value* value : node->inputs()) last_step[value] = block.steps.size();
    for (const Value* value : node->outputs()) last_step[value] = block.steps.size();
    block.steps.push_back(make_step(*node));
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* subgraph = argument.value.find<Subgraph>();
          subgraph != nullptr && subgraph->graph != nullptr)
        compile(*subgraph->graph);
  }
  for (const auto& [value, index] : last_step)
    if (!value->is_output()) block.steps[index].last_uses.push_back(value);
  blocks[&body] = std::move(block);
}

Step Interpreter::State::make_step(const Node& node) {
  Step step;
  step.node = &node;
  const auto handler = options.handlers.find(node.target());
  if (handler != options.handlers.end()) {
    step.handler = &handler->second;
    return step;
  }
  step.python = find_python_op(node.target());
  if (step.python != nullptr) return step;
  step.higher_order = find_higher_order_op(node.target());
  if (step.higher_order != nullptr) return step;
  const std::optional<c10::OperatorHandle> op =
      find_callable_operator(node.target(), subject_of(node));
  if (op) return make_dispatcher_step(node, *op);
  if (node.target().starts_with("higher_order."))
    throw Error("run", subject_of(node),
                "the higher-order op is not supported; export the program without it");
  throw Error("run", subject_of(node),
              "the op is not registered; load the library that registers it with --library");
}

Values Interpreter::State::call_operator(const Step& step, const Frame& frame) {
  torch::jit::Stack stack;
  stack.reserve(step.operands.size());
  for (const Operand& operand : step.operands) {
    stack.push_back(operand.given == nullptr ? operand.ready
                                             : coerce(resolve(*operand.given, frame),
                                                      *operand.wanted, subject_of(*step.node)));
    if (!operand.is_write) continue;
    const IValue& target = stack.back();
    if (target.isTensor()) before_write(target.toTensor());
    if (target.isTensorList())
      for (const at::Tensor& tensor : target.toTensorVector()) before_write(tensor);
  }
  step.op->callBoxed(stack);
  return match_results(*step.node, std::move(stack));
}

Values Interpreter::State::execute(const Step& step, Frame& frame) {
  if (step.op) return call_operator(step, frame);
  Values arguments;
  for (const NamedArgument& argument : step.node->arguments())
    arguments.push_back(resolve(argument.value, frame));
  if (step.handler != nullptr) {
    Values results = (*step.handler)(*step.node, arguments);
    OCTET_ASSERT(results.size() == step.node->outputs().size(),
                 "the handler of " + step.node->target() +
                     " returned another number of results than the node has");
    return results;
  }
  if (step.python != nullptr)
    return match_results(*step.node, {step.python(arguments, subject_of(*step.node))});
  const RunSubgraph run = [this](const Graph& body, Values inputs) {
    return run_subgraph(body, std::move(inputs));
  };
  return match_flat_results(*step.node, step.higher_order(*step.node, arguments, run));
}

void Interpreter::State::run_steps(const Graph& body, Frame& frame) {
  for (const Step& step : blocks.at(&body).steps) {
    try {
      Values results = execute(step, frame);
      if (options.after_node) options.after_node(*step.node, results);
      const std::vector<Value*> outputs = step.node->outputs();
      for (size_t i = 0; i < outputs.size(); ++i) frame[outputs[i]] = std::move(results[i]);
    } catch (const Error&) {
      throw;
    } catch (const InternalError&) {
      throw;
    } catch (const c10::Error& error) {
      throw Error("run", subject_of(*step.node), first_line(error.what_without_backtrace()));
    } catch (const std::exception& error) {
      throw Error("run", subject_of(*step.node), first_line(error.what()));
    }
    for (const Value* value : step.last_uses) frame.erase(value);
  }
}

Values Interpreter::State::run_subgraph(const Graph& body, Values inputs) {
  const auto own = body_constants.find(&body);
  Frame frame;
  size_t next = 0;
  for (const GraphInput& input : body.inputs()) {
    if (const at::Tensor* constant = own == body_constants.end() || input.fqn.empty()
                                         ? nullptr
                                         : own->second.find(input.fqn)) {
      frame[input.value] = *constant;
      continue;
    }
    if (next < inputs.size() && input.value != nullptr)
      frame[input.value] = std::move(inputs[next]);
    ++next;
  }
  if (inputs.size() != next)
    throw Error("run", "subgraph",
                fmt::format("got {} operands, want {}; the file is damaged", inputs.size(), next));
  run_steps(body, frame);
  Values results;
  for (const GraphOutput& output : body.outputs()) results.push_back(resolve(output.value, frame));
  return results;
}

Interpreter::Interpreter(const Graph& graph, InterpreterOptions options)
    : state_(std::make_unique<State>(graph, std::move(options))) {}
Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;

std::vector<IValue> Interpreter::run(const std::vector<IValue>& user_inputs) {
  const at::AutoGradMode grad_mode(state_->options.record_gradients && at::GradMode::is_enabled());
  State& state = *state_;
  const Graph& graph = state.graph;
  check_inputs(graph, user_inputs, state.options.check_inputs);
  Frame frame;
  size_t next = 0;
  for (const GraphInput& input : graph.inputs()) {
    const bool is_callers =
        input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
    const IValue* given = is_callers ? &user_inputs[next++] : nullptr;
    if (input.value == nullptr) continue;
    if (is_callers) {
      frame[input.value] = *given;
    } else if (const at::Tensor* constant = state.constants.find(input.fqn)) {
      frame[input.value] = *constant;
    } else if (!input.value->is_unused() || input.kind == InputKind::kParameter) {
      throw Error(
          "run", "%" + input.value->name(),
          fmt::format(
              "\"{}\" has no tensor in the program; it is a custom object, or the file is damaged",
              input.fqn));
    }
  }
  state.run_steps(graph, frame);

  std::vector<IValue> results;
  for (const GraphOutput& output : graph.outputs()) {
    const IValue value = resolve(output.value, frame);
    const at::Tensor* target = nullptr;
    if (output.kind == OutputKind::kUserOutput || output.kind == OutputKind::kLoss) {
      results.push_back(value);
    } else if (output.kind == OutputKind::kBufferMutation ||
               output.kind == OutputKind::kParameterMutation) {
      target = state.constants.find(output.target);
    } else if (output.kind == OutputKind::kUserInputMutation) {
      const std::vector<const GraphInput*> inputs = caller_inputs(graph);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]->value != nullptr && inputs[i]->value->name() == output.target &&
            user_inputs[i].isTensor())
          target = &user_inputs[i].toTensor();
    } else {
      continue;  // tokens and gradients have no effect outside
    }
    if (target == nullptr || !value.isTensor() || value.toTensor().is_same(*target)) continue;
    const at::NoGradGuard no_grad;
    state.constants.before_write(*target);
    target->copy_(value.toTensor());
  }
  return results;
}

void Interpreter::reset() {
  state_->constants.reset();
  for (auto& [body, own] : state_->body_constants) own.reset();
}

at::Tensor Interpreter::constant(const std::string& fqn) const {
  const at::Tensor* found = state_->constants.find(fqn);
  if (found == nullptr) throw Error("run", fqn, "no such parameter, buffer or constant");
  return *found;
}

}  // namespace octet
