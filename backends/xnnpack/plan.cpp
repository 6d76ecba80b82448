// Plans stages op by op. For each op it compares the forms in which XNNPACK has it by the cost of
// converting the inputs, takes the cheapest, and starts a new stage if an input must be transposed
// that the current stage makes.
//
//   conv -> flatten -> linear        conv writes channels-last, flatten reads row-major
//
//   stage 0: conv     copy to row-major     stage 1: flatten, linear
//
// If the convolution has a single pixel, both orders are the same bytes, and one stage is enough.
#include "backends/xnnpack/plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "backends/xnnpack/custom_ops.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

// the "stage" of tensors in buffers before the stage of their reader: segment inputs, converted
// tensors
constexpr int kBorder = -1;
constexpr int kCustom = -2;  // instead of a stage: made by a custom kernel

// Relative costs of making a form that does not exist yet.
constexpr int kReshapeCost = 1;  // a copy inside the stage
// importing in an order that the segment's other ops do not want
constexpr int kUnlikelyOrderCost = 2;
constexpr int kConvertCost = 50;    // a transposition
constexpr int kNewStageCost = 100;  // a transposition that splits the stage

struct Occurrence {
  Form form;
  int stage;
};

bool is_quantized(Order order) { return order == Order::kBytes || order == Order::kPixelBytes; }

Form form_of(Order order) {
  return order == Order::kChannelsLast || order == Order::kPixelBytes ? Form::kChannelsLast
                                                                      : Form::kPlain;
}

class Planner {
 public:
  Planner(const Program& program, std::span<const ProgramOp* const> ops,
          std::span<const int> inputs)
      : program_(program) {
    borders_.insert(inputs.begin(), inputs.end());
    for (const ProgramOp* op : ops) {
      for (int index : op->inputs) readers_[index].push_back(op);
      if (!op->is("permute") && is_spatial(*op))
        spatial_ranks_.insert(program.input(*op, 0).shape.size());
    }
    plan_.stages.emplace_back();
  }

  void add(const ProgramOp& op) {
    is_native(program_, op) && !is_copied(op) ? add_native(op) : add_own(op);
  }

  Plan finish(std::span<const int> outputs) {
    for (int index : outputs) {
      const Occurrence* made = any_of(index);
      OCTET_ASSERT(made != nullptr && made->stage != kBorder,
                   "a segment output is made in the segment");
      plan_.exports.push_back(key_of(index, made->form));
      if (made->stage != kCustom)
        plan_.stages[static_cast<size_t>(made->stage)].writes.insert(plan_.exports.back());
    }
    return std::move(plan_);
  }

 private:
  void add_native(const ProgramOp& op) {
    const NativeOp* row = find_native_op(op.kind);
    const std::vector<Forms> candidates = row->forms(program_, op);
    OCTET_ASSERT(!candidates.empty(), "an accepted op has a form");
    const Forms* best = &candidates[0];
    int best_cost = cost_of(op, *best);
    for (const Forms& forms : candidates) {
      const int cost = cost_of(op, forms);
      if (cost < best_cost) best = &forms, best_cost = cost;
    }
    if (needs_new_stage(op, best->in)) plan_.stages.emplace_back();
    for (int index : op.inputs) {
      if (is_activation(index)) read(index, best->in);
    }
    for (int index : op.outputs) occurrences_[index].push_back({best->out, current()});
    plan_.stages.back().ops.push_back({&op, row, *best});
  }

  // A permutation that keeps bytes in place reads or produces channels-last. If neither form exists
  // or is wanted, one copy costs less than two changes of order.
  bool is_copied(const ProgramOp& op) const {
    if (!op.is("permute") || !check_custom(program_, op)) return false;
    const std::vector<Forms> candidates = find_native_op(op.kind)->forms(program_, op);
    return std::none_of(candidates.begin(), candidates.end(), [&](const Forms& forms) {
      return forms.in == Form::kChannelsLast
                 ? in_order(op.inputs[0], forms.in) != nullptr
                 : spatial_ranks_.contains(program_.output(op).shape.size());
    });
  }

  // Adds a custom kernel. Unless it requires orders, it reads inputs in any order, and writes the
  // order that the segment's other ops want.
  void add_own(const ProgramOp& op) {
    const CustomOrders orders = custom_orders(program_, op);
    const bool waits = std::any_of(op.inputs.begin(), op.inputs.end(), [&](int index) {
      const Occurrence* made = is_activation(index) ? any_of(index) : nullptr;
      return made != nullptr && made->stage == current();
    });
    if (waits) plan_.stages.emplace_back();
    HostStep step{&op, {}, {}};
    std::optional<Form> first;  // of the first input
    for (int index : op.inputs) {
      if (!is_activation(index)) {
        step.from.push_back({index, Order::kRowMajor});
        continue;
      }
      if (orders.from && is_quantized(*orders.from)) {
        step.from.push_back({index, *orders.from});
        continue;
      }
      const Form any = any_of(index) == nullptr ? preferred_form(index) : any_of(index)->form;
      const Form form = orders.from ? form_of(*orders.from) : any;
      if (!first) first = form;
      step.from.push_back(bring(index, form));
    }
    const int output = op.outputs[0];
    const Form form = orders.to               ? form_of(*orders.to)
                      : orders.agree && first ? *first
                                              : preferred_form(output);
    step.to = key_of(output, form);
    if (orders.to && is_quantized(*orders.to)) {
      step.to.order = *orders.to;  // only custom kernels read it
    } else {
      occurrences_[output].push_back({form, kCustom});
    }
    for (size_t i = 1; i < op.outputs.size(); ++i) {
      step.further.push_back(key_of(op.outputs[i], Form::kPlain));
      occurrences_[op.outputs[i]].push_back({Form::kPlain, kCustom});
    }
    plan_.stages.back().before.push_back(std::move(step));
  }

  Form preferred_form(int index) const {
    const std::vector<int64_t>& shape = program_.tensor(index).shape;
    const bool is_spatial = has_channels_last(shape) && spatial_ranks_.count(shape.size()) != 0;
    return is_spatial && !is_read_plain(index) ? Form::kChannelsLast : Form::kPlain;
  }

  // Whether no op that reads the tensor gains from channels last.
  bool is_read_plain(int index) const {
    const auto found = readers_.find(index);
    if (found == readers_.end()) return true;
    return std::all_of(found->second.begin(), found->second.end(), [&](const ProgramOp* reader) {
      if (reader->is("permute")) return true;  // is_copied
      if (!is_native(program_, *reader)) {
        const std::optional<Order> from = custom_orders(program_, *reader).from;
        return from && form_of(*from) == Form::kPlain;
      }
      const std::vector<Forms> forms = find_native_op(reader->kind)->forms(program_, *reader);
      return std::none_of(forms.begin(), forms.end(),
                          [](const Forms& f) { return f.in == Form::kChannelsLast; });
    });
  }

  // Whether the op requires channels-last inputs.
  bool is_spatial(const ProgramOp& op) const {
    if (!is_native(program_, op)) {
      const std::optional<Order> from = custom_orders(program_, op).from;
      return from && form_of(*from) == Form::kChannelsLast;
    }
    const std::vector<Forms> forms = find_native_op(op.kind)->forms(program_, op);
    return std::all_of(forms.begin(), forms.end(),
                       [](const Forms& f) { return f.in == Form::kChannelsLast; });
  }

  int current() const { return static_cast<int>(plan_.stages.size()) - 1; }
  bool is_activation(int index) const {
    return index >= 0 && !program_.tensor(index).is_constant();
  }
  Order order(int index, Form form) const { return order_of(program_.tensor(index).shape, form); }
  BufferKey key_of(int index, Form form) const { return {index, order(index, form)}; }

  const Occurrence* any_of(int index) const {
    auto it = occurrences_.find(index);
    return it == occurrences_.end() || it->second.empty() ? nullptr : &it->second.front();
  }

  const Occurrence* in_order(int index, Form form) const {
    auto it = occurrences_.find(index);
    if (it == occurrences_.end()) return nullptr;
    for (const Occurrence& occurrence : it->second)
      if (order(index, occurrence.form) == order(index, form)) return &occurrence;
    return nullptr;
  }

  int cost_of(const ProgramOp& op, const Forms& forms) const {
    int cost = 0;
    for (int index : op.inputs) {
      if (!is_activation(index)) continue;
      if (const Occurrence* there = in_order(index, forms.in)) {
        if (there->stage == current() && there->form != forms.in) cost += kReshapeCost;
      } else if (borders_.count(index)) {
        const bool wants_channels_last =
            spatial_ranks_.count(program_.tensor(index).shape.size()) != 0;
        if (wants_channels_last != (forms.in == Form::kChannelsLast)) cost += kUnlikelyOrderCost;
      } else {
        cost += any_of(index)->stage == current() ? kNewStageCost : kConvertCost;
      }
    }
    return cost;
  }

  bool needs_new_stage(const ProgramOp& op, Form form) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](int index) {
      if (!is_activation(index) || in_order(index, form) || borders_.count(index)) return false;
      return any_of(index)->stage == current();
    });
  }

  // Makes the tensor available to the runtime of the current stage.
  void read(int index, Form form) {
    const Occurrence* there = in_order(index, form);
    if (there == nullptr || there->stage != current())
      plan_.stages.back().reads.insert(bring(index, form));
  }

  // Makes the tensor available before the runtime of the current stage.
  BufferKey bring(int index, Form form) {
    const BufferKey key = key_of(index, form);
    const Occurrence* there = in_order(index, form);
    if (there == nullptr && borders_.count(index)) {
      plan_.imports.insert(key);
      occurrences_[index].push_back({form, kBorder});
    } else if (there == nullptr) {
      const Occurrence* other = any_of(index);
      const BufferKey from = key_of(index, other->form);
      if (other->stage >= 0) plan_.stages[static_cast<size_t>(other->stage)].writes.insert(from);
      plan_.stages.back().before.push_back({nullptr, {from}, key});
      occurrences_[index].push_back({form, kBorder});
    } else if (there->stage >= 0) {
      plan_.stages[static_cast<size_t>(there->stage)].writes.insert(key);
    }
    return key;
  }

  const Program& program_;
  Plan plan_;
  std::set<int> borders_;
  // ranks of tensors that some op of the segment requires channels-last
  std::set<size_t> spatial_ranks_;
  std::map<int, std::vector<const ProgramOp*>> readers_;  // by tensor
  std::map<int, std::vector<Occurrence>> occurrences_;
};

// Leaves out ops that nothing needs: XNNPACK drops their results, and fails an assertion when it
// creates them.
std::vector<const ProgramOp*> needed_ops(std::span<const ProgramOp* const> ops,
                                         std::span<const int> outputs) {
  std::set<int> wanted(outputs.begin(), outputs.end());
  std::vector<const ProgramOp*> needed;
  for (size_t i = ops.size(); i-- > 0;) {
    const ProgramOp& op = *ops[i];
    if (std::none_of(op.outputs.begin(), op.outputs.end(),
                     [&](int index) { return wanted.contains(index); }))
      continue;
    wanted.insert(op.inputs.begin(), op.inputs.end());
    needed.push_back(&op);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

}  // namespace

Plan make_plan(const Program& program, std::span<const ProgramOp* const> ops,
               std::span<const int> inputs, std::span<const int> outputs) {
  const std::vector<const ProgramOp*> needed = needed_ops(ops, outputs);
  Planner planner(program, needed, inputs);
  for (const ProgramOp* op : needed) planner.add(*op);
  return planner.finish(outputs);
}

}  // namespace octet::xnnpack
