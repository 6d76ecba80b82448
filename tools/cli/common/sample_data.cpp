#include "tools/cli/common/sample_data.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/interpreter/inputs.h"
#include "core/pt2/numpy_file.h"

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

// The arrays of a NumPy file, divided into batches.
class ArrayBatches : public HeldBatches {
 public:
  ArrayBatches(const std::string& file, const Graph& program) : file_(file) {
    literals_ = literal_inputs(program);
    std::vector<const Value*> inputs;
    std::vector<std::string> names;
    for (const GraphInput* input : caller_inputs(program)) {
      if (is_literal(*input)) continue;
      inputs.push_back(input->value);
      names.push_back(input->value->name());
    }
    const std::vector<NamedArray> arrays = read_arrays(file, names);
    if (arrays.size() < inputs.size())
      fail(fmt::format("has {} arrays, want {}: {}", arrays.size(), inputs.size(),
                       fmt::join(names, ", ")));
    for (size_t i = 0; i < arrays.size(); ++i)
      add(arrays[i], i < inputs.size() ? inputs[i] : nullptr);
  }

  size_t size() const override { return size_; }

  std::vector<c10::IValue> at(size_t index) const override {
    std::vector<c10::IValue> batch;
    const auto i = static_cast<int64_t>(index);
    for (const at::Tensor& array : arrays_)
      batch.emplace_back(rows_ == 0 ? array.select(0, i)
                                    : array.slice(0, i * rows_, (i + 1) * rows_));
    for (const auto& [position, literal] : literals_)
      batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(position), literal);
    return batch;
  }

 private:
  // input: null for a target.
  void add(const NamedArray& named, const Value* input) {
    const at::Tensor& array = named.array;
    const std::string subject =
        named.name.empty() ? std::string("the array") : fmt::format("array \"{}\"", named.name);
    const bool has_batches = input != nullptr && input->meta &&
                             array.dim() == static_cast<int64_t>(input->meta->sizes.size()) + 1;
    int64_t rows = has_batches ? 0 : 1;
    if (input != nullptr && input->meta && !has_batches) {
      const std::vector<Dim>& sizes = input->meta->sizes;
      if (array.dim() != static_cast<int64_t>(sizes.size()) || sizes.empty())
        fail(fmt::format("{} has rank {}, want {}, that of %{}, or one more for the batches",
                         subject, array.dim(), sizes.size(), input->name()));
      rows = std::max<int64_t>(sizes[0].value, 1);  // -1: an open size without an example
      is_open_ = sizes[0].is_symbolic();
    }
    if (arrays_.empty()) rows_ = rows;
    if (input == nullptr && array.dim() > 0) rows = rows_;
    const int64_t count = array.dim() == 0 ? 0 : array.size(0);
    if (arrays_.empty()) count_ = count;
    if (rows != rows_)
      fail(
          fmt::format("{} takes {} samples a batch, the first array {}; give whole batches, with "
                      "one more dimension",
                      subject, rows, rows_));
    if (count != count_ || count == 0)
      fail(fmt::format("{} has {} {}, want {}", subject, count, rows == 0 ? "batches" : "samples",
                       arrays_.empty() ? "at least 1"
                                       : fmt::format("{} {}, like the first array", count_,
                                                     rows_ == 0 ? "batches" : "samples")));
    if (rows > 0 && count % rows != 0 && !is_open_)
      fail(
          fmt::format("{} has {} samples, want a multiple of {}, the program's batch size; leave "
                      "some out, or export with an open batch dimension",
                      subject, count, rows));
    size_ = static_cast<size_t>(rows == 0 ? count : (count + rows - 1) / rows);
    arrays_.push_back(array);
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error("inputs", file_, problem);
  }

  std::string file_;
  std::vector<at::Tensor> arrays_;
  std::vector<std::pair<size_t, c10::IValue>> literals_;  // inputs without an array
  int64_t rows_ = 0;   // samples of a batch; 0: the arrays are divided into batches
  int64_t count_ = 0;  // the first size of each array
  bool is_open_ = false;
  size_t size_ = 0;
};

}  // namespace

SampleData sample_data(const std::string& file, const Graph* program,
                       std::optional<size_t> max_batches) {
  if (max_batches == size_t{0}) throw Error("inputs", file, "--max-batches is 0, want at least 1");
  std::shared_ptr<const HeldBatches> batches;
  if (program != nullptr && !are_held(file) && is_numpy_file(file))
    batches = std::make_shared<ArrayBatches>(file, *program);
  else
    batches = open_batches(file);
  const size_t count = batches->size();
  return {.file = file,
          .batches = std::move(batches),
          .end = std::min(count, max_batches.value_or(count))};
}

SampleData kept_batches(const std::string& name, size_t all) {
  SampleData kept = sample_data(name, nullptr);
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
  Option calibration = Option{"calibration", &options.calibration,
                              "torch.save of a list of input tuples, or an .npz or .npy of samples"}
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
      Option{
          "labels", &options.labels,
          "torch.save, or an .npy, of a tensor with the class of each sample of that data, for the "
          "accuracy of both programs"}
          .of_kind(Option::Kind::kLabels),
  };
}

SplitData split(const DataOptions& options, const Graph& program, bool holds_out, size_t most) {
  SplitData data;
  if (!options.calibration.empty()) {
    data.all = data.calibration = sample_data(options.calibration, &program, options.max_batches);
    const size_t held_out = held_out_of(options, data.all.size(), holds_out);
    data.calibration.end -= held_out;
    data.evaluation = last_batches(data.all, held_out, most);
  }
  if (!options.evaluate.empty()) {
    data.evaluation = sample_data(options.evaluate, &program);
    data.evaluation.description =
        are_held(options.evaluate) ? options.evaluate : "all of " + options.evaluate;
  }
  data.evaluation.labels = options.labels;
  return data;
}

}  // namespace octet
