#include "annotate/accuracy/stepwise_run.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/accuracy/padding_mask.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/ops/memory.h"

namespace octet {
namespace {

constexpr const char* kBatchStateTarget = "octet.batch_state.default";

struct StateUse {
  size_t first = std::numeric_limits<size_t>::max();  // positions of nodes
  size_t last_write = 0;
};

// The graph inputs that nodes write to.
std::unordered_set<const Value*> written_inputs(const std::vector<Node*>& nodes) {
  std::vector<const Value*> written;
  for (const Node* node : nodes)
    for (const Value* value : written_values(*node)) written.push_back(value);
  std::unordered_set<const Value*> roots = memory_roots(std::move(written));
  std::erase_if(roots, [](const Value* root) { return root->producer() != nullptr; });
  return roots;
}

std::unordered_map<const Value*, StateUse> find_uses(const std::vector<Node*>& nodes) {
  const std::unordered_set<const Value*> states = written_inputs(nodes);
  std::unordered_map<const Value*, StateUse> uses;
  if (states.empty()) return uses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<Value*> inputs = nodes[i]->inputs();
    for (const Value* root : memory_roots({inputs.begin(), inputs.end()}))
      if (states.contains(root)) uses[root].first = std::min(uses[root].first, i);
    for (const Value* root : memory_roots(written_values(*nodes[i])))
      if (states.contains(root)) uses[root].last_write = i;
  }
  return uses;
}

bool is_stop(const Node& node) { return is_observer_node(&node) || find_operands(node) != nullptr; }

// Whether the node overwrites all of the state, so that what was there before is never read.
bool overwrites(const Node& node, const Value* state) {
  return (node.is("aten.copy_") || node.is("aten.fill_") || node.is("aten.zero_")) &&
         node.inputs().front() == state;
}

using c10::IValue;
using Values = std::vector<IValue>;

// The memory that values hold; values that share memory hold it together.
class HeldMemory {
 public:
  void add(const Value* value, const IValue& content) {
    if (!content.isTensor() || !content.toTensor().defined()) return;
    const c10::StorageImpl* storage = content.toTensor().storage().unsafeGetStorageImpl();
    storage_[value] = storage;
    if (Block& block = blocks_[storage]; block.values++ == 0)
      bytes_ += block.bytes = storage->nbytes();
  }
  void remove(const Value* value) {
    const auto found = storage_.find(value);
    if (found == storage_.end()) return;
    if (Block& block = blocks_[found->second]; --block.values == 0) bytes_ -= block.bytes;
    storage_.erase(found);
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Block {
    size_t values = 0;  // that hold it
    size_t bytes = 0;
  };
  std::unordered_map<const Value*, const c10::StorageImpl*> storage_;
  std::unordered_map<const c10::StorageImpl*, Block> blocks_;
  size_t bytes_ = 0;
};

// Copies tensors so that those which share memory do so afterwards.
class MemoryCopies {
 public:
  at::Tensor copy(const at::Tensor& tensor) {
    c10::Storage& own = known_[tensor.storage().unsafeGetStorageImpl()];
    if (!own) {
      const at::Tensor all =
          at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage());
      own = all.clone().storage();
    }
    return at::empty({0}, tensor.options())
        .set_(own, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

 private:
  std::unordered_map<const c10::StorageImpl*, c10::Storage> known_;
};

// For each value, the position in `nodes` of the last node that reads it.
std::unordered_map<const Value*, size_t> last_uses(const std::vector<Node*>& nodes) {
  std::unordered_map<const Value*, size_t> last;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Value* input : nodes[i]->inputs()) last[input] = i;
  return last;
}

bool has_one_static_scale(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  return !args.is_dynamic && is_integer(args.dtype) && size_of(args.dtype) <= 4 &&
         !is_per_channel(args.qscheme) && !args.choice.affine;
}

std::unordered_set<int> find_constant_groups(const Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::unordered_set<int> groups;
  std::unordered_set<int> others;
  for (const Node* point : observer_nodes(graph))
    (constants.contains(point->output()) ? groups : others).insert(group_of(*point));
  for (const int group : others) groups.erase(group);
  return groups;
}

}  // namespace

Verdict can_separate_states(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  for (const auto& [state, use] : find_uses(nodes)) {
    if (graph.find_constant(state) == nullptr)
      return Verdict::refuse("the program writes to its input %" + state->name());
    if (overwrites(*nodes[use.first], state)) continue;
    for (size_t i = use.first; i < use.last_write; ++i)
      if (is_stop(*nodes[i]))
        return Verdict::refuse("the program uses its state %" + state->name() + " before or at %" +
                               nodes[i]->name() + " and writes to it after");
  }
  return Verdict::accept();
}

void separate_states(Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  const std::unordered_map<const Value*, StateUse> uses = find_uses(nodes);
  const std::vector<GraphInput> inputs = graph.inputs();
  for (const GraphInput& input : inputs) {
    const auto use = uses.find(input.value);
    if (use == uses.end()) continue;
    Node* node = graph.insert(kBatchStateTarget, {}, input.value->name() + "_state",
                              input.value->meta, nodes[use->second.first]);
    graph.replace_uses(input.value, node->output());
    node->set_argument("self", input.value);
  }
}

void BatchStates::begin(size_t batch) {
  if (batch == 0) last_.clear();
}

std::pair<std::string, Handler> BatchStates::handler() {
  return {kBatchStateTarget, [this](const Node& node, const std::vector<c10::IValue>& arguments) {
            at::Tensor& last = last_[node.name()];
            last = (last.defined() ? last : arguments.at(0).toTensor()).clone();
            return std::vector<c10::IValue>{last};
          }};
}

Verdict can_run_stepwise(const Graph& graph) {
  for (const GraphOutput& output : graph.outputs())
    if (output.kind != OutputKind::kUserOutput && output.kind != OutputKind::kLoss &&
        output.kind != OutputKind::kToken)
      return Verdict::refuse("the program updates \"" + output.target + "\" when it runs");
  return can_separate_states(graph);
}

size_t bytes_at(const std::unordered_set<const Node*>& stops, const Graph& graph,
                const std::vector<IValue>& batch) {
  const std::unordered_set<const Value*> fixed = find_fixed_values(graph);
  const std::vector<Node*> nodes = graph.nodes();
  std::unordered_map<const Node*, std::vector<const Value*>> freed_by;
  for (const auto& [value, position] : last_uses(nodes))
    if (!value->is_output()) freed_by[nodes[position]].push_back(value);
  HeldMemory held;
  size_t most = 0;
  const auto after_node = [&](const Node& node, const Values& results) {
    if (&node.graph() != &graph) return;
    const std::vector<Value*> outputs = node.outputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!fixed.contains(outputs[i])) held.add(outputs[i], results[i]);
    if (stops.contains(&node)) most = std::max(most, held.bytes());
    for (const Value* value : freed_by[&node]) held.remove(value);
    for (const Value* value : outputs)
      if (value->users().empty() && !value->is_output()) held.remove(value);
  };
  Interpreter(graph, {.after_node = after_node, .handlers = pass_through_observers()}).run(batch);
  return most;
}

// A part of the graph as a graph: its inputs are the graph's inputs, then `taken`; its user outputs
// end with `given`.
struct StepwiseRun::Segment {
  std::unique_ptr<Graph> graph;
  std::vector<const Value*> taken;
  // Values of `taken` that share memory with what the part writes to, if it runs more than once.
  std::unordered_set<const Value*> written;
  std::vector<const Value*> given;
};

StepwiseRun::StepwiseRun(Graph graph, std::vector<std::vector<IValue>> batches,
                         std::map<std::string, Handler> handlers)
    : graph_(std::move(graph)),
      batches_(std::move(batches)),
      handlers_(std::move(handlers)),
      fixed_(find_fixed_values(graph_)),
      alive_(batches_.size()) {
  separate_states(graph_);
  nodes_ = graph_.nodes();
  handlers_.merge(pass_through_observers());
  handlers_.insert(states_.handler());
  for (size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = i;
}

StepwiseRun::~StepwiseRun() = default;

bool StepwiseRun::is_needed(const Value& value, size_t from) const {
  return std::ranges::any_of(value.users(),
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
      const bool is_read = std::ranges::any_of(value->users(), is_in_segment);
      if (!is_read && (outputs == Outputs::kDrop || !value->is_output())) continue;
      Value* input = part.add_input(part.fresh_name(value->name()), value->kind(), value->meta);
      part.replace_uses(twins.at(value), input);
      segment.taken.push_back(value);
    }
  if (outputs == Outputs::kKeep) segment.written = written_by(begin, end, segment.taken);
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

std::unordered_set<const Value*> StepwiseRun::written_by(
    size_t begin, size_t end, const std::vector<const Value*>& values) const {
  std::vector<const Value*> targets;
  for (size_t i = begin; i < end; ++i)
    for (const Value* value : written_values(*nodes_[i])) targets.push_back(value);
  const std::unordered_set<const Value*> roots = memory_roots(std::move(targets));
  std::unordered_set<const Value*> written;
  for (const Value* value : values)
    for (const Value* root : memory_roots({value}))
      if (roots.contains(root)) written.insert(value);
  return written;
}

Values StepwiseRun::run(const Segment& segment, size_t batch) {
  Values inputs = batches_[batch];
  MemoryCopies copies;
  for (const Value* value : segment.taken) {
    const IValue& known = alive_[batch].at(value);
    const bool is_copied = segment.written.contains(value) && known.isTensor();
    inputs.push_back(is_copied ? copies.copy(known.toTensor()) : known);
  }
  states_.begin(batch);
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
    for (size_t i = 0; i < segment.given.size(); ++i) {
      const Value* value = segment.given[i];
      alive[value] = batch > 0 && fixed_.contains(value)
                         ? alive_[0].at(value)
                         : results.at(results.size() - segment.given.size() + i);
    }
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

FakeQuantRun::FakeQuantRun(const ObservedGraph& observed,
                           std::vector<std::vector<c10::IValue>> batches)
    : observed_(observed),
      constant_groups_(find_constant_groups(observed.graph)),
      run_(std::move(*clone(observed.graph)), std::move(batches),
           {{std::string(kObserveTarget),
             [this](const Node& point, const std::vector<c10::IValue>& arguments) {
               return std::vector<c10::IValue>{round(point, arguments.at(0).toTensor())};
             }}}) {}

void FakeQuantRun::settle_before(int group) {
  for (const Node* node : run_.graph().nodes()) {
    if (!is_observer_node(node) || group_of(*node) != group) continue;
    run_.run_to(*node, false);
    return;
  }
}

at::Tensor FakeQuantRun::round(const Node& point, const at::Tensor& x) {
  if (constant_groups_.contains(group_of(point))) return round_constant(point, x);
  const int group = group_of(point);
  const Observer& observer = *observed_.observers[static_cast<size_t>(group)];
  if (!has_one_static_scale(observer) || !observer.has_data()) return x;
  auto known = rounding_.find(group);
  if (known == rounding_.end()) {
    const QParams qparams = qparams_at(point, observer);
    known =
        rounding_.emplace(group, Rounding{qparams.scale.front(), qparams.zero_point.front()}).first;
  }
  return at::fake_quantize_per_tensor_affine(x, known->second.scale, known->second.zero_point,
                                             observer.quant_min(), observer.quant_max());
}

at::Tensor FakeQuantRun::round_constant(const Node& point, const at::Tensor& x) {
  const auto known = rounded_constants_.find(point.name());
  if (known != rounded_constants_.end()) return known->second;
  const Observer& observer = *observed_.observers[static_cast<size_t>(group_of(point))];
  at::Tensor rounded = x;
  if (observer.has_data() && has_weight_grid(observer, x)) {
    const WeightGrid grid = weight_grid(observer, x, "%" + observed_value(point)->name());
    rounded = grid.values(grid.nearest(x)).to(x.scalar_type());
  }
  return rounded_constants_.emplace(point.name(), rounded).first->second;
}

double relative_error(const std::vector<c10::IValue>& expected,
                      const std::vector<c10::IValue>& actual, const at::Tensor& mask) {
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].isTensor() || !expected[i].toTensor().is_floating_point()) continue;
    const at::Tensor want = rows_that_count(expected[i].toTensor(), mask).to(at::kDouble);
    const double energy = want.square().sum().item<double>();
    const double squared = (rows_that_count(actual.at(i).toTensor(), mask).to(at::kDouble) - want)
                               .square()
                               .sum()
                               .item<double>();
    error += energy > 0 ? squared / energy : squared;
  }
  return error;
}

}  // namespace octet
