// Implements octet calibrate, which saves the state of the observers after calibration for `octet
// quantize --state`. Under mpirun each process calibrates on a part of the data, and process 0
// writes the merged state.
#include <fmt/format.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observer_state.h"
#include "core/base/error.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/pass_rows.h"

namespace octet {
namespace {

struct CalibrateRequest {
  QuantizeFlow flow;
  DataOptions data;
  std::string state;
};

void calibrate_command(CalibrateRequest& options) {
  Processes processes;
  std::optional<ObservedGraph> observed;
  const auto calibrate_part = [&] {
    if (processes.rank() == 0) check_writable(options.state);
    Report report;
    refuse_pass_rows(options.flow.config);
    observed = prepare_model(read_model(options.flow), options.flow, report);
    const SampleData data =
        sample_data(options.data.calibration, &observed->graph, options.data.max_batches);
    const DataPart part{.index = processes.rank(), .count = processes.count(), .before_batch = [&] {
                          processes.check_others();
                        }};
    Progress progress(processes.rank() == 0
                          ? std::vector<Progress::Stage>{{std::string(kCalibrateStage)}}
                          : std::vector<Progress::Stage>{});
    const size_t batches =
        calibrate_from_file(*observed, data, options.flow.recorded, progress, part);
    return processes.count() == 1 || batches == 0 ? std::string()
                                                  : observer_state_to_json(*observed);
  };
  const std::vector<std::string> states = processes.gather(calibrate_part);
  if (processes.rank() != 0) return;
  if (processes.count() > 1) {
    merge_parts(*observed, states);
    log_line(fmt::format("calibrate: {} processes", processes.count()));
  }
  save_observer_state(*observed, options.state);
}

Options options_of(CalibrateRequest& options) {
  return joined({options_of(options.flow),
                 calibration_options(options.data, /*is_required=*/true),
                 {Option{"state", &options.state, "The JSON file to write"}.required().output()}});
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  add_command<CalibrateRequest>(
      app, "calibrate",
      "Run sample data through the observers and save their state; mpirun shares the data "
      "among processes",
      calibrate_command);
}

}  // namespace octet
