#include "annotate/accuracy/stepwise_run.h"

#include <algorithm>
#include <unordered_set>

#include "annotate/accuracy/float_run.h"
#include "annotate/graph/aliasing.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"

namespace octet {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

size_t bytes_of(const IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? value.toTensor().nbytes() : 0;
}

// The last node that reads each value, by position in `nodes`.
std::unordered_map<const Value*, size_t> last_uses(const std::vector<Node*>& nodes) {
  std::unordered_map<const Value*, size_t> last;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Value* input : nodes[i]->inputs()) last[input] = i;
  return last;
}

}  // namespace

Verdict can_run_stepwise(const Graph& graph) {
  for (const GraphOutput& output : graph.outputs())
    if (output.kind != OutputKind::kUserOutput && output.kind != OutputKind::kLoss &&
        output.kind != OutputKind::kToken)
      return Verdict::refuse("the program updates \"" + output.target + "\" when it runs");
  std::vector<const Value*> written;
  for (const Node* node : graph.nodes())
    for (const Value* value : written_values(*node)) written.push_back(value);
  for (const Value* root : memory_roots(std::move(written)))
    if (root->producer() == nullptr)
      return Verdict::refuse("the program writes to its input %" + root->name());
  return Verdict::accept();
}

size_t peak_bytes(const Graph& graph, const std::vector<IValue>& batch) {
  const std::vector<Node*> nodes = graph.nodes();
  const std::unordered_map<const Value*, size_t> last = last_uses(nodes);
  std::unordered_map<const Node*, std::vector<const Value*>> freed_by;
  for (const auto& [value, position] : last) freed_by[nodes[position]].push_back(value);
  std::unordered_map<const Value*, size_t> alive;
  size_t now = 0;
  size_t peak = 0;
  const auto after_node = [&](const Node& node, const Values& results) {
    if (&node.graph() != &graph) return;
    const std::vector<Value*> outputs = node.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) now += alive[outputs[i]] = bytes_of(results[i]);
    peak = std::max(peak, now);
    for (const Value* value : freed_by[&node]) now -= std::exchange(alive[value], 0);
  };
  Interpreter(graph, {.after_node = after_node, .handlers = pass_through_observers()}).run(batch);
  return peak;
}

// A part of the graph as a graph: its inputs are the graph's and then `taken`, its user outputs end
// with `given`.
struct StepwiseRun::Segment {
  std::unique_ptr<Graph> graph;
  std::vector<const Value*> taken;
  std::vector<const Value*> given;
};

StepwiseRun::StepwiseRun(Graph graph, std::vector<std::vector<IValue>> batches,
                         std::map<std::string, Handler> handlers)
    : graph_(std::move(graph)),
      batches_(std::move(batches)),
      handlers_(std::move(handlers)),
      nodes_(graph_.nodes()),
      alive_(batches_.size()) {
  handlers_.merge(pass_through_observers());
  for (size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = i;
}

StepwiseRun::~StepwiseRun() = default;

bool StepwiseRun::is_needed(const Value& value, size_t from) const {
  return std::any_of(value.users().begin(), value.users().end(),
                     [&](const Node* user) { return position_.at(user) >= from; });
}

StepwiseRun::Segment StepwiseRun::cut(size_t begin, size_t end, Outputs outputs) const {
  Segment segment;
  std::unordered_map<const Value*, Value*> twins;
  segment.graph = clone(graph_, &twins);
  Graph& part = *segment.graph;
  if (outputs == Outputs::kDrop)
    for (size_t i = 0; i < part.outputs().size(); ++i) part.set_output(i, None{});
  const auto is_in_segment = [&](const Node* user) {
    return position_.at(user) >= begin && position_.at(user) < end;
  };
  for (size_t i = 0; i < begin; ++i)
    for (const Value* value : nodes_[i]->outputs()) {
      const bool is_read = std::any_of(value->users().begin(), value->users().end(), is_in_segment);
      if (!is_read && (outputs == Outputs::kDrop || !value->is_output())) continue;
      Value* input = part.add_input(part.fresh_name(value->name()), value->kind(), value->meta);
      part.replace_uses(twins.at(value), input);
      segment.taken.push_back(value);
    }
  for (size_t i = begin; i < end; ++i)
    for (const Value* value : nodes_[i]->outputs())
      if (outputs == Outputs::kDrop &&
          (i + 1 == end || is_needed(*value, end) || value->is_output()))
        segment.given.push_back(value);
  for (const Value* value : segment.given)
    part.add_output({.value = twins.at(value), .target = {}});
  const std::vector<Node*> copies = part.nodes();
  for (size_t i = copies.size(); i-- > 0;)
    if (i < begin || i >= end) part.erase(*copies[i]);
  return segment;
}

Values StepwiseRun::run(const Segment& segment, size_t batch) const {
  Values inputs = batches_[batch];
  for (const Value* value : segment.taken) inputs.push_back(alive_[batch].at(value));
  return Interpreter(*segment.graph,
                     {.after_node = {}, .handlers = handlers_, .check_inputs = false})
      .run(inputs);
}

Values StepwiseRun::run_rest(size_t batch) {
  if (rest_ == nullptr)
    rest_ = std::make_unique<Segment>(cut(done_, nodes_.size(), Outputs::kKeep));
  return run(*rest_, batch);
}

void StepwiseRun::run_to(const Node& stop, bool inclusive) {
  const size_t end = position_.at(&stop) + (inclusive ? 1 : 0);
  if (end <= done_) return;
  rest_.reset();
  const Segment segment = cut(done_, end, Outputs::kDrop);
  for (size_t batch = 0; batch < batches_.size(); ++batch) {
    std::unordered_map<const Value*, IValue>& alive = alive_[batch];
    const Values results = run(segment, batch);
    std::erase_if(alive, [&](const auto& entry) {
      return !is_needed(*entry.first, end) && !entry.first->is_output();
    });
    for (size_t i = 0; i < segment.given.size(); ++i)
      alive[segment.given[i]] = results.at(results.size() - segment.given.size() + i);
  }
  done_ = end;
}

IValue StepwiseRun::value(size_t batch, const Value& value) const {
  const auto found = alive_.at(batch).find(&value);
  if (found != alive_.at(batch).end()) return found->second;
  size_t index = 0;
  for (const GraphInput& input : graph_.inputs()) {
    if (input.kind != InputKind::kUserInput && input.kind != InputKind::kConstant) continue;
    if (input.value == &value) return batches_.at(batch).at(index);
    ++index;
  }
  throw Error("run", "%" + value.name(),
              "it depends on no input, want a value that the data reaches");
}

}  // namespace octet
