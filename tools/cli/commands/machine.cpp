#include "tools/cli/commands/machine.h"

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <fstream>

#include "backends/kernels/isa.h"
#include "core/base/cpus.h"

namespace octet {
namespace {

// The first line of the file; empty when it cannot be read.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What follows `key` and a colon in a file of such lines.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

int64_t megabytes(const std::string& kilobytes) { return std::atoll(kilobytes.c_str()) / 1024; }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
#if defined(__x86_64__)
  const auto add = [&](const char* name, bool is_there) {
    if (is_there) sets.emplace_back(name);
  };
  add("SSE4.1", __builtin_cpu_supports("sse4.1"));
  add("SSE4.2", __builtin_cpu_supports("sse4.2"));
  add("AVX", __builtin_cpu_supports("avx"));
  add("FMA", __builtin_cpu_supports("fma"));
  add("AVX2", __builtin_cpu_supports("avx2"));
  add("AVX-VNNI", cpu_has_avx_vnni());
  add("AVX-512 F", __builtin_cpu_supports("avx512f"));
  add("AVX-512 BW", __builtin_cpu_supports("avx512bw"));
  add("AVX-512 DQ", __builtin_cpu_supports("avx512dq"));
  add("AVX-512 VL", __builtin_cpu_supports("avx512vl"));
  add("AVX512-VNNI", __builtin_cpu_supports("avx512vnni"));
#elif defined(__aarch64__)
  sets.emplace_back("NEON");
#endif
  return sets;
}

}  // namespace

Machine examine_machine() {
  Machine machine;
  machine.cpu = value_of("/proc/cpuinfo", "model name");
  machine.instruction_sets = instruction_sets();
  if (const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA")) machine.isa_limit = limit;
  machine.cpus = usable_cpus();
  machine.memory_mb = megabytes(value_of("/proc/meminfo", "MemTotal"));
  machine.available_mb = megabytes(value_of("/proc/meminfo", "MemAvailable"));
  if (const int64_t limit = std::atoll(line_of("/sys/fs/cgroup/memory.max").c_str()) >> 20;
      limit > 0) {
    machine.memory_mb = std::min(machine.memory_mb, limit);
    machine.available_mb = std::min(machine.available_mb, limit);
  }
  for (const char* name : {"LC_ALL", "LC_NUMERIC", "LANG"})
    if (const char* value = std::getenv(name);
        value != nullptr && *value != '\0' && machine.locale.empty())
      machine.locale = value;
  if (machine.locale.empty()) machine.locale = "C";
  return machine;
}

std::vector<std::string> loaded_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string file = line.substr(slash), base = file.substr(file.rfind('/') + 1);
    const bool is_wanted = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return base.find(name) != std::string::npos;
    });
    if (is_wanted && std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(file);
  }
  return files;
}

}  // namespace octet
