// The default number of threads: affinity, quotas of control groups, OMP_NUM_THREADS.
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "core/base/cpus.h"

namespace octet::test_usable_cpus {
namespace {

// A simulated /sys/fs/cgroup and /proc/self/cgroup.
class ControlGroups {
 public:
  ControlGroups() {
    std::string name = (std::filesystem::temp_directory_path() / "octet_groups_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~ControlGroups() { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  double quota(const std::string& memberships) const {
    write("memberships", memberships);
    return cpu_quota(folder_ / "memberships", folder_ / "groups");
  }

 private:
  std::filesystem::path folder_;
};

// Sets OMP_NUM_THREADS (null: unsets it), and restores it at the end.
class ThreadsOfOpenMP {
 public:
  explicit ThreadsOfOpenMP(const char* value) {
    if (const char* before = std::getenv("OMP_NUM_THREADS")) before_ = before;
    set(value);
  }
  ~ThreadsOfOpenMP() { set(before_.empty() ? nullptr : before_.c_str()); }

 private:
  static void set(const char* value) {
    if (value == nullptr)
      unsetenv("OMP_NUM_THREADS");
    else
      setenv("OMP_NUM_THREADS", value, 1);
  }
  std::string before_;
};

}  // namespace

TEST_CASE("a quota of control groups is the least of the group's and of those above",
          "[core][usable_cpus]") {
  const ControlGroups groups;
  CHECK(groups.quota("0::/\n") == 0);
  groups.write("groups/cpu.max", "max 100000\n");
  CHECK(groups.quota("0::/\n") == 0);
  groups.write("groups/a/cpu.max", "150000 100000\n");
  CHECK(groups.quota("0::/a/b\n") == 1.5);
  groups.write("groups/a/b/cpu.max", "400000 100000\n");
  CHECK(groups.quota("0::/a/b\n") == 1.5);
  groups.write("groups/a/b/cpu.max", "50000 100000\n");
  CHECK(groups.quota("0::/a/b\n") == 0.5);
  CHECK(groups.quota("0::/c\n") == 0);
  groups.write("groups/cpu.max", "200000 100000\n");  // a container's own group is its root
  CHECK(groups.quota("0::/docker/0123\n") == 2);
}

TEST_CASE("control groups of version 1 have quotas, too", "[core][usable_cpus]") {
  const ControlGroups groups;
  const std::string memberships = "5:memory:/a\n4:cpuset:/a\n3:cpu,cpuacct:/a/b\n0::/\n";
  CHECK(groups.quota(memberships) == 0);
  groups.write("groups/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  groups.write("groups/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  CHECK(groups.quota(memberships) == 0);
  groups.write("groups/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  groups.write("groups/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  CHECK(groups.quota(memberships) == 2.5);
  groups.write("groups/cpu/cpu.cfs_quota_us", "100000\n");
  groups.write("groups/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(groups.quota(memberships) == 1);
}

TEST_CASE("affinity and OMP_NUM_THREADS decide how many threads are the default",
          "[core][usable_cpus]") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
  const int usable = usable_cpus();
  CHECK(usable >= 1);
  CHECK(usable <= CPU_COUNT(&all));
  for (const char* none : {static_cast<const char*>(nullptr), "", "0", "-3", "many", "1024"}) {
    const ThreadsOfOpenMP threads(none);
    CHECK(default_threads() == usable);
    CHECK(default_threads(2) == std::max(usable / 2, 1));
    CHECK(default_threads(4096) == 1);
  }
  for (const char* one : {"1", " 1", "1,4"}) {
    const ThreadsOfOpenMP threads(one);
    CHECK(default_threads() == 1);
    CHECK(usable_cpus() == usable);
  }
  cpu_set_t first;
  CPU_ZERO(&first);
  for (int cpu = 0; CPU_COUNT(&first) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &first);
  REQUIRE(sched_setaffinity(0, sizeof(first), &first) == 0);
  CHECK(usable_cpus() == 1);
  CHECK(default_threads() == 1);
  REQUIRE(sched_setaffinity(0, sizeof(all), &all) == 0);
}

}  // namespace octet::test_usable_cpus
