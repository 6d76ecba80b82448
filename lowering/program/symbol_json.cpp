// Files may be hostile: every number, word and count is checked.
#include "lowering/program/symbol_json.h"

#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

using Kind = SizeExpr::Kind;

constexpr size_t kMostSymbols = 64;
constexpr size_t kLongestName = 64;
constexpr Kind kOperators[] = {Kind::kAdd,    Kind::kMultiply, Kind::kFloorDivide,
                               Kind::kModulo, Kind::kMinimum,  Kind::kMaximum};

int64_t integer(const Json& json) {
  const bool fits =
      json.is_number_integer() &&
      (!json.is_number_unsigned() ||
       json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) throw std::invalid_argument("got " + json.dump().substr(0, 40) + ", want an integer");
  return json.get<int64_t>();
}

SizeExpr::Step step_from_json(const Json& json) {
  if (!json.is_string()) return {Kind::kNumber, integer(json), ""};
  const std::string word = json.get<std::string>();
  for (Kind kind : kOperators)
    if (word == word_of(kind)) return {kind, 0, ""};
  return {Kind::kSymbol, 0, word};
}

SizeExpr size_from_json(const Json& json) {
  if (!json.is_array()) return SizeExpr(integer(json));
  if (json.size() > SizeExpr::kMostSteps)
    throw std::invalid_argument(fmt::format("a formula of {} steps", json.size()));
  std::vector<SizeExpr::Step> steps;
  for (const Json& item : json) steps.push_back(step_from_json(item));
  try {
    return SizeExpr::from_steps(std::move(steps));
  } catch (const Error& error) {
    throw std::invalid_argument(error.what());
  }
}

Json size_to_json(const SizeExpr& size) {
  if (size.is_number()) return size.number();
  Json list = Json::array();
  for (const SizeExpr::Step& step : size.steps()) {
    if (step.kind == Kind::kNumber) {
      list.push_back(step.number);
    } else {
      list.push_back(step.kind == Kind::kSymbol ? step.symbol : word_of(step.kind));
    }
  }
  return list;
}

}  // namespace

Json symbols_to_json(const std::vector<ShapeSymbol>& symbols) {
  Json list = Json::array();
  for (const ShapeSymbol& symbol : symbols)
    list.push_back(
        {{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}, {"hint", symbol.hint}});
  return list;
}

Json sizes_to_json(const std::vector<SizeExpr>& sizes) {
  Json list = Json::array();
  for (const SizeExpr& size : sizes) list.push_back(size_to_json(size));
  return list;
}

std::vector<ShapeSymbol> symbols_from_json(const Json& json) {
  if (!json.is_array() || json.size() > kMostSymbols)
    throw std::invalid_argument(fmt::format("symbols are no list of at most {}", kMostSymbols));
  std::vector<ShapeSymbol> symbols;
  for (const Json& item : json) {
    symbols.push_back({item.at("name").get<std::string>(), integer(item.at("min")),
                       integer(item.at("max")), integer(item.at("hint"))});
    if (symbols.back().name.size() > kLongestName)
      throw std::invalid_argument("a symbol's name is longer than 64");
  }
  return symbols;
}

std::vector<SizeExpr> sizes_from_json(const Json& json) {
  if (!json.is_array() || json.size() > kHighestRank)
    throw std::invalid_argument("formulas of sizes are no list, or a long one");
  std::vector<SizeExpr> sizes;
  for (const Json& item : json) sizes.push_back(size_from_json(item));
  return sizes;
}

}  // namespace octet
