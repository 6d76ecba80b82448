// The C interface of text generation.
#include "backends/generation/chat.h"
#include "backends/generation/generate.h"
#include "backends/runtime/c_calls.h"

struct octet_tokenizer {
  octet::tokenizer::Tokenizer words;
};

namespace octet {
namespace {

void check_number(const char* name, double value, double most, const char* wanted) {
  if (!(value >= 0 && value <= most))
    throw Error("octet", "octet_generation", fmt::format("{} is {}, want {}", name, value, wanted));
}

GenerateOptions options_of(const octet_generation& given) {
  check_number("temperature", given.temperature, 1e9, "at least 0");
  check_number("top_p", given.top_p, 1, "0 to 1");
  GenerateOptions options;
  if (given.max_tokens != 0) options.max_tokens = given.max_tokens;
  if (given.seed != nullptr) options.seed = *given.seed;
  options.sampling.temperature = given.temperature;
  options.sampling.top_k = given.top_k;
  if (given.top_p != 0) options.sampling.top_p = given.top_p;
  return options;
}

}  // namespace
}  // namespace octet

octet_tokenizer* octet_load_tokenizer(const char* path) {
  octet_tokenizer* result = nullptr;
  octet::guarded([&] {
    octet::require(path, "path");
    result = new octet_tokenizer{octet::tokenizer::read_tokenizer(path)};
  });
  return result;
}

void octet_free_tokenizer(octet_tokenizer* tokenizer) { delete tokenizer; }

octet_status octet_generate(octet_model* model, const octet_tokenizer* tokenizer,
                            const char* prompt, const octet_generation* options,
                            octet_take_token take, void* user) {
  return octet::guarded([&] {
    octet::require(model, "model");
    octet::require(tokenizer, "tokenizer");
    octet::require(prompt, "prompt");
    if (take == nullptr) octet::require(nullptr, "take");
    const octet_generation given = octet::known_part(options, "octet_generation");
    const octet::tokenizer::Tokenizer& words = tokenizer->words;
    octet::Decoder decoder(model->session);
    octet::generate(decoder, words,
                    given.is_chat != 0 ? words.encode(octet::chat_prompt(words, prompt), false)
                                       : words.encode(prompt),
                    octet::options_of(given), [&](const octet::Token& token) {
                      return take(user, token.id, token.text.c_str()) == 0;
                    });
  });
}
