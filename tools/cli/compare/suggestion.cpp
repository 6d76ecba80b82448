#include "tools/cli/compare/suggestion.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "annotate/graph/float_ops.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/graph/origin.h"
#include "quantizers/common/module_filter.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Whether settings may change the op: it computes on floats, or its table is quantized.
bool can_change(const Node& node) {
  return computes_on_floats(node) ||
         (node.is("aten.embedding") && is_dequantized(node.find_input("weight")));
}

// The ops that read the value, directly or through its quantize and dequantize ops.
std::vector<const Node*> readers_of(const Value& value) {
  std::vector<const Node*> readers;
  for (const Node* user : value.users()) {
    if (!is_quantize(user) && !is_any_dequantize(user)) {
      readers.push_back(user);
      continue;
    }
    for (const Value* output : user->outputs())
      for (const Node* reader : readers_of(*output)) readers.push_back(reader);
  }
  return readers;
}

// The op before this one in a pattern: its float result is read by this op alone, unquantized. Null
// if there is none.
const Node* before_in_pattern(const Node& op) {
  const std::vector<Value*> inputs = op.inputs();
  const Node* before = inputs.empty() ? nullptr : inputs.front()->producer();
  const bool is_part = before != nullptr && !is_any_dequantize(before) && !is_quantize(before) &&
                       computes_on_floats(*before) && inputs.front()->has_one_user();
  return is_part ? before : nullptr;
}

// The node of the exported program that a node was made from; "" for none. A pass may split one
// node into several.
std::string origin_of(const Node& node) {
  const std::vector<std::string> origins = origins_of(node);
  return origins.empty() ? "" : origins.back();
}

// Adds a row for the node. Rows count calls of ops in the exported program, so nodes with one
// origin count once.
void add_setting(Json& config, const Graph& subject, const Node& node, const Json& setting) {
  const std::string module = innermost_module(node), origin = origin_of(node);
  if (origin.empty()) return;
  // A row of a module also covers its submodules.
  size_t ops = 0, calls = 0, call = 0;
  std::unordered_set<std::string> seen;
  for (const Node* other : subject.nodes()) {
    // The reader of the rows counts all calls of the op, also those that settings cannot change.
    const bool is_counted = other->target() == node.target() || computes_on_floats(*other) ||
                            other->is("aten.embedding");
    if (!is_counted || is_quantize(other) || is_any_dequantize(other)) continue;
    const std::string theirs = origin_of(*other);
    if (theirs.empty() || !seen.insert(theirs).second) continue;
    const std::string own = innermost_module(*other);
    if (own == module || own.starts_with(module + ".")) ++ops;
    if (own != module) continue;
    if (theirs == origin) call = calls;
    calls += other->target() == node.target() ? 1 : 0;
  }
  if (ops == 1 && !module.empty())
    config["module_name"][module] = setting;
  else
    config["call_index"][module][node.target()][std::to_string(call)] = setting;
}

}  // namespace

Remedy find_remedy(const Graph& subject, const Value& value, Cause cause, const Json& setting,
                   Reach reach) {
  if (cause == Cause::kNone || cause == Cause::kAccumulated) return {};
  Remedy remedy;
  if (value.producer() != nullptr && can_change(*value.producer()))
    remedy.ops.push_back(value.producer());
  if (reach == Reach::kPattern && !remedy.ops.empty())
    for (const Node* op = before_in_pattern(*remedy.ops.front()); op != nullptr;
         op = before_in_pattern(*op))
      remedy.ops.push_back(op);
  const bool is_of_tensor =
      cause == Cause::kClipped || cause == Cause::kRounding || cause == Cause::kNarrowChannels;
  if (is_of_tensor || remedy.ops.empty())
    for (const Node* reader : readers_of(value))
      if (computes_on_floats(*reader)) remedy.ops.push_back(reader);
  Json config = Json::object();
  for (const Node* op : remedy.ops) add_setting(config, subject, *op, setting);
  if (!config.empty()) remedy.config = std::move(config);
  return remedy;
}

Json suggest(const Graph& subject, const Value& value, Cause cause) {
  Json setting = nullptr;  // float
  if (cause == Cause::kClipped) setting = {{"act_observer", "min_max"}};
  return find_remedy(subject, value, cause, setting).config;
}

}  // namespace octet
