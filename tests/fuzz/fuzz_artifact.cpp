// libFuzzer target: the input is an .octet file. Most changes are made in its fields, with a
// correct checksum.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/fuzz/octet_file.h"
#include "tests/fuzz/run_program.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

using namespace octet::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most,
                                          unsigned int seed) {
  static const std::vector<std::string> words = words_of(OCTET_FUZZ_WORDS);
  JsonMutator mutator(seed, words);
  std::optional<OctetFile> file = take_apart(std::as_bytes(std::span(bytes, size)));
  if (!file) return LLVMFuzzerMutate(bytes, size, most);
  if (mutator.below(8) == 0) {  // bytes of any part but the checksum
    file->data.resize(file->data.size() + 64);
    file->data.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(file->data.data()),
                                       file->data.size() - 64, file->data.size()));
  } else {
    change(*file, mutator);
  }
  const std::string changed = put_together(std::move(*file));
  if (changed.size() > most) return LLVMFuzzerMutate(bytes, size, most);
  std::copy(changed.begin(), changed.end(), bytes);
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  run_artifact(std::as_bytes(std::span(bytes, size)));
  return 0;
}
