// What `octet quantize`, `octet calibrate` and `octet qat` have in common: the options that decide
// the observed graph, and the way there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/error.h"
#include "core/base/report.h"

namespace CLI {
class App;
}

namespace octet {

class Progress;

struct QuantizeFlow {
  std::string model;
  std::string quantizer;
  std::string config;
  std::string settings;  // JSON of the same form, on top of --config; may be empty
  std::vector<std::string> libraries;
  std::string mode = "static";
  std::string fold_bn = "auto";
  Compat compat = Compat::kNone;
  std::string training_mode = "error";
  std::string recorded;
  bool per_tensor = false;
  bool is_training = false;    // fake-quants instead of observers; of `octet qat`
  bool learns_ranges = false;  // fake-quants whose scales can be trained
  std::optional<int64_t> weight_bits;
  std::optional<int64_t> group_size;
  bool reduce_range = false;

  bool is_compat() const { return compat == Compat::kTorchao; }
};

// --quantizer, --config, --library, --mode, --per-tensor, --weight-bits, --group-size,
// --reduce-range, --fold-bn, --compat and the model itself.
void add_flow_options(CLI::App& command, QuantizeFlow& flow);
// --training-mode: of commands that do not train.
void add_training_mode_option(CLI::App& command, QuantizeFlow& flow);

// The settings leave everything float.
class NothingToQuantize : public Error {
 public:
  using Error::Error;
};

// Loads the libraries, reads and verifies.
Graph read_model(const QuantizeFlow& flow);
// Throws Error("quantizer", ...) for what is wrong with its name, its file and its options.
std::unique_ptr<Quantizer> quantizer_of(const QuantizeFlow& flow);
// Annotates and prepares. Throws NothingToQuantize when the quantizer finds nothing; under compat
// it warns and goes on, as torchao does.
ObservedGraph prepare_model(Graph graph, const QuantizeFlow& flow, Report& report);

// What one of several processes takes of the data: the batches are cut into `count` runs, in order
// and of nearly equal length; this is run `index`.
struct DataPart {
  size_t index = 0;
  size_t count = 1;
  std::function<void()> before_batch = {};  // may throw, which ends calibration
  size_t held_out = 0;                      // of the last batches of all, which nobody takes
  // those that take the other parts: index and count are theirs, and all end with the observers of
  // the whole data; null: none
  Peers* peers = nullptr;
};

// Streams the batches of a DATA.pt through the observers: kCalibrateStage
// (annotate/accuracy/accuracy_passes.h) of the progress. `recorded`: the file with the tensors that
// stand for recorded opaque parts, or "". Returns the number of batches; 0 when there are fewer
// than parts and none is left for this one. Throws Error too when the files have different numbers
// of batches.
size_t calibrate_from_file(ObservedGraph& observed, const std::string& data,
                           const std::string& recorded, Progress& progress, DataPart part = {});

}  // namespace octet
