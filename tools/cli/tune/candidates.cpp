#include "tools/cli/tune/candidates.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "annotate/compare/diagnosis.h"
#include "annotate/compare/weights.h"
#include "tools/cli/quantize/products.h"
#include "tools/cli/tune/choices.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Changes that promise a smaller part of the error are never worth it.
constexpr double kLeastGain = 1e-4;

// What the products of the program cost.
class Prices {
 public:
  Prices(const Graph& plain, bool is_static) : is_static_(is_static) {
    for (Product& product : find_products(plain)) {
      all_ += is_static ? product.macs : kFloatBits * product.weights;
      std::string name = product.name;
      products_.emplace(std::move(name), std::move(product));
    }
  }

  // settings: of the ops from now on; null: float.
  double of(const std::vector<const Node*>& ops, const Json& settings) const {
    double more = 0;
    for (const Node* op : ops) {
      const auto found = products_.find(op->name());
      if (found == products_.end()) continue;
      const Product& product = found->second;
      if (is_static_) {
        more += settings.is_null() ? product.macs : 0;
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

  // gain: the op's part of the outputs' error.
  void add(OpComparison op, double gain) {
    op.accumulated = op.isolated;  // its own cause is wanted, whatever comes in
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
    OpFacts facts{.cause = diagnose(op, has_weights ? &weight->second : nullptr).cause,
                  .is_static = is_static_,
                  .has_weights = has_weights,
                  .has_weight_options = base_.has_weight_options(),
                  .has_per_channel = base_.has_per_channel(),
                  .has_effort = base_.has_effort(),
                  .options = value.producer() != nullptr ? base_.options_of(*value.producer())
                                                         : base_.global(),
                  .before_share = 1};
    if (op.rounding)
      facts.before_share =
          op.isolated.noise > 0 ? std::min(1.0, op.before.noise / op.isolated.noise) : 0;
    return facts;
  }

  void add_choice(const Choice& choice, size_t strength, const OpComparison& op,
                  const OpFacts& facts, const Value& value, double part) {
    const Json settings = choice.settings(facts);
    Remedy remedy = find_remedy(plain_, value, choice.is_of_weights ? Cause::kWeights : facts.cause,
                                settings, choice.reach);
    if (choice.is_effort && !remedy.config.is_null()) remedy.config = {{"effort", remedy.config}};
    const bool is_known = std::any_of(
        candidates_.begin(), candidates_.end(),
        [&](const OpCandidate& other) { return other.candidate.config == remedy.config; });
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
    const bool is_float = !choice.is_of_weights;
    if (choice.is_costly && !is_float) costs.add(choice.name, quantize(config));
    for (OpCandidate& each : candidates)
      if (each.candidate.strength == i)
        each.candidate.cost =
            choice.is_costly ? costs.share_of(each.ops, is_float ? kFloat : choice.name) : 0;
  }
}

}  // namespace octet
