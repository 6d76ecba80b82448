#include "tools/cli/quantize/quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/tensor_file.h"
#include "quantizers/common/float_report.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/quantize/products.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

size_t bytes_of(const Graph& graph) {
  size_t bytes = 0;
  for (const auto& [fqn, constant] : graph.constants)
    bytes += constant.tensor.defined() ? constant.tensor.nbytes() : 0;
  return bytes;
}

// Signal-to-noise ratio in dB over all float tensors.
double ratio_of(const std::vector<c10::IValue>& want, const std::vector<c10::IValue>& got) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
    if (!want[i].isTensor() || !got[i].isTensor() || !want[i].toTensor().is_floating_point())
      continue;
    const at::Tensor a = want[i].toTensor().to(at::kDouble), b = got[i].toTensor().to(at::kDouble);
    signal += a.square().sum().item<double>();
    noise += (a - b).square().sum().item<double>();
  }
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

// Mean of the metric over the float tensors to which it applies; NaN if there is none.
double metric_of(const Metric& metric, const std::vector<c10::IValue>& want,
                 const std::vector<c10::IValue>& got) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
    if (!want[i].isTensor() || !got[i].isTensor() || !want[i].toTensor().is_floating_point())
      continue;
    const double value =
        metric(want[i].toTensor().to(at::kFloat), got[i].toTensor().to(at::kFloat));
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / count;
}

// The class of each sample if the first output is [samples, classes].
std::optional<at::Tensor> classes_of(const std::vector<c10::IValue>& outputs) {
  if (outputs.empty() || !outputs[0].isTensor()) return std::nullopt;
  const at::Tensor& scores = outputs[0].toTensor();
  if (scores.dim() != 2 || scores.size(1) < 2 || !scores.is_floating_point()) return std::nullopt;
  return scores.argmax(1);
}

at::Tensor read_labels(const std::string& path) {
  const std::vector<c10::IValue> values = read_inputs(path);
  if (values.size() != 1 || !values[0].isTensor() || values[0].toTensor().dim() != 1 ||
      values[0].toTensor().is_floating_point())
    throw Error(
        "evaluate", path,
        "not a list of classes; torch.save one tensor of integers, a class for each sample");
  return values[0].toTensor().to(at::kLong);
}

std::string decibels(const Json& ratio) {
  return ratio.is_null() ? "equal" : fmt::format("{:.1f} dB", ratio.get<double>());
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// The position of each evaluated batch's samples among all samples of the file.
struct Samples {
  std::vector<int64_t> begins;  // and the end of the last batch
  int64_t all = 0;
};

// Labels are for the whole file; so with labels all of it is read.
Samples count_samples(const SampleData& data) {
  const auto samples_of = [](const std::vector<c10::IValue>& batch) {
    return !batch.empty() && batch[0].isTensor() && batch[0].toTensor().dim() > 0
               ? batch[0].toTensor().size(0)
               : int64_t{1};
  };
  const bool is_whole = !data.labels.empty();
  Samples samples;
  for (size_t i = is_whole ? 0 : data.first; i < (is_whole ? data.batches->size() : data.end);
       ++i) {
    if (i >= data.first && i <= data.end) samples.begins.push_back(samples.all);
    samples.all += samples_of(data.batches->at(i));
  }
  if (samples.begins.size() == data.size()) samples.begins.push_back(samples.all);
  return samples;
}

// Sums over batches; entries for batches of other processes are 0.
struct Sums {
  std::vector<double> ratios;              // by batch
  std::vector<double> metrics;             // by batch; empty without a metric
  std::array<double, 5> counts{};          // whole numbers
  double& batches() { return counts[0]; }  // batches with classes in both programs
  double& samples() { return counts[1]; }  // samples in these batches
  double& same() { return counts[2]; }
  double& float_right() { return counts[3]; }
  double& right() { return counts[4]; }
};

struct Run {
  const SampleData& data;
  const Metric& metric;
  const Samples& samples;
  const at::Tensor& labels;  // undefined: none
  Progress& progress;
  Peers* peers;
};

void check_classes(const at::Tensor& labels, const c10::IValue& scores, const std::string& file) {
  const int64_t classes = scores.toTensor().size(1);
  const at::Tensor wrong = labels.masked_select(labels.lt(0).logical_or(labels.ge(classes)));
  if (wrong.numel() > 0)
    throw Error("evaluate", file,
                fmt::format("holds the class {}, want 0 to {}, as the program tells {} classes "
                            "apart; number the classes as the model does",
                            wrong[0].item<int64_t>(), classes - 1, classes));
}

double count_equal(const at::Tensor& a, const at::Tensor& b) {
  return static_cast<double>(a.eq(b).sum().item<int64_t>());
}

void run_own_batches(const BatchOutputs& float_program, const BatchOutputs& program,
                     const SampleReader& reader, const Run& run, Sums& sums) {
  const size_t count = run.peers == nullptr ? 1 : run.peers->count();
  for (size_t i = run.peers == nullptr ? 0 : run.peers->rank(); i < sums.ratios.size();
       i += count) {
    const std::vector<c10::IValue> want = only_tensors(float_program(i, reader.at(i))),
                                   got = only_tensors(program(i, reader.at(i)));
    sums.ratios[i] = ratio_of(want, got);
    if (run.metric) sums.metrics[i] = metric_of(run.metric, want, got);
    const std::optional<at::Tensor> wanted = classes_of(want), found = classes_of(got);
    if (wanted && found) {
      sums.batches() += 1;
      sums.samples() += static_cast<double>(wanted->numel());
      sums.same() += count_equal(*wanted, *found);
      const int64_t begin = run.samples.begins[i], end = run.samples.begins[i + 1];
      if (run.labels.defined() && end <= run.labels.size(0) && end - begin == wanted->numel()) {
        const at::Tensor known = run.labels.slice(0, begin, end);
        check_classes(known, want[0], run.data.labels);
        sums.float_right() += count_equal(*wanted, known);
        sums.right() += count_equal(*found, known);
      }
    }
    run.progress.advance(std::min(i + count, sums.ratios.size()), sums.ratios.size());
  }
}

// Throws in all processes if one fails, because callers may continue without the figures.
void run_batches(const BatchOutputs& float_program, const BatchOutputs& program,
                 const SampleReader& reader, const Run& run, Sums& sums) {
  if (run.peers == nullptr) return run_own_batches(float_program, program, reader, run, sums);
  std::string message;
  try {
    run_own_batches(float_program, program, reader, run, sums);
  } catch (const std::exception& error) {
    message = error.what();
  }
  for (const std::string& each : run.peers->share(message))
    if (!each.empty()) throw std::runtime_error(each);
}

}  // namespace

Quality evaluate(const Graph& original, const Graph& quantized, const SampleData& data,
                 Progress& progress, Peers* peers) {
  Interpreter float_program(original), program(quantized);
  const auto runner = [](Interpreter& interpreter) {
    return [&interpreter](size_t, const std::vector<c10::IValue>& inputs) {
      return interpreter.run(inputs);
    };
  };
  return evaluate(runner(float_program), runner(program), data, progress, peers);
}

Quality evaluate(const BatchOutputs& float_program, const BatchOutputs& program,
                 const SampleData& data, Progress& progress, Peers* peers, const Metric& metric) {
  const SampleReader reader(data);
  progress.begin(kEvaluateStage);
  const Samples samples = count_samples(data);
  const at::Tensor labels = data.labels.empty() ? at::Tensor() : read_labels(data.labels);
  Sums sums;
  sums.ratios.resize(reader.size());
  if (metric) sums.metrics.resize(sums.ratios.size());
  run_batches(float_program, program, reader, {data, metric, samples, labels, progress, peers},
              sums);
  if (peers != nullptr) {
    peers->sum(sums.ratios);
    if (metric) peers->sum(sums.metrics);
    peers->sum(sums.counts);
  }
  Quality quality;
  quality.batches = data.description;
  if (metric)
    quality.metric = std::accumulate(sums.metrics.begin(), sums.metrics.end(), 0.0) /
                     static_cast<double>(sums.metrics.size());
  std::ranges::sort(sums.ratios);
  quality.worst_db = sums.ratios.front();
  quality.median_db = sums.ratios[sums.ratios.size() / 2];
  const bool has_classes = sums.batches() == static_cast<double>(sums.ratios.size());
  if (has_classes) quality.same_top1 = sums.same() / sums.samples();
  if (data.labels.empty()) return quality;
  if (!has_classes)
    throw Error("evaluate", data.labels,
                "classes are given, but the program's first output is not [samples, classes]; "
                "leave out --labels");
  if (labels.size(0) != samples.all)
    throw Error("evaluate", data.labels,
                fmt::format("holds {} classes, want one for each of the {} samples of {}",
                            labels.size(0), samples.all, data.file));
  if (sums.samples() != static_cast<double>(samples.all - samples.begins.front()))
    throw Error("evaluate", data.labels,
                fmt::format("classes are given, but the program's first output has {} rows for {} "
                            "samples; leave out --labels",
                            sums.samples(), samples.all - samples.begins.front()));
  quality.float_accuracy = sums.float_right() / sums.samples();
  quality.accuracy = sums.right() / sums.samples();
  return quality;
}

Weight weigh(const Graph& original, const Graph& quantized, const Report& report) {
  Weight weight;
  weight.float_bytes = bytes_of(original);
  weight.bytes = bytes_of(quantized);
  std::map<std::string, const ReportEntry*> entries;
  for (const ReportEntry& entry : report.entries()) entries.emplace(entry.node, &entry);
  double all = 0, in_int8 = 0, in_int16 = 0, eligible = 0, taken = 0, weights = 0, bits = 0;
  std::map<std::string, double> macs;  // by node, of those in floats
  for (const Product& product : find_products(quantized)) {
    const auto found = entries.find(product.name);
    const bool has_entry = found != entries.end();
    all += product.macs;
    weights += product.weights;
    bits += product.weights * product.weight_bits;
    in_int8 += product.has_integer_inputs ? product.macs : 0;
    in_int16 += product.has_integer_inputs && product.input_bits > 8 ? product.macs : 0;
    if (!product.has_integer_inputs) macs[product.name] = product.macs;
    if (has_entry && found->second->stage == kModeStage) continue;
    eligible += product.macs;
    const bool is_taken = product.has_integer_inputs || (product.has_integer_weights && !has_entry);
    taken += is_taken ? product.macs : 0;
  }
  weight.int8_share = all == 0 ? 0 : in_int8 / all;
  weight.int16_share = all == 0 ? 0 : in_int16 / all;
  weight.eligible_share = all == 0 ? 0 : eligible / all;
  if (weights > 0) weight.weight_bits = bits / weights;
  if (eligible > 0) weight.quantized_share = taken / eligible;
  std::map<std::string, Weight::Reason> by_text;
  for (const ReportEntry& entry : report.entries()) {
    Weight::Reason& reason = by_text[entry.reason];
    const auto found = macs.find(entry.node);
    const double share = found != macs.end() && all > 0 ? found->second / all : 0;
    // the largest op represents the others
    if (reason.ops == 0 || share > reason.node_share) {
      reason.node = entry.node;
      reason.node_share = share;
    }
    reason.text = entry.reason;
    reason.is_of_mode = entry.stage == kModeStage;
    ++reason.ops;
    reason.share += share;
  }
  for (auto& [text, reason] : by_text) weight.reasons.push_back(std::move(reason));
  std::ranges::stable_sort(weight.reasons, [](const Weight::Reason& a, const Weight::Reason& b) {
    return a.share != b.share ? a.share > b.share : a.ops > b.ops;
  });
  return weight;
}

std::vector<std::pair<std::string, std::string>> quality_rows(const Json& quality) {
  constexpr size_t kReasons = 3;
  std::vector<std::pair<std::string, std::string>> rows;
  const auto row = [&](const char* name, std::string text) {
    rows.emplace_back(name, std::move(text));
  };
  const auto percent = [&](const char* key) { return 100 * quality.at(key).get<double>(); };
  const auto megabytes = [&](const char* key) { return 1e-6 * quality.at(key).get<double>(); };
  if (!quality.at("batches").is_null()) {
    const Json &median = quality.at("median_sqnr_db"), &worst = quality.at("worst_sqnr_db");
    const std::string spread =
        median == worst ? "" : fmt::format(" (median; worst {})", decibels(worst));
    row("SQNR", fmt::format("{} to float{}, over {}", decibels(median), spread,
                            quality.at("batches").get<std::string>()));
  }
  const Json& before = quality.at("before");
  const auto top1_before = [&](const char* key) {
    return before.is_null() || before.at(key).is_null()
               ? std::string()
               : fmt::format(", without the passes {:.2f} %", 100 * before.at(key).get<double>());
  };
  if (!before.is_null())
    row("", fmt::format("{} without the passes (worst {})", decibels(before.at("median_sqnr_db")),
                        decibels(before.at("worst_sqnr_db"))));
  if (!quality.at("accuracy").is_null())
    row("top-1", fmt::format("{:.2f} %, float {:.2f} %{}", percent("accuracy"),
                             percent("float_accuracy"), top1_before("accuracy")));
  else if (!quality.at("same_top1").is_null())
    row("top-1", fmt::format("as in float for {:.1f} % of the samples{}", percent("same_top1"),
                             top1_before("same_top1")));
  const Json& taken = quality.at("quantized_share");
  const std::string of_mode =
      taken.is_null() || taken == quality.at("int8_share")
          ? std::string()
          : fmt::format("; quantized: {:.1f} % of the {:.1f} % that the mode is for",
                        100 * taken.get<double>(), percent("eligible_share"));
  // What runs in integers, if that is less than what was quantized.
  constexpr double kSame = 5e-4;
  const Json& on_backend = quality.at("backend_share");
  const bool is_less = !on_backend.is_null() &&
                       on_backend.get<double>() + kSame < quality.at("int8_share").get<double>();
  const std::string of_backend =
      is_less ? fmt::format(
                    " on {}; {:.1f} % are quantized, the rest of them runs in float (octet lower "
                    "--explain says why)",
                    quality.at("backend").get<std::string>(), percent("int8_share"))
              : std::string();
  row("int8", fmt::format("{:.1f} % of the multiply-accumulates{}{}",
                          percent(is_less ? "backend_share" : "int8_share"), of_backend, of_mode));
  row("weights",
      fmt::format("{:.2f} MB, before {:.2f} MB", megabytes("bytes"), megabytes("float_bytes")));
  const Json& reasons = quality.at("reasons");
  for (size_t i = 0; i < reasons.size() && i < kReasons; ++i) {
    const size_t ops = reasons[i].at("ops").get<size_t>();
    row(i == 0 ? "float" : "", fmt::format("{} op{} ({:.1f} %): {}", ops, ops == 1 ? "" : "s",
                                           100 * reasons[i].at("share").get<double>(),
                                           reasons[i].at("reason").get<std::string>()));
  }
  row("time", fmt::format("{:.1f} s", quality.at("seconds").get<double>()));
  return rows;
}

std::vector<std::string> quality_lines(const Json& quality) {
  std::vector<std::string> lines;
  for (const auto& [name, text] : quality_rows(quality))
    lines.push_back(fmt::format("{:<9}{}", name, text));
  return lines;
}

Json quality_json(const Measured& measured, const Weight& weight, double seconds) {
  Json reasons = Json::array();
  for (const Weight::Reason& reason : weight.reasons)
    reasons.push_back({{"reason", reason.text},
                       {"ops", reason.ops},
                       {"node", reason.node},
                       {"share", reason.share}});
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const Quality now = measured.now.value_or(Quality{.median_db = nothing, .worst_db = nothing});
  Json before;
  if (measured.before) {
    before = {{"median_sqnr_db", number_or_null(measured.before->median_db)},
              {"worst_sqnr_db", number_or_null(measured.before->worst_db)},
              {"same_top1", number_or_null(measured.before->same_top1)},
              {"accuracy", number_or_null(measured.before->accuracy)}};
  }
  return {{"batches", measured.now ? Json(now.batches) : Json(nullptr)},
          {"median_sqnr_db", number_or_null(now.median_db)},
          {"worst_sqnr_db", number_or_null(now.worst_db)},
          {"same_top1", number_or_null(now.same_top1)},
          {"float_accuracy", number_or_null(now.float_accuracy)},
          {"accuracy", number_or_null(now.accuracy)},
          {"before", std::move(before)},
          {"int8_share", weight.int8_share},
          {"eligible_share", weight.eligible_share},
          {"quantized_share", number_or_null(weight.quantized_share)},
          {"backend", weight.backend_share ? Json(weight.backend) : Json(nullptr)},
          {"backend_share", number_or_null(weight.backend_share)},
          {"float_bytes", weight.float_bytes},
          {"bytes", weight.bytes},
          {"reasons", std::move(reasons)},
          {"seconds", seconds}};
}

}  // namespace octet
