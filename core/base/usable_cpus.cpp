#include "core/base/usable_cpus.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <fstream>

namespace octet {

int usable_cpus() {
  int count = 1;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
  std::ifstream quota("/sys/fs/cgroup/cpu.max");  // "max 100000", or microseconds of each period
  double allowed = 0, period = 0;
  if (quota >> allowed >> period && period > 0)
    count = std::min(count, std::max(1, static_cast<int>(allowed / period + 0.5)));
#endif
  return count;
}

}  // namespace octet
