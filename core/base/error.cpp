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
          one_line(stage + ": " + (subject.empty() ? "" : subject + ": ") + message)),
      stage_(stage),
      subject_(one_line(subject)),
      message_(one_line(message)) {}

std::string Error::without_stage() const {
  return subject_.empty() ? message_ : subject_ + ": " + message_;
}

InternalError::InternalError(const char* file, int line, const char* condition,
                             const std::string& detail)
    : std::logic_error(one_line("internal error: " + std::string(file) + ":" +
                                std::to_string(line) + ": " + condition + ": " + detail)) {}

}  // namespace octet
