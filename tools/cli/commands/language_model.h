// A lowered language model for `octet generate`, `octet perplexity` and `octet bench --decode`.
#pragma once

#include <string>
#include <vector>

#include "backends/generation/decoder.h"
#include "backends/runtime/session.h"
#include "tools/cli/common/options.h"

namespace octet {

enum class Logits { kLast, kAll };  // of the last position where the program allows it

struct LanguageModel {
  // options.threads may be 0 for all CPUs. Throws Error("generate", path, ...) for a file that is
  // not a lowered program of this kind.
  LanguageModel(const std::string& path, SessionOptions options, Logits logits = Logits::kLast);
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;
  // Prints what the session warns about, once it is compiled.
  void print_warnings() const;

  Session session;
  Decoder decoder;
};

// The argument FILE and --tokenizer.
Option model_option(std::string& file);
Option tokenizer_option(std::string& file);

// Milliseconds.
struct DecodeTimes {
  double prefill = 0;               // median of a few runs; 0 if there was none
  std::vector<double> tokens = {};  // sorted
};
// Runs a prompt of `prefill` tokens, then `decode` tokens one at a time.
DecodeTimes measure_decoding(Decoder& decoder, size_t prefill, size_t decode);
// Lists the kernels that the last token of measure_decoding calls (with decode = 0, those of the
// prompt), with their times.
std::vector<KernelReport> explain_decoding(LanguageModel& model, size_t prefill, size_t decode);

}  // namespace octet
