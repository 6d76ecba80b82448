// Wrong files, each with one cause: wrong_files.json has them as changes of correct files, with the
// whole message for each.
#include <catch2/catch.hpp>

#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/observers/observer.h"
#include "annotate/prepare/prepare.h"
#include "core/text/text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test_wrong_files {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModel =
    R"j(graph(%x: f32[2,4], %w = param "fc.weight": f32[3,4], %b = param "fc.bias": f32[3]):
  %y: f32[2,3] = aten.linear.default(%x, %w, %b)
  %z: f32[2,3] = aten.relu.default(%y)
  %s: f32[2,3] = aten.sigmoid.default(%z) return (%s))j";

Json read_table() {
  std::ifstream stream(OCTET_TEST_DATA "/quantizers/wrong_files.json");
  return Json::parse(stream);
}

// The file that an entry describes.
std::string file_text(const Json& entry, const Json& files) {
  if (entry.contains("text")) return entry.at("text").get<std::string>();
  Json file = files.at(entry.at("file").get<std::string>());
  if (entry.contains("set"))
    for (const auto& [path, value] : entry.at("set").items())
      file[Json::json_pointer(path)] = value;
  if (entry.contains("drop"))
    for (const Json& path : entry.at("drop")) {
      const Json::json_pointer pointer(path.get<std::string>());
      file.at(pointer.parent_pointer()).erase(pointer.back());
    }
  return file.dump();
}

// The error of reading the file, or of preparing a small model with it.
std::string message_of(const std::string& text) {
  return test::error_message([&] {
    const std::unique_ptr<Quantizer> quantizer = parse_quantizer(text, "q.json");
    Graph graph = parse_graph(kModel);
    graph.find_node("y")->metadata["nn_module_stack"] = "fc,fc,torch.nn.modules.linear.Linear";
    Report report;
    prepare_pt2e(std::move(graph), *quantizer, report);
  });
}

// The table has a name for each list that grows with what is registered.
std::string completed(std::string message) {
  const std::pair<std::string, std::vector<std::string>> lists[] = {
      {"{observers}", observer_names()},
      {"{derivations}", derive_fn_names()},
      {"{bases}", quantizer_names()}};
  for (const auto& [mark, names] : lists)
    if (const size_t at = message.find(mark); at != std::string::npos)
      message.replace(at, mark.size(), fmt::format("{}", fmt::join(names, ", ")));
  return message;
}

}  // namespace

TEST_CASE("the files that the faults are put into are right", "[quantizers][json][wrong_files]") {
  const Json table = read_table();
  for (const auto& [name, file] : table.at("files").items()) {
    INFO(name);
    CHECK(message_of(file.dump()) == "no error");
  }
}

TEST_CASE("each wrong file gives one line that names the place, its value and what to do",
          "[quantizers][json][wrong_files]") {
  const Json table = read_table();
  CHECK(table.at("wrong").size() >= 60);
  std::set<std::string> seen;
  for (const Json& entry : table.at("wrong")) {
    const std::string cause = entry.at("cause").get<std::string>();
    const std::string message = message_of(file_text(entry, table.at("files")));
    CAPTURE(cause);
    CHECK(message == completed(entry.at("message").get<std::string>()));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(seen.insert(message).second);
  }
}

}  // namespace octet::test_wrong_files
