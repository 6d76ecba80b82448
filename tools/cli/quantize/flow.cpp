#include "tools/cli/quantize/flow.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observer_state.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "quantizers/json/place.h"
#include "quantizers/registry.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {

Options options_of(QuantizeFlow& flow) {
  Options options = {
      Option("model", &flow.model, "The float .pt2 that torch.export.save wrote; -: stdin")
          .positional()
          .required()
          .from_stdin()
          .without_key(),
      Option("quantizer", &flow.quantizer,
             fmt::format("{}, one from a --library, or a JSON file",
                         fmt::join(quantizer_names(), ", ")))
          .required(),
      Option("config", &flow.config,
             "A JSON file with additional settings: global, op_type, module_type, "
             "module_name_regex, module_name, call_index")
          .of_kind(Option::Kind::kSettings),
      Option("mode", &flow.mode,
             "static; dynamic: activations get their scale at run time, one per row (with --compat "
             "torchao one per tensor); weight-only: activations stay float. The last two need no "
             "data")
          .one_of({"static", "dynamic", "weight-only"}),
      Option("per_tensor", &flow.per_tensor, "Weights per tensor instead of per channel"),
      Option("weight_bits", &flow.weight_bits,
             "8; 4, 3 or 2: groups of 32 input channels with a scale each (see --group-size); 16: "
             "int16, "
             "with --activation-bits 16"),
      Option("activation_bits", &flow.activation_bits,
             "8, or 16: activations of int16, for models that lose too much with 8; static"),
      Option("group_size", &flow.group_size,
             "Input channels that share a weight scale; 0: one scale per output channel"),
      Option("reduce_range", &flow.reduce_range,
             "Use 7 of 8 bits for activations: for runtimes whose int8 kernels saturate on CPUs "
             "without VNNI; Octet's do not"),
      Option("fold_bn", &flow.fold_bn, "Fold batch norms into convolutions and linears")
          .one_of({"auto", "off"}),
      Option("recorded", &flow.recorded,
             "What PyTorch computed for recorded opaque parts: torch.save of a list of tuples of "
             "tensors, one for each batch of --calibration")
          .file()
          .without_key(),
      Option(
          "compat",
          named(flow.compat, {{"torchao", Compat::kTorchao}, {"torchao@0.18", Compat::kTorchao}}),
          "Make the same choices as torchao 0.18, including its defects; torchao@0.18 names that "
          "version"),
  };
  if (!flow.is_training)
    options.push_back(
        Option("training_mode", &flow.training_mode,
               "For a model that was exported in training mode, with active dropouts and batch "
               "norms; ok: quantize it anyway")
            .one_of({"error", "ok"}));
  return joined({options, library_options(flow.libraries)});
}

std::string text_of_flow(QuantizeFlow flow) {
  nlohmann::ordered_json json = to_json(options_of(flow));
  json["config"] = flow.config.empty() ? std::string() : dump_json(load_settings(flow.config));
  json["learns_ranges"] = flow.learns_ranges;
  return dump_json(json);
}

QuantizeFlow flow_of_text(const std::string& text) {
  const nlohmann::ordered_json json = parse_json<nlohmann::ordered_json>(text);
  QuantizeFlow flow{.is_training = true};
  read_json(options_of(flow), json);
  flow.settings = std::exchange(flow.config, {});
  flow.learns_ranges = json.at("learns_ranges");
  return flow;
}

namespace {

// The reason of the first op that stayed float.
std::string first_reason(const Report& report) {
  if (report.entries().empty()) return {};
  const ReportEntry& entry = report.entries().front();
  return fmt::format(" (%{}, {}: {})", entry.node, entry.target, entry.reason);
}

}  // namespace

Graph read_model(const QuantizeFlow& flow) {
  load_libraries(flow.libraries);
  Graph graph = read_pt2(flow.model);
  verify(graph);
  return graph;
}

std::unique_ptr<Quantizer> quantizer_of(const QuantizeFlow& flow) {
  QuantizerOptions quantizer_options;
  quantizer_options.compat = flow.compat;
  quantizer_options.config = flow.config;
  quantizer_options.config_text = flow.settings;
  if (flow.per_tensor) quantizer_options.is_per_channel = false;
  if (flow.mode == "dynamic") quantizer_options.is_dynamic = true;
  if (flow.mode == "weight-only") quantizer_options.is_weight_only = true;
  quantizer_options.weight_bits = flow.weight_bits;
  quantizer_options.activation_bits = flow.activation_bits;
  quantizer_options.group_size = flow.group_size;
  if (flow.reduce_range) quantizer_options.reduce_range = true;
  quantizer_options.is_qat = flow.is_training;
  quantizer_options.learns_ranges = flow.learns_ranges;
  return make_quantizer(flow.quantizer, quantizer_options);
}

ObservedGraph prepare_model(Graph graph, const QuantizeFlow& flow, Report& report) {
  const std::unique_ptr<Quantizer> quantizer = quantizer_of(flow);
  PrepareOptions options;
  options.fold_bn =
      flow.fold_bn == "off" ? PrepareOptions::FoldBn::kOff : PrepareOptions::FoldBn::kAuto;
  options.compat = flow.compat;
  if (flow.training_mode == "ok") options.training_mode = PrepareOptions::TrainingMode::kOk;
  ObservedGraph observed = flow.is_training
                               ? prepare_qat_pt2e(std::move(graph), *quantizer, report, options)
                               : prepare_pt2e(std::move(graph), *quantizer, report, options);
  if (!observer_nodes(observed.graph).empty()) return observed;
  const std::string found =
      fmt::format("quantizer \"{}\" finds nothing to quantize in {} ops{}", flow.quantizer,
                  observed.graph.node_count(), first_reason(report));
  if (!flow.is_compat())
    throw NothingToQuantize("quantize", flow.model,
                            found + "; choose another one or change its settings");
  log_warning(fmt::format("{}: {}; the program stays float", flow.model, found));
  return observed;
}

size_t calibrate_from_file(ObservedGraph& observed, const SampleData& data,
                           const std::string& recorded, Progress& progress, DataPart part) {
  if (Peers* const peers = std::exchange(part.peers, nullptr)) {
    part.index = peers->rank();
    part.count = peers->count();
    const size_t batches = calibrate_from_file(observed, data, recorded, progress, part);
    merge_parts(observed, peers->share(batches > 0 ? observer_state_to_json(observed) : ""));
    return batches;
  }
  const SampleReader reader(data);
  std::optional<BatchReader> recorded_reader;
  if (!recorded.empty()) recorded_reader.emplace(recorded);
  if (const size_t batches = recorded_reader ? data.batches->size() : 0;
      recorded_reader && recorded_reader->size() != batches)
    throw Error("calibrate", recorded,
                fmt::format("got {} batches, want {} as in {}", recorded_reader->size(), batches,
                            data.file));
  const size_t taken = reader.size();
  const size_t first = taken * part.index / part.count;
  const size_t end = taken * (part.index + 1) / part.count;
  if (first == end) return 0;
  progress.begin(kCalibrateStage);
  CalibrateOptions options;
  options.first_batch = first;
  options.progress = [&](size_t done) { progress.advance(done, end - first); };
  size_t next_recorded = first;
  if (recorded_reader)
    options.recorded = [&] { return std::optional(recorded_reader->at(next_recorded++)); };
  size_t next = first;
  const BatchSource batches = [&]() -> std::optional<std::vector<c10::IValue>> {
    if (part.before_batch) part.before_batch();
    return next == end ? std::nullopt : std::optional(reader.at(next++));
  };
  return calibrate(observed, batches, options);
}

}  // namespace octet
