// Holds the rows of ops.def as data, and checks ops against them.
#include "lowering/program/op_contract.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/program/float_compute.h"
#include "lowering/program/program.h"
#include "lowering/program/real_functions.h"

namespace octet {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

std::vector<OpContract::Operand> parse_operands(std::string_view text) {
  std::vector<OpContract::Operand> operands;
  for (std::string_view part : split(text, ", ")) {
    OpContract::Operand operand;
    const auto takes = [&](std::string_view mark) {
      if (!part.ends_with(mark)) return false;
      part.remove_suffix(mark.size());
      return true;
    };
    operand.is_repeated = takes("...");
    operand.is_optional = takes("?");
    operand.may_be_integer = takes("*");
    operand.name = part;
    operands.push_back(operand);
  }
  return operands;
}

struct Traits {
  Nature nature;
  bool has_macs = false;
};

OpContract make_contract(std::string_view kind, Traits traits, std::string_view signature,
                         std::string_view meaning, std::vector<AttributeSpec> attributes) {
  const size_t arrow = signature.find("-> ");
  OCTET_ASSERT(arrow != std::string_view::npos, "a signature with an arrow");
  std::string_view inputs = signature.substr(0, arrow);
  if (inputs.ends_with(' ')) inputs.remove_suffix(1);
  if (traits.nature == Nature::kCompute && traits.has_macs)
    attributes.push_back(attr::kCompute.by_default("float32").one_of("float32 bfloat16"));
  return {kind,
          traits.nature,
          traits.has_macs,
          signature,
          meaning,
          parse_operands(inputs),
          parse_operands(signature.substr(arrow + 3)),
          std::move(attributes)};
}

}  // namespace

namespace attr {
namespace {

std::vector<OpContract> read_contracts() {
  constexpr Traits kCompute{Nature::kCompute}, kProduct{Nature::kCompute, true},
      kMovement{Nature::kMovement}, kConversion{Nature::kConversion}, kFloat{Nature::kFloat},
      kFloatProduct{Nature::kFloat, true};
  return {
#define OP(kind, nature, signature, meaning, ...) \
  make_contract(#kind, nature, signature, meaning, {__VA_ARGS__}),
#include "lowering/program/ops.def"
#undef OP
  };
}

}  // namespace
}  // namespace attr

namespace {

bool has_type(const Attribute& attribute, AttributeType type) {
  // types are in the order of the variant's alternatives; integers count as reals
  return attribute.index() == static_cast<size_t>(type) ||
         (type == AttributeType::kReal && std::holds_alternative<int64_t>(attribute));
}

bool allows(const AttributeSpec& spec, const std::string& word) {
  if (spec.words.empty()) return true;
  const std::vector<std::string_view> words = split(spec.words, " ");
  return std::find(words.begin(), words.end(), word) != words.end() ||
         (spec.has_real_functions && find_real_function(word) != nullptr);
}

std::string find_value_fault(const AttributeSpec& spec, const Attribute& value) {
  if (const std::string* word = std::get_if<std::string>(&value); word && !allows(spec, *word))
    return fmt::format("unknown {} \"{}\"", spec.name, *word);
  const int64_t* number = std::get_if<int64_t>(&value);
  if (number != nullptr && spec.type == AttributeType::kInteger && *number < spec.least)
    return fmt::format("{} is {}, want at least {}", spec.name, *number, spec.least);
  return "";
}

// Repeated operands without `?` must all be present.
std::string find_input_fault(const OpContract& contract, const ProgramOp& op) {
  const std::vector<OpContract::Operand>& inputs = contract.inputs;
  const bool is_open = !inputs.empty() && inputs.back().is_repeated;
  if (op.inputs.size() > inputs.size() && !is_open)
    return fmt::format("{} has {} inputs, want at most {}", op.kind, op.inputs.size(),
                       inputs.size());
  const size_t named = inputs.size() - (is_open ? 1 : 0);
  for (size_t i = 0; i < std::max(op.inputs.size(), named); ++i)
    if (!op.has_input(i) && !inputs[std::min(i, inputs.size() - 1)].is_optional)
      return fmt::format("{} lacks input {}", op.kind, i);
  return "";
}

std::string find_result_fault(const OpContract& contract, const ProgramOp& op) {
  const std::vector<OpContract::Operand>& results = contract.results;
  const auto least = static_cast<size_t>(
      std::count_if(results.begin(), results.end(), [](const OpContract::Operand& result) {
        return !result.is_optional && !result.is_repeated;
      }));
  const size_t most = results.back().is_repeated ? SIZE_MAX : results.size();
  if (op.outputs.size() >= least && op.outputs.size() <= most) return "";
  return fmt::format("{} has {} outputs, want {}", op.kind, op.outputs.size(),
                     op.outputs.size() < least ? least : most);
}

std::string default_text(const AttributeSpec& spec) {
  if (spec.text == "each") return fmt::format("{} each", spec.number);
  if (!spec.text.empty()) return std::string(spec.text);
  switch (spec.type) {
    case AttributeType::kFlag: return spec.number != 0 ? "true" : "false";
    case AttributeType::kInteger: return fmt::format("{}", spec.number);
    case AttributeType::kReal: return spec.number == 0 ? "none" : fmt::format("{}", spec.number);
    default: return "none";
  }
}

std::string attribute_row(const AttributeSpec& spec) {
  constexpr const char* kTypes[] = {"bool", "int", "float", "text", "ints", "floats"};
  std::vector<std::string> words;
  for (std::string_view word : split(spec.words, " ")) words.emplace_back(word);
  if (spec.has_real_functions)
    for (const RealFunction& function : real_functions()) words.emplace_back(function.name);
  const std::string range = spec.least == INT64_MIN ? "" : fmt::format("at least {}", spec.least);
  return fmt::format(
      "| `{}` | {} | {} | {}{} |\n", spec.name, kTypes[static_cast<size_t>(spec.type)],
      spec.is_required ? "required" : default_text(spec), range, fmt::join(words, ", "));
}

// Wraps text to lines of at most 100 columns.
std::string wrapped(std::string_view text) {
  constexpr size_t kColumns = 100;
  std::string lines;
  size_t column = 0;
  for (std::string_view word : split(text, " ")) {
    if (column != 0) lines += column + 1 + word.size() > kColumns ? '\n' : ' ';
    column = column == 0 || lines.back() == '\n' ? word.size() : column + 1 + word.size();
    lines += word;
  }
  return lines + "\n";
}

std::string support_table(std::span<const BackendKinds> backends) {
  std::string head = "\n| op |", line = "|---|", rows;
  for (const BackendKinds& column : backends) {
    head += fmt::format(" {} |", column.backend);
    line += "---|";
  }
  for (const OpContract& contract : op_contracts()) {
    rows += fmt::format("| {} |", contract.kind);
    for (const auto& [backend, kinds] : backends)
      rows +=
          std::find(kinds.begin(), kinds.end(), contract.kind) == kinds.end() ? "  |" : " yes |";
    rows += '\n';
  }
  return fmt::format("{}\n{}\n{}", head, line, rows);
}

}  // namespace

const AttributeSpec* OpContract::find_attribute(std::string_view name) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(),
                   [&](const AttributeSpec& attribute) { return attribute.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

size_t OpContract::integer_input_count(size_t count) const {
  if (!inputs.empty() && inputs.back().is_repeated && inputs.back().may_be_integer) return count;
  const auto marked = static_cast<size_t>(
      std::count_if(inputs.begin(), inputs.end(),
                    [](const OpContract::Operand& input) { return input.may_be_integer; }));
  return std::min(count, marked);
}

std::span<const OpContract> op_contracts() {
  static const std::vector<OpContract> contracts = attr::read_contracts();
  return contracts;
}

const OpContract* find_contract(std::string_view kind) {
  static const std::unordered_map<std::string_view, const OpContract*> by_kind = [] {
    std::unordered_map<std::string_view, const OpContract*> all;
    for (const OpContract& contract : op_contracts()) all.emplace(contract.kind, &contract);
    return all;
  }();
  const auto found = by_kind.find(kind);
  return found == by_kind.end() ? nullptr : found->second;
}

std::string find_attribute_fault(const ProgramOp& op) {
  const OpContract* contract = find_contract(op.kind);
  if (contract == nullptr || op.is("custom")) return "";
  for (const auto& [key, value] : op.attributes) {
    const AttributeSpec* spec = contract->find_attribute(key);
    if (spec == nullptr) {
      std::vector<std::string_view> names;
      for (const AttributeSpec& attribute : contract->attributes) names.push_back(attribute.name);
      return fmt::format("attribute \"{}\", which {} lacks, want {}", key, op.kind,
                         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (!has_type(value, spec->type))
      return fmt::format("attribute \"{}\" of another type than {} wants", key, op.kind);
  }
  return "";
}

std::string find_contract_fault(const ProgramOp& op) {
  const OpContract* contract = find_contract(op.kind);
  if (contract == nullptr) return "";
  if (std::string fault = find_result_fault(*contract, op); !fault.empty()) return fault;
  if (std::string fault = find_input_fault(*contract, op); !fault.empty()) return fault;
  for (const AttributeSpec& spec : contract->attributes) {
    const auto found = op.attributes.find(spec.name);
    if (found == op.attributes.end() && spec.is_required)
      return fmt::format("it has no {}", spec.name);
    if (found == op.attributes.end()) continue;
    if (std::string fault = find_value_fault(spec, found->second); !fault.empty()) return fault;
  }
  return "";
}

std::string contracts_page(std::span<const BackendKinds> backends) {
  std::string page =
      "# The ops of a Program\n\n" +
      wrapped(
          "What each kind of op does, from `lowering/program/ops.def`. A star marks inputs that "
          "may be integers with a scale and a zero point, `?` operands that may be absent, `...` "
          "any number of them. An attribute of windows (stride, padding, dilation, kernel_size) "
          "has an "
          "entry for each spatial dimension. post_min and post_max clamp the real result before it "
          "is quantized; a missing one is unbounded. With compute bfloat16, a backend that can "
          "rounds the float inputs of a product to bfloat16 and sums in float32 (`octet lower "
          "--float-compute bfloat16`).") +
      "\n## Which backend runs what\n\n" +
      wrapped(
          "A backend runs some ops of the kinds marked here; `octet lower --explain` says which "
          "ops "
          "of a model it refuses, and why. The session itself runs control flow, and LibTorch runs "
          "aten (`octet lower --fallback torch`).") +
      support_table(backends);
  for (const OpContract& contract : op_contracts()) {
    std::string meaning(contract.meaning);
    for (size_t at = 0; (at = meaning.find('*', at)) != std::string::npos; at += 2)
      meaning.insert(at, 1, '\\');
    page +=
        fmt::format("\n## {}\n\n`{}`\n\n{}", contract.kind, contract.signature, wrapped(meaning));
    if (!contract.attributes.empty())
      page += "\n| attribute | type | default | values |\n|---|---|---|---|\n";
    for (const AttributeSpec& spec : contract.attributes) page += attribute_row(spec);
  }
  return page;
}

}  // namespace octet
