#include "core/base/cpus.h"

#include <atomic>
#include <cstdlib>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
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

// Called between runs, so it does not allocate.
CpuTime cpu_time() {
  CpuTime time;
#if defined(__linux__)
  const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return time;
  char text[96];  // nanoseconds run, nanoseconds waited, time slices
  const ssize_t size = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  if (size <= 0) return time;
  text[size] = '\0';
  char* rest = nullptr;
  time.ran = 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
  time.waited = 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
#endif
  return time;
}

bool is_forked_child() {
  static const int watches = pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
  static_cast<void>(watches);
  return was_forked;
}

}  // namespace octet
