#include "tools/cli/common/sample_data.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// By default nothing is held out of fewer than 16 batches, otherwise one batch in 8, at most 8.
size_t default_held_out(size_t batches) {
  return batches < 16 ? 0 : std::min<size_t>(batches / 8, 8);
}

size_t held_out_of(const DataOptions& options, size_t batches, bool holds_out) {
  if (options.hold_out && *options.hold_out >= batches)
    throw Error("quantize", "--hold-out",
                fmt::format("is {}, want less than the {} batches of {}", *options.hold_out,
                            batches, options.calibration));
  if (options.hold_out) return *options.hold_out;
  return holds_out && options.evaluate.empty() ? default_held_out(batches) : 0;
}

std::string describe_last(size_t count, size_t all, bool is_held_out) {
  const std::string which = count == all
                                ? fmt::format("the {} calibration batches", count)
                                : fmt::format("the last {} of {} calibration batches", count, all);
  return which + (is_held_out
                      ? ", held out"
                      : ", which were also used to calibrate; --evaluate DATA.pt uses others");
}

SampleData last_batches(const SampleData& all, size_t held_out, size_t most) {
  const size_t count = held_out > 0 ? held_out : std::min(all.size(), most);
  SampleData last = all;
  last.first = last.end - count;
  last.description = describe_last(count, all.size(), held_out > 0);
  return last;
}

}  // namespace

SampleData sample_data(const std::string& file, std::optional<size_t> max_batches) {
  if (max_batches == size_t{0}) throw Error("inputs", file, "--max-batches is 0, want at least 1");
  const size_t batches = BatchReader(file).size();
  return {.file = file, .end = std::min(batches, max_batches.value_or(batches))};
}

SampleData kept_batches(const std::string& name, size_t all) {
  SampleData kept = sample_data(name);
  kept.description = describe_last(kept.size(), all, /*is_held_out=*/false);
  return kept;
}

BatchSource source_of(const SampleData& data, size_t start, size_t step) {
  return [reader = std::make_shared<SampleReader>(data), next = start,
          step]() mutable -> std::optional<std::vector<c10::IValue>> {
    if (next >= reader->size()) return std::nullopt;
    return reader->at(std::exchange(next, next + step));
  };
}

Option max_batches_option(std::optional<size_t>& max_batches, const std::string& of) {
  return Option{"max_batches", &max_batches,
                fmt::format("Use at most the first N batches of {}", of)}
      .positive()
      .without_key();
}

Options calibration_options(DataOptions& options, bool is_required) {
  Option calibration =
      Option{"calibration", &options.calibration, "torch.save of a list of input tuples"}
          .of_kind(Option::Kind::kData)
          .without_key();
  calibration.is_required = is_required;
  return {calibration, max_batches_option(options.max_batches, "--calibration")};
}

Options evaluation_options(DataOptions& options) {
  return {
      Option{"evaluate", &options.evaluate,
             "Data like --calibration, on which the outputs are compared with those of the float "
             "program; by default on the last calibration batches"}
          .of_kind(Option::Kind::kData),
      Option{"labels", &options.labels,
             "torch.save of a tensor with the class of each sample of that data, for the accuracy "
             "of both programs"}
          .of_kind(Option::Kind::kLabels),
  };
}

SplitData split(const DataOptions& options, bool holds_out, size_t most) {
  SplitData data;
  if (!options.calibration.empty()) {
    data.all = data.calibration = sample_data(options.calibration, options.max_batches);
    const size_t held_out = held_out_of(options, data.all.size(), holds_out);
    data.calibration.end -= held_out;
    data.evaluation = last_batches(data.all, held_out, most);
  }
  if (!options.evaluate.empty()) {
    data.evaluation = sample_data(options.evaluate);
    data.evaluation.description =
        are_held(options.evaluate) ? options.evaluate : "all of " + options.evaluate;
  }
  data.evaluation.labels = options.labels;
  return data;
}

}  // namespace octet
