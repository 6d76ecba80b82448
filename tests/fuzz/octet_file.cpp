#include "tests/fuzz/octet_file.h"

#include <cstring>

#include "lowering/program/artifact_format.h"

namespace octet::fuzz {

using nlohmann::json;

std::optional<OctetFile> take_apart(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string_view rest(reinterpret_cast<const char*>(bytes.data()) + sizeof(length),
                              bytes.size() - sizeof(length));
  if (length > rest.size()) return std::nullopt;
  OctetFile file{
      json::parse(rest.substr(0, length), nullptr, false), {}, std::string(rest.substr(length))};
  if (!file.header.is_object() || !file.header.contains("__metadata__")) return std::nullopt;
  json& metadata = file.header["__metadata__"];
  if (!metadata.is_object() || !metadata.contains("program") || !metadata["program"].is_string())
    return std::nullopt;
  file.program = json::parse(metadata["program"].get_ref<const std::string&>(), nullptr, false);
  if (file.program.is_discarded()) return std::nullopt;
  metadata.erase("program");
  return file;
}

std::string put_together(OctetFile file) {
  constexpr auto kReplace = json::error_handler_t::replace;
  if (file.header.contains("__metadata__") && file.header["__metadata__"].is_object()) {
    json& metadata = file.header["__metadata__"];
    metadata["program"] = file.program.dump(-1, ' ', false, kReplace);
    metadata["checksum"] = artifact::checksum_digits(0);
  }
  std::string text = file.header.dump(-1, ' ', false, kReplace);
  text.resize(artifact::aligned(8 + text.size()) - 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += text + file.data;
  if (const std::optional<size_t> digits = artifact::find_checksum(text)) {
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(bytes)));
    bytes.replace(sizeof(length) + *digits, artifact::kChecksumDigits,
                  artifact::checksum_digits(checksum.value()));
  }
  return bytes;
}

void change(OctetFile& file, JsonMutator& mutator) {
  const size_t what = mutator.below(8);
  if (what < 5) {
    mutator.change_some(file.program);
  } else if (what < 7 || file.data.empty()) {
    mutator.change_some(file.header);
  } else {
    for (size_t i = 0, n = 1 + mutator.below(16); i < n; ++i)
      file.data[mutator.below(file.data.size())] = static_cast<char>(mutator.below(256));
  }
}

}  // namespace octet::fuzz
