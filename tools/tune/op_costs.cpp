#include "tools/tune/op_costs.h"

#include <algorithm>
#include <set>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tools/common/run_session.h"

namespace octet {

OpCosts::OpCosts(const Graph& original, const Graph& quantized, const std::string& backend,
                 int threads, const std::vector<c10::IValue>& batch)
    : as_float_(measure(original, backend, threads, batch)),
      as_integers_(measure(quantized, backend, threads, batch)) {}

double OpCosts::share_of(const std::vector<const Node*>& ops) const {
  const double more = seconds_of(as_float_, ops) - seconds_of(as_integers_, ops);
  return as_integers_.all > 0 ? std::max(0.0, more / as_integers_.all) : 0;
}

OpCosts::Times OpCosts::measure(const Graph& graph, const std::string& backend, int threads,
                                const std::vector<c10::IValue>& batch) {
  constexpr int kWarmUps = 2, kRuns = 15;
  Report report;
  Session session(lower(graph, *make_support(backend), {}, report), threads);
  for (int i = 0; i < kWarmUps; ++i) run_session(session, batch);
  session.time_kernels(true);
  for (int i = 0; i < kRuns; ++i) run_session(session, batch);
  Times times;
  for (const KernelReport& kernel : session.kernels()) {
    for (const std::string& op : kernel.ops) times.kernels_of[op].push_back(times.kernels.size());
    times.kernels.push_back(kernel.seconds);
    times.all += kernel.seconds;
  }
  return times;
}

double OpCosts::seconds_of(const Times& times, const std::vector<const Node*>& ops) {
  std::set<size_t> kernels;  // each once
  for (const Node* op : ops)
    if (const auto found = times.kernels_of.find(op->name()); found != times.kernels_of.end())
      kernels.insert(found->second.begin(), found->second.end());
  double seconds = 0;
  for (size_t kernel : kernels) seconds += times.kernels[kernel];
  return seconds;
}

}  // namespace octet
