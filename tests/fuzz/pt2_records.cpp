#include "tests/fuzz/pt2_records.h"

#include <iterator>

#include "core/pt2/archive.h"

namespace octet::fuzz {
namespace {

constexpr const char* kNumbers[] = {"-1",
                                    "0",
                                    "1",
                                    "2147483648",
                                    "4294967296",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551615",
                                    "1e999"};
constexpr const char* kTexts[] = {"null", "[]", "{}", "\"\"", "true", "[[[[[[[[[[[[]]]]]]]]]]]]"};

// The run of such characters from `at` on, and its replacement.
void replace_token(std::string& bytes, const char* characters, const std::string& token,
                   size_t at) {
  const size_t begin = bytes.find_first_of(characters, at);
  if (begin == std::string::npos) return;
  bytes.replace(begin, bytes.find_first_not_of(characters, begin) - begin, token);
}

}  // namespace

Records records_of(const std::filesystem::path& path) {
  const ArchiveReader reader(path, "fuzz");
  Records records;
  for (const std::string& name : reader.names())
    if (!name.starts_with(".data/") && name != "byteorder")
      records.emplace_back(name, reader.read(name));
  return records;
}

void write_archive(const std::filesystem::path& path, const Records& records) {
  ArchiveWriter writer(path, "fuzz");
  for (const auto& [name, bytes] : records) writer.write(name, bytes);
  writer.commit();
}

bool is_text(const Record& record) {
  return !record.second.empty() && (record.second.front() == '{' || record.second.front() == '[');
}

void change_fields(std::string& text, JsonMutator& mutator) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) return;
  mutator.change_some(value);
  text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Mutator::change(std::string& bytes) {
  if (bytes.empty()) return;
  const size_t at = below(bytes.size());
  switch (below(6)) {
    case 0: bytes[at] = static_cast<char>(below(256)); return;
    case 1: bytes.erase(at, 1 + below(20)); return;
    case 2: bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(40))); return;
    case 3: return replace_token(bytes, "0123456789-.", kNumbers[below(std::size(kNumbers))], at);
    case 4:
      return replace_token(bytes, "abcdefghijklmnopqrstuvwxyz_0123456789.",
                           kNumbers[below(std::size(kNumbers))], at);
    default: {  // what follows a colon up to the next comma or bracket
      const size_t colon = bytes.find(": ", at);
      if (colon == std::string::npos) return;
      bytes.replace(colon + 2, bytes.find_first_of(",]}", colon) - colon - 2,
                    kTexts[below(std::size(kTexts))]);
    }
  }
}

}  // namespace octet::fuzz
