// Implements octet perplexity, which measures how well a lowered language model predicts a text.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/language_model.h"
#include "tools/cli/commands/runnable.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

struct PerplexityRequest {
  std::string file, tokenizer, data;
  size_t window = 512;
  bool json = false;
  SessionOptions session = {.threads = 0};
};

Options options_of(PerplexityRequest& request) {
  return joined({
      {
          model_option(request.file),
          tokenizer_option(request.tokenizer),
          Option{"data", &request.data, "The text, UTF-8"}.required().file(),
          Option{"window", &request.window,
                 "Split the text into windows of this many tokens; each starts with an empty cache"}
              .between(2, 1 << 20),
          Option{"json", &request.json, "Print one JSON object"},
      },
      session_options(request.session),
  });
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("perplexity", path, "cannot be read; give a text file");
  return {std::istreambuf_iterator<char>(file), {}};
}

// -log of the probability that the scores give a token.
double loss(const std::vector<float>& scores, int64_t token) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const float score : scores) total += std::exp(static_cast<double>(score) - most);
  return std::log(total) + most - static_cast<double>(scores[static_cast<size_t>(token)]);
}

struct Result {
  double loss = 0;
  size_t predicted = 0, windows = 0;
};

// Each token but the first of a window is predicted from those before it in the window.
Result measure(Decoder& decoder, const std::vector<int64_t>& tokens,
               const std::vector<int64_t>& prefix, size_t size) {
  Result result;
  Progress progress({{"perplexity"}});
  progress.begin("perplexity");
  const size_t step = size - prefix.size();
  for (size_t at = 0; at < tokens.size(); at += step) {
    std::vector<int64_t> window = prefix;
    const size_t end = std::min(at + step, tokens.size());
    window.insert(window.end(), tokens.begin() + static_cast<long>(at),
                  tokens.begin() + static_cast<long>(end));
    if (window.size() < 2) break;
    const std::vector<std::vector<float>>& scores = decoder.all_scores(window, 0);
    if (scores.size() != window.size())
      throw Error("perplexity", "model",
                  fmt::format("gives scores for {} of {} tokens, want all; export it without "
                              "selecting the last one",
                              scores.size(), window.size()));
    for (size_t i = 1; i < window.size(); ++i) result.loss += loss(scores[i - 1], window[i]);
    result.predicted += window.size() - 1;
    ++result.windows;
    progress.advance(end, tokens.size());
  }
  return result;
}

void perplexity(PerplexityRequest& request) {
  const tokenizer::Tokenizer words = tokenizer::read_tokenizer(request.tokenizer);
  const std::vector<int64_t> tokens = words.encode(text_of(request.data), false);
  LanguageModel model(request.file, request.session, Logits::kAll);
  model.decoder.check(tokens, &words);
  if (words.prefix.size() + tokens.size() < 2)
    throw Error("perplexity", request.data,
                fmt::format("has {} tokens, want at least 2", tokens.size()));
  if (request.window <= words.prefix.size())
    throw Error("perplexity", "window",
                fmt::format("is {}, want more than the {} tokens that begin a text", request.window,
                            words.prefix.size()));
  const Result result = measure(model.decoder, tokens, words.prefix, request.window);
  model.print_warnings();
  const double value = std::exp(result.loss / static_cast<double>(result.predicted));
  if (!std::isfinite(value))
    throw Error("perplexity", "model",
                "its scores are not finite; compare the program with the "
                "float one");
  if (request.json)
    return print_json(dump_json(nlohmann::ordered_json{{"perplexity", value},
                                                       {"tokens", tokens.size()},
                                                       {"predicted", result.predicted},
                                                       {"windows", result.windows},
                                                       {"window", request.window}}) +
                      "\n");
  print_text(fmt::format("perplexity {:.3f} of {} tokens ({} predicted in {} windows of {})\n",
                         value, tokens.size(), result.predicted, result.windows, request.window));
}

}  // namespace

void add_perplexity_command(CLI::App& app) {
  add_command<PerplexityRequest>(
      app, "perplexity", "Measure how well a language model (.octet) predicts a text", perplexity);
}

}  // namespace octet
