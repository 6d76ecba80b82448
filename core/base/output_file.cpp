#include "core/base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>

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

// -1 when there is no room: the file then stays if the process is killed.
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

// The file behind a chain of links, which may not be there yet. A circle of links stays what it is,
// and opening it says so.
fs::path behind_links(fs::path path) {
  std::error_code failure;
  for (int i = 0; i < 40 && fs::is_symlink(path, failure); ++i) {
    const fs::path to = fs::read_symlink(path, failure);
    if (failure) break;
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return path;
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

// Writers hold a lock, so a file without one has no writer.
void remove_left_behind(const fs::path& target) {
  std::error_code failure;
  const fs::path folder = target.parent_path().empty() ? "." : target.parent_path();
  const std::string file = target.filename().string();
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!is_temporary_of(entry->path().filename().string(), file)) continue;
    const int descriptor =
        ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (descriptor < 0) continue;
    std::error_code ignored;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove(entry->path(), ignored);
    ::close(descriptor);
  }
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, std::string stage)
    : path_(path), target_(path), stage_(std::move(stage)) {
  struct stat status{};
  const bool is_there = ::stat(path_.c_str(), &status) == 0;
  if (!is_there && errno == ELOOP) fail(std::strerror(ELOOP));
  if (is_there && S_ISDIR(status.st_mode)) fail("it is a folder; name a file");
  if (is_there && !S_ISREG(status.st_mode)) {
    // Not behind its links: those of /dev/stdout end in no name that can be opened.
    errno = 0;
    file_.open(path_, std::ios::binary | std::ios::out);
    if (!file_) fail(std::strerror(errno));
    return;
  }
  target_ = behind_links(path_);
  remove_left_behind(target_);
  int fault = 0;
  temporary_.emplace(target_, fault);
  if (fault != 0) fail(std::strerror(fault));
  if (is_there)
    temporary_->take_over(static_cast<int>(status.st_mode), status.st_uid, status.st_gid);
  errno = 0;
  file_.open(temporary_->path(), std::ios::binary | std::ios::trunc);
  if (!file_) fail(std::strerror(errno));
}

OutputFile::Temporary::Temporary(const fs::path& target, int& fault) : path_(target) {
  static std::atomic<int> count{0};  // threads may write the same output
  path_ += fmt::format(".{}.{}{}", ::getpid(), count++, kSuffix);
  slot_ = register_unfinished(path_);  // before the file is there: a signal may come at any time
  lock_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  fault = lock_ < 0 ? errno : 0;
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
}

OutputFile::Temporary::~Temporary() {
  std::error_code ignored;
  if (lock_ >= 0) fs::remove(path_, ignored);
  unregister(slot_);
  if (lock_ >= 0) ::close(lock_);
}

void OutputFile::Temporary::take_over(int mode, unsigned owner, unsigned group) const {
  const bool has_owner = ::fchown(lock_, owner, group) == 0;
  ::fchmod(lock_, static_cast<mode_t>(mode) & (has_owner ? 07777u : 0777u));
}

void OutputFile::fail(const std::string& why) const {
  throw Error(stage_, path_.string(), fmt::format("cannot be written: {}", why));
}

void OutputFile::write(std::string_view bytes) {
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::commit() {
  errno = 0;
  file_.close();
  if (!file_) fail(errno == 0 ? "the disk is full or gone" : std::strerror(errno));
  if (!temporary_) return;
  std::error_code code;
  fs::rename(temporary_->path(), target_, code);
  if (code) fail(code.message());
  temporary_.reset();  // of which nothing is left but the name
}

void write_file(const fs::path& path, std::string_view bytes, const std::string& stage) {
  OutputFile file(path, stage);
  file.write(bytes);
  file.commit();
}

void check_writable(const fs::path& path, const std::string& stage) {
  const auto refuse = [&](const char* why) {
    throw Error(stage, path.string(), fmt::format("cannot be written{}", why));
  };
  const fs::path target = behind_links(path),
                 folder = target.parent_path().empty() ? "." : target.parent_path();
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) refuse(": it is a folder; name a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (::access(path.c_str(), W_OK) != 0) refuse(": it may only be read");
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
