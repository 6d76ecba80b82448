// Starts at the output of each op that can be scaled and spreads to everything that must be scaled
// with it.
#include "annotate/accuracy/channel_space.h"

#include <algorithm>
#include <unordered_set>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet {
namespace {

// f(s * x) = s * f(x) for s > 0, element by element or within a channel; the first argument is the
// input.
// clang-format off
constexpr std::string_view kHomogeneous[] = {
    "aten.relu", "aten.leaky_relu", "aten.clone", "aten.contiguous", "aten.alias", "aten.detach",
    "aten.max_pool1d", "aten.max_pool2d", "aten.avg_pool1d", "aten.avg_pool2d",
    "aten.adaptive_avg_pool2d", "aten.max_pool3d"};
// clang-format on

bool is_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return node.is(op); });
}

int64_t rank_of(const Value& value) {
  return value.meta ? static_cast<int64_t>(value.meta->sizes.size()) : -1;
}

class Flood {
 public:
  Flood(const Graph& graph, const std::unordered_set<const Value*>& constants)
      : graph_(graph), constants_(constants) {}

  std::optional<ChannelSpace> from(Node& maker) {
    Value* output = maker.output_or_null();
    const WeightedOp* form = find_scaled_form(maker);
    if (output == nullptr || form == nullptr || rank_of(*output) < 2) return std::nullopt;
    add(output, {.dims = channel_dims(*form, *output)});
    while (is_open_ && !pending_.empty()) {
      const ChannelPlace place = pending_.back();
      pending_.pop_back();
      visit(place);
    }
    if (!is_open_ || space_.makers.empty() || space_.takers.empty() || space_.channels < 2)
      return std::nullopt;
    return std::move(space_);
  }

 private:
  static ChannelDims channel_dims(const WeightedOp& form, const Value& value) {
    return {form.form == WeightForm::kConv ? 1 : rank_of(value) - 1};
  }

  void fail() { is_open_ = false; }

  // Adds the value with the channels of `like`.
  void add(Value* value, const ChannelPlace& like) {
    const auto& [ignored, dims, repeats] = like;
    if (value == nullptr || !value->meta || constants_.contains(value) ||
        !is_floating_point(value->meta->dtype))
      return fail();
    const auto [known, is_new] = seen_.emplace(value, like);
    if (!is_new) {
      if (known->second.dims != dims || known->second.repeats != repeats) fail();
      return;
    }
    int64_t channels = 1;
    for (int64_t dim : dims) {
      if (dim < 0 || dim >= rank_of(*value) ||
          value->meta->sizes[static_cast<size_t>(dim)].is_symbolic())
        return fail();
      channels *= value->meta->sizes[static_cast<size_t>(dim)].value;
    }
    if (space_.channels == 0) space_.channels = channels;
    if (space_.channels * repeats.times != channels) return fail();
    space_.places.push_back({value, dims, repeats});
    pending_.push_back({value, dims, repeats});
  }

  void visit(const ChannelPlace& place) {
    if (place.value->producer() == nullptr) return fail();
    if (place.value->is_output() && !is_cache_alone(*place.value)) return fail();
    make(*place.value->producer(), place);
    for (Node* user : place.value->users())
      if (is_open_) take(*user, place);
  }

  // Adds the node whose output the place is.
  void make(Node& node, const ChannelPlace& place) {
    const WeightedOp* form = find_scaled_form(node);
    if (form != nullptr) return add_maker(node, *form, place);
    spread(node, place, Direction::kBackward);
  }

  void take(Node& node, const ChannelPlace& place) {
    const WeightedOp* form = find_scaled_form(node);
    if (form != nullptr) return add_taker(node, *form, place);
    spread(node, place, Direction::kForward);
  }

  // A constant weight or bias of the node, when it may be replaced for this node alone.
  Value* scalable_constant(const Node& node, std::string_view argument) const {
    Value* value = node.find_input(argument);
    if (value == nullptr || !constants_.contains(value)) return nullptr;
    for (Value* step = value; step->producer() != nullptr;
         step = step->producer()->find_input("input"))
      if (!is_observer_node(step->producer()) || !step->has_one_user()) return nullptr;
    Value* constant = through_observers(value);
    const Tensor* tensor = graph_.find_constant(constant);
    return tensor != nullptr && is_floating_point(tensor->dtype()) ? constant : nullptr;
  }

  void add_maker(Node& node, const WeightedOp& form, const ChannelPlace& place) {
    const Value* weight = scalable_constant(node, form.weight);
    const bool has_bias = !form.bias.empty() && node.find_input(form.bias) != nullptr;
    const Value* bias = has_bias ? scalable_constant(node, form.bias) : nullptr;
    const bool is_normalized_last = node.find_argument("normalized_shape") == nullptr ||
                                    node.ints_or("normalized_shape", {}).size() == 1;
    if (weight == nullptr || (has_bias && bias == nullptr) || !is_normalized_last) return fail();
    if (place.dims != channel_dims(form, *place.value) || has_fewer_dims(node, form) ||
        place.repeats.times != 1)
      return fail();
    if (graph_.find_constant(weight)->shape().at(static_cast<size_t>(form.out_axis)) !=
        space_.channels)
      return fail();
    if (bias != nullptr &&
        graph_.find_constant(bias)->shape() != std::vector<int64_t>{space_.channels})
      return fail();
    space_.makers.push_back({.op = &node, .axis = form.out_axis});
  }

  void add_taker(Node& node, const WeightedOp& form, const ChannelPlace& place) {
    const Value* weight = scalable_constant(node, form.weight);
    const bool is_input_only = node.find_input(form.x) == place.value &&
                               (form.bias.empty() || node.find_input(form.bias) != place.value);
    if (weight == nullptr || form.in_axis < 0 || !is_input_only ||
        node.find_input(form.weight) == place.value)
      return fail();
    if (place.dims != channel_dims(form, *place.value) || has_fewer_dims(node, form)) return fail();
    const int64_t groups = form.form == WeightForm::kConv ? node.int_or("groups", 1) : 1;
    if (graph_.find_constant(weight)->shape().at(static_cast<size_t>(form.in_axis)) * groups !=
        space_.channels * place.repeats.times)
      return fail();
    space_.takers.push_back({.op = &node,
                             .axis = form.in_axis,
                             .groups = groups,
                             .input = place.value,
                             .repeats = place.repeats});
  }

  // A convolution of a single image without batch dimension has its channels in another dimension.
  bool has_fewer_dims(const Node& node, const WeightedOp& form) const {
    if (form.form != WeightForm::kConv) return false;
    const Value* input = node.find_input(form.x);
    return input == nullptr ||
           rank_of(*input) !=
               static_cast<int64_t>(
                   graph_.find_constant(through_observers(node.find_input(form.weight)))
                       ->shape()
                       .size());
  }

  // Adds the other values of a node that passes factors on.
  void spread(Node& node, const ChannelPlace& place, Direction direction) {
    Value* output = node.output_or_null();
    if (output == nullptr) return fail();
    if (is_observer_node(&node)) return both(node.find_input("input"), output, place);
    if (std::ranges::any_of(kHomogeneous, [&](std::string_view op) { return node.is(op); }))
      return both(node.find_input("self"), output, place);
    if (node.is("aten.dropout") && !node.bool_or("train", true))
      return both(node.find_input("input"), output, place);
    if (is_one_of(node, {"aten.add", "aten.sub"})) return spread_sum(node, place);
    if (is_one_of(node, {"aten.mul", "aten.div"}) && node.find_input("other") == nullptr)
      return both(node.find_input("self"), output, place);
    if (node.is("aten.mul.Tensor")) return spread_product(node, place);
    if (node.is("aten.pad") || node.is("aten.constant_pad_nd")) return spread_pad(node, place);
    if (node.is("aten.mean")) return spread_mean(node, place);
    if (node.is("aten.scaled_dot_product_attention")) return spread_attention(node, "value", place);
    if (is_one_of(node, {"aten.matmul", "aten.bmm"}))
      return spread_attention(node, node.is("aten.bmm") ? "mat2" : "other", place);
    if (is_one_of(node, {"aten.index_copy", "aten.index_put"})) return spread_cache(node, place);
    if (node.is("aten.expand")) return spread_expand(node, place, direction);
    const std::optional<ChannelDims> moved = dims_through_layout(node, place.dims, direction);
    if (!moved) return fail();
    add(direction == Direction::kForward ? output : node.find_input("self"),
        {.dims = *moved, .repeats = place.repeats});
  }

  // The cache into which the op copies rows; null unless it starts as zeros and has no other use.
  const Value* find_cache(const Node& node) const {
    const Value* cache = node.find_input("self");
    const Tensor* start = cache == nullptr ? nullptr : graph_.find_constant(cache);
    const bool is_empty = start != nullptr && start->defined() && has_only_zero_bits(*start);
    return is_empty && cache->has_one_user() ? cache : nullptr;
  }

  // Whether the value is an output only as the next state of the cache that its op reads.
  bool is_cache_alone(const Value& value) const {
    const Node& node = *value.producer();
    if (!is_one_of(node, {"aten.index_copy", "aten.index_put"})) return false;
    const GraphInput* cache = graph_.find_input(node.find_input("self"));
    return cache != nullptr &&
           std::ranges::all_of(graph_.outputs(), [&](const GraphOutput& output) {
             return output.value.value_or_null() != &value ||
                    (output.kind == OutputKind::kBufferMutation && output.target == cache->fqn);
           });
  }

  // The dimension whose positions the op replaces, all others whole.
  static std::optional<int64_t> written_dim(const Node& node, int64_t rank) {
    if (node.is("aten.index_copy")) return wrap_dim(node.int_or("dim", 0), rank);
    const OptionalTensors* indices = node.find_argument("indices")->find<OptionalTensors>();
    if (indices == nullptr || node.bool_or("accumulate", false)) return std::nullopt;
    std::optional<int64_t> dim;
    for (size_t i = 0; i < indices->items.size(); ++i) {
      if (indices->items[i] == nullptr) continue;
      const std::optional<TensorMeta>& meta = indices->items[i]->meta;
      if (dim || !meta || meta->sizes.size() != 1 || meta->dtype == DType::kBool)
        return std::nullopt;
      dim = static_cast<int64_t>(i);
    }
    return dim;
  }

  void spread_cache(Node& node, const ChannelPlace& place) {
    Value* rows = node.find_input(node.is("aten.index_copy") ? "source" : "values");
    const int64_t rank = rank_of(*place.value);
    if (find_cache(node) == nullptr || rows == nullptr || rank_of(*rows) != rank) return fail();
    const std::optional<int64_t> dim = written_dim(node, rank);
    if (!dim || std::ranges::find(place.dims, *dim) != place.dims.end()) return fail();
    both(rows, node.output(), place);
  }

  // A new dimension between the channels' dimensions repeats them; others hold no channels.
  void spread_expand(Node& node, const ChannelPlace& place, Direction direction) {
    Value* self = node.find_input("self");
    if (self == nullptr || !self->meta || !node.output()->meta) return fail();
    const std::vector<Dim>&from = self->meta->sizes, &to = node.output()->meta->sizes;
    const auto added = static_cast<int64_t>(to.size() - from.size());
    const auto repeats_at = [&](int64_t dim) {
      return dim >= added && !to[static_cast<size_t>(dim)].is_symbolic() &&
             from[static_cast<size_t>(dim - added)] == Dim{1, ""} &&
             to[static_cast<size_t>(dim)].value > 1;
    };
    ChannelPlace narrow = place, wide = place;  // of the input and of the output
    if (direction == Direction::kBackward) {
      const auto repeated = std::ranges::find_if(wide.dims, repeats_at);
      if (repeated != wide.dims.end()) {
        ChannelRepeats own{to[static_cast<size_t>(*repeated)].value, 1};
        for (auto later = repeated + 1; later != wide.dims.end(); ++later)
          own.inner *= to[static_cast<size_t>(*later)].value;
        if (wide.repeats != own) return fail();
        narrow.repeats = {};
      }
      std::erase_if(narrow.dims, repeats_at);
      for (int64_t& dim : narrow.dims) dim -= added;
    } else {
      wide.dims.clear();
      for (const int64_t dim : place.dims) {
        while (!wide.dims.empty() && wide.dims.back() + 1 < dim + added &&
               repeats_at(wide.dims.back() + 1))
          wide.dims.push_back(wide.dims.back() + 1);
        wide.dims.push_back(dim + added);
      }
      if (wide.dims.size() > place.dims.size() + 1) return fail();
      for (size_t i = 0; i < wide.dims.size(); ++i) {
        if (wide.dims.size() == place.dims.size() || !repeats_at(wide.dims[i])) continue;
        if (place.repeats.times != 1) return fail();
        wide.repeats = {to[static_cast<size_t>(wide.dims[i])].value, 1};
        for (size_t j = i + 1; j < wide.dims.size(); ++j)
          wide.repeats.inner *= to[static_cast<size_t>(wide.dims[j])].value;
      }
    }
    add(self, narrow);
    if (is_open_) add(node.output(), wide);
  }

  // A product of two activations scales with one of them, which must be known before the result.
  void spread_product(Node& node, const ChannelPlace& place) {
    Value* self = node.find_input("self");
    Value* other = node.find_input("other");
    if (self == other || seen_.contains(self) == seen_.contains(other)) return fail();
    const Value& scaled = seen_.contains(self) ? *self : *other;
    if (!node.output()->meta || scaled.meta->sizes != node.output()->meta->sizes) return fail();
    add(node.output(), place);
  }

  void both(Value* input, Value* output, const ChannelPlace& like) {
    add(input, like);
    if (is_open_) add(output, like);
  }

  void spread_sum(Node& node, const ChannelPlace& place) {
    for (const std::string_view name : {"self", "other"}) {
      Value* addend = node.find_input(name);
      if (addend == nullptr || !addend->meta || !place.value->meta ||
          addend->meta->sizes != place.value->meta->sizes)
        return fail();
      add(addend, place);
      if (!is_open_) return;
    }
    add(node.output(), place);
  }

  void spread_pad(Node& node, const ChannelPlace& place) {
    const Argument* mode = node.find_argument("mode");
    const std::string* text = mode == nullptr ? nullptr : mode->find<std::string>();
    // of the last dimensions
    const int64_t padded = static_cast<int64_t>(node.ints_or("pad", {}).size()) / 2;
    const bool is_channel_padded = std::ranges::any_of(
        place.dims, [&](int64_t dim) { return dim >= rank_of(*place.value) - padded; });
    if ((text != nullptr && *text == "constant" && node.float_or("value", 0) != 0) ||
        is_channel_padded || padded == 0)
      return fail();
    both(node.find_input("self"), node.output(), place);
  }

  // A mean over dimensions after the channels.
  void spread_mean(Node& node, const ChannelPlace& place) {
    Value* input = node.find_input("self");
    const std::vector<int64_t> reduced = node.ints_or("dim", {});
    if (input == nullptr || reduced.empty() || place.dims.size() != 1) return fail();
    for (int64_t dim : reduced)
      if (wrap_dim(dim, rank_of(*input)) <= place.dims.front()) return fail();
    both(input, node.output(), place);
  }

  // Attention sums rows of the argument over positions (the second to last dimension).
  void spread_attention(Node& node, std::string_view argument, const ChannelPlace& place) {
    Value* rows = node.find_input(argument);
    const int64_t rank = rank_of(*place.value);
    if (rows == nullptr || rank_of(*rows) != rank || rank < 3 ||
        std::ranges::find(place.dims, rank - 2) != place.dims.end())
      return fail();
    for (const NamedArgument& other : node.arguments())
      if (other.name != argument && other.value.value_or_null() == rows) return fail();
    // it is a factor, not a row
    if (place.value != rows && place.value != node.output()) return fail();
    if (!node.bool_or("enable_gqa", false)) return both(rows, node.output(), place);
    // heads of queries that share values
    const ChannelPlace each{.dims = {rank - 3, rank - 1}};
    const auto size_at = [&](const Value& value, int64_t dim) {
      return value.meta->sizes[static_cast<size_t>(dim)].value;
    };
    if (place.dims != each.dims || !node.output()->meta || !rows->meta) return fail();
    ChannelPlace shared = each;
    shared.repeats = {
        size_at(*node.output(), rank - 3) / std::max<int64_t>(1, size_at(*rows, rank - 3)),
        size_at(*rows, rank - 1)};
    if (shared.repeats.times == 1) shared.repeats = {};
    if (place.repeats != (place.value == rows ? each.repeats : shared.repeats)) return fail();
    add(rows, each);
    if (is_open_) add(node.output(), shared);
  }

  const Graph& graph_;
  const std::unordered_set<const Value*>& constants_;
  ChannelSpace space_;
  std::unordered_map<const Value*, ChannelPlace> seen_;
  std::vector<ChannelPlace> pending_;
  bool is_open_ = true;
};

}  // namespace

const ChannelDims& ChannelSpace::dims_of(const Value* value) const {
  const auto place = std::ranges::find_if(
      places, [&](const ChannelPlace& candidate) { return candidate.value == value; });
  OCTET_ASSERT(place != places.end(), value->name());
  return place->dims;
}

std::vector<ChannelSpace> find_channel_spaces(Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::vector<ChannelSpace> spaces;
  std::unordered_set<const Node*> done;
  for (Node* node : graph.nodes()) {
    if (find_scaled_form(*node) == nullptr || done.contains(node)) continue;
    std::optional<ChannelSpace> space = Flood(graph, constants).from(*node);
    if (!space) continue;
    for (const ScaledOp& maker : space->makers) done.insert(maker.op);
    spaces.push_back(std::move(*space));
  }
  return spaces;
}

bool all_ops_are(const ChannelSpace& space, const NodeFilter& filter) {
  const auto is_chosen = [&](const ScaledOp& scaled) { return !filter || filter(*scaled.op); };
  return std::ranges::all_of(space.makers, is_chosen) &&
         std::ranges::all_of(space.takers, is_chosen);
}

}  // namespace octet
