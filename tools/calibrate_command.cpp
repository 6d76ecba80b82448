// octet calibrate: the observers' state after a part of the data, to be used by `octet quantize --state`.
#include <CLI/CLI.hpp>

#include "annotate/observer_state.h"
#include "tools/command.h"
#include "tools/quantize_flow.h"

namespace octet {

void add_calibrate_command(CLI::App& app) {
  struct Options {
    QuantizeFlow flow;
    std::string calibration, state;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("calibrate", "Run sample data through the observers and save their state");
  add_flow_options(*command, options->flow);
  command->add_option("--calibration", options->calibration, "torch.save of a list of input tuples")->required();
  command->add_option("--state", options->state, "The JSON file to write")->required();
  command->callback([options] {
    Report report;
    ObservedGraph observed = prepare_model(options->flow, report);
    calibrate_from_file(observed, options->calibration, options->flow.recorded);
    save_observer_state(observed, options->state);
  });
}

}  // namespace octet
