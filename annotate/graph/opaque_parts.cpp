#include "annotate/graph/opaque_parts.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/quantizer.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr std::string_view kSelfPrefix = "L['self'].";

std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

bool is_of_module(const OpaquePart& part) {
  return !part.module.empty() || !part.module_type.empty();
}

// The key in the node's nn_module_stack ("key,path,type;...") of the outermost frame that is the
// part's module, or of its class; "": none. Calls of one module have different keys.
std::string key_of_call(const Node& node, const OpaquePart& part) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  const auto is_it = [&](const ModuleFrame& frame) {
    return part.module.empty() ? is_module_type(frame, part.module_type)
                               : module_path(frame) == part.module;
  };
  const auto found = std::ranges::find_if(frames, is_it);
  if (found == frames.end()) return {};
  const std::string& stack = node.metadata.at("nn_module_stack");
  const size_t at = stack.find("," + found->path + ",");
  const size_t separator = at == 0 ? std::string::npos : stack.rfind(';', at - 1);
  const size_t begin = separator == std::string::npos ? 0 : separator + 1;
  return stack.substr(begin, at - begin) + "#";
}

// Lists of modules are not called, so they have no frame.
bool is_in_list(const Node& node, const std::string& list) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::ranges::any_of(
      frames, [&](const ModuleFrame& frame) { return module_path(frame).starts_with(list + "."); });
}

bool covers(const OpaquePart& part, const Node& node) {
  if (is_of_module(part))
    return !key_of_call(node, part).empty() ||
           (!part.module.empty() && is_in_list(node, part.module));
  if (!part.op.empty()) return is_op_type(node, part.op);
  return std::ranges::any_of(part.ops, [&](const std::string& op) { return is_op_type(node, op); });
}

using Nodes = std::vector<Node*>;

// The nodes of one part, grouped by call.
std::vector<Nodes> split_by_call(const Nodes& nodes, const OpaquePart& part) {
  std::vector<Nodes> result;
  std::unordered_map<std::string, size_t> index;
  for (Node* node : nodes) {
    const auto [place, is_new] = index.try_emplace(key_of_call(*node, part), result.size());
    if (is_new) result.emplace_back();
    result[place->second].push_back(node);
  }
  return result;
}

// The nodes grouped by who reads whom.
std::vector<Nodes> split_by_connection(const Nodes& nodes) {
  std::vector<Nodes> groups;
  std::unordered_map<const Node*, size_t> group_of;
  for (Node* node : nodes) {  // in graph order, so that producers come first
    const size_t own = groups.size();
    groups.push_back({node});
    group_of[node] = own;
    for (const Value* input : node->inputs()) {
      const auto producer = group_of.find(input->producer());
      if (input->producer() == nullptr || producer == group_of.end() ||
          producer->second == group_of[node])
        continue;
      const size_t from = std::max(producer->second, group_of[node]);
      const size_t to = std::min(producer->second, group_of[node]);
      for (const Node* moved : groups[from]) group_of[moved] = to;
      groups[to].insert(groups[to].end(), groups[from].begin(), groups[from].end());
      groups[from].clear();
    }
  }
  std::erase_if(groups, [](const Nodes& group) { return group.empty(); });
  for (Nodes& group : groups)
    std::ranges::sort(group,
                      [](const Node* a, const Node* b) { return a->graph().is_before(*a, *b); });
  return groups;
}

std::vector<Nodes> split(const Nodes& nodes, const OpaquePart& part) {
  const bool is_list =
      !part.module.empty() && !nodes.empty() && key_of_call(*nodes.front(), part).empty();
  if (!part.ops.empty() || is_list) return split_by_connection(nodes);
  if (is_of_module(part)) return split_by_call(nodes, part);
  std::vector<Nodes> result;
  for (Node* node : nodes) result.push_back({node});
  return result;
}

bool is_stored(const Graph& graph, const Value* value) {
  const GraphInput* input = value->producer() == nullptr ? graph.find_input(value) : nullptr;
  return input != nullptr && input->kind != InputKind::kUserInput &&
         input->kind != InputKind::kConstant;
}

struct HooksRow {
  std::string module_type;
  OpaqueHooks hooks;
};

std::vector<HooksRow>& hooks_rows() {
  static std::vector<HooksRow> rows;
  return rows;
}

const HooksRow* find_hooks(const std::string& module_type) {
  for (const HooksRow& row : hooks_rows())
    if (is_module_type({{}, row.module_type}, module_type) ||
        is_module_type({{}, module_type}, row.module_type))
      return &row;
  return nullptr;
}

}  // namespace

std::string module_path(const ModuleFrame& frame) {
  return frame.path.starts_with(kSelfPrefix) ? frame.path.substr(kSelfPrefix.size()) : frame.path;
}

bool is_module_type(const ModuleFrame& frame, const std::string& wanted) {
  if (frame.type == wanted) return true;
  return wanted.starts_with("torch.nn.") && !wanted.starts_with("torch.nn.modules.") &&
         frame.type.starts_with("torch.nn.modules.") && last_part(frame.type) == last_part(wanted);
}

bool is_op_type(const Node& node, const std::string& op) {
  return node.is(op) || (op.find('.') == std::string::npos && node.is("aten." + op));
}

std::string name_of(const OpaquePart& part) {
  if (!part.module.empty()) return fmt::format("module \"{}\"", part.module);
  if (!part.module_type.empty()) return fmt::format("module_type \"{}\"", part.module_type);
  if (!part.op.empty()) return "op " + part.op;
  return fmt::format("ops {}", fmt::join(part.ops, ", "));
}

void check_opaque_part(const OpaquePart& part) {
  const int set = (part.module.empty() ? 0 : 1) + (part.module_type.empty() ? 0 : 1) +
                  (part.op.empty() ? 0 : 1) + (part.ops.empty() ? 0 : 1);
  if (set != 1)
    throw Error("quantizer", "opaque part",
                fmt::format("names {}, want exactly one of module, module_type, op and ops",
                            set == 0 ? "nothing" : "several kinds of ops"));
  if (part.is_recorded && part.quantizer)
    throw Error("quantizer", name_of(part),
                "is recorded and has a quantizer, whose observers would see no data; leave out one "
                "of them");
  if (part.quantizer && part.quantizer->opaque_parts() != nullptr &&
      !part.quantizer->opaque_parts()->empty())
    throw Error(
        "quantizer", name_of(part),
        "has a quantizer that itself has opaque parts; list those before this part instead");
  if (part.is_recorded && part.float_to_observed)
    throw Error("quantizer", name_of(part),
                "is recorded and has a hook float_to_observed, whose nodes would not run; leave "
                "out one of them");
  for (const auto& [index, spec] : part.quantized_inputs)
    if (std::holds_alternative<SameAsInput>(spec) && std::get<SameAsInput>(spec).index >= index)
      throw Error("quantizer", name_of(part),
                  fmt::format("input {} is to be like input {}, want an earlier one", index,
                              std::get<SameAsInput>(spec).index));
}

void refresh_border(const Graph& graph, Island& island) {
  island.inputs.clear();
  island.outputs.clear();
  const std::unordered_set<const Node*> inside(island.nodes.begin(), island.nodes.end());
  std::unordered_set<const Value*> seen;
  for (const Node* node : island.nodes) {
    for (Value* input : node->inputs())
      if (input->kind() == ValueKind::kTensor && !inside.contains(input->producer()) &&
          !is_stored(graph, input) && seen.insert(input).second)
        island.inputs.push_back(input);
    for (Value* output : node->outputs()) {
      const auto is_outside = [&](const Node* user) { return !inside.contains(user); };
      const bool is_read = output->is_output() || std::ranges::any_of(output->users(), is_outside);
      if (output->kind() == ValueKind::kTensor && is_read) island.outputs.push_back(output);
    }
  }
}

std::vector<Island> find_islands(const Graph& graph, std::span<const OpaquePart> parts) {
  std::vector<Nodes> covered(parts.size());
  for (Node* node : graph.nodes())
    for (size_t i = 0; i < parts.size(); ++i)
      if (covers(parts[i], *node)) {
        covered[i].push_back(node);
        break;
      }
  std::vector<Island> islands;
  for (size_t i = 0; i < parts.size(); ++i)
    for (Nodes& nodes : split(covered[i], parts[i])) {
      Island island;
      island.name = name_of(parts[i]);
      island.part = i;
      island.nodes = std::move(nodes);
      island.is_recorded = parts[i].is_recorded;
      island.has_quantizer = parts[i].quantizer != nullptr;
      island.observed_to_quantized = parts[i].observed_to_quantized;
      refresh_border(graph, island);
      islands.push_back(std::move(island));
    }
  return islands;
}

void refresh_island(const Graph& graph, const std::vector<Node*>& outside, Island& island) {
  const std::unordered_set<const Node*> others(outside.begin(), outside.end());
  island.nodes.clear();
  for (Node* node : graph.nodes())
    if (!others.contains(node)) island.nodes.push_back(node);
  refresh_border(graph, island);
}

void register_opaque_hooks(const std::string& module_type, OpaqueHooks hooks) {
  const std::string subject = fmt::format("opaque hooks of \"{}\"", module_type);
  if (module_type.empty())
    throw Error("quantizer", subject, "the class is empty, want e.g. \"my.Lstm\"");
  if (!hooks.float_to_observed && !hooks.observed_to_quantized)
    throw Error("quantizer", subject, "got no hook, want at least one of the two");
  if (const HooksRow* row = find_hooks(module_type))
    throw Error("quantizer", subject,
                fmt::format("the class has hooks already, as \"{}\"; register one pair for each",
                            row->module_type));
  hooks_rows().push_back({module_type, std::move(hooks)});
}

OpaquePart with_registered_hooks(OpaquePart part) {
  if (part.module_type.empty() || part.float_to_observed || part.observed_to_quantized) return part;
  if (const HooksRow* row = find_hooks(part.module_type)) {
    part.float_to_observed = row->hooks.float_to_observed;
    part.observed_to_quantized = row->hooks.observed_to_quantized;
  }
  return part;
}

}  // namespace octet
