#include "tools/cli/tune/choices.h"

#include <vector>

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Weights that make less of an op's error than this are not changed.
constexpr double kMuch = 0.2;
// of 4-bit weights: what the backends' kernels take
constexpr int kSmallGroup = 32;

bool has_poor_weights(const OpFacts& op) {
  return op.has_weight_options && op.has_weights && op.before_share >= kMuch;
}

bool has_four_bits(const OpFacts& op) { return op.options.value("weight_bits", 8) == 4; }

Json with(Json options, const char* key, Json value) {
  options[key] = std::move(value);
  return options;
}

Json in_eight_bits(const OpFacts& op) {
  return with(with(op.options, "weight_bits", 8), "group_size", 0);
}

bool has_large_groups(const OpFacts& op) {
  const int size = op.options.value("group_size", kSmallGroup);
  return has_poor_weights(op) && has_four_bits(op) && (size == 0 || size > kSmallGroup);
}

bool has_one_scale(const OpFacts& op) {
  return has_poor_weights(op) && op.has_per_channel && !has_four_bits(op) &&
         !op.options.value("is_per_channel", true);
}

Json in_small_groups(const OpFacts& op) { return with(op.options, "group_size", kSmallGroup); }

Json in_float(const OpFacts&) { return nullptr; }

double all_of_it(const OpFacts&) { return 1; }

bool can_round_anew(const OpFacts& op) {
  return op.has_effort && op.has_weights && op.before_share >= kMuch;
}

bool has_narrow_channels(const OpFacts& op) {
  return op.has_effort && op.is_static && op.cause == Cause::kNarrowChannels;
}

const std::vector<Choice> kChoices = {
    {.name = "with weights rounded anew",
     .applies = can_round_anew,
     .settings = [](const OpFacts&) { return Json::array({"correct-bias", "round"}); },
     .promise = [](const OpFacts& op) { return 0.3 * op.before_share; },
     .is_of_weights = true,
     .is_costly = false,
     .is_effort = true},
    // A set of channels is scaled where all that make and read it may be changed.
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
     .applies = [](const OpFacts& op) { return has_poor_weights(op) && has_four_bits(op); },
     .settings = in_eight_bits,
     .promise = [](const OpFacts& op) { return 0.95 * op.before_share; },
     .is_of_weights = true},
    {.name = "in float",
     .applies = [](const OpFacts&) { return true; },
     .settings = in_float,
     .promise = all_of_it},
    // Where a pattern was annotated as one, its first op's setting decides.
    {.name = "and its pattern in float",
     .applies = [](const OpFacts&) { return true; },
     .settings = in_float,
     .promise = all_of_it,
     .reach = Reach::kPattern},
};

}  // namespace

std::span<const Choice> tune_choices() { return kChoices; }

}  // namespace octet
