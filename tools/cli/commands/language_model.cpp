#include "tools/cli/commands/language_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/runtime/last_logits.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "lowering/program/artifact.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

Program load_model(const std::string& path, Logits logits) {
  if (!has_suffix(path, ".octet"))
    throw Error("generate", path, "is not an .octet program; lower it with `octet lower`");
  Program program = load_program(path);
  if (logits == Logits::kLast) keep_last_logits(program, 1);
  return program;
}

SessionOptions with_threads(SessionOptions options) {
  if (options.threads == 0) options.threads = default_threads();
  return options;
}

double milliseconds_of(Decoder& decoder, const std::vector<int64_t>& tokens, size_t start) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point before = Clock::now();
  decoder.scores(tokens, start);
  return std::chrono::duration<double, std::milli>(Clock::now() - before).count();
}

}  // namespace

LanguageModel::LanguageModel(const std::string& path, SessionOptions options, Logits logits)
    : session(load_model(path, logits), with_threads(std::move(options))), decoder(session) {}

void LanguageModel::print_warnings() const {
  for (const std::string& warning : session.warnings()) log_warning(warning);
}

Option model_option(std::string& file) {
  return Option{"file", &file, "The language model, .octet"}.positional().required().file();
}

Option tokenizer_option(std::string& file) {
  return Option{"tokenizer", &file, "The model's tokenizer.json, or a GGUF file with its tokenizer"}
      .required()
      .file();
}

namespace {

std::vector<int64_t> made_up_prompt(const Decoder& decoder, size_t length) {
  const size_t words = std::max<size_t>(decoder.words(), 1);
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < length; ++i) tokens.push_back(static_cast<int64_t>(i * 7919 % words));
  return tokens;
}

}  // namespace

DecodeTimes measure_decoding(Decoder& decoder, size_t prefill, size_t decode) {
  constexpr int kPrefills = 3;
  const size_t words = std::max<size_t>(decoder.words(), 1);
  const std::vector<int64_t> tokens = made_up_prompt(decoder, prefill);
  DecodeTimes times;
  if (prefill > 0) {
    milliseconds_of(decoder, tokens, 0);  // compiles
    std::vector<double> runs;
    for (int i = 0; i < kPrefills; ++i) runs.push_back(milliseconds_of(decoder, tokens, 0));
    std::sort(runs.begin(), runs.end());
    times.prefill = runs[kPrefills / 2];
  }
  if (decode > 0) milliseconds_of(decoder, {0}, prefill);  // compiles
  for (size_t i = 0; i < decode; ++i)
    times.tokens.push_back(
        milliseconds_of(decoder, {static_cast<int64_t>(i * 104729 % words)}, prefill + i));
  std::sort(times.tokens.begin(), times.tokens.end());
  return times;
}

std::vector<KernelReport> explain_decoding(LanguageModel& model, size_t prefill, size_t decode) {
  const bool is_token = decode > 0;
  const std::vector<int64_t> tokens =
      is_token ? std::vector<int64_t>{0} : made_up_prompt(model.decoder, prefill);
  model.session.time_kernels(true);
  for (int i = 0, runs = is_token ? 20 : 3; i < runs; ++i)
    model.decoder.scores(tokens, is_token ? prefill + decode - 1 : 0);
  const std::vector<KernelReport> kernels = model.session.kernels();
  model.session.time_kernels(false);
  return kernels;
}

}  // namespace octet
