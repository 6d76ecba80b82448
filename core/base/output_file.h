// Writes output files atomically: whole or not at all, keeping the place, mode and owner of a file
// that is replaced. Free of torch.
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

// An output file. Bytes go to NAME.PID.NUMBER.tmp beside it, a new file that only its owner may
// read. commit() replaces the file when they are complete and on the disk. A symbolic link is kept
// and its target is replaced. The new file gets the old one's mode and, where allowed, owner.
// Anything but a regular file (a device, a pipe) is written directly. Temporary files of this user
// that killed processes left are removed.
class OutputFile {  // without commit() nothing changes
 public:
  // stage: of the Error that members throw when the file cannot be written.
  OutputFile(const std::filesystem::path& path, std::string stage);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();
  // Failures are reported by commit().
  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  // The file NAME.PID.NUMBER.tmp; the destructor removes it.
  class Temporary {
   public:
    // before: of the file to replace, or null. `fault` is errno when the file cannot be created,
    // else 0.
    Temporary(const std::filesystem::path& target, const struct stat* before, int& fault);
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() { drop(); }

    // Sets the final mode and owner and waits for the disk. Returns errno, or 0.
    int complete() const;
    const std::filesystem::path& path() const { return path_; }
    int file() const { return file_; }

   private:
    bool make(const std::filesystem::path& target, int& fault);
    void drop();

    std::filesystem::path path_;
    unsigned final_mode_;
    std::optional<std::pair<unsigned, unsigned>> owner_;  // user and group to set
    int file_ = -1;  // open for writing; a lock shows others that it has a writer
    int slot_ = -1;  // in the list of unfinished files
  };

  [[noreturn]] void fail(int code) const;
  void flush();
  void put(std::string_view bytes);

  std::filesystem::path path_, target_;  // as given; with links resolved
  std::string stage_;
  std::optional<Temporary> temporary_;  // none when writing directly
  int special_ = -1;                    // then the open file
  std::string buffer_;
  int fault_ = 0;  // errno of the first write that failed
};

void write_file(const std::filesystem::path& path, std::string_view bytes,
                const std::string& stage);

// Whether two names lead to the same file, also through links. For files that do not exist: whether
// the names are equal. False for devices and pipes.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Throws Error(stage, path, ...) when `path` is one of `inputs`, which writing would destroy.
void check_no_input(const std::filesystem::path& path, const std::vector<std::string>& inputs,
                    const std::string& stage);

// Throws Error(stage, path, ...) when a file cannot be written there: no such folder, a read-only
// folder, a folder of that name, a device without permission. Changes nothing.
void check_writable(const std::filesystem::path& path, const std::string& stage);

// Removes the temporary files that this process is writing. Safe in signal handlers. Returns the
// number of outputs.
int remove_unfinished_files() noexcept;

}  // namespace octet
