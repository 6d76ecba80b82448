// Reads the metadata of a GGUF file: names and values, without the tensors. Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tokenizer {

// A number, a text, or a list of them; a bool is a number.
struct GgufValue {
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};
  bool is_list = false;
};

// Only the values whose names start with `prefix`. Throws Error("tokenizer", path, ...) for a file
// that is cut off or damaged; allocates nothing of a size that only the file claims.
std::map<std::string, GgufValue> read_gguf(const std::filesystem::path& path,
                                           std::string_view bytes, std::string_view prefix);

}  // namespace octet::tokenizer
