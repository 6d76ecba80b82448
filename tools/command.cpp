#include "tools/command.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "core/error.h"

namespace octet {

Progress::Progress(std::string_view label, size_t total) : label_(label), total_(total), shown_(isatty(STDERR_FILENO) != 0) { advance(0); }

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\n");
}

void Progress::advance(size_t done) {
  if (!shown_ || total_ == 0) return;
  constexpr size_t kWidth = 40;
  const size_t filled = kWidth * done / total_;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}", label_, "", filled, "", kWidth - filled, done, total_);
  std::fflush(stderr);
}

void log_line(std::string_view text) { fmt::print(stderr, "{}\n", text); }

void write_text_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    file.flush();
    if (!file) {
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      throw Error("output", path, "cannot be written; check that the folder exists and has room");
    }
  }
  std::error_code failed;
  std::filesystem::rename(temporary, path, failed);
  if (!failed) return;
  const std::string why = failed.message();
  std::filesystem::remove(temporary, failed);
  throw Error("output", path, "cannot be written: " + why);
}

void check_writable(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error("output", path, "cannot be written: it is a folder; name a file");
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0 || !(folder.empty() || std::filesystem::is_directory(folder, ignored)))
    throw Error("output", path, "cannot be written; check that the folder exists and may be written to");
}

bool has_suffix(std::string_view path, std::string_view suffix) { return path.size() >= suffix.size() && path.ends_with(suffix); }

}  // namespace octet
