// Messages of the commands on stderr and stdout, and the progress of long work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace octet {

// For --quiet: from now on only warnings, errors and what goes to stdout.
void set_quiet(bool is_quiet);
// From now on nothing at all on stderr but how the process ends: of processes beside the first.
void set_silent();

// For a program with another user interface, such as Python: lines and warnings go unchanged to
// `sink` instead of stderr; null: to stderr again. From any thread, one call at a time.
using MessageSink = std::function<void(bool is_warning, std::string_view text)>;
void set_message_sink(MessageSink sink);
// Called whenever work advances, in the thread that works; what it throws ends the work. Null:
// none.
void set_interrupt_check(std::function<void()> check);

// One line on stderr, and text on stdout, as a terminal may have it (core/base/printable.h).
void log_line(std::string_view text);
void log_warning(std::string_view text);  // "warning: TEXT", with --quiet too
void print_text(std::string_view text);
// JSON in ASCII, unchanged.
void print_json(std::string_view text);

// One bar on stderr over all stages of a command's work, with the time elapsed and an estimate of
// the time left. A thread draws it, so that the time advances during a long step. Where stderr is
// no terminal, the same as a line every ten seconds; nothing with --quiet. One at a time:
// log_line() writes above it.
class Progress {
 public:
  struct Stage {
    std::string name;
    double cost = 1;  // about, in any unit that the stages share; > 0
  };
  struct Output {
    std::FILE* file = stderr;
    bool is_terminal = false;
    std::chrono::milliseconds interval{10000};
  };

  // The stages in the order in which they will run; a name may occur several times.
  explicit Progress(std::vector<Stage> stages);
  Progress(std::vector<Stage> stages, const Output& output);
  ~Progress();  // takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next stage of that name begins, and those in front of it are done or left out. A name that
  // does not come any more changes nothing.
  void begin(std::string_view stage);
  void advance(size_t done, size_t total);  // of that stage; total 0: not known
  void write_above(std::string_view line);  // one line, which stays

 private:
  void show();  // REQUIRES: mutex_ is held
  void erase();
  void run();
  double fraction() const;

  std::vector<Stage> stages_;
  Output output_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double first_fraction_ = -1;  // where the first stage began: what an earlier run has done
  size_t stage_ = 0;            // stages_.size(): none yet
  size_t done_ = 0, total_ = 0;
  bool is_drawn_ = false, is_over_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;  // last: it uses all of the above
};

// "calibrate 12/64, 34 %, 0:10 gone, about 0:20 left". fraction: of all work, in [0, 1]; first:
// what was done before `seconds` began. Without an estimate while little is known. width: of a bar
// in front, 0 for none.
std::string progress_text(std::string_view stage, size_t done, size_t total, double fraction,
                          double first, double seconds, size_t width);

}  // namespace octet
