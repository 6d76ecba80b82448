#include "tools/cli/common/standard_streams.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr const char* kInput = "/dev/stdin";
constexpr const char* kOutput = "/dev/stdout";
bool is_input_taken = false, is_output_taken = false;

[[noreturn]] void fail(const char* name, const std::string& what) {
  throw Error("input", name, what);
}

// Puts a file in memory in stdin's place.
void take_whole() {
  const int file = memfd_create("stdin", MFD_CLOEXEC);
  if (file < 0) fail("-", fmt::format("cannot be kept in memory: {}", std::strerror(errno)));
  std::array<char, 1 << 16> block;
  for (ssize_t got; (got = ::read(STDIN_FILENO, block.data(), block.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || ::write(file, block.data(), static_cast<size_t>(got)) != got)
      fail("-", fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  ::dup2(file, STDIN_FILENO);
  ::close(file);
}

std::string input_path(const std::string& name) {
  if (name != "-") return name;
  if (is_input_taken) fail("-", "stdin is asked for twice, want it once; name a file");
  is_input_taken = true;
  struct stat status{};
  if (::fstat(STDIN_FILENO, &status) != 0 || ::isatty(STDIN_FILENO) != 0)
    fail("-", "nothing comes in on stdin; pipe a file into the command");
  if (!S_ISREG(status.st_mode)) take_whole();
  return kInput;
}

std::string output_path(const std::string& name) {
  if (name != "-") return name;
  if (::isatty(STDOUT_FILENO) != 0)
    throw Error("output", "-", "stdout is a terminal, want a pipe or a file; name a file");
  is_output_taken = true;
  return kOutput;
}

}  // namespace

CLI::Option* accept_standard_input(CLI::Option* option) {
  return option->transform([](const std::string& name) { return input_path(name); }, "");
}

CLI::Option* accept_standard_output(CLI::Option* option) {
  return option->transform([](const std::string& name) { return output_path(name); }, "");
}

void check_free_standard_output(const char* subject) {
  if (is_output_taken)
    throw Error("output", subject,
                "prints on stdout, where the output goes; name a file for one of them");
}

}  // namespace octet
