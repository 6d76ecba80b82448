#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/histogram.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "support/golden_match.h"
#include "support/npy.h"
#include "support/rule_quantizer.h"

namespace octet::test {
namespace {

// Also the classes with a fixed or derived spec, which no rule names.
std::string our_name(const Json& group) {
  const std::string peer_class = group.at("cls");
  if (peer_class == "FixedQParamsObserver" || peer_class == "FixedQParamsFakeQuantize")
    return "fixed";
  if (peer_class == "FakeQuantize")
    return fmt::format("fake_quantize({})", *find_observer_name(group.at("observer_cls")));
  if (peer_class == "DerivedObserverOrFakeQuantize") return "derived";
  const std::string* name = find_observer_name(peer_class);
  return name == nullptr ? peer_class : *name;
}

GoldenMatch match_prepared(const ObservedGraph& observed, const Json& prepared) {
  return GoldenMatch(prepared.at("nodes"), observed.graph, {}, {});
}

void compare_group(const Json& golden, const Observer& observer, const std::string& where,
                   std::vector<std::string>& differences) {
  const ObserverArgs& args = observer.args();
  const auto check = [&](const std::string& what, const Json& got, const Json& want) {
    if (got != want)
      differences.push_back(
          fmt::format("{}: {} {}, want {}", where, what, got.dump(), want.dump()));
  };
  const FakeQuantize* fake_quant =
      args.choice.name == "fake_quantize" ? dynamic_cast<const FakeQuantize*>(&observer) : nullptr;
  check("observer",
        fake_quant == nullptr
            ? args.choice.name
            : fmt::format("fake_quantize({})", fake_quant->observer().args().choice.name),
        our_name(golden));
  check("dtype", "torch." + std::string(name_of(args.dtype)), golden.at("dtype"));
  if (!golden.at("qscheme").is_null())
    check("qscheme", "torch." + std::string(name_of(args.qscheme)), golden.at("qscheme"));
  if (!golden.at("quant_min").is_null()) {
    check("quant_min", observer.quant_min(), golden.at("quant_min"));
    check("quant_max", observer.quant_max(), golden.at("quant_max"));
  }
  check("is_dynamic", args.is_dynamic, golden.at("is_dynamic"));
  if (golden.contains("eps") && !golden.at("eps").is_null())
    check("eps", static_cast<float>(args.choice.eps.value_or(kFloatEps)),
          golden.at("eps").get<float>());
  if (golden.contains("ch_axis") && is_per_channel(args.qscheme))
    check("ch_axis", args.ch_axis ? Json(*args.ch_axis) : Json(), golden.at("ch_axis"));
  if (golden.contains("bins")) check("bins", args.choice.bins, golden.at("bins"));
  if (golden.contains("averaging_constant"))
    check("averaging_constant", args.choice.averaging_constant, golden.at("averaging_constant"));
}

template <typename Number>
void compare_numbers(const Json& want, const std::vector<Number>& got, double rtol,
                     const std::string& where, std::vector<std::string>& differences) {
  if (want.size() != got.size())
    return differences.push_back(
        fmt::format("{}: {} numbers, want {}", where, got.size(), want.size()));
  for (size_t i = 0; i < got.size(); ++i)
    if (std::abs(got[i] - want[i].get<double>()) > rtol * std::abs(want[i].get<double>()))
      return differences.push_back(
          fmt::format("{}: {} at {}, want {}", where, got[i], i, want[i].get<double>()));
}

Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

}  // namespace

Json GoldenCase::json(const std::string& file) const {
  std::ifstream stream(folder / file);
  if (!stream) throw Error("golden", (folder / file).string(), "cannot be read");
  return Json::parse(stream);
}

std::vector<c10::IValue> GoldenCase::example() const {
  std::vector<c10::IValue> values;
  for (int i = 0; i < meta.at("num_inputs").get<int>(); ++i)
    values.emplace_back(to_aten(read_npy(folder / fmt::format("example_arg{}.npy", i))));
  return values;
}

std::vector<std::vector<c10::IValue>> GoldenCase::calibration() const {
  std::vector<std::vector<c10::IValue>> batches;
  for (int batch = 0; batch < meta.at("num_calib_batches").get<int>(); ++batch) {
    batches.emplace_back();
    for (int i = 0; i < meta.at("num_inputs").get<int>(); ++i)
      batches.back().emplace_back(
          to_aten(read_npy(folder / fmt::format("calib_{:02}_arg{}.npy", batch, i))));
  }
  return batches;
}

std::vector<GoldenCase> golden_cases(const std::string& prefix) {
  const char* root = std::getenv("OCTET_GOLDEN_DIR");
  if (root == nullptr || *root == '\0') {
    std::cerr << "skipped: OCTET_GOLDEN_DIR is unset\n";
    return {};
  }
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.is_directory() && entry.path().filename().string().starts_with(prefix))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<GoldenCase> cases;
  for (const std::filesystem::path& folder : folders) {
    cases.push_back({folder, {}});
    cases.back().meta = cases.back().json("case.json");
  }
  return cases;
}

std::vector<std::string> compare_prepared(const ObservedGraph& observed, const GoldenCase& golden) {
  const Json prepared = golden.json("prepared.json");
  GoldenMatch match = match_prepared(observed, prepared);
  for (const auto& [want, ours] : match.groups)
    compare_group(prepared.at("groups").at(static_cast<size_t>(want)),
                  *observed.observers.at(static_cast<size_t>(ours)), fmt::format("group {}", want),
                  match.differences);
  return match.differences;
}

std::vector<std::string> compare_qparams(const ObservedGraph& observed, const GoldenCase& golden) {
  const Json prepared = golden.json("prepared.json");
  const Json qparams = golden.json("qparams.json");
  const double rtol = golden.tolerance("scale_rtol");
  std::vector<std::string> differences;
  std::map<std::string, Tensor> histograms;
  if (std::filesystem::exists(golden.folder / "histograms.npz"))
    histograms = read_npz(golden.folder / "histograms.npz");
  for (const auto& [want, ours] : match_prepared(observed, prepared).groups) {
    const Json& group = qparams.at("groups").at(static_cast<size_t>(want));
    const Observer& observer = *observed.observers.at(static_cast<size_t>(ours));
    const std::string where = fmt::format("group {} ({})", want, observer.args().choice.name);
    if (group.at("scale").is_null()) continue;
    const QParams result = observer.calculate_qparams();
    compare_numbers(as_list(group.at("scale")), result.scale, rtol, where + " scale", differences);
    std::vector<double> zero_points(result.zero_point.begin(), result.zero_point.end());
    // the goldens drop the fraction
    for (float zero_point : result.float_zero_point) zero_points.push_back(std::trunc(zero_point));
    if (golden.tolerance("zero_point_atol") == 0)
      compare_numbers(as_list(group.at("zero_point")), zero_points, 0, where + " zero_point",
                      differences);
    const ObserverState state = observer.state();
    if (group.contains("min_val") && !state.min.empty()) {
      compare_numbers(as_list(group.at("min_val")), state.min, rtol, where + " min", differences);
      compare_numbers(as_list(group.at("max_val")), state.max, rtol, where + " max", differences);
    }
    const HistogramObserver* histogram = dynamic_cast<const HistogramObserver*>(&observer);
    if (histogram != nullptr && group.contains("search_min")) {
      compare_numbers<float>(Json::array({group.at("search_min")}), {histogram->search_range().min},
                             std::max(rtol, 1e-4), where + " search_min", differences);
      compare_numbers<float>(Json::array({group.at("search_max")}), {histogram->search_range().max},
                             std::max(rtol, 1e-4), where + " search_max", differences);
    }
    const auto bins = histograms.find(fmt::format("group_{}", want));
    if (bins == histograms.end()) continue;
    double moved = 0;
    double total = 0;
    for (size_t i = 0; i < state.histogram.size(); ++i) {
      moved += std::abs(static_cast<double>(state.histogram[i]) - bins->second.data<float>()[i]);
      total += bins->second.data<float>()[i];
    }
    if (moved > 0.01 * total)
      differences.push_back(
          fmt::format("{}: {} of {} values lie in other bins", where, moved, total));
  }
  return differences;
}

std::vector<std::string> compare_converted(const Graph& converted, const GoldenCase& golden) {
  const Json json = golden.json("converted.json");
  const MatchTolerance tolerance{golden.tolerance("scale_rtol"),
                                 golden.tolerance("zero_point_atol")};
  return GoldenMatch(json.at("nodes"), converted, read_npz(golden.folder / "converted_attrs.npz"),
                     tolerance)
      .differences;
}

std::vector<std::string> compare_outputs(const std::vector<c10::IValue>& outputs,
                                         const GoldenCase& golden, const std::string& kind) {
  const Json& files = golden.meta.at("files").at(kind);
  std::vector<std::string> differences;
  if (files.size() != outputs.size())
    return {fmt::format("{} outputs, want {}", outputs.size(), files.size())};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor got = outputs[i].toTensor().to(at::kDouble);
    const at::Tensor want =
        to_aten(read_npy(golden.folder / files[i].get<std::string>())).to(at::kDouble);
    if (got.sizes() != want.sizes()) {
      differences.push_back(fmt::format("output {} has another shape", i));
      continue;
    }
    if (want.numel() == 0) continue;
    const at::Tensor off = (got - want).abs();
    const double worst = off.max().item<double>();
    const double beyond =
        (off > golden.tolerance("float_out_atol")).to(at::kDouble).mean().item<double>();
    if (!(worst <= golden.tolerance("quantized_out_atol")))
      differences.push_back(fmt::format("output {}: off by {}, allowed {}", i, worst,
                                        golden.tolerance("quantized_out_atol")));
    if (beyond > golden.tolerance("quantized_out_max_frac_beyond_float"))
      differences.push_back(fmt::format("output {}: {} of the elements are off, allowed {}", i,
                                        beyond,
                                        golden.tolerance("quantized_out_max_frac_beyond_float")));
  }
  return differences;
}

std::vector<std::string> compare_flow(const GoldenCase& golden, Quantizer& quantizer) {
  at::set_num_threads(1);  // as the oracle: the order of float sums depends on it
  Report report;
  PrepareOptions options;
  options.compat = Compat::kTorchao;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), quantizer, report, options);
  std::vector<std::string> differences = compare_prepared(observed, golden);
  if (!differences.empty()) return differences;
  calibrate(observed, golden.calibration());
  differences = compare_qparams(observed, golden);
  if (!differences.empty()) return differences;
  const Graph converted = convert_pt2e(
      std::move(observed),
      {.fold_quantize = golden.meta.value("fold_quantize", true), .compat = Compat::kTorchao},
      report);
  differences = compare_converted(converted, golden);
  if (!differences.empty()) return differences;
  return compare_outputs(Interpreter(converted).run(golden.example()), golden);
}

}  // namespace octet::test
