#include "tools/command.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "core/error.h"
#include "core/output_file.h"
#include "core/printable.h"

namespace octet {

Progress::Progress(std::string_view label, size_t total) : label_(label), total_(total), shown_(isatty(STDERR_FILENO) != 0) { advance(0); }

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\n");
}

void Progress::advance(size_t done) {
  if (!shown_ || total_ == 0) return;
  constexpr size_t kWidth = 40;
  const size_t filled = kWidth * done / total_;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}", printable_line(label_), "", filled, "", kWidth - filled, done, total_);
  std::fflush(stderr);
}

void log_line(std::string_view text) { fmt::print(stderr, "{}\n", printable(text)); }

void print_text(std::string_view text) { fmt::print("{}", printable(text)); }

void print_json(std::string_view text) { fmt::print("{}", text); }

void write_text_file(const std::string& path, const std::string& text) { write_file(path, text, "output"); }

void check_writable(const std::string& path) { check_writable(path, "output"); }

bool has_suffix(std::string_view path, std::string_view suffix) { return path.size() >= suffix.size() && path.ends_with(suffix); }

}  // namespace octet
