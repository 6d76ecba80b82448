// Changes single fields of a JSON value. A fuzzer of bytes rarely does, because most of its changes
// break the JSON. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace octet::fuzz {

class JsonMutator {
 public:
  // words: replacements for texts, besides other texts of the value.
  JsonMutator(uint32_t seed, std::vector<std::string> words)
      : random_(seed), words_(std::move(words)) {}

  // Changes one field: another number, text or flag, an element or member removed or added, or a
  // copy of another part of the value.
  void change(nlohmann::json& value);
  // Changes 1 to 4 fields.
  void change_some(nlohmann::json& value);

  size_t below(size_t count) { return count == 0 ? 0 : random_() % count; }

 private:
  nlohmann::json& any_within(nlohmann::json& value);
  void change_number(nlohmann::json& number, nlohmann::json& whole);
  void change_list(nlohmann::json& list, const nlohmann::json& other);

  std::mt19937 random_;
  std::vector<std::string> words_;
};

// The texts among the words of a dictionary for libFuzzer.
std::vector<std::string> words_of(const std::filesystem::path& dictionary);

}  // namespace octet::fuzz
