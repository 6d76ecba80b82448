// What goes wrong, in the two kinds that callers must tell apart: the user's input (Error) and our
// own bug (OCTET_ASSERT).
#pragma once

#include <stdexcept>
#include <string>

namespace octet {

// A fault in what the user gave. what() is one line, `stage: subject: what is wrong, got G, want W;
// what to do`; the command prints it behind "octet: " and exits with 1.
class Error : public std::runtime_error {
 public:
  // stage: "pt2", "prepare", "lower", ...; subject: the file, node or option it is about.
  Error(const std::string& stage, const std::string& subject, const std::string& message);

  const std::string& stage() const { return stage_; }
  const std::string& subject() const { return subject_; }  // "" where the thrower knew none
  const std::string& message() const { return message_; }
  // `subject: message`, for whoever tells it as part of an error of another stage.
  std::string without_stage() const;

 private:
  std::string stage_, subject_, message_;
};

// A broken promise inside Octet. Its text names the place; it never describes the user's input.
class InternalError : public std::logic_error {
 public:
  InternalError(const char* file, int line, const char* condition, const std::string& detail);
};

}  // namespace octet

// OCTET_ASSERT(node != nullptr, "erased twice"): throws InternalError when the condition does not
// hold; on in all builds.
#define OCTET_ASSERT(condition, detail)                                                       \
  do {                                                                                        \
    if (!(condition)) throw ::octet::InternalError(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)
