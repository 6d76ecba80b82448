// libFuzzer target: the input is the JSON text of the program in an .octet file. Most changes are
// made in its fields.
#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/run_program.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

using namespace octet::fuzz;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most,
                                          unsigned int seed) {
  static const std::vector<std::string> words = words_of(OCTET_FUZZ_WORDS);
  JsonMutator mutator(seed, words);
  nlohmann::json program = nlohmann::json::parse(bytes, bytes + size, nullptr, false);
  if (program.is_discarded() || mutator.below(8) == 0) return LLVMFuzzerMutate(bytes, size, most);
  mutator.change_some(program);
  const std::string changed =
      program.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (changed.size() > most) return LLVMFuzzerMutate(bytes, size, most);
  std::copy(changed.begin(), changed.end(), bytes);
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  run_program_text(std::string(reinterpret_cast<const char*>(bytes), size));
  return 0;
}
