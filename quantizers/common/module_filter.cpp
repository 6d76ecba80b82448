#include "quantizers/common/module_filter.h"

#include <algorithm>
#include <array>
#include <regex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"

namespace octet {
namespace {

// The library's parser and matcher recurse as deep as the text is long, so its length is limited.
constexpr size_t kMaxTextLength = 500;
constexpr size_t kMaxPathLength = 1000;

using namespace std::regex_constants;
const std::array<std::pair<error_type, const char*>, 9> kFaults = {
    {{error_complexity,
      "it has a back reference, which may take forever to match; spell out what it stands for"},
     {error_paren, "a ( or ) is unmatched, or a * + ? { repeats nothing"},
     {error_brack, "a [ or ] is unmatched"},
     {error_brace, "a { or } is unmatched"},
     {error_badbrace, "the braces hold no range, want e.g. {1,3}"},
     {error_range, "the range in [ ] is empty, want e.g. [a-z]"},
     {error_escape, "a \\ comes before a character that it cannot escape, or at the end"},
     {error_badrepeat, "a * + ? or { repeats nothing, want e.g. .*"},
     {error_backref, "a back reference names a group that does not exist"}}};

std::string fault_of(const std::regex_error& error) {
  for (const auto& [code, text] : kFaults)
    if (error.code() == code) return text;
  return "it is malformed or too complex";
}

Error fault(const std::string& text, const std::string& message) {
  return Error("quantizer", fmt::format("module_name_regex \"{}\"", text),
               "not a regular expression (ECMAScript): " + message);
}

// Selects the matcher that takes polynomial rather than exponential time; libstdc++ has both.
#ifdef __GLIBCXX__
constexpr std::regex::flag_type kSyntax = std::regex::ECMAScript | __polynomial;
#else
constexpr std::regex::flag_type kSyntax = std::regex::ECMAScript;
#endif

std::regex compile(const std::string& text) {
  if (text.size() > kMaxTextLength)
    throw fault(text.substr(0, 20) + "...",
                fmt::format("got {} characters, want at most {}", text.size(), kMaxTextLength));
  try {
    return std::regex(text, kSyntax);
  } catch (const std::regex_error& error) {
    throw fault(text, fault_of(error));
  }
}

// The configuration of a row of any kind.
template <typename Row>
auto& row_config(Row& row) {
  if constexpr (requires { row.config; })
    return row.config;
  else
    return row.second;
}

}  // namespace

struct ModuleRegex::State {
  std::string text;
  std::regex regex;
  std::unordered_map<std::string, bool> answers;  // by path
};

ModuleRegex::ModuleRegex(const std::string& text) : state_(new State{text, compile(text), {}}) {}
ModuleRegex::~ModuleRegex() = default;
ModuleRegex::ModuleRegex(ModuleRegex&&) noexcept = default;
ModuleRegex& ModuleRegex::operator=(ModuleRegex&&) noexcept = default;

const std::string& ModuleRegex::text() const { return state_->text; }

bool ModuleRegex::matches(const std::string& path) const {
  if (path.size() > kMaxPathLength) return false;
  const auto [answer, is_new] = state_->answers.emplace(path, false);
  if (!is_new) return answer->second;
  try {
    answer->second = std::regex_match(path, state_->regex);
  } catch (const std::regex_error&) {
    throw Error(
        "quantizer", fmt::format("module_name_regex \"{}\"", text()),
        fmt::format("too many ways to match module \"{}\", want a simpler expression", path));
  }
  return answer->second;
}

std::string innermost_module(const Node& node) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return frames.empty() ? std::string() : module_path(frames.back());
}

bool is_in_module(const Node& node, const std::string& name) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::ranges::any_of(frames,
                             [&](const ModuleFrame& frame) { return module_path(frame) == name; });
}

bool is_in_module_like(const Node& node, const ModuleRegex& regex) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::ranges::any_of(
      frames, [&](const ModuleFrame& frame) { return regex.matches(module_path(frame)); });
}

bool is_in_module_type(const Node& node, const std::string& type) {
  const std::vector<ModuleFrame> frames = module_stack(node);
  return std::ranges::any_of(frames,
                             [&](const ModuleFrame& frame) { return is_module_type(frame, type); });
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

const char* name_of(RowKind kind) {
  constexpr const char* kNames[] = {"global",      "op_type",   "module_type", "module_name_regex",
                                    "module_name", "call_index"};
  return kNames[static_cast<size_t>(kind)];
}

std::string describe(const RowKey& row) {
  if (row.kind == RowKind::kGlobal) return "the global configuration";
  if (row.kind == RowKind::kCallIndex)
    return fmt::format("call_index {} of {} in module \"{}\"", row.call.index, row.call.op,
                       row.call.module);
  return fmt::format("{} \"{}\"", name_of(row.kind), row.name);
}

void refuse_in_compat(Compat compat, RowKind kind) {
  const bool is_lacking = kind == RowKind::kModuleNameRegex || kind == RowKind::kCallIndex;
  if (compat == Compat::kTorchao && is_lacking)
    throw Error("quantizer", name_of(kind),
                "torchao's quantizers have no such setting; leave out --compat torchao");
}

namespace {

void check_row(const RowKey& row) {
  if (row.kind == RowKind::kGlobal) return;
  if (row.kind == RowKind::kCallIndex) {
    if (row.call.op.empty())
      throw Error("quantizer", "call_index", "the op is empty, want e.g. \"aten.linear.default\"");
    if (row.call.index < 0)
      throw Error("quantizer", describe(row),
                  fmt::format("got the index {}, want 0 or more", row.call.index));
    return;
  }
  if (!row.name.empty()) return;
  const bool is_regex = row.kind == RowKind::kModuleNameRegex;
  throw Error("quantizer", name_of(row.kind),
              is_regex ? "the expression is empty, want e.g. \"layers\\..*\""
                       : "the name is empty, want e.g. \"block.conv\"; use global for the whole "
                         "model");
}

}  // namespace

template <typename Table>
auto& ConfigTable::rows_of(Table& table, RowKind kind) {
  return kind == RowKind::kModuleName   ? table.module_names_
         : kind == RowKind::kModuleType ? table.module_types_
                                        : table.operator_types_;
}

// Null when not found.
template <typename Table>
auto* ConfigTable::find_in(Table& table, const RowKey& row) {
  using Found = decltype(&*table.global_);
  const auto config_in = [&](auto& rows, const auto& same) -> Found {
    const auto found = std::ranges::find_if(rows, same);
    return found == rows.end() ? nullptr : &row_config(*found);
  };
  if (row.kind == RowKind::kGlobal) return table.global_ ? &*table.global_ : Found(nullptr);
  if (row.kind == RowKind::kModuleNameRegex)
    return config_in(table.module_regexes_,
                     [&](const RegexRow& other) { return other.regex->text() == row.name; });
  if (row.kind == RowKind::kCallIndex)
    return config_in(table.calls_, [&](const CallRow& other) { return other.call == row.call; });
  return config_in(rows_of(table, row.kind),
                   [&](const auto& other) { return other.first == row.name; });
}

void ConfigTable::set(const RowKey& row, Config config, const std::string& place) {
  check_row(row);
  if (Config* known = find_in(*this, row))
    *known = std::move(config);
  else if (row.kind == RowKind::kGlobal)
    global_ = std::move(config);
  else if (row.kind == RowKind::kModuleNameRegex)
    module_regexes_.push_back({std::make_shared<ModuleRegex>(row.name), std::move(config)});
  else if (row.kind == RowKind::kCallIndex)
    calls_.push_back({row.call, std::move(config)});
  else
    rows_of(*this, row.kind).emplace_back(row.name, std::move(config));
  places_[describe(row)] = place;
}

std::string ConfigTable::place_of(const RowKey& row) const {
  const std::map<std::string, std::string>::const_iterator found = places_.find(describe(row));
  return found == places_.end() ? std::string() : found->second;
}

const ConfigTable::Config* ConfigTable::find_row(const RowKey& row) const {
  return find_in(*this, row);
}

std::vector<std::pair<RowKey, const ConfigTable::Config*>> ConfigTable::all() const {
  std::vector<std::pair<RowKey, const Config*>> result;
  for (RowKind kind : {RowKind::kModuleName, RowKind::kModuleType, RowKind::kOpType})
    for (const auto& [name, config] : rows_of(*this, kind))
      result.emplace_back(RowKey{kind, name}, &config);
  for (const RegexRow& row : module_regexes_)
    result.emplace_back(RowKey{RowKind::kModuleNameRegex, row.regex->text()}, &row.config);
  for (const CallRow& row : calls_)
    result.emplace_back(RowKey{RowKind::kCallIndex, {}, row.call}, &row.config);
  if (global_) result.emplace_back(RowKey{}, &*global_);
  return result;
}

namespace {

// "layers" also covers the module "layers.0": it may be a list, which is not a called module.
bool covers(const std::string& name, const std::string& path) {
  return path == name || path.starts_with(name + ".");
}

// The row with the longest name that covers the path; null when none does.
const std::pair<std::string, ConfigTable::Config>* find_covering(const ConfigTable::Rows& rows,
                                                                 const std::string& path) {
  const std::pair<std::string, ConfigTable::Config>* found = nullptr;
  for (const std::pair<std::string, ConfigTable::Config>& row : rows)
    if (covers(row.first, path) && (found == nullptr || row.first.size() > found->first.size()))
      found = &row;
  return found;
}

}  // namespace

std::optional<RowKey> ConfigTable::row_of(const Node& node) const {
  for (const CallRow& row : calls_)
    if (is_call(node, row.call)) return RowKey{RowKind::kCallIndex, {}, row.call};
  if (!module_names_.empty() || !module_types_.empty() || !module_regexes_.empty()) {
    std::vector<ModuleFrame> frames = module_stack(node);
    std::ranges::reverse(frames);
    for (const ModuleFrame& frame : frames)
      if (const std::pair<std::string, Config>* row =
              find_covering(module_names_, module_path(frame)))
        return RowKey{RowKind::kModuleName, row->first};
    for (const ModuleFrame& frame : frames)
      for (const RegexRow& row : module_regexes_)
        if (row.regex->matches(module_path(frame)))
          return RowKey{RowKind::kModuleNameRegex, row.regex->text()};
    for (const ModuleFrame& frame : frames)
      for (const auto& [type, config] : module_types_)
        if (is_module_type(frame, type)) return RowKey{RowKind::kModuleType, type};
  }
  for (const auto& [op, config] : operator_types_)
    if (is_op_type(node, op)) return RowKey{RowKind::kOpType, op};
  return global_ ? std::optional(RowKey()) : std::nullopt;
}

ConfigTable::Choice ConfigTable::find(const Node& node) const {
  const std::optional<RowKey> row = row_of(node);
  if (!row) return {nullptr, "no configuration covers it and there is no global one"};
  const Config& config = *find_row(*row);
  if (config) return {&*config, {}};
  return {nullptr, "excluded by " + describe(*row)};
}

std::vector<std::string> ConfigTable::unused_rows(const Graph& graph) const {
  std::vector<Node*> nodes = graph.nodes();
  for (const Body& body : bodies_within(graph)) {
    const std::vector<Node*> inner = body.graph->nodes();
    nodes.insert(nodes.end(), inner.begin(), inner.end());
  }
  std::vector<std::string> unused;
  const auto collect = [&](const RowKey& row, const auto& applies) {
    if (std::ranges::none_of(nodes, [&](const Node* node) { return applies(*node); }))
      unused.push_back(describe(row));
  };
  for (const auto& [name, config] : module_names_)
    collect({RowKind::kModuleName, name}, [&, &name = name](const Node& node) {
      const std::vector<ModuleFrame> frames = module_stack(node);
      return std::ranges::any_of(
          frames, [&](const ModuleFrame& frame) { return covers(name, module_path(frame)); });
    });
  for (const RegexRow& row : module_regexes_)
    collect({RowKind::kModuleNameRegex, row.regex->text()},
            [&](const Node& node) { return is_in_module_like(node, *row.regex); });
  for (const auto& [type, config] : module_types_)
    collect({RowKind::kModuleType, type},
            [&, &type = type](const Node& node) { return is_in_module_type(node, type); });
  for (const auto& [op, config] : operator_types_)
    collect({RowKind::kOpType, op},
            [&, &op = op](const Node& node) { return is_op_type(node, op); });
  for (const CallRow& row : calls_)
    collect({RowKind::kCallIndex, {}, row.call},
            [&](const Node& node) { return is_call(node, row.call); });
  return unused;
}

}  // namespace octet
