#include "quantizers/registry.h"

#include <iterator>

#include <fmt/format.h>

#include "core/base/error.h"
#include "quantizers/compose/composable_quantizer.h"
#include "quantizers/json/quantizer.h"

namespace octet {

namespace {

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> result;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    result.push_back(names.substr(begin, end - begin));
    if (result.back().empty())
      throw Error("quantizer", fmt::format("\"{}\"", names),
                  "has an empty name, want e.g. embedding,xnnpack");
    begin = end + 1;
  }
  return result;
}

std::unique_ptr<Quantizer> finish(QuantizerParts parts, const QuantizerOptions& options) {
  check_overrides(parts, options);
  if (!options.config.empty()) apply_json_config(parts, options.config, options);
  if (!options.config_text.empty())
    apply_json_config(parts, options.config_text, "settings", options);
  return to_one(std::move(parts));
}

}  // namespace

std::vector<std::string> quantizer_names() { return base_names(); }

void register_quantizer(const std::string& name, QuantizerMaker maker) {
  register_base(name, std::move(maker));
}

std::unique_ptr<Quantizer> make_quantizer(const std::string& names,
                                          const QuantizerOptions& options) {
  QuantizerParts parts;
  for (const std::string& name : split(names)) {
    QuantizerParts more = read_quantizers(name, options);
    parts.insert(parts.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  return finish(std::move(parts), options);
}

std::unique_ptr<Quantizer> parse_quantizer(const std::string& json, const std::string& file,
                                           const QuantizerOptions& options) {
  return finish(parse_quantizers(json, file, options), options);
}

}  // namespace octet
