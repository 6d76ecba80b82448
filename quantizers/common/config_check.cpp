#include "quantizers/common/config_check.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/graph/control_flow.h"
#include "core/base/closest_names.h"
#include "core/base/error.h"
#include "core/ops/op_schema.h"

namespace octet {

namespace {

constexpr size_t kShownNames = 3;

// "the closest: block, block.fc, head"
std::string closest(const std::string& wanted, const std::set<std::string>& known,
                    const char* plural) {
  if (known.empty()) return fmt::format("which has no {}", plural);
  const std::vector<std::string> names = closest_names(wanted, known, kShownNames);
  return fmt::format("the closest: {}", fmt::join(names, ", "));
}

// Whether LibTorch has the op. A name without overload may mean any; the common ones are tried.
bool is_known_op(const std::string& op) {
  constexpr std::array<const char*, 9> kOverloads = {
      "", ".default", ".Tensor", ".int", ".dim", ".input", ".vec", ".using_ints", ".Scalar"};
  for (const char* overload : kOverloads)
    if (find_op_schema(op + overload) || find_op_schema("aten." + op + overload)) return true;
  return false;
}

// Names in the nodes of a model.
class ModelNames {
 public:
  explicit ModelNames(const Graph& model) {
    add(model);
    for (const Body& body : bodies_within(model)) add(*body.graph);
  }

  const std::set<std::string>& modules() const { return modules_; }
  // Modules, and containers that are not called, such as lists of modules.
  const std::set<std::string>& paths() const { return paths_; }
  const std::set<std::string>& types() const { return types_; }
  const std::set<std::string>& ops() const { return ops_; }
  const std::vector<const Graph*>& graphs() const { return graphs_; }

  bool has_module_type(const std::string& wanted) const {
    return std::ranges::any_of(
        types_, [&](const std::string& type) { return is_module_type({{}, type}, wanted); });
  }
  bool has_op(const std::string& op) const {
    const auto has_one = [&](const Graph* graph) {
      const std::vector<Node*> nodes = graph->nodes();
      return std::ranges::any_of(nodes, [&](const Node* node) { return is_op_type(*node, op); });
    };
    return std::ranges::any_of(graphs_, has_one);
  }

 private:
  void add(const Graph& graph) {
    graphs_.push_back(&graph);
    for (const Node* node : graph.nodes()) {
      ops_.insert(node->target());
      for (const ModuleFrame& frame : module_stack(*node)) {
        types_.insert(frame.type);
        const std::string path = module_path(frame);
        if (path.empty()) continue;
        modules_.insert(path);
        for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1))
          paths_.insert(path.substr(0, end));
        paths_.insert(path);
      }
    }
  }

  std::set<std::string> modules_;
  std::set<std::string> paths_;
  std::set<std::string> types_;
  std::set<std::string> ops_;
  std::vector<const Graph*> graphs_;
};

// The largest number of calls in one graph of the model or its bodies, and the ops that the module
// calls directly.
int64_t count_calls(const ModelNames& names, const CallIndex& call, std::set<std::string>& ops) {
  int64_t most = 0;
  for (const Graph* graph : names.graphs()) {
    int64_t count = 0;
    for (const Node* node : graph->nodes()) {
      if (innermost_module(*node) != call.module) continue;
      ops.insert(node->target());
      if (is_op_type(*node, call.op)) ++count;
    }
    most = std::max(most, count);
  }
  return most;
}

// Empty when the call exists.
std::string objection(const ModelNames& names, const CallIndex& call) {
  if (!call.module.empty() && !names.modules().contains(call.module))
    return fmt::format("\"{}\" is not a module of the model, {}", call.module,
                       closest(call.module, names.modules(), "modules"));
  std::set<std::string> ops;
  const int64_t count = count_calls(names, call, ops);
  if (call.index < count) return {};
  if (count == 0)
    return fmt::format("the module itself (without its submodules) has no such op, {}",
                       closest(call.op, ops, "ops of it"));
  return fmt::format("the module calls the op {} time{}, want an index of 0 .. {}", count,
                     count == 1 ? "" : "s", count - 1);
}

}  // namespace

void check_rows(const ConfigTable& table, const std::string& quantizer, const Graph& model) {
  const bool has_rows = !table.module_names().empty() || !table.module_types().empty() ||
                        !table.operator_types().empty() || !table.module_regexes().empty() ||
                        !table.calls().empty();
  if (!has_rows) return;
  const ModelNames names(model);
  const auto refuse = [&](const RowKey& row, const std::string& message) {
    const std::string place = table.place_of(row);
    throw Error("quantizer", place.empty() ? quantizer : place, describe(row) + message);
  };
  for (const auto& [name, config] : table.module_names())
    if (!names.paths().contains(name))
      refuse({RowKind::kModuleName, name}, fmt::format(" is not a module of the model, {}",
                                                       closest(name, names.paths(), "modules")));
  for (const ConfigTable::RegexRow& row : table.module_regexes()) {
    const std::string& text = row.regex->text();
    if (std::ranges::none_of(names.modules(),
                             [&](const std::string& path) { return row.regex->matches(path); }))
      refuse({RowKind::kModuleNameRegex, text},
             fmt::format(" does not match the whole path of any module of the model, {}",
                         closest(text, names.modules(), "modules")));
  }
  for (const auto& [type, config] : table.module_types())
    if (!names.has_module_type(type))
      refuse({RowKind::kModuleType, type},
             fmt::format(" is not the type of any module of the model, {}",
                         closest(type, names.types(), "types")));
  for (const auto& [op, config] : table.operator_types())
    if (!names.has_op(op) && !is_known_op(op))
      refuse({RowKind::kOpType, op},
             fmt::format(" is not an op, {}", closest(op, names.ops(), "ops")));
  for (const ConfigTable::CallRow& row : table.calls())
    if (const std::string reason = objection(names, row.call); !reason.empty())
      refuse({RowKind::kCallIndex, {}, row.call}, ": " + reason);
}

void check_opaque_parts(const std::vector<OpaquePart>& parts, const Graph& model) {
  const ModelNames names(model);
  for (const OpaquePart& part : parts) {
    const std::string subject = part.place.empty() ? "opaque part" : part.place;
    if (!part.module.empty() && !names.paths().contains(part.module))
      throw Error("quantizer", subject,
                  fmt::format("module \"{}\" is not a module of the model, {}", part.module,
                              closest(part.module, names.paths(), "modules")));
    if (!part.module_type.empty() && !names.has_module_type(part.module_type))
      throw Error("quantizer", subject,
                  fmt::format("module_type \"{}\" is not the type of any module of the model, {}",
                              part.module_type, closest(part.module_type, names.types(), "types")));
    std::vector<std::string> ops = part.ops;
    if (!part.op.empty()) ops.push_back(part.op);
    for (const std::string& op : ops)
      if (!names.has_op(op) && !is_known_op(op))
        throw Error("quantizer", subject,
                    fmt::format("op \"{}\" is neither in the model nor known, {}", op,
                                closest(op, names.ops(), "ops")));
  }
}

}  // namespace octet
