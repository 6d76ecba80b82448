// The two kinds of errors that callers must tell apart: faults in the user's input (Error) and bugs
// in Octet (OCTET_ASSERT).
#pragma once

#include <stdexcept>
#include <string>

namespace octet {

// A fault in the user's input. what() is one line, `stage: subject: what is wrong, got G, want W;
// what to do`. The command prints it after "octet: " and exits with 1.
class Error : public std::runtime_error {
 public:
  // stage: "pt2", "prepare", "lower", ...; subject: the file, node or option it is about.
  Error(const std::string& stage, const std::string& subject, const std::string& message);

  const std::string& stage() const { return stage_; }
  const std::string& subject() const { return subject_; }  // "" when unknown
  const std::string& message() const { return message_; }
  // `subject: message`, for use in an error of another stage.
  std::string without_stage() const;

 private:
  std::string stage_, subject_, message_;
};

// A bug in Octet. The text names the place in the source and never describes the user's input.
class InternalError : public std::logic_error {
 public:
  InternalError(const char* file, int line, const char* condition, const std::string& detail);
};

}  // namespace octet

// OCTET_ASSERT(node != nullptr, "erased twice"): throws InternalError when the condition is false;
// active in all builds.
#define OCTET_ASSERT(condition, detail)                                                       \
  do {                                                                                        \
    if (!(condition)) throw ::octet::InternalError(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)
