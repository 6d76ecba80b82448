// Implements octet doctor, which reports what this machine has, which kernels run on it, and
// whether given programs run.
#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backends/kernels/isa.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/pt2/reader.h"
#include "lowering/program/artifact.h"
#include "lowering/program/float_compute.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

struct Machine {
  std::string cpu;                            // its name
  std::vector<std::string> instruction_sets;  // those that Octet's kernels check for
  std::string isa_limit;                      // ONEDNN_MAX_CPU_ISA; empty if not set
  // CPUs that this process may use, according to its affinity and CPU quota
  int cpus = 1;
  int64_t memory_mb = 0, available_mb = 0;  // within the limit of the control group
  std::string locale;                       // for numbers, from the environment
};

// The first line of the file; empty when it cannot be read.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The text after `key` and a colon in a file with such lines.
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
  add("AVX512-BF16", __builtin_cpu_supports("avx512bf16"));
#elif defined(__aarch64__)
  sets.emplace_back("NEON");
#if defined(__linux__)
  if (cpu_has_dot_product()) sets.emplace_back("dotprod");
  if (cpu_has_i8mm()) sets.emplace_back("i8mm");
#endif
#endif
  return sets;
}

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

// The files mapped into this process whose names contain one of `names`, each once: the loaded
// libraries.
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

using Json = nlohmann::ordered_json;

// The kernels that multiply integers on this machine, by backend.
std::string kernels_of(const std::string& backend) {
  if (backend == "reference") return "portable loops";
  if (backend != "onednn" && backend != "xnnpack") return "those of the library that registers it";
  if (backend == "xnnpack") {
    const char* own = may_use(Isa::kAvx512Vnni)   ? "AVX512-VNNI"
                      : may_use(Isa::kAvx2)       ? "AVX2"
                      : may_use(Isa::kI8mm)       ? "i8mm"
                      : may_use(Isa::kDotProduct) ? "dotprod"
                                                  : "baseline";
    return fmt::format(
        "XNNPACK's for this CPU; int8 linear at run time: custom kernels, {} (release of 2022)",
        own);
  }
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512Vnni)) return "int8: oneDNN's and custom kernels for AVX512-VNNI";
  if (may_use(Isa::kAvxVnni))
    return "int8: custom kernels for AVX-VNNI, depthwise and matmul for AVX2";
  if (may_use(Isa::kAvx512)) return "int8: custom kernels for AVX-512 without VNNI";
  if (may_use(Isa::kAvx2)) return "int8: custom kernels for AVX2";
  return "int8: oneDNN's where sums fit into 16 bits, otherwise float";
#else
  return "oneDNN's";
#endif
}

Json backend_json(const std::string& name, std::vector<std::string>& problems) {
  Json json = {{"name", name}};
  try {
    json["versions"] = make_backend(name)->versions();
    json["kernels"] = kernels_of(name);
  } catch (const Error& error) {
    json["problem"] = error.what();
    problems.push_back(error.what());
  }
  return json;
}

// The share of the program's multiply-accumulates that oneDNN computes in float32, but could in
// bfloat16.
double float32_share(const Program& program) {
  int64_t all = 0, in_float32 = 0;
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      all += op.macs;
      const bool is_product = op.is("conv") || op.is("linear") || op.is("matmul");
      if (segment.backend == "onednn" && is_product && !op.has(attr::kCompute) &&
          program.input(op, 0).dtype == DType::kFloat32 && !program.input(op, 1).stored)
        in_float32 += op.macs;
    }
  return all == 0 ? 0 : static_cast<double>(in_float32) / static_cast<double>(all);
}

// Says how many ops run on each backend, and whether bfloat16 would pay.
std::string describe_program(const std::string& path, std::vector<std::string>& warnings) {
  Program program = load_program(path);
  std::map<std::string, size_t> counts;
  for (const Segment& segment : program.segments) counts[segment.backend] += segment.ops.size();
  std::vector<std::string> parts;
  for (const auto& [backend, count] : counts)
    parts.push_back(fmt::format("{} op{} on {}", count, count == 1 ? "" : "s", backend));
  const double share = may_use(Isa::kAvx512Bf16) ? float32_share(program) : 0;
  const std::string faster =
      share < 0.1 ? ""
                  : fmt::format(
                        "; {:.0f} % of its multiply-accumulates are in float32, and this CPU "
                        "has bfloat16: lower it with --float-compute bfloat16 for speed",
                        100 * share);
  const Session session(std::move(program));
  warnings = session.warnings();
  return fmt::format("runs: {}{}", fmt::join(parts, ", "), faster);
}

Json file_json(const std::string& path, std::vector<std::string>& problems) {
  Json json = {{"file", path}};
  try {
    std::vector<std::string> warnings;
    if (has_suffix(path, ".octet")) {
      json["result"] = describe_program(path, warnings);
    } else {
      json["result"] = fmt::format("is interpreted by LibTorch, {} nodes; lower it for speed",
                                   read_pt2(path).nodes().size());
    }
    json["warnings"] = warnings;
  } catch (const std::exception& error) {
    json["problem"] = error.what();
    problems.push_back(error.what());
  }
  return json;
}

void print(const Json& json) {
  const auto line = [](const std::string& name, const std::string& text) {
    print_text(fmt::format("{:<18}{}\n", name, text));
  };
  const Json& machine = json["machine"];
  line("CPU", machine["cpu"].get<std::string>());
  line("instruction sets",
       fmt::format("{}",
                   fmt::join(machine["instruction_sets"].get<std::vector<std::string>>(), ", ")));
  if (const std::string limit = machine["isa_limit"].get<std::string>(); !limit.empty())
    line("limited to", limit + " by ONEDNN_MAX_CPU_ISA");
  line("CPUs to use", dump_json(machine["cpus"]));
  line("memory", fmt::format("{} MB, {} available", dump_json(machine["memory_mb"]),
                             dump_json(machine["available_mb"])));
  line("locale", machine["locale"].get<std::string>());
  for (const Json& backend : json["backends"]) {
    std::string text = backend.contains("problem")
                           ? "does not work: " + backend["problem"].get<std::string>()
                           : backend["kernels"].get<std::string>();
    if (backend.contains("versions"))
      for (const auto& [library, version] : backend["versions"].items())
        text += fmt::format("; {} {}", library, version.get<std::string>());
    line(backend["name"].get<std::string>(), text);
  }
  for (const Json& file : json["libraries"]) line("library", file.get<std::string>());
  for (const Json& file : json["files"]) {
    line("file", file["file"].get<std::string>() + ": " +
                     file.value("result", "does not run: " + file.value("problem", "")));
    if (file.contains("warnings"))
      for (const Json& warning : file["warnings"])
        line("", "warning: " + warning.get<std::string>());
  }
}

struct DoctorRequest {
  std::vector<std::string> files, libraries;
  bool json = false;
};

Options options_of(DoctorRequest& request) {
  return joined({
      {Option{"files", &request.files, "Programs to try, .pt2 or .octet"}.positional(),
       Option{"json", &request.json, "Print JSON"}},
      library_options(request.libraries),
  });
}

void diagnose(DoctorRequest& request) {
  load_libraries(request.libraries);
  std::vector<std::string> problems;
  const Machine machine = examine_machine();
  Json json;
  json["machine"] = {{"cpu", machine.cpu},
                     {"instruction_sets", machine.instruction_sets},
                     {"isa_limit", machine.isa_limit},
                     {"cpus", machine.cpus},
                     {"memory_mb", machine.memory_mb},
                     {"available_mb", machine.available_mb},
                     {"locale", machine.locale}};
  json["backends"] = Json::array();
  for (const std::string& name : backend_names())
    json["backends"].push_back(backend_json(name, problems));
  json["files"] = Json::array();
  for (const std::string& path : request.files) json["files"].push_back(file_json(path, problems));
  json["libraries"] = loaded_files({"libtorch_cpu", "libc10", "libdnnl", "libXNNPACK",
                                    "libpthreadpool", "libcpuinfo", "libgomp"});
  if (request.json) {
    std::cout << dump_json(json, 2, true, Json::error_handler_t::replace) << std::endl;
  } else {
    print(json);
  }
  if (problems.empty()) return;
  const std::string more =
      problems.size() == 1 ? "" : fmt::format(" (and {} more)", problems.size() - 1);
  throw Error("doctor", "this machine",
              fmt::format("not everything works: {}{}", problems.front(), more));
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  add_command<DoctorRequest>(app, "doctor",
                             "Report what this machine has, which kernels run on it, and whether "
                             "programs run; exit 1 if something does not",
                             diagnose);
}

}  // namespace octet
