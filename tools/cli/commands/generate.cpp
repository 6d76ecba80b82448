// Implements octet generate, which continues a prompt with a lowered language model.
#include "backends/generation/generate.h"

#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "backends/generation/chat.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/language_model.h"
#include "tools/cli/commands/runnable.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;

struct GenerateRequest {
  std::string file, tokenizer, prompt;
  bool is_chat = false;
  std::optional<size_t> seed;
  GenerateOptions generation;
  SessionOptions session = {.threads = 0};
};

Options options_of(GenerateRequest& request) {
  Sampling& sampling = request.generation.sampling;
  return joined({
      {
          model_option(request.file),
          tokenizer_option(request.tokenizer),
          Option{"prompt", &request.prompt, "The text to continue"}.required(),
          Option{"chat", &request.is_chat,
                 "The prompt is a message: ask for an answer by the chat template of the GGUF "
                 "file, or of tokenizer_config.json beside tokenizer.json"},
          Option{"max_tokens", &request.generation.max_tokens, "Generate at most this many tokens"}
              .not_negative(),
          Option{"temperature", &sampling.temperature,
                 "Divide scores by it before a random choice; 0 takes the best token each time"}
              .not_negative(),
          Option{"top_k", &sampling.top_k, "Choose among this many best tokens; 0: all"}
              .not_negative(),
          Option{"top_p", &sampling.top_p,
                 "Choose among the fewest best tokens that have this probability together"}
              .between(0, 1),
          Option{"seed", &request.seed,
                 "Of the random choices: the same seed gives the same tokens"},
          Option{"stop", &request.generation.stop,
                 "A token, or its id, that ends the text (default: each special token)"}
              .repeated(),
      },
      session_options(request.session),
  });
}

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

void generate(GenerateRequest& request) {
  const tokenizer::Tokenizer words = tokenizer::read_tokenizer(request.tokenizer);
  const std::vector<int64_t> prompt = request.is_chat
                                          ? words.encode(chat_prompt(words, request.prompt), false)
                                          : words.encode(request.prompt);
  LanguageModel model(request.file, request.session);
  request.generation.seed = request.seed;
  size_t count = 0;
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start;
  generate(model.decoder, words, prompt, request.generation, [&](const Token& token) {
    if (count++ == 0) first = Clock::now();
    print_text(token.text);
    std::fflush(stdout);
    return true;
  });
  print_text("\n");
  std::fflush(stdout);
  model.print_warnings();
  const double rest = seconds_between(first, Clock::now());
  std::string speed = fmt::format("prompt of {} tokens in {:.2f} s; {} tokens", prompt.size(),
                                  seconds_between(start, first), count);
  if (count > 1 && rest > 0)
    speed += fmt::format(", {:.1f} tokens/s", static_cast<double>(count - 1) / rest);
  log_line(speed);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  add_command<GenerateRequest>(app, "generate", "Continue a text with a language model (.octet)",
                               generate);
}

}  // namespace octet
