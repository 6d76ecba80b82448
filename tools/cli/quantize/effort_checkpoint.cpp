#include "tools/cli/quantize/effort_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/pt2/tensor_file.h"
#include "lowering/program/artifact_format.h"
#include "tools/cli/common/text_tensor.h"
#include "tools/cli/quantize/flow.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// The file: a tuple of tensors. The first one is JSON as bytes; those behind it are what "tensors"
// lists, pass for pass.
constexpr const char* kFormat = "octet effort 1";

Json to_json(const PassOutcome& outcome) {
  Json tensors = Json::array(), ranges = Json::array(), entries = Json::array();
  for (const PassOutcome::NewTensor& tensor : outcome.tensors)
    tensors.push_back({tensor.layer, tensor.is_bias});
  for (const PassOutcome::NewRange& range : outcome.ranges)
    ranges.push_back({range.group, range.min, range.max});
  for (const ReportEntry& entry : outcome.report.entries())
    entries.push_back({entry.stage, entry.node, entry.target, entry.module, entry.reason});
  return {{"pass", outcome.pass},
          {"tensors", tensors},
          {"ranges", ranges},
          {"entries", entries},
          {"notes", outcome.report.notes()},
          {"details", outcome.report.details()}};
}

// next: of the file's tensors.
PassOutcome from_json(const Json& json, const std::vector<c10::IValue>& values, size_t& next) {
  PassOutcome outcome;
  outcome.pass = json.at("pass").get<std::string>();
  for (const Json& tensor : json.at("tensors"))
    outcome.tensors.push_back(
        {tensor.at(0).get<size_t>(), tensor.at(1).get<bool>(), values.at(next++).toTensor()});
  for (const Json& range : json.at("ranges"))
    outcome.ranges.push_back(
        {range.at(0).get<size_t>(), range.at(1).get<float>(), range.at(2).get<float>()});
  for (const Json& entry : json.at("entries"))
    outcome.report.add({entry.at(0), entry.at(1), entry.at(2), entry.at(3), entry.at(4)});
  for (const Json& note : json.at("notes")) outcome.report.note(note.get<std::string>());
  for (const Json& detail : json.at("details")) outcome.report.detail(detail.get<std::string>());
  return outcome;
}

// Of what is a file; "" of what is none, such as a quantizer's name.
std::string sum_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) return {};
  Checksum sum;
  for (std::vector<char> block(1 << 20);
       file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0;)
    sum.add(std::as_bytes(std::span(block.data(), static_cast<size_t>(file.gcount()))));
  return fmt::format(" {:016x}", sum.value());
}

}  // namespace

std::string describe_run(const QuantizeFlow& flow, const EffortData& data,
                         const EffortOptions& options) {
  std::vector<std::string> passes;
  for (const AccuracyPass pass : passes_of(options)) passes.emplace_back(name_of(pass));
  std::sort(passes.begin(), passes.end());
  std::string quantizers;
  std::istringstream names(flow.quantizer);
  for (std::string name; std::getline(names, name, ',');)
    quantizers += fmt::format("{}{}{}", quantizers.empty() ? "" : ",", name, sum_of(name));
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string("as it is");
  };
  return fmt::format(
      "model{}; data{}, {} batches; quantizer {}; config{}; {}; weight bits {}, group size {}{}{}; "
      "fold-bn {}; passes {}",
      sum_of(flow.model), sum_of(data.file), data.batches, quantizers,
      flow.config.empty() ? " none" : sum_of(flow.config), flow.mode, number(flow.weight_bits),
      number(flow.group_size), flow.per_tensor ? ", per tensor" : "",
      flow.reduce_range ? ", reduced range" : "", flow.fold_bn, fmt::join(passes, ", "));
}

void save_effort(const std::string& file, const std::string& run, const EffortJournal& journal) {
  Json passes = Json::array();
  for (const PassOutcome& outcome : journal.outcomes) passes.push_back(to_json(outcome));
  const std::string text = Json{{"format", kFormat}, {"run", run}, {"passes", passes}}.dump(
      -1, ' ', true, Json::error_handler_t::replace);
  std::vector<c10::IValue> values = {tensor_of_text(text)};
  for (const PassOutcome& outcome : journal.outcomes)
    for (const PassOutcome::NewTensor& tensor : outcome.tensors) values.emplace_back(tensor.value);
  write_outputs(file, values);
}

EffortJournal load_effort(const std::string& file, const std::string& run) {
  EffortJournal journal;
  if (!std::filesystem::exists(file)) return journal;
  const std::vector<c10::IValue> values = read_inputs(file);
  const Json json =
      values.empty() || !values[0].isTensor()
          ? Json()
          : Json::parse(text_of_tensor(values[0].toTensor()), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", "") != kFormat)
    throw Error("quantize", file,
                "is no checkpoint of octet quantize; give another name, or remove it");
  if (json.value("run", "") != run)
    throw Error("quantize", file,
                fmt::format("is of another run, got {}, want {}; remove it to start anew",
                            json.value("run", ""), run));
  try {
    size_t next = 1;
    for (const Json& pass : json.at("passes"))
      journal.outcomes.push_back(from_json(pass, values, next));
  } catch (const std::exception&) {
    throw Error("quantize", file, "is damaged; remove it to start anew");
  }
  return journal;
}

}  // namespace octet
