// Measures how methods of rounding weights by calibration data do on other data:
//
//   octet_rounding_fidelity DIR QUANTIZER METHOD...
//       DIR: as tools/models/export.py writes it
//
// METHOD: high (the passes of --effort high), passes:ranges+round, or rounding alone: nearest,
// second-order, adaptive. Options follow a colon, as in second-order:damping=0.1,bias=0. Prints for
// each: median SQNR to float over the held-out batches (for sentences: of the pooled and normalized
// embedding), share of equal top-1, mean dB per layer on calibration data before and after,
// seconds.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/weight_rounding.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "core/pt2/tensor_file.h"
#include "quantizers/registry.h"

namespace {

using namespace octet;

struct Settings {
  std::string folder;
  std::string quantizer;
  std::vector<std::string> methods;
  std::string mode = "static";
  std::optional<int64_t> bits;
  std::optional<int64_t> group_size;
  std::string config;
  size_t held_out = 96;
};

using Options = std::map<std::string, double>;

// "name:a=1,b=2"
std::pair<std::string, Options> split(const std::string& method) {
  const size_t colon = method.find(':');
  Options options;
  for (size_t at = colon; at != std::string::npos;) {
    const size_t end = method.find(',', at + 1);
    const std::string item = method.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    options[item.substr(0, item.find('='))] = std::stod(item.substr(item.find('=') + 1));
    at = end;
  }
  return {method.substr(0, colon), options};
}

double option(const Options& options, const std::string& name, double fallback) {
  const auto found = options.find(name);
  return found == options.end() ? fallback : found->second;
}

BatchSource batches_of(BatchReader& reader) {
  reader.rewind();
  return [&reader]() { return reader.done() ? std::nullopt : std::optional(reader.next()); };
}

std::vector<LayerRounding> apply(ObservedGraph& observed, BatchReader& data,
                                 const std::string& method, Report& report) {
  const auto [name, given] = split(method);
  RoundingOptions options;
  if (given.contains("damping") || given.contains("follow"))
    options.settings = {{option(given, "damping", 0.01), option(given, "follow", 0)}};
  options.held_out = option(given, "held_out", options.held_out);
  options.correct_bias = option(given, "bias", 1) != 0;
  if (name == "second-order")
    return round_second_order(
        observed, batches_of(data), report, options,
        {.passes = static_cast<int>(option(given, "passes", SecondOrderOptions().passes))});
  if (name != "adaptive") return {};
  AdaptiveOptions adaptive;
  adaptive.iterations = static_cast<int>(option(given, "iterations", adaptive.iterations));
  adaptive.learning_rate = option(given, "rate", adaptive.learning_rate);
  adaptive.regularization = option(given, "penalty", adaptive.regularization);
  return round_adaptive(observed, batches_of(data), report, options, adaptive);
}

// "high", or "passes:" and names joined by "+".
std::vector<AccuracyPass> passes_of(const std::string& method) {
  if (method == "high") return high_effort_passes();
  std::vector<std::string> names;
  for (size_t at = method.find(':') + 1; at <= method.size();) {
    const size_t end = std::min(method.find('+', at), method.size());
    names.push_back(method.substr(at, end - at));
    at = end + 1;
  }
  return parse_accuracy_passes(names, "methods");
}

double sqnr(const at::Tensor& want, const at::Tensor& got) {
  const double noise = (want - got).to(at::kDouble).pow(2).sum().item<double>();
  return 10 * std::log10(want.to(at::kDouble).pow(2).sum().item<double>() / noise);
}

// The embedding of a sentence; other outputs unchanged.
at::Tensor pooled(const at::Tensor& output, const at::Tensor& mask) {
  if (!mask.defined()) return output;
  const at::Tensor mean = rows_that_count(output, mask).to(at::kDouble).mean(0);
  return mean / mean.norm();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void measure(const Settings& settings, const std::string& method) {
  Report report;
  QuantizerOptions options;
  if (settings.mode == "dynamic") options.is_dynamic = true;
  if (settings.mode == "weight-only") options.is_weight_only = true;
  options.weight_bits = settings.bits;
  options.group_size = settings.group_size;
  options.config = settings.config;
  ObservedGraph observed = prepare_pt2e(read_pt2(settings.folder + "/model.pt2"),
                                        *make_quantizer(settings.quantizer, options), report);
  BatchReader data(settings.folder + "/calibration.pt");
  const size_t count = data.size();
  const bool is_bundle = method == "high" || method.starts_with("passes:");
  const auto begin = std::chrono::steady_clock::now();
  std::vector<LayerRounding> layers;
  if (is_bundle) {
    calibrate_with_passes(
        observed, [&] { return batches_of(data); }, count, passes_of(method), report);
  } else {
    calibrate(observed, batches_of(data));
    layers = apply(observed, data, method, report);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (is_bundle)
    for (const std::string& note : report.notes()) fmt::print(stderr, "{}\n", note);
  for (const std::string& detail : report.details()) fmt::print(stderr, "{}\n", detail);
  double before = 0;
  double after = 0;
  for (const LayerRounding& layer : layers) {
    before += layer.before_db / static_cast<double>(layers.size());
    after += layer.after_db / static_cast<double>(layers.size());
  }
  const Graph quantized = convert_pt2e(std::move(observed), {}, report);
  const Graph reference = read_pt2(settings.folder + "/model.pt2");
  Interpreter run_quantized(quantized);
  Interpreter run_float(reference);
  BatchReader unseen(settings.folder + "/held_out.pt");
  std::vector<double> ratios;
  int equal = 0;
  while (!unseen.done() && ratios.size() < settings.held_out) {
    const std::vector<c10::IValue> batch = unseen.next();
    const at::Tensor mask = padding_mask_of(batch, find_padding_mask(reference));
    const at::Tensor want = pooled(run_float.run(batch).at(0).toTensor(), mask);
    const at::Tensor got = pooled(run_quantized.run(batch).at(0).toTensor(), mask);
    ratios.push_back(sqnr(want, got));
    equal += want.argmax().item<int64_t>() == got.argmax().item<int64_t>();
  }
  fmt::print("{:40s} {:6.2f} dB  top-1 {:.3f}  layers {:3d}: {:5.1f} -> {:5.1f} dB  {:6.1f} s\n",
             method, median(ratios), equal / static_cast<double>(ratios.size()), layers.size(),
             before, after, seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Fidelity of rounding methods on unseen data");
  app.add_option("folder", settings.folder)->required();
  app.add_option("quantizer", settings.quantizer)->required();
  app.add_option("methods", settings.methods)->required();
  app.add_option("--mode", settings.mode)
      ->check(CLI::IsMember({"static", "dynamic", "weight-only"}));
  app.add_option("--weight-bits", settings.bits);
  app.add_option("--group-size", settings.group_size);
  app.add_option("--config", settings.config);
  app.add_option("--held-out", settings.held_out, "Maximum number of batches");
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& method : settings.methods) measure(settings, method);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
