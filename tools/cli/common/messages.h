// Prints the messages of commands on stderr and stdout, and shows the progress of long work.
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

// For --quiet: prints only warnings, errors and results from now on.
void set_quiet(bool is_quiet);
// Prints nothing on stderr from now on, except why the process ends. Used by all processes except
// the first.
void set_silent();

// For a program with another user interface, such as Python: sends lines and warnings unchanged to
// `sink` instead of stderr; null: to stderr again. Any thread may call the sink, one at a time.
using MessageSink = std::function<void(bool is_warning, std::string_view text)>;
void set_message_sink(MessageSink sink);
// Sets a function that is called whenever work advances, in the working thread; an exception from
// it ends the work. Null: none.
void set_interrupt_check(std::function<void()> check);
// For a program that draws progress itself, such as Python in a notebook: `sink` is called whenever
// work advances, in the working thread, also if nothing is drawn on stderr. total: 0 if it is not
// known. An exception from it ends the work. Null: none.
using ProgressSink = std::function<void(std::string_view stage, size_t done, size_t total)>;
void set_progress_sink(ProgressSink sink);

// Print a line on stderr and text on stdout, in the form that is safe for terminals
// (core/base/printable.h).
void log_line(std::string_view text);
void log_warning(std::string_view text);  // "warning: TEXT", with --quiet too
void print_text(std::string_view text);
// Prints JSON, which must be ASCII, unchanged.
void print_json(std::string_view text);

// A progress bar on stderr for all stages of a command, with the elapsed and the estimated
// remaining time. A thread draws it, so that the time advances during a long step. If stderr is not
// a terminal, it prints a line every ten seconds; with --quiet, nothing. Only one may exist;
// log_line() prints above it.
class Progress {
 public:
  struct Stage {
    std::string name;
    double cost = 1;  // estimate, in a unit that all stages share; > 0
  };
  struct Output {
    std::FILE* file = stderr;
    bool is_terminal = false;
    std::chrono::milliseconds interval{10000};
  };

  // The stages in the order in which they run; a name may occur several times.
  explicit Progress(std::vector<Stage> stages);
  Progress(std::vector<Stage> stages, const Output& output);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Begins the next stage of that name; stages before it count as done. Ignores a name that does
  // not occur any more.
  void begin(std::string_view stage);
  void advance(size_t done, size_t total);  // within the stage; total 0: not known
  void write_above(std::string_view line);  // prints a permanent line

 private:
  void show();  // REQUIRES: mutex_ is held
  void erase();
  void run();
  double fraction() const;

  std::vector<Stage> stages_;
  Output output_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double first_fraction_ = -1;  // the part that an earlier run did
  size_t stage_ = 0;            // stages_.size(): none yet
  size_t done_ = 0, total_ = 0;
  bool is_drawn_ = false, is_over_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;  // last: it uses all of the above
};

// "calibrate 12/64, 34 %, 0:10 elapsed, about 0:20 left". fraction: of all work, in [0, 1]; first:
// the part that was done before `seconds` began. Has no estimate at the beginning. width: of the
// bar; 0 for none.
std::string progress_text(std::string_view stage, size_t done, size_t total, double fraction,
                          double first, double seconds, size_t width);

}  // namespace octet
