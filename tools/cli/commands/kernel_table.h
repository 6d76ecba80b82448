// What `octet bench --explain` says: the calls of a program, their times, and what they do less
// well than they could.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/backend.h"

namespace octet {

// One line for each call in the order of the run, with the time of its fastest run. Notes stand
// below, each once; the calls have their numbers.
std::string kernels_to_table(const std::vector<KernelReport>& kernels);
// {"kernels": [{"share": 0.31, "us": 12.5, "what": ..., "kernel": ..., "layout": ..., "post_ops":
// ..., "ops": [...], "note": ...}]}, on one line.
std::string kernels_to_json(const std::vector<KernelReport>& kernels);

}  // namespace octet
