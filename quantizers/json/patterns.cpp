#include "quantizers/json/patterns.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "core/ops/op_schema.h"
#include "quantizers/json/specs.h"
#include "quantizers/xnnpack/rules.h"

namespace octet {

namespace {

constexpr std::array<const char*, 10> kRowKeys = {
    "name",        "pattern", "inputs", "output", "allow_implicit_sharing",
    "constraints", "owned",   "marked", "owner",  "dtype_configs"};
// A row has these keys, or lists several choices of them.
constexpr std::array<const char*, 3> kCellKeys = {"inputs", "output", "constraints"};
constexpr std::array<const char*, 4> kChoiceKeys = {"name", "inputs", "output", "constraints"};
constexpr size_t kMaxPattern = 1000;  // characters
const std::vector<std::string> kOwners = {"first", "first_quantized"};

using Cells = std::vector<std::pair<std::string, SlotSpec>>;

// The key of the slot's cell: "x" for "x[1]" if "x[1]" has no cell.
std::string key_of(const Cells& inputs, const std::string& slot) {
  const bool has_own =
      std::ranges::any_of(inputs, [&](const auto& cell) { return cell.first == slot; });
  const std::optional<SlotElement> element = parse_slot_element(slot);
  return element && !has_own ? element->slot : slot;
}

// Whether the slot's edge gets an observer.
bool has_spec(const Cells& inputs, const std::string& slot) {
  const std::string key = key_of(inputs, slot);
  return std::ranges::any_of(inputs, [&](const auto& cell) {
    return cell.first == key && !std::holds_alternative<LeaveFloat>(cell.second);
  });
}

// The slots from which a cell takes its observer or scale, as edges and as values.
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

// Whether the op is in the namespace aten but unknown to the dispatcher, most often a misspelling.
// Custom ops may be registered later, by their library.
bool is_unknown(const std::string& op) {
  if (!op.starts_with("aten.")) return false;
  const bool has_overload = std::ranges::count(op, '.') == 2;
  return has_overload ? find_op_schema(op) == nullptr : overloads_of(op).empty();
}

// Returns "" when all ops are known.
std::string find_unknown_op(const PatternTerm& term) {
  for (const std::string& op : term.ops)
    if (is_unknown(op)) return op;
  for (const PatternTerm& parameter : term.parameters)
    if (const std::string op = find_unknown_op(parameter); !op.empty()) return op;
  return {};
}

class RowReader {
 public:
  // cells: the object with the specs, the row or one of its dtype_configs.
  RowReader(const Place& row, const Place& cells, const SpecTable& specs)
      : row_(row), cells_(cells), specs_(specs) {}

  AnnotationRule read() {
    check_keys(row_, kRowKeys);
    if (!row_.has("pattern"))
      row_.refuse("has no \"pattern\", want e.g. \"relu(linear(x, w, b?))\"");
    rule_.pattern = string_at(row_.at("pattern"));
    if (rule_.pattern.size() > kMaxPattern)
      row_.at("pattern").want(fmt::format("a pattern of at most {} characters, not {}", kMaxPattern,
                                          rule_.pattern.size()));
    try {
      pattern_ = parse_pattern(rule_.pattern);
    } catch (const Error& error) {
      row_.at("pattern").refuse(error.without_stage());
    }
    if (const std::string op = find_unknown_op(pattern_.variants.front().root); !op.empty())
      row_.at("pattern").refuse(fmt::format(
          "{}: {} is not an ATen op; write custom ops as my_ns.my_op.default", rule_.pattern, op));
    rule_.name = row_.has("name") ? string_at(row_.at("name")) : rule_.pattern;
    if (row_.has("allow_implicit_sharing"))
      rule_.allow_implicit_sharing = bool_at(row_.at("allow_implicit_sharing"));
    read_cells();
    read_slots("owned", rule_.owned);
    read_slots("marked", rule_.marked);
    read_owner();
    if (cells_.has("constraints"))
      rule_.constraints = constraints_at(cells_.at("constraints"), pattern_, rule_);
    if (rule_.inputs.empty() && rule_.outputs.empty() &&
        std::holds_alternative<LeaveFloat>(rule_.output))
      cells_.refuse("quantizes nothing, want \"inputs\" or \"output\"");
    return std::move(rule_);
  }

 private:
  void read_cells() {
    if (cells_.has("inputs")) {
      const Place inputs = cells_.at("inputs");
      if (!inputs.value.is_object()) inputs.want("an object of slots and specs");
      for (const auto& [slot, value] : inputs.value.items()) {
        require_slot(inputs.at(slot), slot);
        rule_.inputs.emplace_back(slot, cell_at(inputs.at(slot), specs_));
      }
      for (const auto& [slot, cell] : rule_.inputs) check_input(inputs.at(slot), slot, cell);
    }
    if (!cells_.has("output")) return;
    const Place output = cells_.at("output");
    if (!output.value.is_array()) {
      rule_.output = output_at(output);
      return;
    }
    if (output.value.empty()) output.want("a spec, or a list with a spec or null for each result");
    for (size_t i = 0; i < output.value.size(); ++i)
      rule_.outputs.push_back(output_at(output.at(i)));
  }

  SlotSpec output_at(const Place& place) const {
    const SlotSpec cell = cell_at(place, specs_);
    if (std::holds_alternative<AllSame>(cell))
      place.want("a spec of one tensor; all_same is for list slots");
    if (std::holds_alternative<LikeProducer>(cell))
      place.want("a spec of one tensor; like_producer is for inputs");
    check_sources(place, cell);
    return cell;
  }

  void check_input(const Place& place, const std::string& slot, const SlotSpec& cell) const {
    const PatternVariable* variable = pattern_.find_variable(slot);
    if (std::holds_alternative<AllSame>(cell) && variable == nullptr)
      place.refuse(
          fmt::format("all_same is for list slots, got \"{}\", one element; want a spec", slot));
    if (std::holds_alternative<AllSame>(cell) && !variable->is_list)
      place.refuse(fmt::format(
          "all_same is for list slots, got the single slot \"{}\"; write \"{}...\" in the pattern",
          slot, slot));
    const Sources sources = sources_of(cell);
    const std::optional<SlotElement> element = parse_slot_element(slot);
    const auto is_own = [&](const std::string& source) {
      return key_of(rule_.inputs, source) == slot || (element && element->slot == source);
    };
    if (std::ranges::any_of(sources.edges, is_own))
      place.refuse(fmt::format("takes its scale from itself, want another slot than \"{}\"", slot));
    check_sources(place, cell);
    if (const std::string circle = find_circle({slot}); !circle.empty())
      place.refuse(fmt::format(
          "takes its scale from itself through {}; give one of them a separate spec", circle));
  }

  // Returns "a -> b -> a" when the sources of the last slot of `way` lead back to its first slot,
  // else "".
  std::string find_circle(std::vector<std::string> way) const {
    const auto cell = std::ranges::find_if(
        rule_.inputs, [&](const auto& input) { return input.first == way.back(); });
    if (cell == rule_.inputs.end()) return {};
    for (const std::string& edge : sources_of(cell->second).edges) {
      const std::string source = key_of(rule_.inputs, edge);
      if (source == way.front()) return fmt::format("{} -> {}", fmt::join(way, " -> "), source);
      if (std::ranges::find(way, source) != way.end()) continue;
      way.push_back(source);
      if (const std::string circle = find_circle(way); !circle.empty()) return circle;
      way.pop_back();
    }
    return {};
  }

  void read_slots(const char* key, std::vector<std::string>& slots) const {
    if (!row_.has(key)) return;
    const Place list = row_.at(key);
    if (!list.value.is_array() || list.value.empty())
      list.want("a list of slots, e.g. [\"w\", \"b\"]");
    for (size_t i = 0; i < list.value.size(); ++i) {
      slots.push_back(string_at(list.at(i)));
      require_slot(list.at(i), slots.back());
    }
  }

  void read_owner() {
    if (!row_.has("owner")) return;
    const Place place = row_.at("owner");
    const bool has_list = std::ranges::any_of(rule_.inputs, [](const auto& cell) {
      return std::holds_alternative<AllSame>(cell.second);
    });
    if (word_at(place, kOwners) == kOwners.back()) rule_.choose_owner = first_quantized_input;
    if (!has_list)
      place.refuse(
          "says which value of an all_same slot has the observer, and the row has no all_same; "
          "leave it out");
  }

  void check_sources(const Place& place, const SlotSpec& cell) const {
    const Sources sources = sources_of(cell);
    for (const std::vector<std::string>* slots : {&sources.edges, &sources.values})
      for (const std::string& slot : *slots) require_slot(place, slot);
    for (const std::string& slot : sources.edges)
      if (!has_spec(rule_.inputs, slot))
        place.refuse(
            fmt::format("takes its scale from slot \"{}\", which has no spec in \"inputs\"", slot));
  }

  void require_slot(const Place& place, const std::string& slot) const {
    if (is_slot_of(pattern_, slot)) return;
    if (slot.ends_with(']')) refuse_element(place, slot);
    std::vector<std::string> known;
    for (const PatternVariable& variable : pattern_.variables) known.push_back(variable.name);
    place.refuse(fmt::format(
        "\"{}\" is not a slot of {}, want {}", slot, rule_.pattern,
        known.empty() ? "a pattern with slots" : fmt::format("one of {}", fmt::join(known, ", "))));
  }

  // Refuses "x[1]" when there is no such element.
  [[noreturn]] void refuse_element(const Place& place, const std::string& slot) const {
    const std::string name = slot.substr(0, slot.find('['));
    const PatternVariable* variable = pattern_.find_variable(name);
    if (variable != nullptr && !variable->is_list)
      place.refuse(
          fmt::format("\"{}\" is an element of \"{}\", which is not a list slot; write \"{}...\" "
                      "in the pattern",
                      slot, name, name));
    place.refuse(
        fmt::format("\"{}\" does not name an element of a list slot, want e.g. \"x[0]\", \"x[1]\", "
                    "up to x[999]",
                    slot));
  }

  const Place& row_;
  const Place& cells_;
  const SpecTable& specs_;
  AnnotationRule rule_;
  Pattern pattern_;
};

// Reads one rule for each of the row's dtype_configs.
void read_dtype_configs(const Place& row, const SpecTable& specs, DeclaredBackend& backend) {
  for (const char* key : kCellKeys)
    if (row.has(key)) row.at(key).refuse("is next to dtype_configs, want it inside each of them");
  const Place list = row.at("dtype_configs");
  if (!list.value.is_array() || list.value.empty())
    list.want("a list of choices, e.g. [{\"name\": \"int8\", \"inputs\": {\"x\": \"act\"}}]");
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < list.value.size(); ++i) {
    const Place choice = list.at(i);
    check_keys(choice, kChoiceKeys);
    if (!choice.has("name")) choice.refuse("has no \"name\", by which settings choose it");
    const std::string name = string_at(choice.at("name"));
    const auto [same, is_new] = names.emplace(name, i);
    if (!is_new)
      choice.at("name").refuse(fmt::format(
          "got \"{}\", which is already the name of choice {}; give each a different name", name,
          same->second));
    backend.rules.push_back(RowReader(row, choice, specs).read());
    backend.places.push_back(row.text());
    backend.variants.push_back({name, i == 0});
  }
}

// Reads ops; "max_pool2d" means "aten.max_pool2d".
std::vector<std::string> sharing_ops_at(const Place& place) {
  if (!place.value.is_array())
    place.want("a list of ops, e.g. [\"max_pool2d\", \"aten.view.default\"]");
  std::vector<std::string> ops;
  for (size_t i = 0; i < place.value.size(); ++i) {
    const std::string name = string_at(place.at(i));
    ops.push_back(name.find('.') == std::string::npos ? "aten." + name : name);
    if (is_unknown(ops.back()))
      place.at(i).refuse(
          fmt::format("{} is not an ATen op; write custom ops as my_ns.my_op.default", ops.back()));
  }
  return ops;
}

}  // namespace

DeclaredBackend declared_backend_at(const Place& root) {
  DeclaredBackend backend;
  backend.name = root.has("name") ? string_at(root.at("name")) : "declared";
  const SpecTable specs = root.has("specs") ? specs_at(root.at("specs")) : SpecTable();
  const Place patterns = root.at("patterns");
  if (!patterns.value.is_array() || patterns.value.empty()) patterns.want("a list of rows");
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < patterns.value.size(); ++i) {
    const Place row = patterns.at(i);
    if (row.has("dtype_configs")) {
      read_dtype_configs(row, specs, backend);
    } else {
      backend.rules.push_back(RowReader(row, row, specs).read());
      backend.places.push_back(row.text());
      backend.variants.emplace_back();
    }
    if (!row.has("name")) continue;
    const auto [same, is_new] = names.emplace(backend.rules.back().name, i);
    if (!is_new)
      row.at("name").refuse(fmt::format(
          "got \"{}\", which is already the name of row {}; give each row a different name",
          same->first, same->second));
  }
  if (root.has("sharing_ops")) backend.sharing_ops = sharing_ops_at(root.at("sharing_ops"));
  return backend;
}

}  // namespace octet
