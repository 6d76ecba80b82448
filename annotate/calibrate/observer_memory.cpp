// Describes the program and each observer as text. Equal texts identify results that can be reused.
#include "annotate/calibrate/observer_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/affine.h"
#include "annotate/observers/clipping.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/min_max.h"
#include "core/ops/memory.h"
#include "core/ops/op_lookup.h"
#include "core/passes/rewrites.h"
#include "core/passes/set_training.h"
#include "core/text/text.h"

namespace octet {
namespace {

// A 128-bit hash that tells programs and their weights apart within one process. Not cryptographic.
class Digest {
 public:
  // Includes the length, so "ab", "c" differs from "a", "bc".
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, sizeof(word));
      mix(word);
    }
    uint64_t rest = 0;
    if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
    mix(rest);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }

  std::string text() const { return fmt::format("{:016x}{:016x}", spread(a_), spread(b_)); }

 private:
  // Two sums mixed in different ways: one multiplies after adding the word, one before.
  void mix(uint64_t word) {
    a_ = (a_ ^ word) * 0x9E3779B97F4A7C15u;
    a_ ^= a_ >> 32;
    b_ = (b_ + word) * 0xC2B2AE3D27D4EB4Fu + 1;
    b_ = (b_ << 29) | (b_ >> 35);
  }
  static uint64_t spread(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
    return x ^ (x >> 33);
  }

  uint64_t a_ = 0x243F6A8885A308D3u, b_ = 0x13198A2E03707344u;
};

// Kinds whose copies keep what was learned and do not depend on each other.
using Kinds = std::tuple<MinMaxObserver, PerChannelMinMaxObserver, WholeZeroPointObserver,
                         HistogramObserver, PercentileObserver, MseObserver, WeightMseObserver,
                         PerChannelPercentileObserver, AffineObserver>;

template <typename Kind>
bool is_a(const Observer& observer) {
  return typeid(observer) == typeid(Kind);
}

// Calls visit(Kind*) for the observer's kind; returns false for others.
template <typename Visit>
bool for_kind(const Observer& observer, const Visit& visit) {
  const auto try_kind = [&]<typename Kind>(Kind* kind) {
    if (!is_a<Kind>(observer)) return false;
    visit(kind);
    return true;
  };
  return [&]<typename... Kind>(std::tuple<Kind...>*) {
    return (try_kind(static_cast<Kind*>(nullptr)) || ...);
  }(static_cast<Kinds*>(nullptr));
}

std::shared_ptr<const Observer> copy_of(const Observer& observer) {
  std::shared_ptr<const Observer> copy;
  for_kind(observer, [&]<typename Kind>(Kind*) {
    copy = std::make_shared<Kind>(static_cast<const Kind&>(observer));
  });
  return copy;
}

// REQUIRES: both are of the same kind.
void assign(Observer& to, const Observer& from) {
  for_kind(from,
           [&]<typename Kind>(Kind*) { static_cast<Kind&>(to) = static_cast<const Kind&>(from); });
}

// Whether the observer learns nothing from any data.
bool learns_nothing(const Observer& observer) {
  if (const auto* affine = dynamic_cast<const AffineObserver*>(&observer))
    return !affine->keeps_state();
  return is_a<PlaceholderObserver>(observer) || is_a<NoopObserver>(observer) ||
         is_a<FixedQParamsObserver>(observer) || is_a<DerivedObserver>(observer);
}

bool is_random(const Node& node) {
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  if (!op || !op->hasTag(at::Tag::nondeterministic_seeded)) return false;
  // only in training mode, which find_training_ops detects
  constexpr std::array<std::string_view, 6> kInTraining = {"dropout",   "attention", "aten.rrelu",
                                                           "aten.lstm", "aten.gru",  "aten.rnn"};
  return std::ranges::none_of(kInTraining, [&](std::string_view name) {
    return node.target().find(name) != std::string::npos;
  });
}

// Whether a run can change the numbers that a later batch or run sees.
bool changes_from_run_to_run(const Graph& graph) {
  const auto gives_more = [](const GraphOutput& output) {
    return output.kind != OutputKind::kUserOutput;
  };
  const std::vector<Node*> nodes = graph.nodes();
  if (std::ranges::any_of(graph.outputs(), gives_more) || !find_training_ops(graph).empty() ||
      std::ranges::any_of(nodes, [](const Node* node) { return is_random(*node); }))
    return true;
  std::vector<const Value*> written;
  for (const Node* node : nodes)
    for (const Value* value : written_values(*node)) written.push_back(value);
  const std::unordered_set<const Value*> roots = memory_roots(std::move(written));
  return std::ranges::any_of(roots, [](const Value* root) { return root->producer() == nullptr; });
}

std::string digest_of(const Tensor& tensor) {
  Digest digest;
  const Tensor dense = tensor.contiguous();
  digest.add(std::span<const std::byte>(dense.raw(), dense.nbytes()));
  return digest.text();
}

std::string text_of(const ObserverArgs& args) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const ObserverChoice& choice = args.choice;
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {:a} {} {:a} {} {:a} [{:a}]", choice.name, name_of(args.dtype),
      name_of(args.qscheme), args.quant_min.value_or(kNone), args.quant_max.value_or(kNone),
      args.ch_axis.value_or(std::numeric_limits<int>::max()), args.is_dynamic, args.reduce_range,
      choice.eps.value_or(-1.0), choice.bins, choice.averaging_constant, choice.reduce_range,
      choice.percentile, fmt::join(args.finest_scales, " "));
  if (!choice.affine) return text;
  const AffineOptions& affine = *choice.affine;
  const auto name = [](const std::optional<DType>& dtype) {
    return dtype ? name_of(*dtype) : std::string_view("-");
  };
  const Granularity& granularity = affine.granularity;
  return text + fmt::format(" {} {} {} [{}] {} {} {} {} {} {}", static_cast<int>(granularity.kind),
                            granularity.axis, granularity.group_size,
                            fmt::join(granularity.block_size, " "),
                            static_cast<int>(affine.mapping_type), name(affine.scale_dtype),
                            name(affine.zero_point_dtype), affine.preserve_zero,
                            static_cast<int>(affine.zero_point_domain), affine.has_16_bit_scales);
}

// Texts that identify the observed values of one program.
class SiteTexts {
 public:
  SiteTexts(const ObservedGraph& observed, const ScaledValues& scaled)
      : graph_(observed.graph), scaled_(scaled), constants_(find_constant_values(graph_)) {
    for (const Node* node : graph_.nodes())
      if (const std::vector<const Value*> written = written_values(*node); !written.empty())
        writes_.emplace_back(node, memory_roots(written));
  }

  // Includes the bytes of constants, because scaling changes weights.
  std::string text_of(const Node& point) {
    const Value* value = observed_value(point);
    std::string text = value->name();
    if (const auto found = scaled_.find(value); found != scaled_.end()) text += "*" + found->second;
    if (constants_.contains(value))
      for (const Value* root : sources_of(*value)) text += "=" + bytes_of(*root);
    if (!writes_.empty()) text += fmt::format("@{}", writes_before(point, *value));
    return text;
  }

 private:
  // How often the value's memory is written to before the observer node.
  size_t writes_before(const Node& point, const Value& value) const {
    const std::unordered_set<const Value*> roots = memory_roots({&value});
    return static_cast<size_t>(std::ranges::count_if(writes_, [&](const auto& write) {
      return graph_.is_before(*write.first, point) &&
             std::ranges::any_of(write.second,
                                 [&](const Value* root) { return roots.contains(root); });
    }));
  }

  // The graph inputs that the constant is computed from, in order of first use.
  static std::vector<const Value*> sources_of(const Value& value) {
    std::vector<const Value*> open = {&value}, sources;
    std::unordered_set<const Value*> seen;
    while (!open.empty()) {
      const Value* next = open.back();
      open.pop_back();
      if (!seen.insert(next).second) continue;
      if (next->producer() == nullptr) sources.push_back(next);
      if (next->producer() == nullptr) continue;
      for (const Value* input : next->producer()->inputs()) open.push_back(input);
    }
    return sources;
  }

  const std::string& bytes_of(const Value& input) {
    std::string& text = digests_[&input];
    const Tensor* tensor = graph_.find_constant(&input);
    if (text.empty()) text = tensor != nullptr ? digest_of(*tensor) : "none";
    return text;
  }

  const Graph& graph_;
  const ScaledValues& scaled_;
  std::unordered_set<const Value*> constants_;
  std::vector<std::pair<const Node*, std::unordered_set<const Value*>>> writes_;
  std::unordered_map<const Value*, std::string> digests_;
};

// Visits the nodes from last to first, so that what later nodes need is known.
class Needs {
 public:
  // Whether observed values depend on the node; if so, its inputs are needed.
  bool take(const Node& node) {
    if (!is_observer_node(&node) && !gives(node) && !changes(node)) return false;
    for (const Value* input : node.inputs()) {
      values_.insert(input);
      memory_.merge(memory_roots({input}));
    }
    return true;
  }

 private:
  bool gives(const Node& node) const {
    const std::vector<Value*> outputs = node.outputs();
    return std::ranges::any_of(outputs,
                               [&](const Value* value) { return values_.contains(value); });
  }

  // Whether it changes more than its results: memory that is read later, or something unknown.
  bool changes(const Node& node) const {
    if (!has_side_effects(node)) return false;
    const std::vector<const Value*> written = written_values(node);
    if (written.empty()) return true;
    const std::unordered_set<const Value*> roots = memory_roots(written);
    return std::ranges::any_of(roots, [&](const Value* root) { return memory_.contains(root); });
  }

  std::unordered_set<const Value*> values_, memory_;
};

}  // namespace

std::string ObserverMemory::describe(const ObservedGraph& observed) {
  const auto is_known_kind = [](const std::shared_ptr<Observer>& observer) {
    return learns_nothing(*observer) || for_kind(*observer, [](auto*) {});
  };
  if (!observed.islands.empty() || !bodies_within(observed.graph).empty() ||
      !std::ranges::all_of(observed.observers, is_known_kind) ||
      changes_from_run_to_run(observed.graph))
    return "";
  const std::unique_ptr<Graph> program = clone(observed.graph);
  for (Node* point : observer_nodes(*program)) {
    program->replace_uses(point->output(), point->find_input("input"));
    program->erase(*point);
  }
  Digest digest;
  digest.add(to_text(*program));
  for (const GraphInput& input : program->inputs())
    if (const Tensor* tensor = program->find_constant(input.value); tensor != nullptr)
      digest.add(digest_of(*tensor));
  return digest.text();
}

ObserverMemory::Keys ObserverMemory::keys_of(const ObservedGraph& observed,
                                             const std::string& program,
                                             const ScaledValues& scaled) {
  SiteTexts sites(observed, scaled);
  Keys keys;
  for (const Node* point : observer_nodes(observed.graph)) {
    const Observer& observer = *observed.observers.at(static_cast<size_t>(group_of(*point)));
    if (learns_nothing(observer)) continue;
    std::string& key = keys[group_of(*point)];
    if (key.empty()) key = program + " " + text_of(observer.args());
    key += " %" + sites.text_of(*point);
  }
  return keys;
}

void ObserverMemory::fill(ObservedGraph& observed, const std::string& program,
                          const std::string& data, const Calibrate& calibrate,
                          const ScaledValues& scaled) {
  if (program.empty()) return calibrate(observed);
  const Keys keys = keys_of(observed, program + " " + data, scaled);
  std::unordered_set<int> open;
  for (const auto& [group, key] : keys) {
    const auto known = known_.find(key);
    if (known == known_.end())
      open.insert(group);
    else
      assign(*observed.observers[static_cast<size_t>(group)], *known->second);
  }
  if (open.empty()) return;
  if (open.size() == keys.size()) {
    calibrate(observed);
  } else {
    ObservedGraph part = part_for_groups(observed, open);
    calibrate(part);
  }
  for (const int group : open)
    known_.emplace(keys.at(group), copy_of(*observed.observers[static_cast<size_t>(group)]));
}

ObservedGraph part_for_groups(const ObservedGraph& observed,
                              const std::unordered_set<int>& groups) {
  std::unique_ptr<Graph> graph = clone(observed.graph);
  for (size_t i = 0; i < graph->outputs().size(); ++i) graph->set_output(i, None{});
  for (Node* point : observer_nodes(*graph)) {
    if (groups.contains(group_of(*point))) continue;
    graph->replace_uses(point->output(), point->find_input("input"));
    graph->erase(*point);
  }
  const std::vector<Node*> nodes = graph->nodes();
  Needs needs;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (!needs.take(**node)) graph->erase(**node);
  ObservedGraph part{std::move(*graph), observed.observers, {}};
  for (size_t group = 0; group < part.observers.size(); ++group)
    if (!groups.contains(static_cast<int>(group))) {
      ObserverArgs nothing;
      nothing.choice.name = "noop";
      part.observers[group] = make_observer(nothing);
    }
  return part;
}

}  // namespace octet
