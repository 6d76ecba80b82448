#include "tools/cli/common/files.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr const char* kInput = "/dev/stdin";
constexpr const char* kOutput = "/dev/stdout";
bool is_input_taken = false, is_output_taken = false;

[[noreturn]] void fail(const char* name, const std::string& what) {
  throw Error("input", name, what);
}

// Replaces stdin by a file in memory.
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

}  // namespace

std::string input_path(const std::string& name) {
  if (name != "-") return name;
  if (is_input_taken) fail("-", "stdin is used twice, want it once; name a file");
  is_input_taken = true;
  struct stat status{};
  if (::fstat(STDIN_FILENO, &status) != 0 || ::isatty(STDIN_FILENO) != 0)
    fail("-", "stdin is empty; pipe a file into the command");
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

void check_free_standard_output(const char* subject) {
  if (is_output_taken)
    throw Error("output", subject,
                "prints on stdout, where the output goes; name a file for one of them");
}

at::Tensor tensor_of_text(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of_tensor(const at::Tensor& bytes) {
  if (bytes.scalar_type() != at::kByte) return {};
  const at::Tensor dense = bytes.contiguous();
  return std::string(static_cast<const char*>(dense.const_data_ptr()),
                     static_cast<size_t>(dense.numel()));
}

}  // namespace octet
