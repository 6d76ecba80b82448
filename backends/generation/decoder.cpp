#include "backends/generation/decoder.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/half.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

bool is_whole(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

Tensor whole_numbers(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values) {
  if (dtype == DType::kInt64) return Tensor::from(dtype, std::move(shape), values);
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Tensor::from(dtype, std::move(shape), std::span<const int32_t>(narrow));
}

float element(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat16: return half_to_float(tensor.data<uint16_t>()[i]);
    case DType::kBFloat16: return bfloat_to_float(tensor.data<uint16_t>()[i]);
    case DType::kFloat64: return static_cast<float>(tensor.data<double>()[i]);
    default: return tensor.data<float>()[i];
  }
}

[[noreturn]] void refuse(const std::string& what) { throw Error("generate", "model", what); }

std::string text_of(const ProgramTensor& tensor, const ShapeRange& range) {
  std::vector<std::string> sizes;
  for (const int64_t size : range.shape) sizes.push_back(size < 0 ? "any" : std::to_string(size));
  return fmt::format("{} {}[{}]", tensor.name, name_of(tensor.dtype), fmt::join(sizes, ", "));
}

}  // namespace

Decoder::Decoder(Session& session) : session_(session) {
  const Program& program = session.program();
  std::vector<std::string> have;
  size_t ids = 0, positions = 0;
  ShapeRange range;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    const ProgramTensor& tensor = program.tensor(program.inputs[i]);
    const ShapeRange sizes = shape_range(program, tensor);
    have.push_back(text_of(tensor, sizes));
    if (!is_whole(tensor.dtype)) continue;
    if (sizes.shape.size() == 2 && (sizes.shape[0] == 1 || sizes.shape[0] == -1))
      ++ids, ids_ = i, range = sizes;
    if (sizes.shape.size() == 1) ++positions, positions_ = i;
  }
  if (ids != 1 || positions > 1 || ids + positions != have.size() || program.outputs.empty())
    refuse(
        fmt::format("its inputs are {}, want token ids [1, n], and for a model with a cache "
                    "positions [n]; export it like transformers' "
                    "TorchExportableModuleForDecoderOnlyLM",
                    fmt::join(have, ", ")));
  const int64_t length = range.shape[1];
  if (length >= 0 && (!positions_ || length != 1))
    refuse(
        fmt::format("takes exactly {} tokens at a time, want any number, or one at a time with "
                    "a cache; export it with a dynamic length",
                    length));
  most_ = static_cast<size_t>(range.max[1]);
  const ProgramTensor& scores = program.tensor(program.outputs[0]);
  const ShapeRange out = shape_range(program, scores);
  if (out.shape.empty() || !is_floating_point(scores.dtype))
    refuse(fmt::format("its first output is {}, want scores [1, n, words]", text_of(scores, out)));
  words_ = static_cast<size_t>(std::max<int64_t>(out.shape.back(), 0));
}

void Decoder::check(std::span<const int64_t> tokens, const tokenizer::Tokenizer* words) const {
  if (words_ == 0) return;
  if (words != nullptr && words->size() > words_)
    throw Error("generate", words->file,
                fmt::format("has {} tokens, more than the {} of the model; give the tokenizer of "
                            "this model",
                            words->size(), words_));
  for (const int64_t token : tokens)
    if (token < 0 || token >= static_cast<int64_t>(words_))
      throw Error("generate", "prompt",
                  fmt::format("has token {}, want 0 to {}", token, words_ - 1));
}

Tensor Decoder::run(std::span<const int64_t> tokens, size_t start) {
  const Program& program = session_.program();
  const int64_t count = static_cast<int64_t>(tokens.size());
  std::vector<Tensor> inputs(program.inputs.size());
  const auto dtype = [&](size_t i) { return program.tensor(program.inputs[i]).dtype; };
  inputs[ids_] = whole_numbers(dtype(ids_), {1, count}, tokens);
  if (positions_) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < tokens.size(); ++i) places.push_back(static_cast<int64_t>(start + i));
    inputs[*positions_] = whole_numbers(dtype(*positions_), {count}, places);
  }
  try {
    return session_.run(inputs)[0].contiguous();
  } catch (const Error& error) {
    if (error.message().find("is outside of") == std::string::npos) throw;
    refuse(
        fmt::format("its cache cannot hold position {} ({}); shorten the prompt, generate "
                    "fewer tokens, or export with a larger cache",
                    start + tokens.size() - 1, error.message()));
  }
}

void Decoder::read(const Tensor& scores, size_t count, bool is_last_only) {
  const size_t words = static_cast<size_t>(scores.shape().back());
  const size_t rows = words == 0 ? 0 : static_cast<size_t>(scores.numel()) / words;
  if (rows == 0) refuse("its output is empty, want scores [1, n, words]");
  if (!is_last_only && rows != count)
    refuse(fmt::format(
        "its output has the scores of {} of {} positions, want all of them (logits_to_keep 0)",
        rows, count));
  for (size_t row = is_last_only ? rows - 1 : 0; row < rows; ++row) {
    std::vector<float>& values = scores_.emplace_back(words);
    for (size_t i = 0; i < words; ++i) values[i] = element(scores, row * words + i);
  }
}

void Decoder::compute(std::span<const int64_t> tokens, size_t start, bool is_last_only) {
  scores_.clear();
  if (!positions_) {
    past_.resize(start);
    past_.insert(past_.end(), tokens.begin(), tokens.end());
    if (past_.size() > most_)
      refuse(fmt::format("takes {} tokens at most, got {}; shorten the prompt or generate fewer",
                         most_, past_.size()));
    read(run(past_, 0), past_.size(), is_last_only);
    if (!is_last_only) scores_.erase(scores_.begin(), scores_.begin() + static_cast<long>(start));
    return;
  }
  for (size_t at = 0; at < tokens.size(); at += most_) {
    const std::span<const int64_t> some = tokens.subspan(at, std::min(most_, tokens.size() - at));
    const Tensor result = run(some, start + at);
    if (is_last_only) scores_.clear();
    read(result, some.size(), is_last_only);
  }
}

const std::vector<std::vector<float>>& Decoder::all_scores(std::span<const int64_t> tokens,
                                                           size_t start) {
  compute(tokens, start, false);
  return scores_;
}

const std::vector<float>& Decoder::scores(std::span<const int64_t> tokens, size_t start) {
  compute(tokens, start, true);
  return scores_.back();
}

}  // namespace octet
