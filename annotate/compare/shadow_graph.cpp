#include "annotate/compare/shadow_graph.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "annotate/graph/aliasing.h"
#include "annotate/graph/float_ops.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/ops/memory.h"

namespace octet {
namespace {

using ValueMap = std::unordered_map<const Value*, Value*>;

// A row with more ops than this between two twins gets no shadow.
constexpr size_t kMostShadowOps = 200;

bool is_float_value(const Value& value) {
  return value.kind() == ValueKind::kTensor && value.meta && is_floating_point(value.meta->dtype);
}

bool computes(const Node& node) { return computes_on_floats(node) || node.is("aten.embedding"); }

bool have_same_parameters(const Quantization& a, const Quantization& b) {
  return a.has_numbers() && b.has_numbers() && a.scale_number() == b.scale_number() &&
         *a.zero_point.find<int64_t>() == *b.zero_point.find<int64_t>() && a.dtype == b.dtype &&
         a.quant_min == b.quant_min && a.quant_max == b.quant_max;
}

// The quantize ops of the value that have literal parameters.
std::vector<const Node*> roundings_of(const Value& value) {
  std::vector<const Node*> nodes;
  for (const Node* user : value.users()) {
    const std::optional<Quantization> quantization = find_quantization(user);
    if (is_quantize(user) && quantization && quantization->input == &value &&
        quantization->has_numbers() && !quantization->is_per_channel)
      nodes.push_back(user);
  }
  return nodes;
}

// Its dequantize ops with the same parameters.
std::vector<const Node*> dequantizes_of(const Node& quantize) {
  std::vector<const Node*> nodes;
  const std::optional<Quantization> own = find_quantization(&quantize);
  for (const Node* user : quantize.output()->users()) {
    const std::optional<Quantization> quantization = find_quantization(user);
    if (is_dequantize(user) && quantization && have_same_parameters(*own, *quantization))
      nodes.push_back(user);
  }
  return nodes;
}

OutputRounding rounding_of(const Node& quantize) {
  const Quantization quantization = *find_quantization(&quantize);
  return {quantization.scale_number(), *quantization.zero_point.find<int64_t>(),
          quantization.quant_min, quantization.quant_max, quantization.dtype};
}

// Whether a view or copy reads what was rounded to the same integers.
bool is_rounded_before(const Node* node, const OutputRounding& rounding) {
  if (node == nullptr) return false;
  const std::vector<Value*> inputs = node->inputs();
  return std::ranges::any_of(inputs, [&](const Value* input) {
    const Node* dequantize = input->producer();
    const std::optional<Quantization> before = find_quantization(dequantize);
    return is_dequantize(dequantize) && before && before->has_numbers() &&
           before->scale_number() == rounding.scale &&
           *before->zero_point.find<int64_t>() == rounding.zero_point;
  });
}

class Builder {
 public:
  Builder(const Graph& reference, const Graph& subject, const Twins& twins,
          const ShadowOptions& options)
      : reference_(reference),
        subject_(subject),
        options_(options),
        reference_nodes_(reference.nodes()),
        overwritten_(overwritten_values(subject)) {
    find_rows(twins);
    add_inputs(reference, "reference.", reference_map_);
    add_inputs(subject, "subject.", subject_map_);
    for (size_t i = 0; i < reference_nodes_.size(); ++i) position_[reference_nodes_[i]] = i;
    for (const GraphInput& input : subject.inputs())
      if (input.kind != InputKind::kUserInput && !overwritten_.contains(input.value))
        constant_.insert(input.value);
  }

  ShadowGraph build() && {
    for (const Node* node : subject_.nodes()) {
      const std::vector<Value*> outputs = node->outputs();
      if (depends_on_constants(*node)) {
        constant_.insert(outputs.begin(), outputs.end());
        const bool is_compared =
            std::ranges::any_of(outputs, [&](Value* value) { return row_of_.contains(value); });
        if (!is_compared) continue;  // where it is used first
      }
      copy_of_subject(*node);
      for (const Value* value : outputs) {
        const auto row = row_of_.find(value);
        if (row != row_of_.end()) compare(row->second);
      }
    }
    copy_reference_until(reference_nodes_.size());
    add_mutations(reference_, "reference.", reference_map_);
    for (const GraphOutput& output : subject_.outputs())
      for_each_value(output.value, [&](Value* value) { in_subject(value); });
    add_mutations(subject_, "subject.", subject_map_);
    reference_map_.merge(subject_map_);
    return {std::move(graph_), std::move(rows_), std::move(reference_map_)};
  }

 private:
  // Finds which value of the subject is compared for each twin, and from where other shadows may
  // start.
  void find_rows(const Twins& twins) {
    for (const Twin& twin : twins.pairs) {
      if (!is_float_value(*twin.subject)) continue;
      starts_.emplace(twin.subject, &twin);
      ShadowRow row{.twin = twin, .compared = twin.subject};
      const std::vector<const Node*> roundings = roundings_of(*twin.subject);
      const bool is_rounded = roundings.size() == 1 && twin.subject->has_one_user() &&
                              !dequantizes_of(*roundings.front()).empty();
      if (is_rounded) {
        row.compared = first_in_order(dequantizes_of(*roundings.front()));
        row.rounding = rounding_of(*roundings.front());
        for (const Node* dequantize : dequantizes_of(*roundings.front()))
          starts_.emplace(dequantize->output(), &twin);
      }
      const Node* producer = twin.subject->producer();
      const bool is_shown = (producer != nullptr && computes(*producer)) ||
                            (is_rounded && !is_rounded_before(producer, *row.rounding));
      if (!is_shown) continue;
      row_of_.emplace(row.compared, rows_.size());
      rows_.push_back(std::move(row));
    }
  }

  const Value* first_in_order(const std::vector<const Node*>& nodes) const {
    return (*std::ranges::min_element(
                nodes, [&](const Node* a, const Node* b) { return subject_.is_before(*a, *b); }))
        ->output();
  }

  void add_inputs(const Graph& program, const std::string& prefix, ValueMap& map) {
    // The programs may share tensors; each writes to its own.
    std::unordered_map<const Storage*, std::shared_ptr<Storage>> storages;
    const auto own_tensor = [&](const Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      std::shared_ptr<Storage>& storage = storages[tensor.storage().get()];
      if (storage == nullptr) storage = std::make_shared<Storage>(*tensor.storage());
      return Tensor(storage, tensor.dtype(), tensor.shape(), tensor.strides(), tensor.offset());
    };
    size_t position = 0;
    for (const GraphInput& input : program.inputs()) {
      const bool is_callers =
          input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
      if (is_callers && &map == &subject_map_ && position < callers_.size()) {
        map[input.value] = callers_[position++];
        continue;
      }
      GraphInput own = input;
      if (!is_callers) own.fqn = prefix + input.fqn;
      const std::string name = graph_.fresh_name(input.value->name());
      Value* value = graph_.add_input(own, name, input.value->kind(), input.value->meta);
      clone_value_facts(*input.value, value);
      map[input.value] = value;
      if (is_callers) {
        callers_.push_back(value);
        continue;
      }
      const auto constant = program.constants.find(input.fqn);
      if (constant == program.constants.end()) continue;
      Constant copy = constant->second;
      copy.tensor = own_tensor(copy.tensor);
      graph_.constants.emplace(own.fqn, std::move(copy));
    }
  }

  // Copies the reference's nodes before `end`.
  void copy_reference_until(size_t end) {
    for (; copied_ < end; ++copied_) copy_node(*reference_nodes_[copied_], graph_, reference_map_);
  }

  void compare(size_t index) {
    ShadowRow& row = rows_[index];
    const Node* original = row.twin.reference->producer();
    const size_t position = original == nullptr ? 0 : position_.at(original);
    Argument isolated, before;
    // Before the original op, which may overwrite what it reads.
    if (original != nullptr) copy_reference_until(position);
    Shadow shadow{.own = row.twin.reference};
    bool reaches = true;
    if (Value* value = shadow_of(row.compared, shadow, reaches); value != nullptr && reaches) {
      isolated = scaled(value, row.twin.factors, Scaling::kToReference);
      if (row.rounding)
        before = scaled(shadow_of(row.twin.subject, shadow, reaches), row.twin.factors,
                        Scaling::kToReference);
    }
    if (original != nullptr) copy_reference_until(position + 1);
    Value* subject = scaled(subject_map_.at(row.compared), row.twin.factors, Scaling::kToReference);
    graph_.add_node(kCompareTarget,
                    {{"row", static_cast<int64_t>(index)},
                     {"reference", reference_map_.at(row.twin.reference)},
                     {"subject", subject},
                     {"isolated", isolated},
                     {"before", before}},
                    graph_.fresh_name("compare"));
    Value*& compared = reference_map_.at(row.twin.reference);
    if (options_.gradients) compared = insert_copy("aten.clone.default", compared);
  }

  // Copies constants where they are used: a dequantized weight at the start of the graph would take
  // memory all the time.
  Value* in_subject(const Value* value) {
    if (!subject_map_.contains(value)) copy_of_subject(*value->producer());
    return subject_map_.at(value);
  }

  void copy_of_subject(const Node& node) {
    for (const Value* input : node.inputs()) in_subject(input);
    copy_node(node, graph_, subject_map_);
  }

  struct Shadow {
    // the reference's value of the same twin, which must not be its start
    const Value* own = nullptr;
    ValueMap map = {};
    size_t ops = 0;
  };

  // The value as the subject computes it from the reference's values. REQUIRES: the reference is
  // copied up to these.
  Value* shadow_of(const Value* value, Shadow& shadow, bool& reaches) {
    if (!reaches) return nullptr;
    const auto known = shadow.map.find(value);
    if (known != shadow.map.end()) return known->second;
    const bool is_shared = constant_.contains(value) || value->kind() != ValueKind::kTensor;
    if (is_shared) return shadow.map[value] = in_subject(value);
    const auto start = starts_.find(value);
    if (start != starts_.end() && start->second->reference != shadow.own) {
      const auto copied = reference_map_.find(start->second->reference);
      reaches = copied != reference_map_.end();
      if (!reaches) return nullptr;
      Value* own =
          options_.gradients ? insert_copy("aten.detach.default", copied->second) : copied->second;
      return shadow.map[value] = scaled(own, start->second->factors, Scaling::kToSubject);
    }
    const Node* node = value->producer();
    if (node == nullptr) return shadow.map[value] = subject_map_.at(value);
    if (++shadow.ops > kMostShadowOps) reaches = false;
    for (const Value* input : node->inputs()) shadow_of(input, shadow, reaches);
    if (!reaches) return nullptr;
    for (const Value* written : written_values(*node))
      shadow.map[written] = insert_copy("aten.clone.default", shadow.map.at(written));
    copy_node(*node, graph_, shadow.map);
    return shadow.map.at(value);
  }

  Value* insert_copy(const char* target, Value* value) {
    return graph_
        .insert(target, {{"self", value}}, graph_.fresh_name("copy"), value->meta, nullptr)
        ->output();
  }

  enum class Scaling { kToReference, kToSubject };

  Value* scaled(Value* value, const ChannelFactors& factors, Scaling scaling) {
    if (factors.shape.empty()) return value;
    std::vector<float> numbers;
    for (int exponent : factors.exponents)
      numbers.push_back(std::ldexp(1.0F, scaling == Scaling::kToReference ? exponent : -exponent));
    Value* constant = graph_.add_constant(
        "octet_factors", Tensor::from<float>(DType::kFloat32, factors.shape, numbers));
    return graph_
        .insert("aten.mul.Tensor", {{"self", value}, {"other", constant}},
                graph_.fresh_name("scaled"), value->meta, nullptr)
        ->output();
  }

  // Whether the node gives the same in each run and at any position: it reads only constants, and
  // nobody overwrites its result.
  bool depends_on_constants(const Node& node) const {
    const std::vector<Value*> inputs = node.inputs(), outputs = node.outputs();
    return std::ranges::all_of(inputs,
                               [&](const Value* input) { return constant_.contains(input); }) &&
           std::ranges::none_of(
               outputs, [&](const Value* output) { return overwritten_.contains(output); }) &&
           written_values(node).empty();
  }

  void add_mutations(const Graph& program, const std::string& prefix, const ValueMap& map) {
    for (GraphOutput output : program.outputs()) {
      if (output.kind != OutputKind::kBufferMutation &&
          output.kind != OutputKind::kParameterMutation)
        continue;
      output.target = prefix + output.target;
      rewrite_values(output.value, [&](Value* value) { return map.at(value); });
      graph_.add_output(std::move(output));
    }
  }

  const Graph& reference_;
  const Graph& subject_;
  ShadowOptions options_;
  std::vector<Node*> reference_nodes_;
  std::unordered_set<const Value*> overwritten_;  // values of the subject that are overwritten
  std::unordered_map<const Node*, size_t> position_;
  size_t copied_ = 0;
  Graph graph_;
  std::vector<Value*> callers_;  // inputs of both programs
  ValueMap reference_map_, subject_map_;
  // values of the subject that are the same in each run
  std::unordered_set<const Value*> constant_;
  std::unordered_map<const Value*, const Twin*> starts_;
  std::vector<ShadowRow> rows_;
  std::unordered_map<const Value*, size_t> row_of_;
};

}  // namespace

ShadowGraph make_shadow_graph(const Graph& reference, const Graph& subject, const Twins& twins,
                              const ShadowOptions& options) {
  return Builder(reference, subject, twins, options).build();
}

size_t add_float_outputs(ShadowGraph& shadow, const Graph& reference, const Graph& subject) {
  const std::vector<const Value*> wanted = float_outputs(reference), found = float_outputs(subject);
  if (wanted.size() != found.size())
    throw Error("compare", "the programs",
                fmt::format("have {} and {} float outputs; give programs of the same model",
                            wanted.size(), found.size()));
  for (const std::vector<const Value*>* values : {&wanted, &found})
    for (const Value* value : *values)
      shadow.graph.add_output({.value = shadow.copies.at(value), .target = {}});
  return wanted.size();
}

}  // namespace octet
