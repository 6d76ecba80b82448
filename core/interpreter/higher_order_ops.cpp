// Runs the ops that call a subgraph: branches, loops, maps and regions of PyTorch's export.
#include "core/interpreter/special_ops.h"

#include <ATen/autocast_mode.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/select.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/interpreter/ivalue_convert.h"
#include "core/ops/callable_ops.h"

namespace octet {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

[[noreturn]] void fail(const Node& node, const std::string& message) {
  throw Error("run", subject_of(node), message);
}

const Graph& body_at(const Node& node, size_t index) {
  const Subgraph* body =
      index < node.arguments().size() ? node.arguments()[index].value.find<Subgraph>() : nullptr;
  if (body == nullptr || body->graph == nullptr)
    fail(node, fmt::format("argument {} is not a subgraph; the file is damaged or newer", index));
  return *body->graph;
}

// The operands in one argument: the items of a list, or the value itself.
Values operands_at(const Values& arguments, size_t index) {
  if (index >= arguments.size() || arguments[index].isNone()) return {};
  if (!arguments[index].isList()) return {arguments[index]};
  return arguments[index].toListRef().vec();
}

Values tail(const Values& arguments, size_t first) {
  return first < arguments.size()
             ? Values(arguments.begin() + static_cast<std::ptrdiff_t>(first), arguments.end())
             : Values();
}

void append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

// cond(predicate, if_true, if_false, operands)
Values cond(const Node& node, const Values& arguments, const RunSubgraph& run) {
  const Graph& if_true = body_at(node, 1);
  const Graph& if_false = body_at(node, 2);
  return run(to_bool(arguments[0], subject_of(node)) ? if_true : if_false,
             operands_at(arguments, 3));
}

// while_loop(condition, body, carried, additional): carried = body(carried, additional) while
// condition(carried, additional)
Values while_loop(const Node& node, const Values& arguments, const RunSubgraph& run) {
  const Graph& condition = body_at(node, 0);
  const Graph& body = body_at(node, 1);
  Values carried = operands_at(arguments, 2);
  const Values additional = operands_at(arguments, 3);
  const size_t count = carried.size();
  while (true) {
    Values inputs = carried;
    append(inputs, additional);
    const Values decision = run(condition, inputs);
    if (decision.size() != 1)
      fail(node, fmt::format("the condition returns {} results, want 1", decision.size()));
    if (!to_bool(decision[0], subject_of(node))) return carried;
    carried = run(body, std::move(inputs));
    if (carried.size() != count)
      fail(node, fmt::format("the body returns {} results, want {} as many as are carried",
                             carried.size(), count));
  }
}

// Row `index` of each tensor along dimension 0.
Values rows_of(const Values& tensors, int64_t index) {
  Values rows;
  for (const IValue& tensor : tensors) rows.emplace_back(at::select(tensor.toTensor(), 0, index));
  return rows;
}

int64_t row_count(const Node& node, const Values& tensors) {
  if (tensors.empty() || !tensors[0].isTensor() || tensors[0].toTensor().dim() == 0)
    fail(node, "want at least one tensor with a dimension to scan");
  const int64_t count = tensors[0].toTensor().size(0);
  for (const IValue& tensor : tensors)
    if (!tensor.isTensor() || tensor.toTensor().dim() == 0 || tensor.toTensor().size(0) != count)
      fail(node,
           fmt::format("got {}, want a tensor of {} rows like the first", describe(tensor), count));
  if (count == 0) fail(node, "got a tensor without rows, want at least one");
  return count;
}

Values stacked(const Node& node, const std::vector<Values>& rows) {
  Values results;
  for (size_t i = 0; i < rows.front().size(); ++i) {
    if (!rows.front()[i].isTensor()) {
      results.emplace_back();
      continue;
    }
    std::vector<at::Tensor> column;
    for (const Values& row : rows) {
      if (row.size() != rows.front().size() || !row[i].isTensor())
        fail(node, "the body returns different results from row to row");
      column.push_back(row[i].toTensor());
    }
    results.emplace_back(at::stack(column));
  }
  return results;
}

// scan(combine, init, xs, additional): (carried, y) = combine(carried, x, additional) for each row
// x; returns carried and the stacked ys.
Values scan(const Node& node, const Values& arguments, const RunSubgraph& run) {
  const Graph& combine = body_at(node, 0);
  Values carried = operands_at(arguments, 1);
  const Values rows = operands_at(arguments, 2);
  const Values additional = operands_at(arguments, 3);
  const auto count = static_cast<std::ptrdiff_t>(carried.size());
  std::vector<Values> results;
  for (int64_t i = 0, n = row_count(node, rows); i < n; ++i) {
    Values inputs = std::move(carried);
    append(inputs, rows_of(rows, i));
    append(inputs, additional);
    Values outputs = run(combine, std::move(inputs));
    if (static_cast<std::ptrdiff_t>(outputs.size()) < count)
      fail(node,
           fmt::format("the body returns {} results, want at least {}", outputs.size(), count));
    carried.assign(outputs.begin(), outputs.begin() + count);
    results.emplace_back(outputs.begin() + count, outputs.end());
  }
  append(carried, stacked(node, results));
  return carried;
}

// map_impl(body, xs, additional): the stacked results of body(x, additional) for each row x
Values map(const Node& node, const Values& arguments, const RunSubgraph& run) {
  const Graph& body = body_at(node, 0);
  const Values rows = operands_at(arguments, 1);
  const Values additional = operands_at(arguments, 2);
  std::vector<Values> results;
  for (int64_t i = 0, n = row_count(node, rows); i < n; ++i) {
    Values inputs = rows_of(rows, i);
    append(inputs, additional);
    results.push_back(run(body, std::move(inputs)));
  }
  return stacked(node, results);
}

// invoke_subgraph(body, identifier, *operands)
Values invoke_subgraph(const Node& node, const Values& arguments, const RunSubgraph& run) {
  return run(body_at(node, 0), tail(arguments, 2));
}

// wrap_with_set_grad_enabled(enabled, body, *operands): a run keeps no gradients either way
Values wrap_with_set_grad_enabled(const Node& node, const Values& arguments,
                                  const RunSubgraph& run) {
  return run(body_at(node, 1), tail(arguments, 2));
}

// Sets torch's CPU autocast mode while it exists.
class AutocastScope {
 public:
  AutocastScope(bool enabled, at::ScalarType dtype)
      : enabled_before_(at::autocast::is_autocast_enabled(at::kCPU)),
        dtype_before_(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::increment_nesting();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, enabled_before_);
    at::autocast::set_autocast_dtype(at::kCPU, dtype_before_);
  }

 private:
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

// wrap_with_autocast(device, dtype, enabled, cache_enabled, body, *operands)
Values wrap_with_autocast(const Node& node, const Values& arguments, const RunSubgraph& run) {
  const Graph& body = body_at(node, 4);
  if (!arguments[0].isString() || arguments[0].toStringRef() != "cpu")
    return run(body, tail(arguments, 5));
  const at::ScalarType dtype = arguments[1].isInt()
                                   ? static_cast<at::ScalarType>(arguments[1].toInt())
                                   : at::autocast::get_autocast_dtype(at::kCPU);
  const AutocastScope scope(to_bool(arguments[2], subject_of(node)), dtype);
  return run(body, tail(arguments, 5));
}

// The type in which torch computes `operands` together with an int32 tensor.
at::ScalarType promoted_with(at::ScalarType result, const Values& operands) {
  at::native::ResultTypeState state;
  for (const IValue& operand : operands) {
    if (operand.isTensor()) state = at::native::update_result_type_state(operand.toTensor(), state);
    if (operand.isInt() || operand.isDouble())
      state = at::native::update_result_type_state(operand.toScalar(), state);
  }
  return at::native::result_type(
      at::native::update_result_type_state(at::ones({1}, result), state));
}

// out_dtype(op, dtype, *operands): runs the op in a type that holds operands and dtype, and
// converts its result to dtype
Values out_dtype(const Node& node, const Values& arguments, const RunSubgraph&) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (arguments.size() < 2 || !arguments[0].isString() || !arguments[1].isInt())
    fail(node, "want an op and a dtype in front; the file is damaged");
  std::string_view target = arguments[0].toStringRef();
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  const std::optional<c10::OperatorHandle> op = find_callable_operator(target, subject_of(node));
  if (!op)
    fail(node,
         fmt::format("{} is not registered; load the library that registers it with --library",
                     target));
  const auto dtype = static_cast<at::ScalarType>(arguments[1].toInt());
  const Values operands = tail(arguments, 2);
  const at::ScalarType wide = promoted_with(dtype, operands);
  const std::vector<c10::Argument>& wanted = op->schema().arguments();
  if (operands.size() > wanted.size())
    fail(node, fmt::format("got {} operands, want at most the {} of {}", operands.size(),
                           wanted.size(), target));
  torch::jit::Stack stack;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= operands.size() && !wanted[i].default_value())
      fail(node, fmt::format("argument \"{}\" of {} is missing", wanted[i].name(), target));
    const IValue operand = i >= operands.size() ? *wanted[i].default_value() : operands[i];
    stack.push_back(coerce(operand.isTensor() ? IValue(operand.toTensor().to(wide)) : operand,
                           wanted[i], subject_of(node)));
  }
  op->callBoxed(stack);
  if (stack.size() != 1 || !stack[0].isTensor())
    fail(node, fmt::format("{} does not return a single tensor, want one", target));
  return {stack[0].toTensor().to(dtype)};
}

}  // namespace

HigherOrderOp find_higher_order_op(std::string_view target) {
  static const std::unordered_map<std::string_view, HigherOrderOp> kOps = {
      {"higher_order.cond", cond},
      {"higher_order.while_loop", while_loop},
      {"higher_order.scan", scan},
      {"higher_order.map_impl", map},
      {"higher_order.invoke_subgraph", invoke_subgraph},
      {"higher_order.wrap_with_set_grad_enabled", wrap_with_set_grad_enabled},
      {"higher_order.wrap_with_autocast", wrap_with_autocast},
      {"higher_order.out_dtype", out_dtype},
  };
  const auto found = kOps.find(target);
  return found == kOps.end() ? nullptr : found->second;
}

}  // namespace octet
