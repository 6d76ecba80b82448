#include "tools/cli/common/messages.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "core/base/printable.h"

namespace octet {
namespace {

constexpr std::chrono::milliseconds kRedraw{200};
constexpr size_t kBarWidth = 24;

bool is_quiet = false;
bool is_silent = false;
std::atomic<Progress*> shown = nullptr;
std::mutex sink_mutex;
MessageSink message_sink;
std::function<void()> interrupt_check;
ProgressSink progress_sink;

bool give_to_sink(bool is_warning, std::string_view text) {
  const std::lock_guard lock(sink_mutex);
  if (!message_sink) return false;
  message_sink(is_warning, text);
  return true;
}

void write_line(std::string_view text) {
  if (Progress* progress = shown)
    progress->write_above(text);
  else
    fmt::print(stderr, "{}\n", text);
}

Progress::Output standard_error() {
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  return {stderr, is_terminal, is_terminal ? kRedraw : std::chrono::milliseconds(10000)};
}

// 75 s: "1:15"
std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

void set_quiet(bool quiet) { is_quiet = quiet; }

void set_silent() { is_quiet = is_silent = true; }

void set_message_sink(MessageSink sink) {
  const std::lock_guard lock(sink_mutex);
  message_sink = std::move(sink);
}

void set_interrupt_check(std::function<void()> check) { interrupt_check = std::move(check); }
void set_progress_sink(ProgressSink sink) { progress_sink = std::move(sink); }

void log_line(std::string_view text) {
  if (give_to_sink(false, text) || is_quiet) return;
  write_line(printable(text));
}

void log_warning(std::string_view text) {
  if (give_to_sink(true, text) || is_silent) return;
  write_line("warning: " + printable(text));
}

void print_text(std::string_view text) { fmt::print("{}", printable(text)); }

void print_json(std::string_view text) { fmt::print("{}", text); }

std::string progress_text(std::string_view stage, size_t done, size_t total, double fraction,
                          double first, double seconds, size_t width) {
  constexpr double kLeastKnown = 0.02;
  std::string text(stage);
  if (width > 0) {
    const auto filled = static_cast<size_t>(static_cast<double>(width) * fraction);
    text = fmt::format("[{:#<{}}{:.<{}}] {}", "", filled, "", width - filled, stage);
  }
  if (total > 0) text += fmt::format(" {}/{}", done, total);
  text += fmt::format(", {:.0f} %, {} elapsed", 100 * fraction, clock_text(seconds));
  const double known = fraction - first;
  if (known >= kLeastKnown && seconds >= 1)
    text += fmt::format(", about {} left", clock_text(seconds * (1 - fraction) / known));
  return text;
}

Progress::Progress(std::vector<Stage> stages) : Progress(std::move(stages), standard_error()) {}

Progress::Progress(std::vector<Stage> stages, const Output& output)
    : stages_(std::move(stages)), output_(output), stage_(stages_.size()) {
  if (is_quiet) return;
  shown = this;
  thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  shown = nullptr;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_one();
  thread_.join();
  erase();
}

void Progress::begin(std::string_view stage) {
  const std::lock_guard lock(mutex_);
  for (size_t i = stage_ == stages_.size() ? 0 : stage_ + 1; i < stages_.size(); ++i) {
    if (stages_[i].name != stage) continue;
    stage_ = i;
    done_ = total_ = 0;
    if (first_fraction_ < 0) first_fraction_ = fraction();
    return;
  }
}

void Progress::advance(size_t done, size_t total) {
  if (interrupt_check) interrupt_check();
  {
    const std::lock_guard lock(mutex_);
    done_ = std::min(done, total);
    total_ = total;
  }
  if (progress_sink && stage_ < stages_.size()) progress_sink(stages_[stage_].name, done, total);
}

void Progress::write_above(std::string_view line) {
  const std::lock_guard lock(mutex_);
  erase();
  fmt::print(output_.file, "{}\n", line);
  std::fflush(output_.file);
}

double Progress::fraction() const {
  double all = 0, before = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    all += stages_[i].cost;
    if (i < stage_ && stage_ < stages_.size()) before += stages_[i].cost;
  }
  if (total_ > 0 && stage_ < stages_.size())
    before += stages_[stage_].cost * static_cast<double>(done_) / static_cast<double>(total_);
  return all > 0 ? before / all : 0;
}

void Progress::show() {
  if (stage_ == stages_.size()) return;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const std::string text =
      progress_text(printable_line(stages_[stage_].name), done_, total_, fraction(),
                    first_fraction_, seconds, output_.is_terminal ? kBarWidth : 0);
  if (output_.is_terminal)
    fmt::print(output_.file, "\r\x1b[K{}", text);
  else
    fmt::print(output_.file, "{}\n", text);
  std::fflush(output_.file);
  is_drawn_ = output_.is_terminal;
}

void Progress::erase() {
  if (is_drawn_) fmt::print(output_.file, "\r\x1b[K");
  if (is_drawn_) std::fflush(output_.file);
  is_drawn_ = false;
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, output_.interval, [this] { return is_over_; })) show();
}

}  // namespace octet
