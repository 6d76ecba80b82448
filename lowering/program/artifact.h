// Saves a Program as an .octet file and loads it back. The file has the safetensors layout, so
// constants are mapped, not copied; lowering/ARTIFACT.md describes it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "lowering/program/program.h"

namespace octet {

// Writes the file whole or not at all (core/base/output_file.h). Throws Error when that fails.
// call_spec: how the exported module is called, which no run depends on (import/call_spec.h).
void save_program(const Program& program, const std::filesystem::path& path,
                  const std::string& call_spec = "");
// The bytes of the file that save_program writes.
std::string program_bytes(const Program& program, const std::string& call_spec = "");

struct LoadOptions {
  // compares all bytes with the checksum in the file; without it only the bytes in use are read
  bool verifies_checksum = true;
  std::string* call_spec = nullptr;  // receives that of the file, if not null
};

// Constants are views of the mapped file. Throws Error("artifact", file, ...) on anything that is
// not a program of a supported version. Allocates nothing of a size that only the file claims.
Program load_program(const std::filesystem::path& path, const LoadOptions& options = {});
// Loads from the bytes of a file, which must outlive the program. Copies them if they do not start
// at a multiple of 64.
Program load_program(std::span<const std::byte> bytes, const LoadOptions& options = {});

}  // namespace octet
