#include "annotate/prepare/observer_insertion.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/graph/aliasing.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/quantizer_calls.h"
#include "core/base/error.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

// Creates one observer per group. Derived ones come last, as they hold others; a derived spec may
// refer to another derived one.
class GroupObservers {
 public:
  GroupObservers(const SharingGroups& groups, Purpose purpose, Compat compat)
      : groups_(groups),
        purpose_(purpose),
        compat_(compat),
        made_(static_cast<size_t>(groups.group_count)) {}

  std::vector<std::shared_ptr<Observer>> make_all() {
    for (int group = 0; group < groups_.group_count; ++group) make(group);
    return std::move(made_);
  }

 private:
  std::shared_ptr<Observer> make(int group) {
    std::shared_ptr<Observer>& observer = made_[static_cast<size_t>(group)];
    if (observer != nullptr) return observer;
    const SpecVariant& spec = groups_.spec_of_group(group);
    if (const QuantizationSpec* own = std::get_if<QuantizationSpec>(&spec))
      return observer = make_own(*own);
    if (const FixedQParamsQuantizationSpec* fixed =
            std::get_if<FixedQParamsQuantizationSpec>(&spec))
      return observer = make_fixed(*fixed);
    return observer = make_derived(group, std::get<DerivedQuantizationSpec>(spec));
  }

  // torchao passes the channel axis only to classes with PerChannel in their names, so the observer
  // in a fake-quant does not get it.
  std::shared_ptr<Observer> make_own(const QuantizationSpec& spec) const {
    ObserverArgs args = observer_args(spec);
    const bool is_per_channel =
        split_observer_name(args.choice.name).outer.find("per_channel") != std::string::npos;
    if (compat_ == Compat::kTorchao && !is_per_channel && args.ch_axis) args.ch_axis = 0;
    return make_observer(args);
  }

  std::shared_ptr<Observer> make_fixed(const FixedQParamsQuantizationSpec& spec) const {
    if (purpose_ == Purpose::kTraining) return std::make_shared<FixedQParamsFakeQuantize>(spec);
    return make_observer(spec);
  }

  std::shared_ptr<Observer> make_derived(int group, const DerivedQuantizationSpec& spec) {
    if (!in_work_.insert(group).second)
      throw Error("prepare", subject(group),
                  "derived specs form a cycle; derive from an observed edge or value");
    std::vector<std::shared_ptr<Observer>> sources;
    for (const EdgeOrNode& source : spec.derived_from) {
      const SharingGroups::Member* member = groups_.find(source);
      if (member == nullptr)
        throw Error("prepare", subject(group),
                    fmt::format("derives from ({}), which has no spec; annotate that edge or value",
                                to_text(source)));
      sources.push_back(make(member->group));
    }
    in_work_.erase(group);
    return make_observer(spec, std::move(sources));
  }

  std::string subject(int group) const {
    for (const SharingGroups::Member& member : groups_.members)
      if (member.group == group) return to_text(member.key);
    return "";
  }

  const SharingGroups& groups_;
  Purpose purpose_;
  Compat compat_;
  std::vector<std::shared_ptr<Observer>> made_;
  std::unordered_set<int> in_work_;
};

// The observer of each member of the groups.
using WantedObservers = std::unordered_map<EdgeOrNode, std::shared_ptr<Observer>, EdgeOrNodeHash>;

// Lets one quantizer change the observers of its part; returns whether it did.
bool ask_for_observers(Quantizer& quantizer, const Graph& graph, ObserverMap map,
                       WantedObservers& wanted) {
  const ObserverMap before = map;
  offer_observers(quantizer, graph, map);
  if (map == before) return false;
  std::unordered_set<EdgeOrNode, EdgeOrNodeHash> own;
  for (const auto& [key, observer] : before) {
    own.insert(key);
    wanted[key] = nullptr;
  }
  for (const auto& [key, observer] : map) {
    if (!own.contains(key))
      throw Error("prepare", to_text(key),
                  fmt::format("quantizer \"{}\" set an observer in a place without a spec; "
                              "annotate that edge or value",
                              quantizer.name()));
    wanted[key] = observer;
  }
  return true;
}

class Inserter {
 public:
  Inserter(Graph& graph, const Annotations& annotations, const SharingGroups& groups,
           size_t first_group, Report& report, BufferWrites writes)
      : graph_(graph),
        annotations_(annotations),
        groups_(groups),
        first_group_(static_cast<int>(first_group)),
        report_(report) {
    if (writes == BufferWrites::kWatched) writes_.emplace(graph_);
  }

  void run() {
    const std::vector<Node*> nodes = graph_.nodes();
    first_node_ = nodes.empty() ? nullptr : nodes.front();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (annotations_.find(nodes[i]) == nullptr) continue;
      const std::vector<Value*> inputs = nodes[i]->inputs();
      for (Value* input : inputs) observe_input(*nodes[i], input, i == 0 ? nullptr : nodes[i - 1]);
      for (Value* output : nodes[i]->outputs())
        observe_output(*nodes[i], output, i + 1 < nodes.size() ? nodes[i + 1] : nullptr);
    }
  }

 private:
  int find_group(const EdgeOrNode& key) const {
    const SharingGroups::Member* member = groups_.find(key);
    return member == nullptr || member->group < 0 ? -1 : first_group_ + member->group;
  }

  // before: the node that preceded `node`.
  void observe_input(Node& node, Value* input, const Node* before) {
    Value* original = through_observers(input);
    const int group = find_group(Edge{original, &node});
    if (group < 0 || is_written_buffer(node, original)) return;
    if (!is_observable(*original, node)) return;
    const Node* producer = original->producer();
    const bool is_safe_early = allow_copy(*original, {&node}, producer);
    // the value's output observer node already does it
    if (find_group(original) == group && original != input && is_safe_early) return;
    for (Node* user : input->users())
      if (is_observer_node(user) && group_of(*user) == group &&
          allow_copy(*original, {&node}, place_of(*user))) {
        node.replace_input(input, user->output());
        return;
      }
    if (!is_safe_early && !allow_copy(*original, {&node}, before))
      return report_shared_memory(*original, node);
    Node* point = is_safe_early ? insert_point(input, group) : add_point(input, group, &node);
    made_behind_[point] = is_safe_early ? producer : before;
    node.replace_input(input, point->output());
  }

  const Node* place_of(const Node& point) const {
    const auto found = made_behind_.find(&point);
    return found == made_behind_.end() ? &point : found->second;
  }

  // An observer node makes a copy of the value once convert has replaced it.
  bool allow_copy(const Value& value, const std::vector<const Node*>& readers,
                  const Node* from) const {
    return !writes_ || writes_->allow_copy(value, readers, from);
  }

  void report_shared_memory(const Value& value, const Node& node) {
    if (!reported_.insert(&node).second) return;
    report_.add({"prepare", node.name(), node.target(), "",
                 fmt::format("%{} is not observed: its memory is written later, and the write "
                             "would miss the quantized copy or the original",
                             value.name())});
  }

  void observe_output(Node& node, Value* output, Node* next) {
    if (output->kind() != ValueKind::kTensor) return;
    const int group = find_group(output);
    if (group < 0 || !is_observable(*output, node)) return;
    std::vector<const Node*> readers(output->users().begin(), output->users().end());
    readers.push_back(nullptr);
    if (!allow_copy(*output, readers, &node)) return report_shared_memory(*output, node);
    Node* point = add_point(output, group, next);
    made_behind_[point] = &node;
    graph_.replace_uses(output, point->output());
    point->replace_input(point->output(), output);
  }

  // Inserts an observer node after the producer of `input` or, for graph inputs, before the first
  // node, in the order of the inputs.
  Node* insert_point(Value* input, int group) {
    if (input->producer() != nullptr)
      return add_point(input, group, graph_.find_next(*input->producer()));
    const auto later = tops_.lower_bound(input->index());
    Node* point = add_point(input, group, later == tops_.end() ? first_node_ : later->second);
    tops_[input->index()] = point;
    return point;
  }

  Node* add_point(Value* input, int group, Node* before) {
    return insert_observer_node(graph_, input, group,
                                fmt::format("activation_post_process_{}", counter_++), before);
  }

  bool is_observable(const Value& value, const Node& node) {
    if (value.kind() == ValueKind::kTensor && (!value.meta || is_floating_point(value.meta->dtype)))
      return true;
    const std::string what = value.meta ? std::string(name_of(value.meta->dtype)) : "no tensor";
    report_.add({"prepare", node.name(), node.target(), "",
                 fmt::format("%{} is not observed: it is {}, want a floating-point tensor",
                             value.name(), what)});
    return false;
  }

  // Whether an in-place op writes to `value` and it comes from buffers only: the write would go to
  // a quantized copy.
  bool is_written_buffer(const Node& node, const Value* value) {
    const OpSchema* schema = find_op_schema(node.target());
    if (schema == nullptr || schema->arguments.empty() || !schema->arguments.front().is_write)
      return false;
    if (node.arguments().empty() || node.arguments().front().value.value_or_null() == nullptr)
      return false;
    const Value* written = node.arguments().front().value.value_or_null();
    return through_observers(written) == value && comes_from_buffers(value);
  }

  bool comes_from_buffers(const Value* value) {
    if (origins_.empty()) find_origins();
    const auto it = origins_.find(value);
    return it != origins_.end() && it->second == Origin::kBuffer;
  }

  // Finds the origin of every value that exists before observer nodes are inserted: user input
  // takes precedence over buffer, buffer over nothing.
  void find_origins() {
    for (const GraphInput& input : graph_.inputs())
      origins_[input.value] = input.kind == InputKind::kUserInput ? Origin::kUserInput
                              : input.kind == InputKind::kBuffer  ? Origin::kBuffer
                                                                  : Origin::kOther;
    for (const Node* node : graph_.nodes()) {
      Origin origin = Origin::kOther;
      for (const Value* input : node->inputs()) origin = std::max(origin, origins_[input]);
      for (const Value* output : node->outputs()) origins_[output] = origin;
    }
  }

  Graph& graph_;
  const Annotations& annotations_;
  const SharingGroups& groups_;
  int first_group_;
  Report& report_;
  std::optional<Writes> writes_;
  Node* first_node_ = nullptr;
  std::map<int, Node*> tops_;  // graph input's position -> its first point
  // observer node -> the original node after which it reads; null: the start of the graph
  std::unordered_map<const Node*, const Node*> made_behind_;
  std::unordered_set<const Node*> reported_;  // values reported as sharing memory that is written
  enum class Origin { kOther, kBuffer, kUserInput };
  std::unordered_map<const Value*, Origin> origins_;  // filled at the first query
  int counter_ = 0;
};

}  // namespace

std::vector<std::shared_ptr<Observer>> make_group_observers(const SharingGroups& groups,
                                                            Purpose purpose, Compat compat) {
  return GroupObservers(groups, purpose, compat).make_all();
}

void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers) {
  std::map<int, ObserverMap> maps = {{0, {}}};
  WantedObservers wanted;
  for (const SharingGroups::Member& member : groups.members) {
    wanted[member.key] = observers.at(static_cast<size_t>(member.group));
    maps[quantizers.part_of(member.key)].emplace_back(member.key, wanted[member.key]);
  }
  bool is_changed = false;
  for (auto& [part, map] : maps)
    is_changed |= ask_for_observers(quantizers.quantizer_of(part), graph, std::move(map), wanted);
  if (!is_changed) return;
  observers.clear();
  std::unordered_map<const Observer*, int> numbers;
  for (SharingGroups::Member& member : groups.members) {
    const std::shared_ptr<Observer> observer = wanted[member.key];
    member.group = -1;
    if (observer == nullptr) continue;
    const auto [number, is_new] =
        numbers.try_emplace(observer.get(), static_cast<int>(observers.size()));
    if (is_new) observers.push_back(observer);
    member.group = number->second;
  }
}

void insert_observer_nodes(Graph& graph, const Annotations& annotations,
                           const SharingGroups& groups, size_t first_group, Report& report,
                           BufferWrites writes) {
  Inserter(graph, annotations, groups, first_group, report, writes).run();
}

}  // namespace octet
