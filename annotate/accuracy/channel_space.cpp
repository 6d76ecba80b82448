// Floods from the output of each op that can be scaled to all that must be scaled with it.
#include "annotate/accuracy/channel_space.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <ATen/ops/isfinite.h>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/observe_op.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

enum class ChannelPosition { kSecond, kLast };

struct OpForm {
  std::string_view op;
  std::string_view input, weight, bias;
  int64_t output_axis;  // of the weight
  int64_t input_axis;   // of the weight; -1: it takes no channels
  ChannelPosition position;
};
constexpr std::array<OpForm, 7> kOpForms = {
    {{"aten.conv1d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.conv2d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.conv3d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.linear", "input", "weight", "bias", 0, 1, ChannelPosition::kLast},
     {"aten.addmm", "mat1", "mat2", "self", 1, 0, ChannelPosition::kLast},
     {"aten.mm", "self", "mat2", "", 1, 0, ChannelPosition::kLast},
     {"aten.layer_norm", "input", "weight", "bias", 0, -1, ChannelPosition::kLast}}
};

// f(s * x) = s * f(x) for s > 0, element by element or within a channel; the first argument is the
// input.
constexpr std::array<std::string_view, 12> kHomogeneous = {"aten.relu",
                                                           "aten.leaky_relu",
                                                           "aten.clone",
                                                           "aten.contiguous",
                                                           "aten.alias",
                                                           "aten.detach",
                                                           "aten.max_pool1d",
                                                           "aten.max_pool2d",
                                                           "aten.avg_pool1d",
                                                           "aten.avg_pool2d",
                                                           "aten.adaptive_avg_pool2d",
                                                           "aten.max_pool3d"};

const OpForm* find_op_form(const Node& node) {
  const auto form = std::find_if(kOpForms.begin(), kOpForms.end(),
                                 [&](const OpForm& row) { return node.is(row.op); });
  return form == kOpForms.end() ? nullptr : form;
}

bool is_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return node.is(op); });
}

Value* constant_behind(Value* value) {
  while (value != nullptr && value->producer() != nullptr &&
         value->producer()->target() == kObserveTarget)
    value = value->producer()->find_input("input");
  return value;
}

int64_t rank_of(const Value& value) {
  return value.meta ? static_cast<int64_t>(value.meta->sizes.size()) : -1;
}

// The upper limit of a clamp from 0.
std::optional<double> clamp_limit(const Node& node) {
  if (node.is("aten.relu6")) return 6.0;
  const bool is_hardtanh = node.is("aten.hardtanh");
  if (!is_hardtanh && !node.is("aten.clamp")) return std::nullopt;
  const double low = node.float_or(is_hardtanh ? "min_val" : "min", -1.0);
  const double high = node.float_or(is_hardtanh ? "max_val" : "max", is_hardtanh ? 1.0 : -1.0);
  if (low != 0.0 || high <= 0.0) return std::nullopt;
  return high;
}

class Flood {
 public:
  Flood(const Graph& graph, const std::unordered_set<const Value*>& constants, ClampChoice clamps)
      : graph_(graph), constants_(constants), clamps_(clamps) {}

  std::optional<ChannelSpace> from(Node& maker) {
    Value* output = maker.output_or_null();
    const OpForm* form = find_op_form(maker);
    if (output == nullptr || form == nullptr || rank_of(*output) < 2) return std::nullopt;
    add(output, channel_dims(*form, *output));
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
  static ChannelDims channel_dims(const OpForm& form, const Value& value) {
    return {form.position == ChannelPosition::kLast ? rank_of(value) - 1 : 1};
  }

  void fail() { is_open_ = false; }

  void add(Value* value, const ChannelDims& dims) {
    if (value == nullptr || !value->meta || constants_.contains(value) ||
        !is_floating_point(value->meta->dtype))
      return fail();
    const auto [known, is_new] = seen_.emplace(value, dims);
    if (!is_new) {
      if (known->second != dims) fail();
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
    if (space_.channels != channels) return fail();
    space_.places.push_back({value, dims});
    pending_.push_back({value, dims});
  }

  void visit(const ChannelPlace& place) {
    if (place.value->is_output() || place.value->producer() == nullptr) return fail();
    make(*place.value->producer(), place);
    for (Node* user : place.value->users())
      if (is_open_) take(*user, place);
  }

  // The node whose output the place is.
  void make(Node& node, const ChannelPlace& place) {
    const OpForm* form = find_op_form(node);
    if (form != nullptr) return add_maker(node, *form, place);
    spread(node, place, Direction::kBackward);
  }

  void take(Node& node, const ChannelPlace& place) {
    const OpForm* form = find_op_form(node);
    if (form != nullptr) return add_taker(node, *form, place);
    spread(node, place, Direction::kForward);
  }

  // A constant weight or bias of the node, when it may be replaced for this node alone.
  Value* scalable_constant(const Node& node, std::string_view argument) const {
    Value* value = node.find_input(argument);
    if (value == nullptr || !constants_.contains(value)) return nullptr;
    for (Value* step = value; step->producer() != nullptr;
         step = step->producer()->find_input("input"))
      if (step->producer()->target() != kObserveTarget || !step->has_one_user()) return nullptr;
    Value* constant = constant_behind(value);
    const Tensor* tensor = graph_.find_constant(constant);
    return tensor != nullptr && is_floating_point(tensor->dtype()) ? constant : nullptr;
  }

  void add_maker(Node& node, const OpForm& form, const ChannelPlace& place) {
    const Value* weight = scalable_constant(node, form.weight);
    const bool has_bias = !form.bias.empty() && node.find_input(form.bias) != nullptr;
    const Value* bias = has_bias ? scalable_constant(node, form.bias) : nullptr;
    const bool is_normalized_last =
        !node.is("aten.layer_norm") || node.ints_or("normalized_shape", {}).size() == 1;
    if (weight == nullptr || (has_bias && bias == nullptr) || !is_normalized_last) return fail();
    if (place.dims != channel_dims(form, *place.value) || has_fewer_dims(node, form)) return fail();
    if (graph_.find_constant(weight)->shape().at(static_cast<size_t>(form.output_axis)) !=
        space_.channels)
      return fail();
    if (bias != nullptr &&
        graph_.find_constant(bias)->shape() != std::vector<int64_t>{space_.channels})
      return fail();
    space_.makers.push_back({.op = &node, .axis = form.output_axis});
  }

  void add_taker(Node& node, const OpForm& form, const ChannelPlace& place) {
    const Value* weight = scalable_constant(node, form.weight);
    const bool is_input_only = node.find_input(form.input) == place.value &&
                               (form.bias.empty() || node.find_input(form.bias) != place.value);
    if (weight == nullptr || form.input_axis < 0 || !is_input_only ||
        node.find_input(form.weight) == place.value)
      return fail();
    if (place.dims != channel_dims(form, *place.value) || has_fewer_dims(node, form)) return fail();
    const int64_t groups = form.position == ChannelPosition::kSecond ? node.int_or("groups", 1) : 1;
    if (graph_.find_constant(weight)->shape().at(static_cast<size_t>(form.input_axis)) * groups !=
        space_.channels)
      return fail();
    space_.takers.push_back(
        {.op = &node, .axis = form.input_axis, .groups = groups, .input = place.value});
  }

  // A convolution of one image without batch dimension has its channels elsewhere.
  bool has_fewer_dims(const Node& node, const OpForm& form) const {
    if (form.position != ChannelPosition::kSecond) return false;
    const Value* input = node.find_input(form.input);
    return input == nullptr ||
           rank_of(*input) !=
               static_cast<int64_t>(
                   graph_.find_constant(constant_behind(node.find_input(form.weight)))
                       ->shape()
                       .size());
  }

  // The other values of a node that hands factors on.
  void spread(Node& node, const ChannelPlace& place, Direction direction) {
    Value* output = node.output_or_null();
    if (output == nullptr) return fail();
    if (node.target() == kObserveTarget) return both(node.find_input("input"), output, place.dims);
    if (std::any_of(kHomogeneous.begin(), kHomogeneous.end(),
                    [&](std::string_view op) { return node.is(op); }))
      return both(node.find_input("self"), output, place.dims);
    if (node.is("aten.dropout") && !node.bool_or("train", true))
      return both(node.find_input("input"), output, place.dims);
    if (is_one_of(node, {"aten.add", "aten.sub"})) return spread_sum(node, place);
    if (is_one_of(node, {"aten.mul", "aten.div"}) && node.find_input("other") == nullptr)
      return both(node.find_input("self"), output, place.dims);
    if (node.is("aten.pad") || node.is("aten.constant_pad_nd")) return spread_pad(node, place);
    if (node.is("aten.mean")) return spread_mean(node, place);
    if (node.is("aten.scaled_dot_product_attention")) return spread_attention(node, "value", place);
    if (is_one_of(node, {"aten.matmul", "aten.bmm"}))
      return spread_attention(node, node.is("aten.bmm") ? "mat2" : "other", place);
    if (const std::optional<double> limit = clamp_limit(node);
        limit && clamps_ == ClampChoice::kAllow) {
      if (direction == Direction::kForward || !seen_.contains(node.find_input("self")))
        add_clamp(node, *limit);
      return both(node.find_input("self"), output, place.dims);
    }
    const std::optional<ChannelDims> moved = dims_through_layout(node, place.dims, direction);
    if (!moved) return fail();
    add(direction == Direction::kForward ? output : node.find_input("self"), *moved);
  }

  void add_clamp(Node& node, double limit) {
    Value* input = node.find_input("self");
    for (const ChannelClamp& clamp : space_.clamps)
      if (clamp.input == input) return;
    space_.clamps.push_back({input, limit});
  }

  void both(Value* input, Value* output, const ChannelDims& dims) {
    add(input, dims);
    if (is_open_) add(output, dims);
  }

  void spread_sum(Node& node, const ChannelPlace& place) {
    for (const std::string_view name : {"self", "other"}) {
      Value* addend = node.find_input(name);
      if (addend == nullptr || !addend->meta || !place.value->meta ||
          addend->meta->sizes != place.value->meta->sizes)
        return fail();
      add(addend, place.dims);
      if (!is_open_) return;
    }
    add(node.output(), place.dims);
  }

  void spread_pad(Node& node, const ChannelPlace& place) {
    const Argument* mode = node.find_argument("mode");
    const std::string* text = mode == nullptr ? nullptr : mode->find<std::string>();
    // of the last dimensions
    const int64_t padded = static_cast<int64_t>(node.ints_or("pad", {}).size()) / 2;
    const bool is_channel_padded =
        std::any_of(place.dims.begin(), place.dims.end(),
                    [&](int64_t dim) { return dim >= rank_of(*place.value) - padded; });
    if ((text != nullptr && *text == "constant" && node.float_or("value", 0) != 0) ||
        is_channel_padded || padded == 0)
      return fail();
    both(node.find_input("self"), node.output(), place.dims);
  }

  // Over dimensions behind the channels.
  void spread_mean(Node& node, const ChannelPlace& place) {
    Value* input = node.find_input("self");
    const std::vector<int64_t> reduced = node.ints_or("dim", {});
    if (input == nullptr || reduced.empty() || place.dims.size() != 1) return fail();
    for (int64_t dim : reduced)
      if ((dim < 0 ? dim + rank_of(*input) : dim) <= place.dims.front()) return fail();
    both(input, node.output(), place.dims);
  }

  // Sums over positions (the dimension before the last) of the argument's rows.
  void spread_attention(Node& node, std::string_view argument, const ChannelPlace& place) {
    Value* rows = node.find_input(argument);
    const int64_t rank = rank_of(*place.value);
    if (rows == nullptr || rank_of(*rows) != rank || rank < 3 ||
        std::find(place.dims.begin(), place.dims.end(), rank - 2) != place.dims.end())
      return fail();
    for (const NamedArgument& other : node.arguments())
      if (other.name != argument && other.value.value_or_null() == rows) return fail();
    // it is multiplied with, not a row
    if (place.value != rows && place.value != node.output()) return fail();
    both(rows, node.output(), place.dims);
  }

  const Graph& graph_;
  const std::unordered_set<const Value*>& constants_;
  ClampChoice clamps_;
  ChannelSpace space_;
  std::unordered_map<const Value*, ChannelDims> seen_;
  std::vector<ChannelPlace> pending_;
  bool is_open_ = true;
};

// `value` of `user` (or of the observer node in front of it) gets new data: in place when
// nobody else reads it.
void replace_constant(Graph& graph, Node& op, Value* value, const at::Tensor& data) {
  const GraphInput& input = *graph.find_input(value);
  const std::string fqn = input.fqn;
  const InputKind kind = input.kind;
  const auto same_fqn = std::count_if(graph.inputs().begin(), graph.inputs().end(),
                                      [&](const GraphInput& other) { return other.fqn == fqn; });
  Tensor tensor = from_aten(data.contiguous());
  if (value->has_one_user() && same_fqn == 1) {
    if (value->meta)
      for (size_t i = 0; i < tensor.strides().size(); ++i)
        value->meta->strides[i] = {tensor.strides()[i], ""};
    if (value->meta) value->meta->storage_offset = {};
    graph.constants.at(fqn).tensor = std::move(tensor);
    return;
  }
  Node* reader = &op;
  for (Value* argument : op.inputs())
    for (Value* step = argument;
         step->producer() != nullptr && step->producer()->target() == kObserveTarget;) {
      Node* point = step->producer();
      step = point->find_input("input");
      if (step == value) reader = point;
    }
  reader->replace_input(value, graph.add_constant(fqn, std::move(tensor), kind));
}

at::Tensor data_of(const Graph& graph, const Value* value) {
  return to_aten(*graph.find_constant(value));
}

// The constants as they stand now: scaling one space may have replaced those of another.
Value* weight_of(const Node& op) {
  return constant_behind(op.find_input(find_op_form(op)->weight));
}
Value* find_bias_of(const Node& op) {
  const OpForm& form = *find_op_form(op);
  return form.bias.empty() ? nullptr : constant_behind(op.find_input(form.bias));
}

}  // namespace

const ChannelDims& ChannelSpace::dims_of(const Value* value) const {
  const auto place = std::find_if(places.begin(), places.end(), [&](const ChannelPlace& candidate) {
    return candidate.value == value;
  });
  OCTET_ASSERT(place != places.end(), value->name());
  return place->dims;
}

std::vector<ChannelSpace> find_channel_spaces(Graph& graph, ClampChoice clamps) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::vector<ChannelSpace> spaces;
  std::unordered_set<const Node*> done;
  for (Node* node : graph.nodes()) {
    if (find_op_form(*node) == nullptr || done.contains(node)) continue;
    std::optional<ChannelSpace> space = Flood(graph, constants, clamps).from(*node);
    if (!space) continue;
    for (const ScaledOp& maker : space->makers) done.insert(maker.op);
    spaces.push_back(std::move(*space));
  }
  return spaces;
}

bool all_ops_are(const ChannelSpace& space, const NodeFilter& filter) {
  const auto is_chosen = [&](const ScaledOp& scaled) { return !filter || filter(*scaled.op); };
  return std::all_of(space.makers.begin(), space.makers.end(), is_chosen) &&
         std::all_of(space.takers.begin(), space.takers.end(), is_chosen);
}

void scale_channels(Graph& graph, const ChannelSpace& space, const at::Tensor& factors) {
  OCTET_ASSERT(factors.dim() == 1 && factors.size(0) == space.channels &&
                   at::isfinite(factors).all().item<bool>() && factors.gt(0).all().item<bool>(),
               "one positive factor a channel");
  const at::Tensor exact = factors.to(at::kDouble);
  for (const ScaledOp& maker : space.makers) {
    Value* constant = weight_of(*maker.op);
    const at::Tensor weight = data_of(graph, constant);
    std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
    shape[static_cast<size_t>(maker.axis)] = -1;
    replace_constant(graph, *maker.op, constant,
                     weight.to(at::kDouble).div(exact.reshape(shape)).to(weight.scalar_type()));
    Value* bias_constant = find_bias_of(*maker.op);
    if (bias_constant == nullptr) continue;
    const at::Tensor bias = data_of(graph, bias_constant);
    replace_constant(graph, *maker.op, bias_constant,
                     bias.to(at::kDouble).div(exact).to(bias.scalar_type()));
  }
  for (const ScaledOp& taker : space.takers) {
    Value* constant = weight_of(*taker.op);
    const at::Tensor weight = data_of(graph, constant);
    std::vector<int64_t> shape(static_cast<size_t>(weight.dim()) + 1, 1);
    shape[0] = taker.groups;
    shape[static_cast<size_t>(taker.axis) + 1] = space.channels / taker.groups;
    std::vector<int64_t> grouped = weight.sizes().vec();
    grouped.insert(grouped.begin(), taker.groups);
    if (taker.groups > 1) grouped[1] /= taker.groups;
    const at::Tensor scaled =
        weight.to(at::kDouble).reshape(grouped).mul(exact.reshape(shape)).reshape(weight.sizes());
    replace_constant(graph, *taker.op, constant, scaled.to(weight.scalar_type()));
  }
}

at::Tensor taker_weight(const Graph& graph, const ScaledOp& taker) {
  at::Tensor weight = data_of(graph, weight_of(*taker.op)).to(at::kDouble);
  if (taker.axis == 0) weight = weight.t();
  return weight.reshape({taker.groups, weight.size(0) / taker.groups, weight.size(1), -1});
}

at::Tensor maker_weight(const Graph& graph, const ScaledOp& maker) {
  const at::Tensor weight =
      data_of(graph, weight_of(*maker.op)).to(at::kDouble).transpose(0, maker.axis);
  return weight.reshape({weight.size(0), -1});
}

Value* weight_operand(const ScaledOp& scaled) {
  return scaled.op->find_input(find_op_form(*scaled.op)->weight);
}

at::Tensor round_to_powers_of_two(const at::Tensor& factors) {
  return factors.to(at::kDouble).log2().round().exp2();
}

}  // namespace octet
