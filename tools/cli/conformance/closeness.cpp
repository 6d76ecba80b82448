#include "tools/cli/conformance/closeness.h"

#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "annotate/compare/metric.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"

namespace octet::conformance {
namespace {

// Libraries flush floats below about 1e-38 to 0.
constexpr double kVanished = 1e-30;

}  // namespace

RunBatch interpreted(const Graph& graph) {
  return [interpreter = std::make_shared<Interpreter>(graph)](
             const std::vector<c10::IValue>& batch) { return interpreter->run(batch); };
}

Batches run_all(const Batches& batches, const RunBatch& run) {
  Batches outputs;
  for (const std::vector<c10::IValue>& batch : batches) {
    std::vector<c10::IValue> copy;
    for (const c10::IValue& input : batch)
      copy.push_back(input.isTensor() ? input.toTensor().clone() : input);
    outputs.push_back(run(copy));
  }
  return outputs;
}

double least_sqnr(const Batches& want, const Batches& got) {
  double least = INFINITY;
  for (size_t output = 0; output < want[0].size(); ++output) {
    ErrorStats sum;
    for (size_t batch = 0; batch < want.size(); ++batch)
      if (want[batch][output].isTensor() && want[batch][output].toTensor().is_floating_point())
        sum.merge(compare_tensors(want[batch][output].toTensor(), got[batch][output].toTensor()));
    const double vanished = kVanished * kVanished * static_cast<double>(sum.elements);
    if (sum.has_data() && (sum.signal + sum.energy > vanished || sum.strange > 0))
      least = std::min(least, sum.sqnr_db());
  }
  return least;
}

void check_close(const char* what, const Batches& want, const Batches& got, double least) {
  if (const double ratio = least_sqnr(want, got); !(ratio >= least))
    throw Error(
        "conformance", "close",
        fmt::format("{} have {:.1f} dB to the program's, want at least {}", what, ratio, least));
}

}  // namespace octet::conformance
