// Matching of nodes by module and op, and the precedence among the rows.
#include "quantizers/module_filter.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"

namespace octet {

namespace {

constexpr std::string_view kSelfPrefix = "L['self'].";

std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

void set_row(ConfigTable::Rows& rows, const char* kind, const std::string& key, ConfigTable::Config config) {
  if (key.empty()) throw Error("quantizer", kind, "the name is empty, want e.g. \"block.conv\"; use global for the whole model");
  for (auto& [name, row] : rows)
    if (name == key) {
      row = std::move(config);
      return;
    }
  rows.emplace_back(key, std::move(config));
}

ConfigTable::Choice choose(const char* kind, const std::string& key, const ConfigTable::Config& config) {
  if (config) return {&*config, {}};
  return {nullptr, fmt::format("excluded by {} \"{}\"", kind, key)};
}

}  // namespace

std::string module_path(const ModuleFrame& frame) { return frame.path.starts_with(kSelfPrefix) ? frame.path.substr(kSelfPrefix.size()) : frame.path; }

bool is_module_type(const ModuleFrame& frame, const std::string& wanted) {
  if (frame.type == wanted) return true;
  return wanted.starts_with("torch.nn.") && !wanted.starts_with("torch.nn.modules.") && frame.type.starts_with("torch.nn.modules.") &&
         last_part(frame.type) == last_part(wanted);
}

bool is_in_module(const Node& node, const std::string& name) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::any_of(frames.begin(), frames.end(), [&](const ModuleFrame& frame) { return module_path(frame) == name; });
}

bool is_in_module_type(const Node& node, const std::string& type) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::any_of(frames.begin(), frames.end(), [&](const ModuleFrame& frame) { return is_module_type(frame, type); });
}

bool is_op_type(const Node& node, const std::string& op) { return node.is(op) || (op.find('.') == std::string::npos && node.is("aten." + op)); }

void ConfigTable::set_global(Config config) { global_ = std::move(config); }
void ConfigTable::set_module_name(const std::string& name, Config config) { set_row(module_names_, "module_name", name, std::move(config)); }
void ConfigTable::set_module_type(const std::string& type, Config config) { set_row(module_types_, "module_type", type, std::move(config)); }
void ConfigTable::set_operator_type(const std::string& op, Config config) { set_row(operator_types_, "op_type", op, std::move(config)); }

ConfigTable::Choice ConfigTable::find(const Node& node) const {
  if (!module_names_.empty() || !module_types_.empty()) {
    const std::vector<ModuleFrame> frames = module_stack(node);
    for (std::vector<ModuleFrame>::const_reverse_iterator frame = frames.rbegin(); frame != frames.rend(); ++frame)
      for (const auto& [name, config] : module_names_)
        if (module_path(*frame) == name) return choose("module_name", name, config);
    for (std::vector<ModuleFrame>::const_reverse_iterator frame = frames.rbegin(); frame != frames.rend(); ++frame)
      for (const auto& [type, config] : module_types_)
        if (is_module_type(*frame, type)) return choose("module_type", type, config);
  }
  for (const auto& [op, config] : operator_types_)
    if (is_op_type(node, op)) return choose("op_type", op, config);
  if (!global_) return {nullptr, "no configuration covers it and there is no global one"};
  if (!*global_) return {nullptr, "excluded by the global configuration"};
  return {&**global_, {}};
}

std::vector<std::string> ConfigTable::unused_rows(const Graph& graph) const {
  const std::vector<Node*> nodes = graph.nodes();
  std::vector<std::string> unused;
  const auto collect = [&](const char* kind, const Rows& rows, bool (*applies)(const Node&, const std::string&)) {
    for (const auto& [key, config] : rows)
      if (std::none_of(nodes.begin(), nodes.end(), [&](const Node* node) { return applies(*node, key); }))
        unused.push_back(fmt::format("{} \"{}\"", kind, key));
  };
  collect("module_name", module_names_, is_in_module);
  collect("module_type", module_types_, is_in_module_type);
  collect("op_type", operator_types_, is_op_type);
  return unused;
}

}  // namespace octet
