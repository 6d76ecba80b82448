#include "annotate/observers/observer_cases.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include <ATen/ops/empty.h>

namespace octet::test {

at::Tensor make_batch(uint32_t seed, const std::vector<int64_t>& shape, float scale, float shift,
                      const std::string& kind) {
  if (kind == "empty") {
    std::vector<int64_t> sizes = shape;
    sizes[0] = 0;
    return at::empty(sizes, at::kFloat);
  }
  at::Tensor tensor = at::empty(shape, at::kFloat);
  float* values = tensor.data_ptr<float>();
  uint32_t state = seed;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int total = 0;
    for (int draw = 0; draw < 4; ++draw) {
      state = state * 1664525u + 1013904223u;
      total += static_cast<int>(state >> 16);
    }
    const float value = static_cast<float>(total - 131072) / 32768.0f * scale;
    values[i] = value + shift;
    if (kind == "inf" && i % 7 == 0)
      values[i] = (i % 14 == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::infinity();
  }
  return kind == "scalar" ? tensor.flatten().select(0, 0) : tensor;
}

nlohmann::json read_goldens(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(std::string(OCTET_TEST_DATA) + "/annotate/" + name));
}

ObserverArgs args_of(const nlohmann::json& entry) {
  const nlohmann::json& json = entry.at("args");
  ObserverArgs args;
  args.choice.name = entry.at("observer");
  args.dtype = find_dtype(json.at("dtype").get<std::string>()).value();
  args.qscheme = find_qscheme(json.at("qscheme").get<std::string>()).value();
  if (json.contains("quant_min")) args.quant_min = json.at("quant_min").get<int64_t>();
  if (json.contains("quant_max")) args.quant_max = json.at("quant_max").get<int64_t>();
  if (json.contains("ch_axis")) args.ch_axis = json.at("ch_axis").get<int>();
  if (json.contains("eps")) args.choice.eps = json.at("eps").get<double>();
  args.choice.bins = json.value("bins", 2048);
  args.choice.averaging_constant = json.value("averaging_constant", 0.01);
  args.reduce_range = json.value("reduce_range", false);
  return args;
}

std::vector<at::Tensor> batches_of(const nlohmann::json& entry) {
  std::vector<at::Tensor> batches;
  uint32_t seed = 1;
  for (const nlohmann::json& batch : entry.at("batches")) {
    const std::string kind = batch.size() > 2 ? batch.at(2).get<std::string>() : "";
    batches.push_back(make_batch(seed++, entry.at("shape").get<std::vector<int64_t>>(), batch.at(0),
                                 batch.at(1), kind));
  }
  return batches;
}

std::shared_ptr<Observer> observed(const nlohmann::json& entry, size_t begin, size_t end) {
  std::shared_ptr<Observer> observer = make_observer(args_of(entry));
  const std::vector<at::Tensor> batches = batches_of(entry);
  for (size_t i = begin; i < std::min(end, batches.size()); ++i) observer->observe(batches[i]);
  return observer;
}

ObserverArgs named(const std::string& name) {
  ObserverArgs args;
  args.choice.name = name;
  return args;
}

}  // namespace octet::test
