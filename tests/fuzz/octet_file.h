// Takes an .octet file apart and puts it together again with a correct checksum, so that changes
// reach the code after the check. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/fuzz/json_mutator.h"

namespace octet::fuzz {

struct OctetFile {
  nlohmann::json header;  // without its program
  nlohmann::json program;
  std::string data;
};

// nullopt when the bytes are not an .octet file.
std::optional<OctetFile> take_apart(std::span<const std::byte> bytes);
std::string put_together(OctetFile file);
// Changes some fields of the program, of the list of constants, or bytes of constants.
void change(OctetFile& file, JsonMutator& mutator);

}  // namespace octet::fuzz
