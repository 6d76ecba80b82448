#include "tools/cli/tune/candidates.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotate/compare/compare.h"
#include "annotate/compare/diagnosis.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/peers.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/json_text.h"
#include "core/base/report.h"
#include "core/base/shape.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/quantize/products.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Weights that cause a smaller share of an op's error are not changed.
constexpr double kMuch = 0.2;
bool has_poor_weights(const OpFacts& op) {
  return op.has_weight_options && op.has_weights && op.before_share >= kMuch;
}

bool has_few_bits(const OpFacts& op) { return op.weight_bits < 8; }

Json with(Json options, const char* key, Json value) {
  options[key] = std::move(value);
  return options;
}

Json in_eight_bits(const OpFacts& op) {
  Json options = with(with(op.options, "weight_bits", 8), "group_size", 0);
  // The search merges rows, so a narrow range stays unless the row has another.
  if (options.contains("weight_qmin")) options["weight_qmin"] = -127;
  if (options.contains("weight_qmax")) options["weight_qmax"] = 127;
  return options;
}

bool has_large_groups(const OpFacts& op) {
  const int size = op.options.value("group_size", kSmallGroup);
  return has_poor_weights(op) && has_few_bits(op) && (size == 0 || size > kSmallGroup);
}

bool has_one_scale(const OpFacts& op) {
  return has_poor_weights(op) && op.has_per_channel && op.options.value("weight_bits", 8) >= 8 &&
         !op.options.value("is_per_channel", true);
}

Json in_small_groups(const OpFacts& op) { return with(op.options, "group_size", kSmallGroup); }

bool can_round_anew(const OpFacts& op) {
  return op.has_effort && op.has_weights && op.before_share >= kMuch;
}

bool has_narrow_channels(const OpFacts& op) {
  return op.has_effort && op.is_static && op.cause == Cause::kNarrowChannels;
}

bool can_have_int16(const OpFacts& op) {
  return op.has_int16 && op.is_static && !op.options.value("is_dynamic", false) &&
         !op.options.value("is_weight_only", false);
}

bool has_byte_activations(const OpFacts& op) {
  return can_have_int16(op) && op.options.value("activation_bits", 8) == 8;
}

// int16 needs the full range of activations.
Json in_sixteen_bits(const OpFacts& op) {
  Json options = with(with(op.options, "activation_bits", 16), "reduce_range", false);
  options.erase("act_qmin");
  options.erase("act_qmax");
  return options;
}

bool has_byte_weights(const OpFacts& op) {
  return can_have_int16(op) && op.has_weights && op.before_share >= kMuch &&
         op.options.value("weight_bits", 8) == 8 && op.options.value("group_size", 0) == 0 &&
         !op.options.contains("weight_observer") && !op.options.contains("weight_qmin") &&
         !op.options.contains("weight_qmax");
}

const std::vector<Choice> kChoices = {
    {.name = "with weights rounded again",
     .applies = can_round_anew,
     .settings = [](const OpFacts&) { return Json::array({"correct-bias", "round"}); },
     .promise = [](const OpFacts& op) { return 0.3 * op.before_share; },
     .is_of_weights = true,
     .is_costly = false,
     .is_effort = true},
    // Channels can be smoothed only if all ops that make or read them may change.
    {.name = "with channels smoothed",
     .applies = has_narrow_channels,
     .settings = [](const OpFacts&) { return Json::array({"smooth", "correct-bias", "round"}); },
     .promise = [](const OpFacts&) { return 0.5; },
     .reach = Reach::kPattern,
     .is_costly = false,
     .is_effort = true},
    {.name = "by min_max",
     .applies = [](const OpFacts& op) { return op.is_static && op.cause == Cause::kClipped; },
     .settings = [](const OpFacts& op) { return with(op.options, "act_observer", "min_max"); },
     .promise = [](const OpFacts&) { return 0.5; },
     .reach = Reach::kPattern,
     .is_costly = false},
    {.name = "with weights per channel",
     .applies = has_one_scale,
     .settings = [](const OpFacts& op) { return with(op.options, "is_per_channel", true); },
     .promise = [](const OpFacts& op) { return 0.7 * op.before_share; },
     .is_of_weights = true},
    {.name = "with weights in groups of 32",
     .applies = has_large_groups,
     .settings = in_small_groups,
     .promise = [](const OpFacts& op) { return 0.4 * op.before_share; },
     .is_of_weights = true},
    {.name = "with weights of 8 bits",
     .applies = [](const OpFacts& op) { return has_poor_weights(op) && has_few_bits(op); },
     .settings = in_eight_bits,
     .promise = [](const OpFacts& op) { return 0.95 * op.before_share; },
     .is_of_weights = true},
    {.name = "with activations of 16 bits",
     .applies = has_byte_activations,
     .settings = in_sixteen_bits,
     .promise = [](const OpFacts& op) { return 1 - 0.9 * op.before_share; }},
    {.name = "with activations and weights of 16 bits",
     .applies = has_byte_weights,
     .settings = [](const OpFacts& op) { return with(in_sixteen_bits(op), "weight_bits", 16); },
     .promise = [](const OpFacts&) { return 0.95; }},
    {.name = "in float", .is_float = true},
    // If a pattern was annotated as one, the setting of its first op decides.
    {.name = "and its pattern in float", .reach = Reach::kPattern, .is_float = true},
};

// Changes that promise a smaller part of the error are not worth trying.
constexpr double kLeastGain = 1e-4;

// Computes the cost of changing products of the program.
class Prices {
 public:
  Prices(const Graph& plain, bool is_static) : is_static_(is_static) {
    for (Product& product : find_products(plain)) {
      all_ += is_static ? product.macs : kFloatBits * product.weights;
      std::string name = product.name;
      products_.emplace(std::move(name), std::move(product));
    }
    for (const Node* node : plain.nodes_of("aten.embedding.default")) {
      const Value* table = node->find_input("weight");
      if (is_static || !is_dequantized(table) || !table->meta) continue;
      const double weights = static_cast<double>(product(table->meta->shape()));
      all_ += kFloatBits * weights;
      products_.emplace(node->name(),
                        Product{.weights = weights, .weight_bits = weight_bits_of(*node)});
    }
  }

  // settings: the new settings of the ops; null: float.
  double of(const std::vector<const Node*>& ops, const Json& settings) const {
    double more = 0;
    for (const Node* op : ops) {
      const auto found = products_.find(op->name());
      if (found == products_.end()) continue;
      const Product& product = found->second;
      if (is_static_) {
        const bool is_wide = settings.is_object() && settings.value("activation_bits", 8) == 16;
        const double now = !product.has_integer_inputs ? 1
                           : product.input_bits > 8    ? kInt16Cost
                                                       : 0;
        const double then = settings.is_null() ? 1 : is_wide ? kInt16Cost : 0;
        more += std::max(0.0, then - now) * product.macs;
      } else {
        const double bits = settings.is_null() ? kFloatBits : settings.value("weight_bits", 8);
        more += std::max(0.0, bits - product.weight_bits) * product.weights;
      }
    }
    return all_ > 0 ? more / all_ : 0;
  }

 private:
  static constexpr double kFloatBits = 32;
  bool is_static_;
  double all_ = 0;
  std::unordered_map<std::string, Product> products_;
};

class Finder {
 public:
  Finder(const Graph& original, const Graph& plain, const BaseSettings& base, bool is_static)
      : plain_(plain), base_(base), is_static_(is_static), prices_(plain, is_static) {
    for (WeightComparison& weight : compare_weights(original, plain))
      weights_.emplace(weight.name, std::move(weight));
  }

  // gain: the op's share of the outputs' error.
  void add(OpComparison op, double gain) {
    op.accumulated = op.isolated;  // find the cause for exact inputs
    const Value* value = plain_.find_value(op.name);
    if (value == nullptr || gain < kLeastGain) return;
    const OpFacts facts = facts_of(op, *value);
    double promised = 0;  // by milder choices about the weights
    const std::span<const Choice> choices = tune_choices();
    for (size_t i = 0; i < choices.size(); ++i) {
      const Choice& choice = choices[i];
      if (!choice.applies(facts)) continue;
      const double promise = choice.promise(facts);
      const double part = gain * std::max(0.0, promise - promised);
      if (part < kLeastGain) continue;
      if (choice.is_of_weights) promised = promise;
      add_choice(choice, i, op, facts, *value, part);
    }
  }

  std::vector<OpCandidate> take() && { return std::move(candidates_); }

 private:
  OpFacts facts_of(const OpComparison& op, const Value& value) const {
    const auto weight = weights_.find(op.name);
    const bool has_weights = weight != weights_.end();
    OpFacts facts{
        .cause = diagnose(op, has_weights ? &weight->second : nullptr).cause,
        .is_static = is_static_,
        .has_weights = has_weights,
        .has_weight_options = base_.has_weight_options(),
        .has_per_channel = base_.has_per_channel(),
        .has_int16 = base_.has_int16(),
        .has_effort = base_.has_effort(),
        .options =
            value.producer() != nullptr ? base_.options_of(*value.producer()) : base_.global(),
        .weight_bits = value.producer() != nullptr ? weight_bits_of(*value.producer()) : 32,
        .before_share = 1};
    if (op.rounding)
      facts.before_share =
          op.isolated.noise > 0 ? std::min(1.0, op.before.noise / op.isolated.noise) : 0;
    return facts;
  }

  void add_choice(const Choice& choice, size_t strength, const OpComparison& op,
                  const OpFacts& facts, const Value& value, double part) {
    const Json settings = choice.settings(facts);
    // In other modes outputs stay float, so other ops of a pattern are float already.
    const Reach reach = is_static_ ? choice.reach : Reach::kOp;
    Remedy remedy = find_remedy(plain_, value, choice.is_of_weights ? Cause::kWeights : facts.cause,
                                settings, reach);
    if (choice.is_effort && !remedy.config.is_null()) remedy.config = {{"effort", remedy.config}};
    const bool is_known = std::ranges::any_of(candidates_, [&](const OpCandidate& other) {
      return other.candidate.config == remedy.config;
    });
    if (remedy.config.is_null() || is_known) return;
    candidates_.push_back(
        {.candidate = {.label = "%" + op.name + " " + choice.name,
                       .config = std::move(remedy.config),
                       .gain = part,
                       .cost = choice.is_effort ? 0 : prices_.of(remedy.ops, settings),
                       .choice = choice.name,
                       .strength = strength},
         .ops = std::move(remedy.ops)});
  }

  const Graph& plain_;
  const BaseSettings& base_;
  bool is_static_;
  Prices prices_;
  std::map<std::string, WeightComparison> weights_;
  std::vector<OpCandidate> candidates_;
};

}  // namespace

OpCosts::OpCosts(const Graph& quantized, std::string backend, int threads,
                 std::vector<c10::IValue> batch)
    : backend_(std::move(backend)),
      threads_(threads),
      batch_(std::move(batch)),
      as_it_is_(measure(quantized)) {}

void OpCosts::add(const std::string& way, const Graph& graph) { ways_[way] = measure(graph); }

double OpCosts::share_of(const std::vector<const Node*>& ops, const std::string& way) const {
  const double more = seconds_of(ways_.at(way), ops) - seconds_of(as_it_is_, ops);
  return as_it_is_.all > 0 ? std::max(0.0, more / as_it_is_.all) : 0;
}

OpCosts::Times OpCosts::measure(const Graph& graph) const {
  constexpr int kWarmUps = 2, kRuns = 15;
  Report report;
  Session session(lower(graph, make_supports(backend_), {}, report), threads_);
  for (int i = 0; i < kWarmUps; ++i) run_session(session, batch_);
  session.time_kernels(true);
  for (int i = 0; i < kRuns; ++i) run_session(session, batch_);
  Times times;
  for (const KernelReport& kernel : session.kernels()) {
    for (const std::string& op : kernel.ops) times.kernels_of[op].push_back(times.kernels.size());
    times.kernels.push_back(kernel.seconds);
    times.all += kernel.seconds;
  }
  return times;
}

double OpCosts::seconds_of(const Times& times, const std::vector<const Node*>& ops) {
  std::set<size_t> kernels;  // each once
  for (const Node* op : ops)
    if (const auto found = times.kernels_of.find(op->name()); found != times.kernels_of.end())
      kernels.insert(found->second.begin(), found->second.end());
  double seconds = 0;
  for (size_t kernel : kernels) seconds += times.kernels[kernel];
  return seconds;
}

std::span<const Choice> tune_choices() { return kChoices; }

std::vector<OpCandidate> find_candidates(const Graph& original, const Graph& plain,
                                         const Comparison& comparison,
                                         const Sensitivities& sensitivities,
                                         const BaseSettings& base, bool is_static) {
  Finder finder(original, plain, base, is_static);
  for (size_t i = 0; i < comparison.ops.size(); ++i)
    finder.add(comparison.ops[i], sensitivities.estimated > 0
                                      ? sensitivities.ops[i].output_error / sensitivities.estimated
                                      : 0);
  return std::move(finder).take();
}

void measure_costs(std::vector<OpCandidate>& candidates, const Graph& original, OpCosts& costs,
                   const std::function<Graph(const Json& config)>& quantize) {
  constexpr const char* kFloat = "float";
  costs.add(kFloat, original);
  const std::span<const Choice> choices = tune_choices();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    Json config = Json::object();
    for (const OpCandidate& each : candidates)
      if (each.candidate.strength == i) config = merged(std::move(config), each.candidate.config);
    if (config.empty()) continue;
    if (choice.is_costly && !choice.is_float) costs.add(choice.name, quantize(config));
    for (OpCandidate& each : candidates)
      if (each.candidate.strength == i)
        each.candidate.cost =
            choice.is_costly ? costs.share_of(each.ops, choice.is_float ? kFloat : choice.name) : 0;
  }
}

std::vector<TuneCandidate> shared(std::vector<TuneCandidate> candidates, Peers* peers) {
  if (peers == nullptr) return candidates;
  Json rows = Json::array();
  for (const TuneCandidate& each : candidates)
    rows.push_back({each.label, each.config, each.gain, each.cost, each.choice, each.strength});
  const std::string text = peers->rank() == 0 ? dump_json(rows) : std::string();
  candidates.clear();
  for (const Json& row : parse_json<Json>(peers->share(text).front()))
    candidates.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5)});
  return candidates;
}

}  // namespace octet
