#include "core/base/cpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <string>

namespace octet {
namespace {

// CPU time per period, in CPUs: from cpu.max ("50000 100000") or two files; infinity without a
// limit.
double quota_of(const std::filesystem::path& group) {
  double allowed = 0, period = 0;
  std::ifstream both(group / "cpu.max");  // "max 100000" without a limit
  if (!(both >> allowed >> period)) {
    std::ifstream(group / "cpu.cfs_quota_us") >> allowed;  // -1 without a limit
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return allowed > 0 && period > 0 ? allowed / period : std::numeric_limits<double>::infinity();
}

// The least quota of a group and those above it. In a container the path may be that of the host;
// folders on the way then do not exist, and the mounted root is the container's own group.
double quota_up_to(const std::filesystem::path& root, std::filesystem::path group) {
  double least = quota_of(root);
  for (; !group.empty(); group = group.parent_path())
    least = std::min(least, quota_of(root / group));
  return least;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

std::atomic<bool> was_forked{false};

#if defined(__linux__)
// Reads the beginning of a file. It does not allocate, because it is called between runs. False if
// there is no such file.
bool read_beginning(const char* path, std::span<char> text) {
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
    if (!read_beginning(path, text)) continue;
    const char* const name_end = std::strrchr(text, ')');
    if (name_end != nullptr && std::strncmp(name_end, ") R", 3) == 0) ++count;
  }
  ::closedir(folder);
  return count;
}
#endif

}  // namespace

double cpu_quota(const std::filesystem::path& memberships, const std::filesystem::path& root) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream file(memberships);  // "4:cpu,cpuacct:/group" of version 1, "0::/group" of 2
  for (std::string number, controllers, group; std::getline(file, number, ':') &&
                                               std::getline(file, controllers, ':') &&
                                               std::getline(file, group);) {
    const std::filesystem::path path = std::filesystem::path(group).relative_path();
    if (controllers.empty()) {
      for (const char* mount : {".", "unified"})
        least = std::min(least, quota_up_to(root / mount, path));
    } else if (names_cpu(controllers)) {
      for (const char* mount : {controllers.c_str(), "cpu"})
        least = std::min(least, quota_up_to(root / mount, path));
    }
  }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

int usable_cpus() {
  int count = 1;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
  if (const double quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"); quota > 0)
    count = static_cast<int>(std::clamp(quota + 0.5, 1.0, static_cast<double>(count)));
#endif
  return count;
}

int default_threads(int streams) {
  int count = std::max(usable_cpus() / streams, 1);
  if (const char* wanted = std::getenv("OMP_NUM_THREADS"))  // "4", or "4,2" for nested loops
    if (const long first = std::strtol(wanted, nullptr, 10); first > 0)
      count = static_cast<int>(std::min<long>(count, first));
  return count;
}

CpuTime cpu_time() {
  CpuTime time;
#if defined(__linux__)
  char text[96];  // nanoseconds run, nanoseconds waited, time slices
  if (!read_beginning("/proc/thread-self/schedstat", text)) return time;
  char* rest = nullptr;
  time.ran = 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
  time.waited = 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
#endif
  return time;
}

int threads_running_elsewhere() {
#if defined(__linux__)
  char text[96];  // "0.20 0.18 0.12 1/80 11206": loads, running threads, all threads, a process
  int running = 0;
  if (!read_beginning("/proc/loadavg", text) || std::sscanf(text, "%*s %*s %*s %d/", &running) != 1)
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
