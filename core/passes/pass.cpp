#include "core/passes/pass.h"

#include <chrono>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/passes/verify.h"

namespace octet {

int run_passes(Graph& graph, const std::vector<Pass>& passes, const LogSink& log) {
  int total = 0;
  for (const Pass& pass : passes) {
    const size_t nodes_before = graph.node_count();
    const auto start = std::chrono::steady_clock::now();
    const int changes = pass.run(graph);
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    total += changes;
    try {
      verify(graph);
    } catch (const Error& error) {
      throw Error("verify", "after " + pass.name, error.what());
    }
    if (!log) continue;
    const std::string what =
        changes == 0 ? "(unchanged)"
                     : fmt::format("{} change{}, {} -> {} nodes", changes, changes == 1 ? "" : "s",
                                   nodes_before, graph.node_count());
    log(fmt::format("{}: {} ({:.1f} ms)", pass.name, what, ms));
  }
  return total;
}

}  // namespace octet
