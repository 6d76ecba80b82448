// Compares the bodies of branches and loops: records the inputs of each call of a body in both
// programs, and gives them to a Comparer of the body. Results are summed over calls and iterations.
#include "annotate/compare/comparer.h"

#include <algorithm>
#include <utility>

#include "annotate/compare/shadow_graph.h"
#include "annotate/graph/control_flow.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/special_ops.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;

// A call whose bodies are compared.
struct CallRow {
  std::string_view target;
  std::array<int, 2> bodies;  // argument positions; -1: none
};
constexpr std::array<CallRow, 4> kCalls = {{
    {"higher_order.cond", {1, 2}},
    {"higher_order.while_loop", {1, -1}},
    {"higher_order.scan", {0, -1}},
    {"higher_order.map_impl", {0, -1}},
}};

const CallRow* find_call(const Node& node) {
  const auto found =
      std::ranges::find_if(kCalls, [&](const CallRow& row) { return row.target == node.target(); });
  return found == kCalls.end() ? nullptr : &*found;
}

const Subgraph* inner_of(const Node& node, int argument) {
  if (argument < 0 || static_cast<size_t>(argument) >= node.arguments().size()) return nullptr;
  const Subgraph* body = node.arguments()[static_cast<size_t>(argument)].value.find<Subgraph>();
  return body != nullptr && body->graph != nullptr ? body : nullptr;
}

// The reference's counterpart of this call; null: none.
const Node* twin_of(const Node& call, const Twins& twins) {
  for (const Value* output : call.outputs()) {
    const Twin* twin = twins.find(output);
    const Node* node = twin == nullptr ? nullptr : twin->reference->producer();
    if (node != nullptr && node->target() == call.target()) return node;
  }
  return nullptr;
}

// Results of a call in the form of a Handler: None and literals of the bodies are not values.
Values of_outputs(const Node& node, Values flat) {
  Values results;
  size_t next = 0;
  for (const ResultSlot& slot : node.results()) {
    if (slot.kind == ResultSlot::Kind::kLiteral) ++next;
    for (const Value* value : slot.values) {
      if (value != nullptr && next < flat.size()) results.push_back(std::move(flat[next]));
      ++next;
    }
  }
  return results;
}

}  // namespace

// A body and its twin, with one row per row of the comparer.
struct BodyComparer::Pair {
  Pair(const Graph& reference, const Graph& subject, const CompareOptions& options,
       std::string prefix)
      : reference(reference),
        subject(subject),
        prefix(std::move(prefix)),
        comparer(reference, subject, options) {
    const std::vector<ShadowRow>& rows = comparer.rows();
    for (size_t i = 0; i < rows.size(); ++i) {
      of_reference[rows[i].twin.reference].push_back(i);
      of_subject[rows[i].compared].push_back(i);
    }
    kept.resize(rows.size());
    accumulated.resize(rows.size());
  }

  void keep(const Value* value, const c10::IValue& content) {
    const auto found = of_reference.find(value);
    if (found == of_reference.end() || !content.isTensor()) return;
    for (size_t row : found->second) kept[row].tensors.push_back(content.toTensor());
  }

  void compare(const Value* value, const c10::IValue& content) {
    const auto found = of_subject.find(value);
    if (found == of_subject.end() || !content.isTensor()) return;
    for (size_t row : found->second) {
      Kept& own = kept[row];
      if (own.next == own.tensors.size()) continue;  // the reference called less often
      const at::Tensor& factors = comparer.factors(row);
      const at::Tensor tensor = content.toTensor();
      accumulated[row].merge(
          compare_tensors(own.tensors[own.next], factors.defined() ? tensor.mul(factors) : tensor));
      own.tensors[own.next++].reset();
    }
  }

  void end_batch() {
    for (Kept& own : kept) own = {};
  }

  struct Kept {
    std::vector<at::Tensor> tensors;  // of one batch, in the order of the calls
    size_t next = 0;
  };
  const Graph& reference;
  const Graph& subject;
  std::string prefix;
  Comparer comparer;
  std::unordered_map<const Value*, std::vector<size_t>> of_reference, of_subject;
  std::vector<Kept> kept;
  std::vector<ErrorStats> accumulated;
};

// Runs a program and records the inputs and outputs of its bodies.
class BodyComparer::Run {
 public:
  using Entered = std::function<void(const Graph& body, const Values& inputs)>;
  using Given = std::function<void(const Graph& body, const Value* value, const c10::IValue&)>;

  Run(const Graph& graph, Entered entered, Given given)
      : entered_(std::move(entered)), given_(std::move(given)) {
    const Handler call = [this](const Node& node, const Values& arguments) {
      const RunSubgraph run = [this](const Graph& body, Values inputs) {
        return run_body(body, inputs);
      };
      return of_outputs(node, find_higher_order_op(node.target())(node, arguments, run));
    };
    for (const CallRow& row : kCalls) handlers_.emplace(row.target, call);
    whole_ = std::make_unique<Interpreter>(
        graph, InterpreterOptions{.after_node = {}, .handlers = handlers_});
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void run(const Values& batch) { whole_->run(batch); }

 private:
  Values run_body(const Graph& body, const Values& inputs) {
    std::unique_ptr<Interpreter>& interpreter = bodies_[&body];
    if (!interpreter) {
      const NodeHook hook = [this, &body](const Node& node, const Values& results) {
        const std::vector<Value*> outputs = node.outputs();
        for (size_t i = 0; i < outputs.size() && i < results.size(); ++i)
          given_(body, outputs[i], results[i]);
      };
      interpreter = std::make_unique<Interpreter>(
          body,
          InterpreterOptions{.after_node = hook, .handlers = handlers_, .check_inputs = false});
    }
    entered_(body, inputs);
    size_t next = 0;
    for (const GraphInput& input : body.inputs()) {
      const bool is_callers =
          input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
      if (is_callers && next < inputs.size()) given_(body, input.value, inputs[next++]);
    }
    return interpreter->run(inputs);
  }

  Entered entered_;
  Given given_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Interpreter> whole_;
  std::unordered_map<const Graph*, std::unique_ptr<Interpreter>> bodies_;
};

BodyComparer::~BodyComparer() = default;

BodyComparer::BodyComparer(const Graph& reference, const Graph& subject,
                           const CompareOptions& options) {
  if (bodies_within(subject).empty()) return;
  reference_ = clone(reference);
  subject_ = clone(subject);
  move_constants_into_bodies(*reference_);
  move_constants_into_bodies(*subject_);
  find_pairs(*reference_, *subject_, "", options);
  if (pairs_.empty()) return;
  std::unordered_map<const Graph*, Pair*> of_reference, of_subject;
  for (const std::unique_ptr<Pair>& pair : pairs_) {
    of_reference[&pair->reference] = pair.get();
    of_subject[&pair->subject] = pair.get();
  }
  const auto find = [](const auto& pairs, const Graph& body) {
    const auto found = pairs.find(&body);
    return found == pairs.end() ? nullptr : found->second;
  };
  reference_run_ = std::make_unique<Run>(
      *reference_,
      [=](const Graph& body, const Values& inputs) {
        if (Pair* pair = find(of_reference, body)) pair->comparer.add(inputs);
      },
      [=](const Graph& body, const Value* value, const c10::IValue& content) {
        if (Pair* pair = find(of_reference, body)) pair->keep(value, content);
      });
  subject_run_ = std::make_unique<Run>(
      *subject_, [](const Graph&, const Values&) {},
      [=](const Graph& body, const Value* value, const c10::IValue& content) {
        if (Pair* pair = find(of_subject, body)) pair->compare(value, content);
      });
}

void BodyComparer::find_pairs(const Graph& reference, const Graph& subject,
                              const std::string& prefix, const CompareOptions& options) {
  const Twins twins = find_twins(reference, subject);
  for (const Node* call : subject.nodes()) {
    const CallRow* row = find_call(*call);
    const Node* twin = row == nullptr ? nullptr : twin_of(*call, twins);
    if (twin == nullptr) continue;
    for (const int argument : row->bodies) {
      const Subgraph* body = inner_of(*call, argument);
      const Subgraph* other = inner_of(*twin, argument);
      if (body == nullptr || other == nullptr) continue;
      std::string path = prefix + call->name() + "/";
      if (row->bodies[1] >= 0) path += body->name + "/";
      try {
        pairs_.push_back(std::make_unique<Pair>(*other->graph, *body->graph, options, path));
        find_pairs(*other->graph, *body->graph, path, options);
      } catch (const Error&) {
        continue;  // bodies that do not match are compared as one op, with their call
      }
    }
  }
}

void BodyComparer::add(const Values& batch) {
  if (pairs_.empty()) return;
  reference_run_->run(batch);
  subject_run_->run(batch);
  for (const std::unique_ptr<Pair>& pair : pairs_) pair->end_batch();
}

std::vector<WeightComparison> BodyComparer::weights() const {
  std::vector<WeightComparison> all;
  for (const std::unique_ptr<Pair>& pair : pairs_)
    for (WeightComparison& weight : compare_weights(pair->reference, pair->subject)) {
      weight.name = pair->prefix + weight.name;
      all.push_back(std::move(weight));
    }
  return all;
}

std::vector<OpComparison> BodyComparer::take() && {
  std::vector<OpComparison> ops;
  for (const std::unique_ptr<Pair>& pair : pairs_) {
    std::vector<OpComparison> inner = std::move(std::move(pair->comparer).take().ops);
    for (size_t i = 0; i < inner.size(); ++i) {
      inner[i].name = pair->prefix + inner[i].name;
      inner[i].accumulated = pair->accumulated[i];
      inner[i].metric.reset();  // the metric applies to accumulated errors only
      ops.push_back(std::move(inner[i]));
    }
  }
  return ops;
}

}  // namespace octet
