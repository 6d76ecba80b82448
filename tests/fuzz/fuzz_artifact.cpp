// libFuzzer target: the input is an .octet file. Its checksum is not looked at, or no change would
// get further.
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "tests/fuzz/run_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    octet::fuzz::run_program(
        octet::load_program(std::as_bytes(std::span(bytes, size)), {.verifies_checksum = false}));
  } catch (const octet::Error&) {
  }
  return 0;
}
