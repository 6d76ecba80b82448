// What `octet doctor` asks of the machine. Linux; elsewhere fields stay empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octet {

struct Machine {
  std::string cpu;                            // its name
  std::vector<std::string> instruction_sets;  // of those that kernels here ask for
  std::string isa_limit;                      // ONEDNN_MAX_CPU_ISA; empty when it is not set
  // that this process may use: affinity and the control group's quota heeded
  int cpus = 1;
  int64_t memory_mb = 0, available_mb = 0;  // the control group's limit heeded
  std::string locale;                       // of numbers, as the environment sets it
};
Machine examine_machine();

// Files of this process' memory whose names contain one of `names`, without repeats: the libraries
// that are loaded.
std::vector<std::string> loaded_files(const std::vector<std::string>& names);

}  // namespace octet
