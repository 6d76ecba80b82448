// Changes of single fields of a JSON value: what a fuzzer of bytes reaches only by luck, as most of
// its changes leave no JSON behind. Free of torch.
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
  // words: what texts become, besides other texts of the value.
  JsonMutator(uint32_t seed, std::vector<std::string> words)
      : random_(seed), words_(std::move(words)) {}

  // One field: another number, text or flag, an element or member less or more, or what stands
  // elsewhere in the value.
  void change(nlohmann::json& value);
  // 1 to 4 fields.
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
