#include "tools/cli/tune/width_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "annotate/accuracy/held_out_check.h"
#include "core/base/error.h"
#include "tools/cli/compare/suggestion.h"
#include "tools/cli/quantize/products.h"
#include "tools/cli/tune/candidates.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMega = 1e6;

// A program whose weights all have these bits, except those that settings decide.
struct Width {
  int bits = 0;
  Json config = {};
  double bytes = 0;                           // of the program
  std::map<std::string, double> losses = {};  // by op
  std::map<std::string, Product> products = {};

  // For each weight, with its share of the 16-bit scale of a group.
  double bytes_each() const {
    const int group = config.at("global").at("group_size");
    return bits / 8.0 + (group == 0 ? 0 : 2.0 / group);
  }
  // Whether the op has these bits.
  bool decides(const std::string& op) const {
    const auto product = products.find(op);
    return product != products.end() && product->second.weight_bits == bits;
  }
};

// The settings of the op, or of all ops, with weights of these bits.
Json in_bits(Json options, int bits) {
  options["weight_bits"] = bits;
  options["group_size"] = bits == 8 ? 0 : options.value("group_size", kSmallGroup);
  return options;
}

class WidthSearch {
 public:
  WidthSearch(const BaseSettings& base, double most, const WidthPrograms& programs)
      : base_(base), most_(most), programs_(programs) {}

  TuneOutcome run(Estimate& estimate) {
    TuneOutcome outcome;
    outcome.is_reached = true;
    std::vector<Width> widths;
    for (const int bits : kWidths) {
      try {
        widths.push_back(measure_width(bits, estimate));
      } catch (const NothingToQuantize&) {
        if (bits == kWidths[std::size(kWidths) - 1]) throw;
        continue;  // groups divide no rows
      }
      if (widths.back().bytes <= most_)
        outcome.trials.push_back(
            programs_.make_trial(widths.back().config, fmt::format("weights of {} bits", bits)));
    }
    // without the smallest bits too, whose errors are the worst estimated
    for (size_t first = 0; first + 1 < widths.size(); ++first)
      if (std::optional<Trial> mix = make_mix(std::span(widths).subspan(first)))
        outcome.trials.push_back(std::move(*mix));
    if (outcome.trials.empty()) {
      const Width& least = *std::ranges::min_element(widths, {}, &Width::bytes);
      throw Error(
          "tune", "--max-size",
          fmt::format("got {:g} MB, want at least {:.2f}, which the program takes with "
                      "weights of {} bits",
                      most_ / kMega, std::ceil(least.bytes / kMega * 100) / 100, least.bits));
    }
    for (size_t i = 0; i < outcome.trials.size(); ++i) {
      const double best = outcome.trials[outcome.best].error;
      if (outcome.trials[i].error < best || std::isnan(best)) outcome.best = i;
    }
    return outcome;
  }

 private:
  Width measure_width(int bits, Estimate& estimate) {
    Width width{.bits = bits,
                .config = merged(base_.config(), {{"global", in_bits(base_.global(), bits)}})};
    width.bytes = programs_.bytes(width.config);
    const Graph& graph = programs_.quantized(width.config);
    for (Product& product : find_products(graph)) {
      std::string name = product.name;
      width.products.emplace(std::move(name), std::move(product));
    }
    const Sensitivities found = programs_.sensitivities(graph);
    for (const OpSensitivity& op : found.ops) width.losses[op.name] = op.output_error;
    if (found.measured > estimate.measured) estimate = {found.measured, found.estimated};
    return width;
  }

  // widths: ascending. Nothing if no op can have another width, or no mix fits.
  std::optional<Trial> make_mix(std::span<const Width> widths) {
    const Width &first = widths.front(), &last = widths.back();
    std::vector<std::string> names, floats;  // floats: groups do not divide their rows
    std::vector<std::vector<WidthOption>> options;
    for (const auto& [name, product] : first.products) {
      if (std::ranges::all_of(widths, [&](const Width& width) { return width.decides(name); })) {
        names.push_back(name);
        options.push_back(options_of(name, product, widths));
      } else if (product.weight_bits > last.bits && last.decides(name)) {
        floats.push_back(name);
      }
    }
    if (names.empty()) return std::nullopt;
    // The first width for all ops, such as the head, whose table is then shared with embeddings as
    // before.
    Json start = first.config;
    for (Json& row : rows_of(start, floats, last)) start = merged(std::move(start), row);
    const double least = floats.empty() ? first.bytes : programs_.bytes(start);
    if (least > most_) return std::nullopt;
    const std::string label = fmt::format("weights of {} to {} bits", first.bits, last.bits);
    std::vector<std::vector<Json>> rows;  // by width and op; none for the first width
    for (const Width& width : widths.subspan(1)) rows.push_back(rows_of(start, names, width));
    // The estimate leaves out scales of channels and names.
    for (double left = most_ - least; left > 0;) {
      const std::vector<size_t> chosen = choose_widths(options, left);
      if (std::ranges::all_of(chosen, [](size_t option) { return option == 0; })) break;
      Json config = start;
      double used = 0;
      for (size_t i = 0; i < chosen.size(); ++i) {
        used += options[i][chosen[i]].bytes;
        if (chosen[i] > 0) config = merged(std::move(config), rows[chosen[i] - 1][i]);
      }
      const double excess = programs_.bytes(config) - most_;
      if (excess <= 0) return programs_.make_trial(config, label);
      left = used - std::max(excess, 1.0);
    }
    if (floats.empty()) return std::nullopt;  // a trial by itself
    return programs_.make_trial(start, label);
  }

  static std::vector<WidthOption> options_of(const std::string& name, const Product& product,
                                             std::span<const Width> widths) {
    std::vector<WidthOption> options;
    for (const Width& width : widths) {
      const auto loss = width.losses.find(name);
      options.push_back({product.weights * (width.bytes_each() - widths.front().bytes_each()),
                         loss == width.losses.end() ? 0 : loss->second});
    }
    return options;
  }

  // For each op, the settings that give it this width in the program of `config`: {} if none do.
  std::vector<Json> rows_of(const Json& config, const std::vector<std::string>& names,
                            const Width& width) {
    std::vector<Json> rows;
    if (names.empty()) return rows;
    const Graph& graph = programs_.quantized(config);
    for (const std::string& name : names) {
      rows.push_back(Json::object());
      const Value* value = graph.find_value(name);
      if (value == nullptr || value->producer() == nullptr) continue;
      const Json settings = in_bits(base_.options_of(*value->producer()), width.bits);
      Remedy remedy = find_remedy(graph, *value, Cause::kWeights, settings);
      if (!remedy.config.is_null()) rows.back() = std::move(remedy.config);
    }
    return rows;
  }

  const BaseSettings& base_;
  double most_;  // bytes
  const WidthPrograms& programs_;
};

}  // namespace

Metric minus_divergence(int64_t vocabulary) {
  return [vocabulary](const at::Tensor& want, const at::Tensor& is) {
    const bool are_logits = want.dim() > 1 && want.size(-1) == vocabulary;
    return are_logits ? -logit_divergence(want, is) : std::nan("");
  };
}

void check_widths(const BaseSettings& base, const std::string& quantizer) {
  if (!base.has_weight_options())
    throw Error(
        "tune", "--max-size",
        fmt::format("got the quantizer {}, want x86, xnnpack or qnnpack alone, whose rows set "
                    "the bits of weights",
                    quantizer));
  if (base.whole().contains("global") && base.whole().at("global").is_null())
    throw Error("tune", "--max-size",
                "chooses bits for all ops, but --config has \"global\": null; leave that out, and "
                "give the ops that stay float a row of null");
}

TuneOutcome search_widths(const BaseSettings& base, double most_megabytes,
                          const WidthPrograms& programs, Estimate& estimate) {
  return WidthSearch(base, kMega * most_megabytes, programs).run(estimate);
}

}  // namespace octet
