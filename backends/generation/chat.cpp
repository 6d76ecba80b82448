#include "backends/generation/chat.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

struct ChatFamily {
  const char* name;
  std::vector<const char*> marks;  // all are in the template, which has no other row's before
  // The default message of the system; DATE is replaced by the template's date. With an end, the
  // template itself has the message between the two, if it has one.
  const char* system;
  const char* system_end;
  const char* user;
  const char* user_end;
  const char* answer;
  bool trims;  // white space around the message
};

constexpr const char* kLlamaSystem =
    "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
    "Today Date: DATE\n\n<|eot_id|>";

const std::vector<ChatFamily>& chat_families() {
  // clang-format off
  static const std::vector<ChatFamily> rows = {
      {"ChatML", {"<|im_start|>", "<|im_end|>"}, "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n", false},
      {"Llama 3.1", {"<|start_header_id|>", "Cutting Knowledge Date: December 2023\n"}, kLlamaSystem, nullptr, "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n", true},
      {"Llama 3", {"<|start_header_id|>", "<|eot_id|>"}, "", nullptr, "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n", true},
      {"Gemma", {"<start_of_turn>", "<end_of_turn>\n"}, "", nullptr, "<start_of_turn>user\n", "<end_of_turn>\n", "<start_of_turn>model\n", true},
      {"Phi-3", {"<|user|>\n", "<|end|>\n", "<|assistant|>\n"}, "", nullptr, "<|user|>\n", "<|end|>\n", "<|assistant|>\n", false},
      {"Mistral", {"[INST] ", " [/INST]"}, "", nullptr, "[INST] ", " [/INST]", "", false},
  };
  // clang-format on
  return rows;
}

// A template writes a line feed as itself or, in a string, as \n.
std::string with_line_feeds(std::string text) {
  for (size_t at; (at = text.find("\\n")) != std::string::npos;) text.replace(at, 2, 1, '\n');
  return text;
}

// "<|im_start|>system\nYou are ...<|im_end|>\n": the system's message within one string of the
// template, up to the quote that ends it.
std::string system_in(const std::string& form, const ChatFamily& family) {
  const std::string begin = family.system, end = family.system_end;
  for (size_t at = 0; (at = form.find(begin, at)) != std::string::npos; at += begin.size()) {
    const char quote = at == 0 ? '\'' : form[at - 1];
    const size_t stop = form.find(end, at);
    if (stop != std::string::npos && form.find(quote, at) > stop)
      return form.substr(at, stop - at) + end;
  }
  return "";
}

std::string date_of(const std::string& form) {
  if (form.find("strftime_now") == std::string::npos) return "26 Jul 2024";
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{:02d} {} {}", day.tm_mday, kMonths[day.tm_mon], 1900 + day.tm_year);
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

std::string chat_prompt(const tokenizer::Tokenizer& words, const std::string& message) {
  if (words.chat_template.empty())
    throw Error("generate", words.file,
                "has no chat template, and there is none in tokenizer_config.json beside it; leave "
                "out --chat, or write the prompt as the model expects it");
  const std::string form = with_line_feeds(words.chat_template);
  const auto fits = [&](const ChatFamily& family) {
    return std::all_of(family.marks.begin(), family.marks.end(),
                       [&](const char* mark) { return has(form, mark); });
  };
  const auto family = std::find_if(chat_families().begin(), chat_families().end(), fits);
  std::vector<const char*> names;
  for (const ChatFamily& row : chat_families()) names.push_back(row.name);
  const bool has_end = family != chat_families().end() && family->system_end != nullptr;
  if (family == chat_families().end() || (has_end && has(form, "strftime_now")))
    throw Error("generate", words.file,
                fmt::format("has a chat template of another family than {}; leave out --chat, and "
                            "write the prompt as the model expects it",
                            fmt::join(names, ", ")));
  std::string system = has_end ? system_in(form, *family) : family->system;
  if (const size_t date = system.find("DATE"); !has_end && date != std::string::npos)
    system.replace(date, 4, date_of(form));
  const bool trims = family->trims || has(form, "strip()");
  return (has(form, "bos_token") ? words.begin_token : "") + system + family->user +
         (trims ? trimmed(message) : message) + family->user_end + family->answer;
}

}  // namespace octet
