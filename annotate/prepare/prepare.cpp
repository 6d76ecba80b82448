#include "annotate/prepare/prepare.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/annotation/annotation_text.h"
#include "annotate/graph/aliasing.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/observe_op.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/opaque_prepare.h"
#include "annotate/prepare/prepare_qat.h"
#include "annotate/training/qat_conv_bn.h"
#include "core/base/error.h"
#include "core/ops/op_schema.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/pass_trace.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

// What the observer nodes are for: calibration, or training, where values of fixed scale are
// fake-quantized.
enum class Purpose { kCalibration, kTraining };

// One observer per group. Derived ones come last, as they hold others; a derived spec may refer to
// another derived one.
class GroupObservers {
 public:
  GroupObservers(const SharingGroups& groups, Purpose purpose)
      : groups_(groups), purpose_(purpose), made_(static_cast<size_t>(groups.group_count)) {}

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
      return observer = make_observer(observer_args(*own));
    if (const FixedQParamsQuantizationSpec* fixed =
            std::get_if<FixedQParamsQuantizationSpec>(&spec))
      return observer = make_fixed(*fixed);
    return observer = make_derived(group, std::get<DerivedQuantizationSpec>(spec));
  }

  std::shared_ptr<Observer> make_fixed(const FixedQParamsQuantizationSpec& spec) const {
    if (purpose_ == Purpose::kTraining) return std::make_shared<FixedQParamsFakeQuantize>(spec);
    return make_observer(spec);
  }

  std::shared_ptr<Observer> make_derived(int group, const DerivedQuantizationSpec& spec) {
    if (!in_work_.insert(group).second)
      throw Error("prepare", subject(group),
                  "derived specs go in a circle; derive from an observed edge or value");
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
  std::vector<std::shared_ptr<Observer>> made_;
  std::unordered_set<int> in_work_;
};

// Puts the observer nodes into one graph. Each node's inputs come first, then its output, node
// by node in graph order. The observers of its groups are those from `first_group` on.
class Inserter {
 public:
  Inserter(Graph& graph, const Annotations& annotations, const SharingGroups& groups,
           size_t first_group, Report& report)
      : graph_(graph),
        annotations_(annotations),
        groups_(groups),
        first_group_(static_cast<int>(first_group)),
        report_(report) {}

  // A tensor that is changed in place between its making and its use is observed at its use.
  // torchao observes what it was before.
  void watch_writes() { writes_.emplace(graph_); }

  void run() {
    const std::vector<Node*> nodes = graph_.nodes();
    first_node_ = nodes.empty() ? nullptr : nodes.front();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (annotations_.find(nodes[i]) == nullptr) continue;
      const std::vector<Value*> inputs = nodes[i]->inputs();
      for (Value* input : inputs) observe_input(*nodes[i], input);
      observe_output(*nodes[i], i + 1 < nodes.size() ? nodes[i + 1] : nullptr);
    }
  }

 private:
  int find_group(const EdgeOrNode& key) const {
    const SharingGroups::Member* member = groups_.find(key);
    return member == nullptr || member->group < 0 ? -1 : first_group_ + member->group;
  }

  void observe_input(Node& node, Value* input) {
    Value* original = input;
    while (original->producer() != nullptr && original->producer()->target() == kObserveTarget)
      original = original->producer()->find_input("input");
    const int group = find_group(Edge{original, &node});
    if (group < 0 || is_written_buffer(node, original)) return;
    if (!is_observable(*original, node)) return;
    // its output point already does it
    if (find_group(original) == group && original != input) return;
    for (Node* user : input->users())
      if (user->target() == kObserveTarget && group_of(*user) == group &&
          !is_written_between(*input, user, node)) {
        node.replace_input(input, user->output());
        return;
      }
    Node* point = is_written_between(*input, input->producer(), node)
                      ? add_point(input, group, &node)
                      : insert_point(input, group);
    node.replace_input(input, point->output());
  }

  bool is_written_between(const Value& value, const Node* from, const Node& to) const {
    return writes_ && writes_->any_between(value, from, to);
  }

  void observe_output(Node& node, Node* next) {
    Value* output = node.output_or_null();
    if (output == nullptr || output->kind() != ValueKind::kTensor) return;
    const int group = find_group(output);
    if (group < 0 || !is_observable(*output, node)) return;
    Node* point = add_point(output, group, next);
    graph_.replace_uses(output, point->output());
    point->replace_input(point->output(), output);
  }

  // A point behind `input`: after its producer, or, for graph inputs, before the first node, in the
  // order of the inputs.
  Node* insert_point(Value* input, int group) {
    if (input->producer() != nullptr)
      return add_point(input, group, graph_.find_next(*input->producer()));
    const auto later = tops_.lower_bound(input->index());
    Node* point = add_point(input, group, later == tops_.end() ? first_node_ : later->second);
    tops_[input->index()] = point;
    return point;
  }

  Node* add_point(Value* input, int group, Node* before) {
    std::vector<NamedArgument> arguments = {
        {"input", input         },
        {"group", int64_t{group}}
    };
    return graph_.insert(std::string(kObserveTarget), std::move(arguments),
                         fmt::format("activation_post_process_{}", counter_++), input->meta,
                         before);
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

  // Whether `value` is what an in-place op writes to and comes from buffers alone: a quantized copy
  // would take the write.
  bool is_written_buffer(const Node& node, const Value* value) {
    const OpSchema* schema = find_op_schema(node.target());
    if (schema == nullptr || schema->arguments.empty() || !schema->arguments.front().is_write)
      return false;
    if (node.arguments().empty() || node.arguments().front().value.value_or_null() == nullptr)
      return false;
    const Value* written = node.arguments().front().value.value_or_null();
    while (written->producer() != nullptr && written->producer()->target() == kObserveTarget)
      written = written->producer()->find_input("input");
    return written == value && comes_from_buffers(value);
  }

  bool comes_from_buffers(const Value* value) {
    if (origins_.empty()) find_origins();
    const auto it = origins_.find(value);
    return it != origins_.end() && it->second == Origin::kBuffer;
  }

  // Of every value that is there before observer nodes come in: user input wins over buffer,
  // buffer over nothing.
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
  enum class Origin { kOther, kBuffer, kUserInput };
  std::unordered_map<const Value*, Origin> origins_;  // filled when first asked for
  int counter_ = 0;
};

BodyChoice body_choice(const PrepareOptions& options) {
  return options.compat_torchao ? BodyChoice::kTorchao : BodyChoice::kOwn;
}

// What each member of the groups has for an observer.
using WantedObservers = std::unordered_map<EdgeOrNode, std::shared_ptr<Observer>, EdgeOrNodeHash>;

// Lets one quantizer change the observers of its part; returns whether it did.
bool ask_for_observers(Quantizer& quantizer, const Graph& graph, ObserverMap map,
                       WantedObservers& wanted) {
  const ObserverMap before = map;
  quantizer.prepare_obs_or_fq_callback(graph, map);
  if (map == before) return false;
  std::unordered_set<EdgeOrNode, EdgeOrNodeHash> own;
  for (const auto& [key, observer] : before) {
    own.insert(key);
    wanted[key] = nullptr;
  }
  for (const auto& [key, observer] : map) {
    if (!own.contains(key))
      throw Error(
          "prepare", to_text(key),
          fmt::format(
              "quantizer \"{}\" set an observer where no spec stands; annotate that edge or value",
              quantizer.name()));
    wanted[key] = observer;
  }
  return true;
}

// Lets the quantizers change the observers. Afterwards a group is what has one observer, numbered
// in the order of the members.
void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers) {
  std::map<int, ObserverMap> maps = {
      {0, {}}
  };
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

void observe_graph(Graph& graph, ObservedGraph& observed, const OpaquePrepare* quantizers,
                   Report& report, const PrepareOptions& options,
                   Purpose purpose = Purpose::kCalibration) {
  PartOf part_of;
  if (quantizers != nullptr && quantizers->has_quantized_parts())
    part_of = [&](const EdgeOrNode& key) { return quantizers->part_of(key); };
  SharingGroups groups =
      find_sharing_groups(graph, observed.annotations, options.implicit_sharing, part_of);
  std::vector<std::shared_ptr<Observer>> observers = GroupObservers(groups, purpose).make_all();
  if (quantizers != nullptr) ask_for_observers(*quantizers, graph, groups, observers);
  Inserter inserter(graph, observed.annotations, groups, observed.observers.size(), report);
  if (!options.compat_torchao) inserter.watch_writes();
  inserter.run();
  observed.observers.insert(observed.observers.end(), observers.begin(), observers.end());
}

ObservedGraph insert_all(Graph graph, Annotations annotations, OpaquePrepare* quantizers,
                         Report& report, const PrepareOptions& options) {
  ObservedGraph observed{std::move(graph), {}, std::move(annotations)};
  trace_of("prepare", observed.graph).run("insert_observers", [&] {
    observe_graph(observed.graph, observed, quantizers, report, options);
  });
  for (const Body& body : bodies_within(observed.graph, body_choice(options)))
    if (body.reason.empty())
      report_on_body(body, report, [&](Report& own) {
        observe_graph(*body.graph, observed, quantizers, own, options);
      });
  if (quantizers != nullptr) observed.islands = quantizers->take_islands();
  return observed;
}

// Constants and modules of their own.
void give_bodies_their_own(Graph& graph) {
  move_constants_into_bodies(graph);
  for (const Body& body : bodies_within(graph)) inherit_module(body);
}

void annotate_and_validate(Graph& graph, Quantizer& quantizer, Annotations& annotations,
                           Report& report) {
  quantizer.annotate(graph, annotations, report);
  quantizer.validate(graph, annotations);
}

}  // namespace

ObservedGraph prepare_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                           const PrepareOptions& options) {
  const PassTrace trace = trace_of("prepare", graph);
  if (!options.compat_torchao)
    trace.run("move_constants_into_bodies", [&] { give_bodies_their_own(graph); });
  quantizer.check_model(graph);
  const auto transform = [&](Graph& part, Quantizer& asked) {
    const PassTrace own = trace_of("prepare", part);
    if (options.fold_bn == PrepareOptions::FoldBn::kAuto)
      own.run("fold_conv_bn",
              [&] { fold_conv_bn(part, {.check_users = !options.compat_torchao}); });
    own.run("transform_for_annotation", [&] { asked.transform_for_annotation(part); });
  };
  OpaquePrepare quantizers(quantizer, {transform, annotate_and_validate});
  quantizers.check(graph, report);
  Annotations annotations;
  trace.run("annotate", [&] { quantizers.annotate(graph, annotations, report); });
  for (const Body& body : bodies_within(graph, body_choice(options)))
    if (body.reason.empty())
      report_on_body(body, report,
                     [&](Report& own) { quantizers.annotate_body(body, annotations, own); });
  report_float_bodies(graph, body_choice(options), report);
  verify(graph);
  return insert_all(std::move(graph), std::move(annotations), &quantizers, report, options);
}

ObservedGraph prepare_qat_pt2e(Graph graph, Quantizer& quantizer, Report& report,
                               const PrepareOptions& options) {
  quantizer.check_model(graph);
  const auto transform = [](Graph& part, Quantizer& asked) {
    asked.transform_for_annotation(part);
  };
  OpaquePrepare quantizers(quantizer, {transform, annotate_and_validate});
  quantizers.check(graph, report);
  ObservedGraph observed{std::move(graph), {}, {}};
  const PassTrace trace = trace_of("prepare", observed.graph);
  trace.run("annotate", [&] { quantizers.annotate(observed.graph, observed.annotations, report); });
  for (const Body& body : bodies_within(observed.graph))
    report.note(
        fmt::format("prepare: the body {} of %{} stays float: control flow is not trained with "
                    "fake quantization",
                    body.path, body.call->name()));
  if (options.fold_bn == PrepareOptions::FoldBn::kAuto)
    trace.run("fuse_conv_bn_qat", [&] {
      fuse_conv_bn_qat(observed.graph, observed.annotations, report,
                       {.compat_torchao = options.compat_torchao});
    });
  verify(observed.graph);
  trace.run("insert_observers", [&] {
    observe_graph(observed.graph, observed, &quantizers, report, options, Purpose::kTraining);
  });
  observed.islands = quantizers.take_islands();
  return observed;
}

ObservedGraph insert_observers(Graph graph, Annotations annotations, Report& report,
                               const PrepareOptions& options) {
  return insert_all(std::move(graph), std::move(annotations), nullptr, report, options);
}

}  // namespace octet
