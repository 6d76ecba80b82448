// The search of `octet tune`, on programs that are simulated by tables of numbers.
#include <catch2/catch.hpp>

#include <set>

#include <fmt/format.h>

#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/candidates.h"
#include "tools/cli/tune/search.h"

namespace octet::test_search {
using Json = nlohmann::ordered_json;

namespace {

// Errors that add up; the error of an op is gone when its row says null.
struct Model {
  std::vector<double> errors;
  std::vector<double> costs;
  size_t evaluations = 0;

  Trial make(const Json& config) {
    ++evaluations;
    Trial trial;
    for (size_t i = 0; i < errors.size(); ++i) {
      const bool is_float =
          config.contains("module_name") && config.at("module_name").contains(std::to_string(i));
      trial.error += is_float ? 0 : errors[i];
      trial.float_share += is_float ? costs[i] : 0;
    }
    return trial;
  }

  std::vector<TuneCandidate> candidates(double bias = 1) const {
    double all = 0;
    for (double error : errors) all += error;
    std::vector<TuneCandidate> result;
    for (size_t i = 0; i < errors.size(); ++i) {
      const Json config = {{"module_name", {{std::to_string(i), nullptr}}}};
      // a biased estimate is wrong for every other op
      result.push_back(
          {fmt::format("op {}", i), config, errors[i] / all * (i % 2 == 0 ? bias : 1), costs[i]});
    }
    return result;
  }
};

const std::vector<Trial> kPlain = {{.label = "unchanged"}};

TuneOutcome tune(Model& model, double most_error, size_t most_trials = 25, double bias = 1) {
  return search(kPlain, model.candidates(bias), {.most_error = most_error}, most_trials,
                [&](const Json& config, const std::string&) { return model.make(config); });
}

}  // namespace

TEST_CASE("widths go where a byte saves most loss, within the size", "[tune]") {
  using Ops = std::vector<std::vector<WidthOption>>;
  using Chosen = std::vector<size_t>;
  const Ops ops = {
      {{0, 8}, {10, 4}, {50, 0}}, {{0, 100}, {10, 10}, {50, 0}}, {{0, 1}, {5, 1}, {25, 1}}};
  CHECK(choose_widths(ops, 0) == Chosen{0, 0, 0});
  CHECK(choose_widths(ops, 9) == Chosen{0, 0, 0});
  CHECK(choose_widths(ops, 10) == Chosen{0, 1, 0});
  CHECK(choose_widths(ops, 20) == Chosen{1, 1, 0});
  CHECK(choose_widths(ops, 60) == Chosen{1, 2, 0});
  CHECK(choose_widths(ops, 1000) == Chosen{2, 2, 0});  // no bytes for nothing
}

TEST_CASE("a product of 16 bits costs less than one of floats", "[tune]") {
  const Trial wide{.int16_share = 0.5}, in_float{.float_share = 0.5};
  CHECK(wide.price() > 0);
  CHECK(wide.price() < in_float.price());
}

TEST_CASE("nothing changes where the goal is met", "[tune]") {
  Model model{{1, 2, 3}, {0.2, 0.3, 0.5}};
  const TuneOutcome outcome = tune(model, 6);
  CHECK(outcome.is_reached);
  CHECK(outcome.trials.size() == 1);
  CHECK(outcome.trials[0].config.empty());
}

TEST_CASE("one bad op is found in two evaluations", "[tune]") {
  Model model{{1, 1, 100, 1}, {0.3, 0.3, 0.05, 0.35}};
  const TuneOutcome outcome = tune(model, 4);
  CHECK(outcome.is_reached);
  CHECK(outcome.trials.size() == 2);
  CHECK(outcome.trials[outcome.best].config.dump() == R"({"module_name":{"2":null}})");
}

TEST_CASE("poor estimates cost evaluations, not the goal", "[tune]") {
  Model model{{}, {}};
  for (int i = 0; i < 40; ++i) {
    model.errors.push_back(1 + i % 7);
    model.costs.push_back(1.0 / 40);
  }
  for (double bias : {1.0, 5.0, 0.1}) {
    model.evaluations = 0;
    const TuneOutcome outcome = tune(model, 100, 25, bias);
    INFO(bias);
    CHECK(outcome.is_reached);
    CHECK(model.evaluations <= 25);
    CHECK(outcome.trials.size() == model.evaluations);
    // the 16 worst would be enough
    CHECK(outcome.trials[outcome.best].float_share < 0.66);
  }
}

TEST_CASE("what cannot be reached gives the nearest", "[tune]") {
  Model model{{5, 5}, {0.5, 0.5}};
  const TuneOutcome outcome =
      search(kPlain, {model.candidates().front()}, {.most_error = 1}, 25,
             [&](const Json& config, const std::string&) { return model.make(config); });
  CHECK_FALSE(outcome.is_reached);
  CHECK(outcome.trials[outcome.best].error == 5);
  Model other{{5, 5}, {0.5, 0.5}};
  CHECK(tune(other, 1, /*most_trials=*/1).trials.size() == 1);
}

TEST_CASE("a goal that the float program alone meets gives the nearest of the others", "[tune]") {
  Model model{{5, 3, 2}, {0.5, 0.3, 0.2}};
  const auto make = [&](const Json& config, const std::string&) {
    Trial trial = model.make(config);
    trial.is_float = trial.float_share == 1;
    return trial;
  };
  const TuneOutcome outcome = search(kPlain, model.candidates(), {.most_error = 1}, 25, make);
  CHECK_FALSE(outcome.is_reached);
  CHECK_FALSE(outcome.trials[outcome.best].is_float);
  CHECK(outcome.trials[outcome.best].error == 2);
  for (size_t index : pareto_front(outcome.trials)) CHECK_FALSE(outcome.trials[index].is_float);
}

TEST_CASE("latency is part of the goal", "[tune]") {
  Model model{{8, 1}, {0.5, 0.1}};
  const auto make = [&](const Json& config, const std::string&) {
    Trial trial = model.make(config);
    trial.latency_ms = 1 + trial.float_share;
    return trial;
  };
  const TuneOutcome outcome =
      search(kPlain, model.candidates(), {.most_error = 2, .most_latency = 1.2}, 25, make);
  CHECK_FALSE(outcome.is_reached);
}

TEST_CASE("settings are joined row by row", "[tune]") {
  const Json first = Json::parse(
      R"({"module_name": {"a": {"act_observer": "mse"}}, "global": {"act_observer": "mse"}})");
  const Json second = Json::parse(R"({"module_name": {"a": null, "b": null}})");
  CHECK(merged(first, second).dump() ==
        R"({"module_name":{"a":null,"b":null},"global":{"act_observer":"mse"}})");
}

TEST_CASE("of two changes of one op the stronger holds", "[tune]") {
  const auto candidate = [](const char* choice, size_t strength, double gain, const char* config) {
    return TuneCandidate{.label = std::string("%a ") + choice,
                         .config = Json::parse(config),
                         .gain = gain,
                         .cost = 0.1,
                         .choice = choice,
                         .strength = strength};
  };
  // float promises more, so it is taken first
  const std::vector<TuneCandidate> candidates = {
      candidate("in float", 2, 0.6, R"({"module_name": {"a": null}})"),
      candidate("in 8 bits", 1, 0.4, R"({"module_name": {"a": {"weight_bits": 8}}})")};
  std::vector<Json> configs;
  const TuneOutcome outcome =
      search({{.label = "mse", .config = Json::parse(R"({"global": {"act_observer": "mse"}})")}},
             candidates, {.most_error = 1}, 25, [&](const Json& config, const std::string&) {
               configs.push_back(config);
               return Trial{.error = 2};
             });
  CHECK_FALSE(outcome.is_reached);
  REQUIRE(configs.size() == 2);  // both together are the first alone
  CHECK(configs[1].at("module_name").dump() == R"({"a":null})");
}

TEST_CASE("a row of an op keeps the settings for all ops", "[tune]") {
  CHECK(with_global(Json::parse(R"({"global": {"act_observer": "mse", "weight_bits": 4},
                                    "module_name": {"a": {"weight_bits": 8}, "b": null},
                                    "call_index": {"": {"aten.add": {"1": {"weight_bits": 8}}}}})"))
            .dump() ==
        R"({"global":{"act_observer":"mse","weight_bits":4},)"
        R"("module_name":{"a":{"act_observer":"mse","weight_bits":8},"b":null},)"
        R"("call_index":{"":{"aten.add":{"1":{"act_observer":"mse","weight_bits":8}}}}})");
}

TEST_CASE("weights of a narrow range get a scale per channel, or all 8 bits", "[tune]") {
  const Json narrow = {{"weight_qmin", -8}, {"weight_qmax", 7}, {"is_per_channel", false}};
  OpFacts facts{.has_weights = true,
                .has_weight_options = true,
                .has_per_channel = true,
                .options = narrow,
                .weight_bits = 4,
                .before_share = 1};
  const auto settings_of = [&](const std::string& name) {
    const auto choice = std::ranges::find(tune_choices(), name, &Choice::name);
    return choice->applies(facts) ? choice->settings(facts) : Json();
  };
  CHECK(
      settings_of("with weights of 8 bits").dump() ==
      R"({"weight_qmin":-127,"weight_qmax":127,"is_per_channel":false,"weight_bits":8,"group_size":0})");
  CHECK(settings_of("with weights per channel").dump() ==
        R"({"weight_qmin":-8,"weight_qmax":7,"is_per_channel":true})");
  facts.options = {{"weight_bits", 4}, {"is_per_channel", false}};
  CHECK(settings_of("with weights of 8 bits").dump() ==
        R"({"weight_bits":8,"is_per_channel":false,"group_size":0})");
  CHECK(settings_of("with weights per channel").is_null());
}

TEST_CASE("a label lists the choices", "[tune]") {
  std::vector<TuneCandidate> candidates;
  for (int i = 0; i < 4; ++i)
    candidates.push_back({.label = fmt::format("%{} {}", i, i == 3 ? "in float" : "in 8 bits"),
                          .config = Json{{"module_name", {{std::to_string(i), nullptr}}}},
                          .gain = 0.4 - 0.1 * i,
                          .choice = i == 3 ? "in float" : "in 8 bits"});
  std::string last;
  search(kPlain, candidates, {.most_error = 1}, 2,
         [&](const Json& config, const std::string& label) {
           last = label;
           return Trial{.error = config.empty() ? 100.0 : 0.5};
         });
  CHECK(last == "4 changes, 3 in 8 bits, 1 in float, the first %0 in 8 bits");
}

TEST_CASE("the front has what no other trial beats", "[tune]") {
  const auto trial = [](double error, double share) {
    Trial made;
    made.error = error;
    made.float_share = share;
    return made;
  };
  CHECK(pareto_front({trial(5, 0), trial(4, 0.2), trial(4, 0.3), trial(1, 0.4), trial(6, 0.1)}) ==
        std::vector<size_t>{0, 1, 3});
}

}  // namespace octet::test_search
