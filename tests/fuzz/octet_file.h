// An .octet file taken apart, changed and put together again with a checksum that is right: so that
// changes reach what stands behind it. Free of torch.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/fuzz/json_mutator.h"

namespace octet::fuzz {

struct OctetFile {
  nlohmann::json header;  // its program taken out
  nlohmann::json program;
  std::string data;
};

// Nothing when the bytes are no such file.
std::optional<OctetFile> take_apart(std::span<const std::byte> bytes);
std::string put_together(OctetFile file);
// Some fields of the program, of the list of constants, or bytes of these.
void change(OctetFile& file, JsonMutator& mutator);

}  // namespace octet::fuzz
