#include "quantizers/json/place.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace octet {

namespace {

constexpr size_t kShownLength = 60;  // limit of a wrong value in a message
constexpr int64_t kMaxAxis = 63;
constexpr int kMaxDepth = 64;                       // limit of nesting
constexpr std::string_view kSchemaKey = "$schema";  // used by editors, at the top of a file

bool is_control(char c) { return static_cast<unsigned char>(c) < ' '; }

// Escapes a key of a JSON path, so that it fits on one line.
std::string escaped(const std::string& key) {
  std::string result;
  for (char c : key)
    result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, is_control(c) ? '?' : c);
  return result;
}

std::string shown(const Json& value) {
  std::string text = dump_json(value, -1, true, Json::error_handler_t::replace);
  return text.size() > kShownLength ? text.substr(0, kShownLength) + "..." : text;
}

// Refuses duplicate keys in an object, of which the parser would silently keep one.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(const std::string& file) : file_(file) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth)
      throw Error("quantizer", file_,
                  fmt::format("nests values deeper than {} levels; take some out", kMaxDepth));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw Error("quantizer", file_,
                  fmt::format("has the key {} twice in one object; merge the two", shown(parsed)));
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Place Place::at(const std::string& key) const {
  return {value.at(key), file, path + "/" + escaped(key)};
}
Place Place::at(size_t index) const {
  return {value.at(index), file, fmt::format("{}/{}", path, index)};
}

std::string Place::text() const { return fmt::format("{}: {}", file, path.empty() ? "/" : path); }
void Place::refuse(const std::string& message) const { throw Error("quantizer", text(), message); }
void Place::want(const std::string& wanted) const {
  refuse(fmt::format("got {}, want {}", shown(value), wanted));
}

Json load_settings(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  std::error_code ignored;
  if (stream && !std::filesystem::is_directory(path, ignored)) text << stream.rdbuf();
  if (!stream || stream.bad() || std::filesystem::is_directory(path, ignored))
    throw Error("quantizer", path.string(), "cannot be read, want a JSON file; check the path");
  return parse_settings(text.str(), path.string());
}

Json parse_settings(const std::string& text, const std::string& file) {
  DuplicateKeys duplicates(file);
  try {
    return parse_json<Json>(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return duplicates(depth, event, parsed);
    });
  } catch (const Json::parse_error& error) {
    const std::string before =
        text.substr(0, std::min(text.size(), error.byte > 0 ? error.byte - 1 : 0));
    const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    throw Error("quantizer", file,
                fmt::format("not JSON, got a syntax error at line {} column {}; look for a missing "
                            "or extra comma, quote or bracket",
                            std::ranges::count(before, '\n') + 1, before.size() - line_begin + 1));
  } catch (const Json::out_of_range&
               error) {  // "[json.exception.out_of_range.406] number overflow parsing '1e400'"
    const std::string message = error.what();
    throw Error("quantizer", file,
                fmt::format("has a number outside of the range of a double ({})",
                            message.substr(message.find("] ") + 2)));
  }
}

void check_keys(const Place& place, std::span<const char* const> allowed,
                std::span<const char* const> later) {
  if (!place.value.is_object()) place.want("an object");
  for (const auto& [key, value] : place.value.items()) {
    const std::string& name = key;
    const auto same = [&](const char* known) { return name == known; };
    if (std::ranges::any_of(allowed, same)) continue;
    const Place child = place.at(name);
    if (name == kSchemaKey && place.path.empty()) {
      string_at(child);
      continue;
    }
    if (std::ranges::any_of(later, same))
      child.refuse(fmt::format("\"{}\" is not in this build, want one of {}", name,
                               fmt::join(allowed, ", ")));
    child.refuse(fmt::format("unknown key, want one of {}", fmt::join(allowed, ", ")));
  }
}

bool bool_at(const Place& place) {
  if (!place.value.is_boolean()) place.want("true or false");
  return place.value.get<bool>();
}

int64_t int_at(const Place& place) {
  if (!place.value.is_number_integer()) place.want("an int");
  if (place.value.is_number_unsigned() && place.value.get<uint64_t>() > INT64_MAX)
    place.want("an int of 64 bits");
  return place.value.get<int64_t>();
}

int64_t int_in(const Place& place, int64_t min, int64_t max) {
  const int64_t value = int_at(place);
  if (value < min || value > max) place.want(fmt::format("an int in {} .. {}", min, max));
  return value;
}

int axis_at(const Place& place) { return static_cast<int>(int_in(place, 0, kMaxAxis)); }

double positive_at(const Place& place) {
  const double value = place.value.is_number() ? place.value.get<double>() : 0;
  if (!(static_cast<float>(value) > 0) || !std::isfinite(static_cast<float>(value)))
    place.want("a number above 0 that float32 can hold");
  return value;
}

DType dtype_at(const Place& place) {
  const std::optional<DType> dtype =
      place.value.is_string() ? find_dtype(place.value.get<std::string>()) : std::nullopt;
  if (!dtype) place.want("a dtype, e.g. \"int8\" or \"float32\"");
  return *dtype;
}

std::string string_at(const Place& place) {
  const std::string text = place.value.is_string() ? place.value.get<std::string>() : std::string();
  if (text.empty() || std::ranges::any_of(text, is_control))
    place.want("a string of one line that is not empty");
  return text;
}

int64_t index_of(const Place& place, const std::string& key, size_t digits, const char* what) {
  if (key.empty() || key.size() > digits ||
      !std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; }))
    place.refuse(fmt::format(
        "the key is not an index, want the number of the {} as a string, \"0\" for the first",
        what));
  return std::stoll(key);
}

std::string word_at(const Place& place, std::span<const std::string> words) {
  const auto same = [&](const std::string& word) { return place.value == word; };
  if (std::ranges::none_of(words, same))
    place.want(fmt::format("one of {}", fmt::join(words, ", ")));
  return place.value.get<std::string>();
}

}  // namespace octet
