#include "core/base/error.h"

#include <algorithm>

#include "core/base/printable.h"

namespace octet {
namespace {

// Quoted text may have any length and contain any bytes: keeps messages short, printable and on one
// line.
constexpr size_t kLongestSubject = 300, kLongestMessage = 4000;

std::string one_line(std::string text, size_t most) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return short_line(text, most);
}

std::string joined(const std::string& subject, const std::string& message) {
  return subject.empty() ? message : subject + ": " + message;
}

}  // namespace

Error::Error(const std::string& stage, const std::string& subject, const std::string& message)
    : std::runtime_error(
          stage + ": " +
          joined(one_line(subject, kLongestSubject), one_line(message, kLongestMessage))),
      stage_(stage),
      subject_(one_line(subject, kLongestSubject)),
      message_(one_line(message, kLongestMessage)) {}

std::string Error::without_stage() const { return joined(subject_, message_); }

InternalError::InternalError(const char* file, int line, const char* condition,
                             const std::string& detail)
    : std::logic_error(one_line("internal error: " + std::string(file) + ":" +
                                    std::to_string(line) + ": " + condition + ": " + detail,
                                kLongestMessage)) {}

}  // namespace octet
