#include "tests/fuzz/json_mutator.h"

#include <fstream>
#include <iterator>

namespace octet::fuzz {
namespace {

using nlohmann::json;

constexpr int64_t kNumbers[] = {-1,
                                0,
                                1,
                                2,
                                3,
                                7,
                                8,
                                64,
                                127,
                                128,
                                255,
                                256,
                                65536,
                                INT32_MAX,
                                INT64_C(1) << 31,
                                INT64_C(1) << 32,
                                INT64_MAX,
                                INT64_MIN};
constexpr double kReals[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 1e38, 1e300, -1e300};

size_t count(const json& value) {
  size_t all = 1;
  if (value.is_structured())
    for (const json& item : value) all += count(item);
  return all;
}

// The value at `place` in depth-first order; `place` is less than 0 once it was found.
json* find(json& value, int64_t& place) {
  if (place-- == 0) return &value;
  if (!value.is_structured()) return nullptr;
  for (json& item : value)
    if (json* found = find(item, place)) return found;
  return nullptr;
}

}  // namespace

json& JsonMutator::any_within(json& value) {
  int64_t place = static_cast<int64_t>(below(count(value)));
  return *find(value, place);
}

void JsonMutator::change_number(json& number, json& whole) {
  if (number.is_number_float()) {
    number = kReals[below(std::size(kReals))];
    return;
  }
  const auto value = static_cast<uint64_t>(number.get<int64_t>());  // which may wrap
  switch (below(5)) {
    case 0: number = static_cast<int64_t>(value + 1); return;
    case 1: number = static_cast<int64_t>(value - 1); return;
    case 2:
      if (const json& other = any_within(whole); other.is_number_integer()) number = json(other);
      return;
    default: number = kNumbers[below(std::size(kNumbers))];
  }
}

void JsonMutator::change_list(json& list, const json& other) {
  if (list.empty()) {
    list.push_back(other);
    return;
  }
  const size_t at = below(list.size()), from = below(list.size());
  switch (below(4)) {
    case 0: list.erase(at); return;
    case 1: list.push_back(json(list[from])); return;
    case 2: std::swap(list[at], list[from]); return;
    default: list[at] = json(list[from]);
  }
}

void JsonMutator::change(json& value) {
  json& place = any_within(value);
  if (below(8) == 0) {
    const json other = any_within(value);
    if (count(other) < 200) place = other;
  } else if (place.is_number()) {
    change_number(place, value);
  } else if (place.is_boolean()) {
    place = !place.get<bool>();
  } else if (place.is_array()) {
    change_list(place, json(any_within(place)));
  } else if (place.is_object() && !place.empty()) {
    const std::string key = std::next(place.begin(), below(place.size())).key();
    if (below(3) == 0) {
      place.erase(key);
    } else if (below(2) == 0) {
      place[key] = json(std::next(place.begin(), below(place.size())).value());
    } else if (!words_.empty()) {
      place[words_[below(words_.size())]] = json(place[key]);
    }
  } else if (const json& other = any_within(value); other.is_string() && below(2) == 0) {
    place = json(other);
  } else if (!words_.empty()) {
    place = words_[below(words_.size())];
  }
}

void JsonMutator::change_some(json& value) {
  for (size_t i = 0, n = 1 + below(4); i < n; ++i) change(value);
}

std::vector<std::string> words_of(const std::filesystem::path& dictionary) {
  std::vector<std::string> words;
  std::ifstream file(dictionary);
  for (std::string line; std::getline(file, line);)  // "\"conv\""
    if (line.starts_with("\"\\\"") && line.size() > 6)
      words.push_back(line.substr(3, line.size() - 6));
  return words;
}

}  // namespace octet::fuzz
