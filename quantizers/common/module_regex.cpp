#include "quantizers/common/module_regex.h"

#include <array>
#include <regex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {

namespace {

// The library's parser and matcher recurse as deep as the text is long, so its length is limited.
constexpr size_t kMaxTextLength = 500;
constexpr size_t kMaxPathLength = 1000;

using namespace std::regex_constants;
const std::array<std::pair<error_type, const char*>, 9> kFaults = {
    {{error_complexity,
      "it has a back reference, which may take forever to match; spell out what it stands for"},
     {error_paren, "a ( or ) is unmatched, or a * + ? { repeats nothing"},
     {error_brack, "a [ or ] is unmatched"},
     {error_brace, "a { or } is unmatched"},
     {error_badbrace, "the braces hold no range, want e.g. {1,3}"},
     {error_range, "the range in [ ] is empty, want e.g. [a-z]"},
     {error_escape, "a \\ comes before a character that it cannot escape, or at the end"},
     {error_badrepeat, "a * + ? or { repeats nothing, want e.g. .*"},
     {error_backref, "a back reference names a group that does not exist"}}};

std::string fault_of(const std::regex_error& error) {
  for (const auto& [code, text] : kFaults)
    if (error.code() == code) return text;
  return "it is malformed or too complex";
}

Error fault(const std::string& text, const std::string& message) {
  return Error("quantizer", fmt::format("module_name_regex \"{}\"", text),
               "not a regular expression (ECMAScript): " + message);
}

// Selects the matcher that takes polynomial rather than exponential time; libstdc++ has both.
#ifdef __GLIBCXX__
constexpr std::regex::flag_type kSyntax = std::regex::ECMAScript | __polynomial;
#else
constexpr std::regex::flag_type kSyntax = std::regex::ECMAScript;
#endif

std::regex compile(const std::string& text) {
  if (text.size() > kMaxTextLength)
    throw fault(text.substr(0, 20) + "...",
                fmt::format("got {} characters, want at most {}", text.size(), kMaxTextLength));
  try {
    return std::regex(text, kSyntax);
  } catch (const std::regex_error& error) {
    throw fault(text, fault_of(error));
  }
}

}  // namespace

struct ModuleRegex::State {
  std::string text;
  std::regex regex;
  std::unordered_map<std::string, bool> answers;  // by path
};

ModuleRegex::ModuleRegex(const std::string& text) : state_(new State{text, compile(text), {}}) {}
ModuleRegex::~ModuleRegex() = default;
ModuleRegex::ModuleRegex(ModuleRegex&&) noexcept = default;
ModuleRegex& ModuleRegex::operator=(ModuleRegex&&) noexcept = default;

const std::string& ModuleRegex::text() const { return state_->text; }

bool ModuleRegex::matches(const std::string& path) const {
  if (path.size() > kMaxPathLength) return false;
  const auto [answer, is_new] = state_->answers.emplace(path, false);
  if (!is_new) return answer->second;
  try {
    answer->second = std::regex_match(path, state_->regex);
  } catch (const std::regex_error&) {
    throw Error(
        "quantizer", fmt::format("module_name_regex \"{}\"", text()),
        fmt::format("too many ways to match module \"{}\", want a simpler expression", path));
  }
  return answer->second;
}

}  // namespace octet
