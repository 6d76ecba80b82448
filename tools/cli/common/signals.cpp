#include "tools/cli/common/signals.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include "core/base/output_file.h"

namespace octet {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Two texts, so that the handler never reads one that is being changed.
std::array<std::array<char, 512>, 2> texts;
std::atomic<int> current{-1};
std::atomic<bool> is_told{true};

void print(const char* text) {
  if (!is_told) return;
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

// Calls only functions that are safe in signal handlers.
void handle(int signal) {
  const int count = remove_unfinished_files();
  print("\noctet: interrupted");
  if (count > 0) print("; unfinished outputs are removed, and existing files are unchanged");
  const int text = current;
  if (text >= 0) {
    print("; ");
    print(texts[static_cast<size_t>(text)].data());
  }
  print("\n");
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void clean_up_on_signals(bool says_so) {
  is_told = says_so;
  for (int signal : kSignals) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action{};
    action.sa_handler = handle;
    ::sigemptyset(&action.sa_mask);
    for (int other : kSignals) ::sigaddset(&action.sa_mask, other);
    ::sigaction(signal, &action, nullptr);
  }
}

void say_when_interrupted(const std::string& text) {
  const int next = current == 0 ? 1 : 0;
  std::array<char, 512>& to = texts[static_cast<size_t>(next)];
  const size_t length = std::min(text.size(), to.size() - 1);
  std::copy_n(text.begin(), length, to.begin());
  to[length] = '\0';
  current = next;
}

void end_without_memory() noexcept {
  remove_unfinished_files();
  is_told = true;
  const char* const why =
      "memory: there is not enough; use smaller data, a smaller model or a machine with more";
  for (const char* part : {"octet: ", why, "\n"}) print(part);
  ::_exit(1);
}

}  // namespace octet
