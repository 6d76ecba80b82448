#include "tools/cli/commands/requests.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/import/call_spec.h"
#include "lowering/program/artifact.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"

namespace octet {

Options options_of(LowerRequest& request) {
  return joined({
      {
          Option{"model", &request.model,
                 "A .pt2 with quantize/dequantize ops, from `octet quantize` or torchao; -: stdin"}
              .positional()
              .required()
              .from_stdin(),
          Option{"backend", &request.backend,
                 fmt::format("One of {}, or one from a --library. Several with commas between "
                             "them: each op goes to the first that accepts it",
                             fmt::join(backend_names(), ", "))}
              .required()
              .for_command(),
          Option{"output", &request.output, "The .octet file to write; -: stdout"}
              .required()
              .to_stdout(),
          Option{"fallback",
                 named(request.options.fallback, {{"reference", Fallback::kReference},
                                                  {"torch", Fallback::kTorch},
                                                  {"none", Fallback::kNone}}),
                 "What runs the ops that the backends refuse: reference; torch (reference, and "
                 "LibTorch for ops that it does not have: the file then needs LibTorch to run); or "
                 "none (they are then an error)"},
          Option{"float_compute",
                 named(request.options.float_compute, {{"float32", FloatCompute::kFloat32},
                                                       {"bfloat16", FloatCompute::kBfloat16}}),
                 "The type in which oneDNN computes products of floats (convolution, linear, "
                 "matmul): float32; or bfloat16 with sums in float32, which is faster on CPUs with "
                 "AVX512-BF16 or AMX, and ignored by others"},
          Option{"explain", &request.explain,
                 "Print every op, where it runs, and why not on the first backend"}
              .for_command(),
          print_after_option(),
      },
      library_options(request.libraries),
  });
}

namespace {

void lower(LowerRequest& request) {
  load_libraries(request.libraries);
  const std::vector<std::string> known = backend_names();
  for (const std::string& name : CLI::detail::split(request.backend, ','))
    if (request.libraries.empty() && !name.empty() &&
        std::find(known.begin(), known.end(), name) == known.end())
      throw CLI::ValidationError("--backend",
                                 fmt::format("{} not in {{{}}}", name, fmt::join(known, ",")));
  if (request.explain) check_free_standard_output("--explain");
  const Supports supports = make_supports(request.backend);
  Graph graph = read_pt2(request.model);
  verify(graph);
  Report report;
  const Program program = octet::lower(graph, supports, request.options, report);
  save_program(program, request.output, call_spec_of(graph));
  if (request.explain) print_text(explain(program));
  for (const std::string& line : slow_products(program)) log_warning(line);
  for (const std::string& note : report.notes()) log_line(note);
}

}  // namespace

void add_lower_command(CLI::App& app) {
  add_command<LowerRequest>(
      app, "lower", "Turn a quantized .pt2 into an .octet program for one backend or several",
      lower);
}

}  // namespace octet
