// A Program as a file (.octet): the safetensors layout, so that it is mapped, not copied.
//   8 bytes   length of the header, little endian
//   header    JSON: {"__metadata__": {"format": "octet", "version": "1", "program": "<JSON text>"}, "<constant>": {"dtype", "shape",
//             "data_offsets"}...}, padded with spaces so that the data starts at a multiple of 64
//   data      the constants, row-major, each at a multiple of 64 from the start of the data
// A stored constant w is "w:values" (or "w:i4", "w:u4": two values in a byte, the first in the low half), "w:scale" and, unless 0, "w:zero_point".
#pragma once

#include <filesystem>

#include "lowering/program.h"

namespace octet {

// Writes beside `path`, then renames: the file appears whole or not at all. Throws Error when it cannot be written.
void save_program(const Program& program, const std::filesystem::path& path);

// Constants are views of the mapped file. Throws Error("artifact", file, ...) on anything that is not a program of this format version.
Program load_program(const std::filesystem::path& path);

}  // namespace octet
