// JSON values with their path, so that messages can name the file and the place in it.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/dtype.h"

namespace octet {

using Json = nlohmann::ordered_json;  // the order of rows matters

// A value in a file. The Json that it refers to must outlive it.
struct Place {
  const Json& value;
  std::string file;
  std::string path;  // "/module_name/block.conv"; "" is the whole file

  bool has(const char* key) const { return value.contains(key); }
  Place at(const std::string& key) const;
  Place at(size_t index) const;
  std::string text() const;  // "file.json: /path"
  // Both throw Error("quantizer", "file.json: /path", ...). want() says "got VALUE, want ...".
  [[noreturn]] void refuse(const std::string& message) const;
  [[noreturn]] void want(const std::string& wanted) const;
};

// Throws Error("quantizer", file, ...) when the file cannot be read, and as parse_settings does.
Json load_settings(const std::filesystem::path& path);
// Throws Error("quantizer", file, ...) when the text is not JSON or an object repeats a key.
Json parse_settings(const std::string& text, const std::string& file);

// Allows only these keys of an object. later: keys of the format that this build does not support.
void check_keys(const Place& place, std::span<const char* const> allowed,
                std::span<const char* const> later = {});

// These return the value, or throw an error that says what is wanted.
bool bool_at(const Place& place);
int64_t int_at(const Place& place);
int64_t int_in(const Place& place, int64_t min, int64_t max);
int axis_at(const Place& place);            // of a dimension, at least 0
double positive_at(const Place& place);     // > 0 and finite as float32
DType dtype_at(const Place& place);         // "int8", "float32", ...
std::string string_at(const Place& place);  // not empty, one line
// The key of a value, as a number of at most `digits` digits. what: what it counts, for the error.
int64_t index_of(const Place& place, const std::string& key, size_t digits, const char* what);
// Returns a word of the list.
std::string word_at(const Place& place, std::span<const std::string> words);

}  // namespace octet
