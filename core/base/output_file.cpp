#include "core/base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tmp";

// Paths of unfinished files in memory that a signal handler may read.
struct Slot {
  std::atomic<int> state{0};  // 0 free, 1 being changed, 2 in use
  char path[PATH_MAX] = {};
};
std::array<Slot, 16> slots;

// -1 when there is no room: the file then remains when the process is killed.
int register_unfinished(const fs::path& path) {
  const std::string text = fs::absolute(path).string();
  if (text.size() >= PATH_MAX) return -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = 0;
    if (!slots[i].state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(slots[i].path, text.c_str(), text.size() + 1);
    slots[i].state = 2;
    return static_cast<int>(i);
  }
  return -1;
}

void unregister(int slot) {
  if (slot >= 0) slots[static_cast<size_t>(slot)].state = 0;
}

// The target of a chain of links, which may not exist yet. A cycle of links is returned unchanged,
// and opening it fails.
fs::path behind_links(fs::path path) {
  std::error_code failure;
  for (int i = 0; i < 40 && fs::is_symlink(path, failure); ++i) {
    const fs::path to = fs::read_symlink(path, failure);
    if (failure) break;
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return path;
}

fs::path folder_of(const fs::path& file) {
  return file.parent_path().empty() ? "." : file.parent_path();
}

// Makes a rename in the folder survive a power loss, on file systems that support it.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

// The umask, which cannot be read without setting it for all threads.
mode_t mask_of_new_files() {
  constexpr std::string_view kName = "Umask:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kName))
      return static_cast<mode_t>(std::strtoul(line.c_str() + kName.size(), nullptr, 8));
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

// Whether `name` is `file` with numbers and kSuffix.
bool is_temporary_of(std::string_view name, std::string_view file) {
  if (name.size() <= file.size() + 1 + kSuffix.size() || !name.starts_with(file) ||
      name[file.size()] != '.' || !name.ends_with(kSuffix))
    return false;
  for (char c : name.substr(file.size() + 1, name.size() - file.size() - 1 - kSuffix.size()))
    if (c != '.' && std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  return true;
}

// Writers hold a lock, so an unlocked file has no writer. Keeps files of other users.
void remove_left_behind(const fs::path& target) {
  std::error_code failure;
  const std::string file = target.filename().string();
  for (fs::directory_iterator entry(folder_of(target), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!is_temporary_of(entry->path().filename().string(), file)) continue;
    const int descriptor =
        ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (descriptor < 0) continue;
    std::error_code ignored;
    struct stat status{};
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == ::geteuid() && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0)
      fs::remove(entry->path(), ignored);
    ::close(descriptor);
  }
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, std::string stage)
    : path_(path), target_(path), stage_(std::move(stage)) {
  struct stat status{};
  const bool is_there = ::stat(path_.c_str(), &status) == 0;
  if (!is_there && errno == ELOOP) fail(ELOOP);
  if (is_there && S_ISDIR(status.st_mode))
    throw Error(stage_, path_.string(), "cannot be written: it is a folder; name a file");
  if (is_there && !S_ISREG(status.st_mode)) {
    // Does not follow links first: those of /dev/stdout lead to names that cannot be opened.
    special_ = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (special_ < 0) fail(errno);
    return;
  }
  target_ = behind_links(path_);
  remove_left_behind(target_);
  int fault = 0;
  temporary_.emplace(target_, is_there ? &status : nullptr, fault);
  if (fault != 0) fail(fault);
}

OutputFile::~OutputFile() {
  if (special_ >= 0) ::close(special_);
}

OutputFile::Temporary::Temporary(const fs::path& target, const struct stat* before, int& fault)
    : final_mode_(before == nullptr ? 0666 & ~mask_of_new_files() : before->st_mode & 07777) {
  if (before != nullptr) owner_ = {before->st_uid, before->st_gid};
  for (int trial = 0; trial < 100 && make(target, fault); ++trial) {
  }
}

// True when another name should be tried.
bool OutputFile::Temporary::make(const fs::path& target, int& fault) {
  drop();
  path_ = target;
  path_ += fmt::format(".{}.{}{}", ::getpid(), std::random_device()(), kSuffix);
  slot_ = register_unfinished(path_);  // before the file exists: a signal may arrive at any time
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  fault = file_ < 0 ? errno : 0;
  if (file_ < 0) return fault == EEXIST;
  // Another process that looks for abandoned files may have found it before it was locked.
  struct stat status{};
  return ::flock(file_, LOCK_EX) == 0 && ::fstat(file_, &status) == 0 && status.st_nlink == 0;
}

void OutputFile::Temporary::drop() {
  std::error_code ignored;
  if (file_ >= 0) fs::remove(path_, ignored);
  unregister(slot_);
  if (file_ >= 0) ::close(file_);
  file_ = slot_ = -1;
}

// Until it is complete nobody else may read it. If the old owner cannot be kept, permission bits
// that would give its rights to others are cleared.
int OutputFile::Temporary::complete() const {
  const bool has_owner = !owner_ || ::fchown(file_, owner_->first, owner_->second) == 0;
  if (::fchmod(file_, final_mode_ & (has_owner ? 07777u : 0777u)) != 0) return errno;
  // Some kinds of files do not support fsync.
  return ::fsync(file_) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

void OutputFile::fail(int code) const {
  throw Error(stage_, path_.string(), fmt::format("cannot be written: {}", std::strerror(code)));
}

void OutputFile::write(std::string_view bytes) {
  constexpr size_t kBlock = 1 << 16;
  if (buffer_.size() + bytes.size() > kBlock) flush();
  if (bytes.size() < kBlock)
    buffer_.append(bytes);
  else
    put(bytes);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::flush() {
  put(buffer_);
  buffer_.clear();
}

void OutputFile::put(std::string_view bytes) {
  while (!bytes.empty() && fault_ == 0) {
    const ssize_t count = ::write(temporary_ ? temporary_->file() : special_, bytes.data(),
                                  std::min(bytes.size(), size_t{1} << 30));
    if (count >= 0)
      bytes.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR)
      fault_ = errno;
  }
}

void OutputFile::commit() {
  flush();
  if (fault_ == 0 && temporary_) fault_ = temporary_->complete();
  if (fault_ != 0) fail(fault_);
  if (!temporary_) {
    if (::close(std::exchange(special_, -1)) != 0) fail(errno);
    return;
  }
  if (::rename(temporary_->path().c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.reset();  // the temporary file is gone after the rename
  sync_folder(folder_of(target_));
}

void write_file(const fs::path& path, std::string_view bytes, const std::string& stage) {
  OutputFile file(path, stage);
  file.write(bytes);
  file.commit();
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  if (fs::exists(a, failure) && !fs::is_regular_file(a, failure)) return false;
  if (fs::equivalent(a, b, failure)) return true;
  const fs::path whole = fs::weakly_canonical(a, failure);
  return !failure && whole == fs::weakly_canonical(b, failure) && !failure;
}

void check_no_input(const fs::path& path, const std::vector<std::string>& inputs,
                    const std::string& stage) {
  for (const std::string& input : inputs)
    if (is_same_file(path, input))
      throw Error(stage, path.string(),
                  "is an input file and would be overwritten; name another one");
}

void check_writable(const fs::path& path, const std::string& stage) {
  const auto refuse = [&](const char* why) {
    throw Error(stage, path.string(), fmt::format("cannot be written{}", why));
  };
  const fs::path folder = folder_of(behind_links(path));
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) refuse(": it is a folder; name a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (::access(path.c_str(), W_OK) != 0) refuse(": it is read-only");
    return;
  }
  if (!fs::is_directory(folder, failure) || ::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse("; check that the folder exists and may be written to");
}

int remove_unfinished_files() noexcept {
  int count = 0;
  for (Slot& slot : slots)
    if (slot.state == 2) {
      ::unlink(slot.path);
      ++count;
    }
  return count;
}

}  // namespace octet
