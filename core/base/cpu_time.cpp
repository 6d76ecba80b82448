#include "core/base/cpu_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace octet {
namespace {

std::atomic<bool> was_forked{false};

#if defined(__linux__)
// Reads the begin of a file, without the heap: callers are between runs. False if there is none.
bool read_begin(const char* path, std::span<char> text) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  text[static_cast<size_t>(std::max<ssize_t>(size, 0))] = '\0';
  return size > 0;
}

int running_threads_of_this_process() {
  DIR* const folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return 1;
  int count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    char path[64], text[128];  // "12 (name) R ..."
    std::snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", entry->d_name);
    if (!read_begin(path, text)) continue;
    const char* const name_end = std::strrchr(text, ')');
    if (name_end != nullptr && std::strncmp(name_end, ") R", 3) == 0) ++count;
  }
  ::closedir(folder);
  return count;
}
#endif

}  // namespace

CpuTime cpu_time() {
  CpuTime time;
#if defined(__linux__)
  char text[96];  // nanoseconds that it ran, nanoseconds that it waited, turns
  if (!read_begin("/proc/thread-self/schedstat", text)) return time;
  char* rest = nullptr;
  time.ran = 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
  time.waited = 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
#endif
  return time;
}

int threads_running_elsewhere() {
#if defined(__linux__)
  char text[96];  // "0.20 0.18 0.12 1/80 11206": loads, threads that run, all threads, a process
  int running = 0;
  if (!read_begin("/proc/loadavg", text) || std::sscanf(text, "%*s %*s %*s %d/", &running) != 1)
    return 0;
  return running <= 1 ? 0 : std::max(running - running_threads_of_this_process(), 0);
#else
  return 0;
#endif
}

bool is_forked_child() {
  static const int watches = pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
  static_cast<void>(watches);
  return was_forked;
}

}  // namespace octet
