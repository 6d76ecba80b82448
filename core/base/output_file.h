// A file that somebody named as an output: whole or not at all, and with the place, mode and owner
// that it had. Free of torch.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace octet {

// Bytes go to NAME.PID.COUNT.tmp beside the file, which takes its place when they are complete. A
// symbolic link stays, and what it leads to is replaced; the new file has the old one's mode, and
// its owner where that is allowed. What is no regular file (a device, a pipe) is written into.
// Those that no living process writes any more, left behind by one that was killed, are removed on
// the way.
class OutputFile {  // without commit(): as if nothing had been
 public:
  // stage: of the Error that every member throws when the file cannot be written.
  OutputFile(const std::filesystem::path& path, std::string stage);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Failures show in commit().
  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  // NAME.PID.COUNT.tmp, gone when this is.
  class Temporary {
   public:
    // `fault` is errno when it cannot be made, else 0.
    Temporary(const std::filesystem::path& target, int& fault);
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary();

    void take_over(int mode, unsigned owner, unsigned group) const;
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
    int lock_ = -1;  // tells others that the file has a writer
    int slot_ = -1;  // among the unfinished
  };

  [[noreturn]] void fail(const std::string& why) const;

  std::filesystem::path path_, target_;  // as given; behind links
  std::string stage_;
  std::optional<Temporary> temporary_;  // none when written straight into
  std::ofstream file_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes,
                const std::string& stage);

// Throws Error(stage, path, ...) when a file cannot be put there: no such folder, a folder that is
// read-only, a folder of that name, a device that may not be written. Changes nothing.
void check_writable(const std::filesystem::path& path, const std::string& stage);

// Removes the temporary files that this process is writing. For signal handlers: calls nothing that
// they may not. Returns the outputs' number.
int remove_unfinished_files() noexcept;

}  // namespace octet
