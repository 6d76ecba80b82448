// A file that somebody named as an output: whole or not at all, and with the place, mode and owner
// that it had. Free of torch.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct stat;

namespace octet {

// Bytes go to NAME.PID.NUMBER.tmp beside the file, a new file that its owner alone may read. When
// they are complete and on the disk, it takes the file's place. A symbolic link stays, and what it
// leads to is replaced; the new file has the old one's mode, and its owner where that is allowed.
// What is no regular file (a device, a pipe) is written into.
// Those of this user that no living process writes any more, left behind by one that was killed,
// are removed on the way.
class OutputFile {  // without commit(): as if nothing had been
 public:
  // stage: of the Error that every member throws when the file cannot be written.
  OutputFile(const std::filesystem::path& path, std::string stage);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();
  // Failures show in commit().
  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  // NAME.PID.NUMBER.tmp, gone when this is.
  class Temporary {
   public:
    // before: of the file that it is to replace, or null. `fault` is errno when it cannot be made,
    // else 0.
    Temporary(const std::filesystem::path& target, const struct stat* before, int& fault);
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() { drop(); }

    // Gives it the final mode and owner, and waits for the disk. Returns errno, or 0.
    int complete() const;
    const std::filesystem::path& path() const { return path_; }
    int file() const { return file_; }

   private:
    bool make(const std::filesystem::path& target, int& fault);
    void drop();

    std::filesystem::path path_;
    unsigned final_mode_;
    std::optional<std::pair<unsigned, unsigned>> owner_;  // user and group to take over
    int file_ = -1;  // open for writing; locked, which tells others that it has a writer
    int slot_ = -1;  // among the unfinished
  };

  [[noreturn]] void fail(int code) const;
  void flush();
  void put(std::string_view bytes);

  std::filesystem::path path_, target_;  // as given; behind links
  std::string stage_;
  std::optional<Temporary> temporary_;  // none when written straight into
  int special_ = -1;                    // what is then written into, open
  std::string buffer_;
  int fault_ = 0;  // errno of the first write that failed
};

void write_file(const std::filesystem::path& path, std::string_view bytes,
                const std::string& stage);

// Whether two names lead to one file, through links, too. Of files that are not there yet: whether
// the names are the same. False for devices and pipes.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Throws Error(stage, path, ...) when `path` is one of `inputs`, which writing would destroy.
void check_no_input(const std::filesystem::path& path, const std::vector<std::string>& inputs,
                    const std::string& stage);

// Throws Error(stage, path, ...) when a file cannot be put there: no such folder, a folder that is
// read-only, a folder of that name, a device that may not be written. Changes nothing.
void check_writable(const std::filesystem::path& path, const std::string& stage);

// Removes the temporary files that this process is writing. For signal handlers: calls nothing that
// they may not. Returns the outputs' number.
int remove_unfinished_files() noexcept;

}  // namespace octet
