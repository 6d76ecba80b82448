#include "tools/python/torch/bindings.h"

#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "quantizers/registry.h"
#include "tools/cli/conformance/quantizer_cells.h"
#include "tools/python/torch/calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

MakeQuantizer maker_of(const std::string& names) {
  if (names.empty()) return {};
  return [names] { return make_quantizer(names); };
}

// The reports as text and JSON. Runs the cells in this process, because a quantizer written in
// Python lives here.
std::pair<std::string, std::string> prove_quantizer(const conformance::ConformanceOptions& options,
                                                    const std::string& same_as,
                                                    const std::string& models) {
  const conformance::QuantizerOfCells quantizer = {.make = maker_of(options.quantizer),
                                                   .make_twin = maker_of(same_as)};
  const int threads = at::get_num_threads();  // jobs set it
  std::vector<conformance::CellResult> results;
  for (const conformance::Job& job : quantizer_jobs(quantizer, options, models))
    results.push_back(job.run());
  at::set_num_threads(threads);
  return {to_text(results, options), to_json_text(results, options)};
}

}  // namespace

void bind_conformance(nb::module_& module) {
  module.def(
      "prove_quantizer",
      [](const std::string& quantizer, const std::string& same_as, const std::string& backend,
         const std::string& models, const std::string& filter, bool quick, uint32_t seed) {
        const conformance::ConformanceOptions options{
            .backend = backend,
            .quantizer = quantizer,
            .filter = filter,
            .seed = seed,
            .is_quick = quick,
            .repeated_options = models.empty() ? "" : " --models " + models};
        return without_gil([&] { return prove_quantizer(options, same_as, models); });
      },
      "quantizer"_a, "same_as"_a, "backend"_a, "models"_a, "filter"_a, "quick"_a, "seed"_a);
}

}  // namespace octet::python
