// Matching of nodes by module and op, and the precedence among the rows.
#include "quantizers/common/module_filter.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"

namespace octet {

namespace {

constexpr std::string_view kSelfPrefix = "L['self'].";

std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

void set_row(ConfigTable::Rows& rows, const char* kind, const std::string& key,
             ConfigTable::Config config) {
  if (key.empty())
    throw Error("quantizer", kind,
                "the name is empty, want e.g. \"block.conv\"; use global for the whole model");
  for (auto& [name, row] : rows)
    if (name == key) {
      row = std::move(config);
      return;
    }
  rows.emplace_back(key, std::move(config));
}

ConfigTable::Choice choose(const char* kind, const std::string& key,
                           const ConfigTable::Config& config) {
  if (config) return {&*config, {}};
  return {nullptr, "excluded by " + describe_row(kind, key)};
}

}  // namespace

std::string module_path(const ModuleFrame& frame) {
  return frame.path.starts_with(kSelfPrefix) ? frame.path.substr(kSelfPrefix.size()) : frame.path;
}

std::string innermost_module(const Node& node) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return frames.empty() ? std::string() : module_path(frames.back());
}

bool is_module_type(const ModuleFrame& frame, const std::string& wanted) {
  if (frame.type == wanted) return true;
  return wanted.starts_with("torch.nn.") && !wanted.starts_with("torch.nn.modules.") &&
         frame.type.starts_with("torch.nn.modules.") && last_part(frame.type) == last_part(wanted);
}

bool is_in_module(const Node& node, const std::string& name) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::any_of(frames.begin(), frames.end(),
                     [&](const ModuleFrame& frame) { return module_path(frame) == name; });
}

bool is_in_module_like(const Node& node, const ModuleRegex& regex) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::any_of(frames.begin(), frames.end(),
                     [&](const ModuleFrame& frame) { return regex.matches(module_path(frame)); });
}

bool is_in_module_type(const Node& node, const std::string& type) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::any_of(frames.begin(), frames.end(),
                     [&](const ModuleFrame& frame) { return is_module_type(frame, type); });
}

bool is_op_type(const Node& node, const std::string& op) {
  return node.is(op) || (op.find('.') == std::string::npos && node.is("aten." + op));
}

bool is_call(const Node& node, const CallIndex& call) {
  const auto is_counted = [&](const Node& other) {
    return is_op_type(other, call.op) && innermost_module(other) == call.module;
  };
  if (!is_counted(node)) return false;
  int64_t index = 0;
  for (const Node* other : node.graph().nodes()) {
    if (other == &node) break;
    if (is_counted(*other)) ++index;
  }
  return index == call.index;
}

std::string describe(const CallIndex& call) {
  return fmt::format("call_index {} of {} in module \"{}\"", call.index, call.op, call.module);
}

std::string describe_row(const char* kind, const std::string& key) {
  return fmt::format("{} \"{}\"", kind, key);
}

void refuse_in_compat(Compat compat, const std::string& kind) {
  if (compat == Compat::kTorchao)
    throw Error("quantizer", kind,
                "torchao's quantizers have no such setting; leave out --compat torchao");
}

void ConfigTable::set_global(Config config) { global_ = std::move(config); }
void ConfigTable::set_module_name(const std::string& name, Config config) {
  set_row(module_names_, "module_name", name, std::move(config));
  places_[describe_row("module_name", name)] = place_;
}
void ConfigTable::set_module_type(const std::string& type, Config config) {
  set_row(module_types_, "module_type", type, std::move(config));
  places_[describe_row("module_type", type)] = place_;
}
void ConfigTable::set_operator_type(const std::string& op, Config config) {
  set_row(operator_types_, "op_type", op, std::move(config));
  places_[describe_row("op_type", op)] = place_;
}

void ConfigTable::set_module_name_regex(const std::string& regex, Config config) {
  if (regex.empty())
    throw Error("quantizer", "module_name_regex",
                "the expression is empty, want e.g. \"layers\\..*\"");
  const auto same = [&](const RegexRow& row) { return row.regex->text() == regex; };
  const auto found = std::find_if(module_regexes_.begin(), module_regexes_.end(), same);
  if (found != module_regexes_.end())
    found->config = std::move(config);
  else
    module_regexes_.push_back({std::make_shared<ModuleRegex>(regex), std::move(config)});
  places_[describe_row("module_name_regex", regex)] = place_;
}

void ConfigTable::set_call_index(const CallIndex& call, Config config) {
  if (call.op.empty())
    throw Error("quantizer", "call_index", "the op is empty, want e.g. \"aten.linear.default\"");
  if (call.index < 0)
    throw Error("quantizer", describe(call),
                fmt::format("got the index {}, want 0 or more", call.index));
  const auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const CallRow& row) { return row.call == call; });
  if (found != calls_.end())
    found->config = std::move(config);
  else
    calls_.push_back({call, std::move(config)});
  places_[describe(call)] = place_;
}

std::string ConfigTable::place_of(const std::string& row) const {
  const std::map<std::string, std::string>::const_iterator found = places_.find(row);
  return found == places_.end() ? std::string() : found->second;
}

const ConfigTable::Config* ConfigTable::find_module_regex(const std::string& regex) const {
  const auto found = std::find_if(module_regexes_.begin(), module_regexes_.end(),
                                  [&](const RegexRow& row) { return row.regex->text() == regex; });
  return found == module_regexes_.end() ? nullptr : &found->config;
}

const ConfigTable::Config* ConfigTable::find_call_index(const CallIndex& call) const {
  const auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const CallRow& row) { return row.call == call; });
  return found == calls_.end() ? nullptr : &found->config;
}

std::vector<const ConfigTable::Config*> ConfigTable::all() const {
  std::vector<const Config*> result;
  for (const Rows* rows : {&module_names_, &module_types_, &operator_types_})
    for (const auto& [key, config] : *rows) result.push_back(&config);
  for (const RegexRow& row : module_regexes_) result.push_back(&row.config);
  for (const CallRow& row : calls_) result.push_back(&row.config);
  if (global_) result.push_back(&*global_);
  return result;
}

namespace {

// "layers" covers the module "layers.0" too: it may be a list, which is no module that is called.
bool covers(const std::string& name, const std::string& path) {
  return path == name || path.starts_with(name + ".");
}

// The row of the longest name that covers the path; null when none does.
const std::pair<std::string, ConfigTable::Config>* find_covering(const ConfigTable::Rows& rows,
                                                                 const std::string& path) {
  const std::pair<std::string, ConfigTable::Config>* found = nullptr;
  for (const std::pair<std::string, ConfigTable::Config>& row : rows)
    if (covers(row.first, path) && (found == nullptr || row.first.size() > found->first.size()))
      found = &row;
  return found;
}

}  // namespace

ConfigTable::Choice ConfigTable::find(const Node& node) const {
  for (const CallRow& row : calls_)
    if (is_call(node, row.call))
      return row.config ? Choice{&*row.config, {}}
                        : Choice{nullptr, "excluded by " + describe(row.call)};
  if (!module_names_.empty() || !module_types_.empty() || !module_regexes_.empty()) {
    std::vector<ModuleFrame> frames = module_stack(node);
    std::reverse(frames.begin(), frames.end());
    for (const ModuleFrame& frame : frames)
      if (const std::pair<std::string, Config>* row =
              find_covering(module_names_, module_path(frame)))
        return choose("module_name", row->first, row->second);
    for (const ModuleFrame& frame : frames)
      for (const RegexRow& row : module_regexes_)
        if (row.regex->matches(module_path(frame)))
          return choose("module_name_regex", row.regex->text(), row.config);
    for (const ModuleFrame& frame : frames)
      for (const auto& [type, config] : module_types_)
        if (is_module_type(frame, type)) return choose("module_type", type, config);
  }
  for (const auto& [op, config] : operator_types_)
    if (is_op_type(node, op)) return choose("op_type", op, config);
  if (!global_) return {nullptr, "no configuration covers it and there is no global one"};
  if (!*global_) return {nullptr, "excluded by the global configuration"};
  return {&**global_, {}};
}

std::vector<std::string> ConfigTable::unused_rows(const Graph& graph) const {
  std::vector<Node*> nodes = graph.nodes();
  for (const Body& body : bodies_within(graph)) {
    const std::vector<Node*> inner = body.graph->nodes();
    nodes.insert(nodes.end(), inner.begin(), inner.end());
  }
  std::vector<std::string> unused;
  const auto collect = [&](const char* kind, const Rows& rows,
                           bool (*applies)(const Node&, const std::string&)) {
    for (const auto& [key, config] : rows)
      if (std::none_of(nodes.begin(), nodes.end(),
                       [&](const Node* node) { return applies(*node, key); }))
        unused.push_back(describe_row(kind, key));
  };
  collect("module_name", module_names_, [](const Node& node, const std::string& name) {
    const std::vector<ModuleFrame> frames = module_stack(node);
    return std::any_of(frames.begin(), frames.end(),
                       [&](const ModuleFrame& frame) { return covers(name, module_path(frame)); });
  });
  for (const RegexRow& row : module_regexes_)
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](const Node* node) { return is_in_module_like(*node, *row.regex); }))
      unused.push_back(describe_row("module_name_regex", row.regex->text()));
  collect("module_type", module_types_, is_in_module_type);
  collect("op_type", operator_types_, is_op_type);
  for (const CallRow& row : calls_)
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](const Node* node) { return is_call(*node, row.call); }))
      unused.push_back(describe(row.call));
  return unused;
}

}  // namespace octet
