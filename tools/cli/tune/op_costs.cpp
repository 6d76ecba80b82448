#include "tools/cli/tune/op_costs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tools/cli/common/run_session.h"

namespace octet {

OpCosts::OpCosts(const Graph& quantized, std::string backend, int threads,
                 std::vector<c10::IValue> batch)
    : backend_(std::move(backend)),
      threads_(threads),
      batch_(std::move(batch)),
      as_it_is_(measure(quantized)) {}

void OpCosts::add(const std::string& way, const Graph& graph) { ways_[way] = measure(graph); }

double OpCosts::share_of(const std::vector<const Node*>& ops, const std::string& way) const {
  const double more = seconds_of(ways_.at(way), ops) - seconds_of(as_it_is_, ops);
  return as_it_is_.all > 0 ? std::max(0.0, more / as_it_is_.all) : 0;
}

OpCosts::Times OpCosts::measure(const Graph& graph) const {
  constexpr int kWarmUps = 2, kRuns = 15;
  Report report;
  Session session(lower(graph, *make_support(backend_), {}, report), threads_);
  for (int i = 0; i < kWarmUps; ++i) run_session(session, batch_);
  session.time_kernels(true);
  for (int i = 0; i < kRuns; ++i) run_session(session, batch_);
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
