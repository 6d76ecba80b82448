// Reads rows and checks their slots against their patterns.
#include "quantizers/json_patterns.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/op_schema.h"
#include "core/overloads.h"
#include "quantizers/json_specs.h"

namespace octet {

namespace {

constexpr std::array<const char*, 5> kRowKeys = {"name", "pattern", "inputs", "output", "allow_implicit_sharing"};
constexpr size_t kMaxPattern = 1000;  // characters
constexpr std::array<const char*, 1> kLaterKeys = {"constraints"};

using Cells = std::vector<std::pair<std::string, SlotSpec>>;

// Whether the slot's edge gets an observer.
bool has_spec(const Cells& inputs, const std::string& slot) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const auto& cell) { return cell.first == slot && !std::holds_alternative<LeaveFloat>(cell.second); });
}

// The slots that a cell takes its observer or scale from, as edges; and as values.
struct Sources {
  std::vector<std::string> edges;
  std::vector<std::string> values;
};
Sources sources_of(const SlotSpec& cell) {
  if (const DerivedFrom* derived = std::get_if<DerivedFrom>(&cell)) return {derived->slots, {}};
  const SameAs* same = std::get_if<SameAs>(&cell);
  if (!same) return {};
  return same->half == SameAs::Half::kEdge ? Sources{{same->slot}, {}} : Sources{{}, {same->slot}};
}

// An op in the namespace aten that the dispatcher does not know: most often a misspelling. Custom ops may come later, with their library. Empty: none.
std::string find_unknown_op(const PatternTerm& term) {
  for (const std::string& op : term.ops) {
    if (!op.starts_with("aten.")) continue;
    const bool has_overload = std::count(op.begin(), op.end(), '.') == 2;
    if (has_overload ? find_op_schema(op) == nullptr : overloads_of(op).empty()) return op;
  }
  for (const PatternTerm& parameter : term.parameters)
    if (const std::string op = find_unknown_op(parameter); !op.empty()) return op;
  return {};
}

class RowReader {
 public:
  RowReader(const Place& row, const SpecTable& specs) : row_(row), specs_(specs) {}

  AnnotationRule read() {
    check_keys(row_, kRowKeys, kLaterKeys);
    if (!row_.has("pattern")) row_.refuse("has no \"pattern\", want e.g. \"relu(linear(x, w, b?))\"");
    rule_.pattern = string_at(row_.at("pattern"));
    if (rule_.pattern.size() > kMaxPattern)
      row_.at("pattern").want(fmt::format("a pattern of at most {} characters, not {}", kMaxPattern, rule_.pattern.size()));
    try {
      pattern_ = parse_pattern(rule_.pattern);
    } catch (const Error& error) {
      row_.at("pattern").refuse(without_stage(error));
    }
    if (const std::string op = find_unknown_op(pattern_.root); !op.empty())
      row_.at("pattern").refuse(fmt::format("{}: {} is no op of ATen; write your own ops as my_ns.my_op.default", rule_.pattern, op));
    rule_.name = row_.has("name") ? string_at(row_.at("name")) : rule_.pattern;
    if (row_.has("allow_implicit_sharing")) rule_.allow_implicit_sharing = bool_at(row_.at("allow_implicit_sharing"));
    read_cells();
    if (rule_.inputs.empty() && std::holds_alternative<LeaveFloat>(rule_.output)) row_.refuse("quantizes nothing, want \"inputs\" or \"output\"");
    return std::move(rule_);
  }

 private:
  void read_cells() {
    if (row_.has("inputs")) {
      const Place inputs = row_.at("inputs");
      if (!inputs.value.is_object()) inputs.want("an object of slots and specs");
      for (const auto& [slot, value] : inputs.value.items()) {
        require_slot(inputs.at(slot), slot);
        rule_.inputs.emplace_back(slot, cell_at(inputs.at(slot), specs_));
      }
      for (const auto& [slot, cell] : rule_.inputs) check_input(inputs.at(slot), slot, cell);
    }
    if (!row_.has("output")) return;
    const Place output = row_.at("output");
    rule_.output = cell_at(output, specs_);
    if (std::holds_alternative<AllSame>(rule_.output)) output.want("a spec of one tensor; all_same is for list slots");
    check_sources(output, rule_.output);
  }

  void check_input(const Place& place, const std::string& slot, const SlotSpec& cell) const {
    if (std::holds_alternative<AllSame>(cell) && !pattern_.find_variable(slot)->is_list)
      place.refuse(fmt::format("all_same is for list slots, got the single slot \"{}\"; write \"{}...\" in the pattern", slot, slot));
    const Sources sources = sources_of(cell);
    if (std::find(sources.edges.begin(), sources.edges.end(), slot) != sources.edges.end())
      place.refuse(fmt::format("takes its scale from itself, want another slot than \"{}\"", slot));
    check_sources(place, cell);
  }

  void check_sources(const Place& place, const SlotSpec& cell) const {
    const Sources sources = sources_of(cell);
    for (const std::vector<std::string>* slots : {&sources.edges, &sources.values})
      for (const std::string& slot : *slots) require_slot(place, slot);
    for (const std::string& slot : sources.edges)
      if (!has_spec(rule_.inputs, slot)) place.refuse(fmt::format("takes its scale from slot \"{}\", which has no spec in \"inputs\"", slot));
  }

  void require_slot(const Place& place, const std::string& slot) const {
    if (pattern_.find_variable(slot)) return;
    std::vector<std::string> known;
    for (const PatternVariable& variable : pattern_.variables) known.push_back(variable.name);
    place.refuse(fmt::format("\"{}\" is no slot of {}, want {}", slot, rule_.pattern,
                             known.empty() ? "a pattern with slots" : fmt::format("one of {}", fmt::join(known, ", "))));
  }

  const Place& row_;
  const SpecTable& specs_;
  AnnotationRule rule_;
  Pattern pattern_;
};

}  // namespace

DeclaredBackend declared_backend_at(const Place& root) {
  DeclaredBackend backend;
  backend.name = root.has("name") ? string_at(root.at("name")) : "declared";
  const SpecTable specs = root.has("specs") ? specs_at(root.at("specs")) : SpecTable();
  const Place patterns = root.at("patterns");
  if (!patterns.value.is_array() || patterns.value.empty()) patterns.want("a list of rows");
  for (size_t i = 0; i < patterns.value.size(); ++i) {
    const Place row = patterns.at(i);
    backend.rules.push_back(RowReader(row, specs).read());
  }
  return backend;
}

}  // namespace octet
