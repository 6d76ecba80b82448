// Annotates by two rows.
#include "quantizers/cache/quantizer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/ops/memory.h"
#include "quantizers/common/float_report.h"
#include "quantizers/common/weight_only.h"

namespace octet {
namespace {

constexpr int64_t kQuantMax = 127;

// The buffer into whose elements the op copies others; null if it does something else.
Value* find_buffer(const Graph& graph, const Node& node) {
  if (!node.is("aten.index_copy") && !node.is("aten.index_put")) return nullptr;
  Value* buffer = node.find_input("self");
  const bool is_float_buffer = buffer != nullptr && buffer->producer() == nullptr && buffer->meta &&
                               buffer->meta->dtype == DType::kFloat32;
  return is_float_buffer && written_constants(graph).contains(buffer) ? buffer : nullptr;
}

Verdict writes_into_buffer(const RuleMatch& at) {
  const Value* buffer = find_buffer(at.graph, at.anchor());
  if (buffer == nullptr) return Verdict::refuse("it does not write into a buffer of float32");
  const Value* rows = at.match.find("x");
  return rows->meta && rows->meta->dtype == DType::kFloat32
             ? Verdict::accept()
             : Verdict::refuse(fmt::format("%{} is not float32", rows->name()));
}

// Whether the op chooses elements of the last dimension, or by a mask.
bool splits_rows(const Node& node, int64_t rank) {
  if (node.is("aten.index_copy")) return wrap_dim(node.int_or("dim", 0), rank) == rank - 1;
  std::vector<Value*> indices;
  const Argument& given = *node.find_argument("indices");
  if (const OptionalTensors* some = given.find<OptionalTensors>()) indices = some->items;
  if (const std::vector<Value*>* all = given.find<std::vector<Value*>>()) indices = *all;
  const bool has_mask = std::any_of(indices.begin(), indices.end(), [](const Value* index) {
    return index != nullptr && (!index->meta || index->meta->dtype == DType::kBool);
  });
  return has_mask || (indices.size() == static_cast<size_t>(rank) && indices.back() != nullptr);
}

Verdict writes_whole_rows(const RuleMatch& at) {
  const Node& node = at.anchor();
  const std::vector<int64_t> cache = at.match.find("c")->meta->shape(),
                             rows = at.match.find("x")->meta->shape();
  const bool are_whole = cache.size() > 1 && !rows.empty() && rows.back() == cache.back() &&
                         !splits_rows(node, static_cast<int64_t>(cache.size())) &&
                         !node.bool_or("accumulate", false);
  return are_whole ? Verdict::accept()
                   : Verdict::refuse("it does not copy whole rows of the last dimension");
}

Verdict starts_as_zeros(const RuleMatch& at) {
  const Tensor* start = at.graph.find_constant(at.match.find("c"));
  return start != nullptr && start->defined() && has_only_zero_bits(*start)
             ? Verdict::accept()
             : Verdict::refuse("its cache does not start as zeros");
}

// Whether an output of the graph updates a buffer with the value.
bool is_update(const Graph& graph, const Value* value) {
  return std::any_of(
      graph.outputs().begin(), graph.outputs().end(), [&](const GraphOutput& output) {
        return output.kind == OutputKind::kBufferMutation && output.value.value_or_null() == value;
      });
}

// What the buffer held before is read and written by this op alone.
Verdict is_only_use(const RuleMatch& at) {
  const Value* cache = at.match.find("c");
  const Node& node = at.anchor();
  if (!is_in_place(node) && !is_update(at.graph, node.outputs().front()))
    return Verdict::refuse(fmt::format("%{} does not become its result", cache->name()));
  bool is_old = true;
  for (const Node* other : at.graph.nodes()) {
    if (other == &node) is_old = !is_in_place(node);
    if (other == &node) continue;
    if (memory_roots(written_values(*other)).contains(cache))
      return Verdict::refuse(fmt::format("%{} writes into %{} too", other->name(), cache->name()));
    const std::vector<Value*> inputs = other->inputs();
    if (is_old && std::find(inputs.begin(), inputs.end(), cache) != inputs.end())
      return Verdict::refuse(
          fmt::format("%{} reads what %{} held before", other->name(), cache->name()));
  }
  return Verdict::accept();
}

// clang-format off
const std::vector<std::pair<std::string, SlotSpec>> kCacheSlots = {{"x", kInput}};
const std::vector<RuleCheck> kCacheChecks = {writes_into_buffer, writes_whole_rows, starts_as_zeros, is_only_use};

const std::vector<AnnotationRule> kCacheRules = {
    // name        pattern                    inputs       output        checks
    {"kv_cache",   "index_copy(c, _, x)",     kCacheSlots, LeaveFloat{}, kCacheChecks},
    {"kv_cache",   "index_put(c, _..., x)",   kCacheSlots, LeaveFloat{}, kCacheChecks},
};
// clang-format on

}  // namespace

QuantizationConfig get_kv_cache_quantization_config() {
  QuantizationSpec rows = per_token_spec(DType::kInt8, -kQuantMax, kQuantMax);
  rows.observer_or_fake_quant_ctr.affine->mapping_type = MappingType::kSymmetric;
  QuantizationConfig config;
  config.input_activation = std::move(rows);
  return config;
}

KvCacheQuantizer::KvCacheQuantizer(std::string name)
    : ConfigurableQuantizer(std::move(name), {get_kv_cache_quantization_config()}) {}

void KvCacheQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  RuleState state;
  annotate_by_rules(graph, kCacheRules, by_settings(), annotations, state);
  bool has_cache = false;
  for (const Node* node : graph.nodes()) {
    if (find_buffer(graph, *node) == nullptr) continue;
    has_cache = true;
    if (annotations.is_annotated(node)) continue;
    const ConfigTable::Choice choice = config_of(*node);
    const auto refusal = state.refusals.find(node);
    report.add(
        {"annotate", node->name(), node->target(), innermost_module(*node),
         choice.config && refusal != state.refusals.end() ? refusal->second : choice.reason});
  }
  report_float_nodes(graph, annotations, {name(), rows(), {}, state, {}, {}}, report);
  if (!has_cache)
    throw Error(
        "quantizer", name(),
        "the program copies no rows into a float32 buffer, want a cache of keys and values; "
        "export it with a static cache in float32, or leave this quantizer out");
}

}  // namespace octet
