#include "tools/cli/qat/qat.h"

#include <chrono>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/convert/convert.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "annotate/training/initial_ranges.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/qat/checkpoint.h"
#include "tools/cli/quantize/pass_rows.h"
#include "tools/cli/quantize/quality.h"

namespace octet {
namespace {

void check_request(const QatRequest& request) {
  if (request.device != "cpu")
    throw Error("qat", "--device",
                fmt::format("is {}, but this command trains on the CPU; use `octet qat` of the "
                            "Python package, or octet.qat(..., device=\"{}\")",
                            request.device, request.device));
  if (!request.flow.recorded.empty())
    throw Error("qat", "--recorded",
                "recorded parts do not run, so nothing is trained through them; leave it out");
  if (request.train.checkpoint_every && request.train.checkpoint.empty())
    throw Error("qat", "--checkpoint-every", "needs --checkpoint; give it a file");
  if (request.train.learn_ranges && request.flow.is_compat())
    throw Error("qat", "--learn-ranges",
                "torchao's quantizers have no learned ranges; leave out --compat torchao");
  refuse_pass_rows(request.flow.config);
}

void load_ranges(ObservedGraph& prepared, const std::string& file) {
  const InitialRanges ranges = set_initial_ranges(prepared, read_state(file), file);
  log_line(fmt::format("{} ranges from {}{}", ranges.taken, file,
                       ranges.others.empty() ? ""
                                             : fmt::format("; %{} follow the data",
                                                           fmt::join(ranges.others, ", %"))));
}

// Each step frees its activations and allocates them again. By default glibc would return that
// memory to the system and fault it back in page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

}  // namespace

Options options_of(QatRequest& request) {
  return joined({options_of(request.flow),
                 options_of(request.train),
                 {Option{"device", &request.device,
                         "Where to train: cpu; the command of the Python package also takes cuda"}
                      .without_key(),
                  Option{"output", &request.output, "The quantized .pt2"}.required().output(),
                  report_option(request.report)}});
}

std::optional<QatResult> train_model(const QatRequest& request, Processes& processes,
                                     bool wants_pages) {
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  check_request(request);
  keep_freed_memory();
  QuantizeFlow flow = request.flow;
  flow.learns_ranges = request.train.learn_ranges.has_value();
  TrainOptions train = request.train;
  train.flow = text_of_flow(flow);
  QatResult result;
  const Graph float_model = read_model(flow);
  SharedStep step(processes, float_model);
  QatModel model(prepare_model(std::move(*clone(float_model)), flow, result.report), {},
                 step.is_alone() ? nullptr : &step);
  if (!train.state.empty()) load_ranges(model.prepared(), train.state);
  QatTrainer(model, float_model, train, step).run();
  if (!step.is_first()) return std::nullopt;
  if (!step.is_alone()) log_line(step.traffic());
  ObservedGraph trained = std::move(model).finish();
  if (wants_pages) {
    result.pages.emplace("qat", request.flow);
    result.pages->before_convert(trained, annotations_to_json(trained));
  }
  result.graph = convert_pt2e(std::move(trained), {.compat = flow.compat}, result.report);
  if (result.pages) result.pages->after_convert(result.graph, result.report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.figures = quality_json({}, weigh(float_model, result.graph, result.report), seconds);
  return result;
}

Graph read_trained(const std::string& checkpoint, const std::string& model) {
  const SavedTraining saved = read_checkpoint(checkpoint, "compare");
  QuantizeFlow flow;
  try {
    flow = flow_of_text(saved.flow);
  } catch (const nlohmann::json::exception&) {
    throw Error("compare", checkpoint, "is damaged; take an older copy, or train again");
  }
  flow.model = model;
  Report report;
  QatModel trained(prepare_model(read_model(flow), flow, report));
  if (!restore_saved(trained, saved))
    throw Error("compare", checkpoint,
                "belongs to a training of another model; give the float program that is trained");
  return convert_pt2e(std::move(trained).finish(), {.compat = flow.compat}, report);
}

}  // namespace octet
