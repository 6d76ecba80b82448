#include "core/base/error.h"

#include <algorithm>

namespace octet {
namespace {

// Messages stay on one line whatever they quote.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Error::Error(const std::string& stage, const std::string& subject, const std::string& message)
    : std::runtime_error(
          one_line(stage + ": " + (subject.empty() ? "" : subject + ": ") + message)) {}

InternalError::InternalError(const char* file, int line, const char* condition,
                             const std::string& detail)
    : std::logic_error(one_line("internal error: " + std::string(file) + ":" +
                                std::to_string(line) + ": " + condition + ": " + detail)) {}

}  // namespace octet
