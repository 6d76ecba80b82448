// Files that are not programs, and damaged ones: each gives an Error of one line, never a crash.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/pt2/archive_fixture.h"
#include "core/pt2/reader.h"

namespace octet::test_pt2_damaged {
using nlohmann::json;
using octet::testing::model_path;
using octet::testing::reading_error;
using octet::testing::Scratch;

namespace {

constexpr const char* kProgram = "models/model.json";
constexpr const char* kWeights = "data/weights/model_weights_config.json";

// The error for the program "net" with changed program JSON.
std::string error_of_program(const std::function<void(json&)>& edit) {
  Scratch scratch;
  octet::testing::edit_json(model_path("net"), scratch / "bad.pt2", kProgram, edit);
  return reading_error(scratch / "bad.pt2");
}

std::string error_of_weights(const std::function<void(json&)>& edit) {
  Scratch scratch;
  octet::testing::edit_json(model_path("net"), scratch / "bad.pt2", kWeights, edit);
  return reading_error(scratch / "bad.pt2");
}

std::string error_of_record(const std::string& record,
                            const std::function<bool(std::string&)>& edit) {
  Scratch scratch;
  octet::testing::edit_archive(
      model_path("net"), scratch / "bad.pt2",
      [&](const std::string& name, std::string& bytes) { return name != record || edit(bytes); });
  return reading_error(scratch / "bad.pt2");
}

std::string error_of_bytes(const std::string& bytes) {
  Scratch scratch;
  octet::testing::write_bytes(scratch / "bad.pt2", bytes);
  return reading_error(scratch / "bad.pt2");
}

json& graph_of(json& program) { return program["graph_module"]["graph"]; }

}  // namespace

TEST_CASE("a missing file, a folder and an empty file are errors", "[core][pt2][damaged]") {
  Scratch scratch;
  const std::string missing = (scratch / "missing.pt2").string();
  CHECK(reading_error(missing) ==
        "pt2: " + missing + ": cannot be read: No such file or directory");
  std::filesystem::create_directories(scratch / "folder.pt2");
  CHECK_THAT(reading_error(scratch / "folder.pt2"),
             Catch::Contains("is not a regular file, want a zip archive written by PyTorch"));
  CHECK_THAT(error_of_bytes(""),
             Catch::Contains("is empty, want a zip archive written by PyTorch"));
}

TEST_CASE("a file that is not a zip archive is an error", "[core][pt2][damaged]") {
  CHECK_THAT(
      error_of_bytes(std::string(5000, 'x')),
      Catch::Contains("is not an archive written by PyTorch: it does not begin like a zip file"));
}

TEST_CASE("a truncated file is an error at every length", "[core][pt2][damaged]") {
  const std::string whole = octet::testing::read_bytes(model_path("net"));
  for (size_t length = 1; length < whole.size(); length += whole.size() / 37) {
    const std::string error = error_of_bytes(whole.substr(0, length));
    CHECK_FALSE(error.empty());
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("flipped bytes give an error or a program, never a crash", "[core][pt2][damaged]") {
  const std::string whole = octet::testing::read_bytes(model_path("branch"));
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    // Half of the rounds damage the central directory at the end.
    const size_t begin = round % 2 == 0 ? 0 : bytes.size() - 2000;
    for (int flips = 0; flips < 3; ++flips)
      bytes[begin + random() % (bytes.size() - begin)] = static_cast<char>(random());
    CHECK(error_of_bytes(bytes).find('\n') == std::string::npos);
  }
}

TEST_CASE("an archive without a program is an error", "[core][pt2][damaged]") {
  CHECK(error_of_record(kProgram, [](std::string&) { return false; }) ==
        "pt2: bad.pt2: there is no models/model.json in the archive, want a program that "
        "torch.export.save wrote");
}

TEST_CASE("a missing weights record is an error", "[core][pt2][damaged]") {
  CHECK_THAT(
      error_of_record("data/weights/weight_0", [](std::string&) { return false; }),
      Catch::EndsWith(
          "there is no record \"data/weights/weight_0\" in the archive; the file is damaged"));
  CHECK_THAT(error_of_record(kWeights, [](std::string&) { return false; }),
             Catch::Contains("there is no record \"data/weights/model_weights_config.json\""));
}

TEST_CASE("a record shorter than its tensor is an error", "[core][pt2][damaged]") {
  const std::string error = error_of_record("data/weights/weight_0", [](std::string& bytes) {
    bytes.resize(bytes.size() - 8);
    return true;
  });
  CHECK_THAT(error, Catch::StartsWith("pt2: bad.pt2: tensor \"conv.weight\": "));
  CHECK_THAT(error, Catch::Contains("reach element 107, got 106 elements"));
}

TEST_CASE("an archive that would take much more memory than its file is an error",
          "[core][pt2][damaged]") {
  std::string bytes = octet::testing::read_bytes(model_path("net"));
  const size_t entry = bytes.rfind("PK\1\2");
  REQUIRE(entry != std::string::npos);
  const uint32_t size = 1 << 30;
  std::memcpy(bytes.data() + entry + 24, &size, sizeof(size));
  CHECK_THAT(error_of_bytes(bytes), Catch::Contains("its members take 10737") &&
                                        Catch::Contains("200 times the file; save it again"));
}

TEST_CASE("text that is not JSON, or nests too deep, is an error", "[core][pt2][damaged]") {
  CHECK_THAT(error_of_record(kProgram,
                             [](std::string& bytes) {
                               bytes.resize(bytes.size() / 2);
                               return true;
                             }),
             Catch::StartsWith("pt2: bad.pt2: models/model.json is not JSON: "));
  CHECK(
      error_of_record(kProgram, [](std::string& bytes) {
        bytes = std::string(1000000, '[');
        return true;
      }) == "pt2: bad.pt2: models/model.json nests more than 400 levels deep; the file is damaged");
  CHECK_THAT(error_of_record(kProgram,
                             [](std::string& bytes) {
                               bytes = "[1]";
                               return true;
                             }),
             Catch::Contains("has no schema version"));
  CHECK_THAT(error_of_record(kWeights,
                             [](std::string& bytes) {
                               bytes = "7";
                               return true;
                             }),
             Catch::Contains("there is no object \"config\""));
}

TEST_CASE("another schema version is an error", "[core][pt2][damaged]") {
  CHECK(error_of_program([](json& program) { program["schema_version"]["major"] = 7; }) ==
        "pt2: bad.pt2: schema version, got 7, want 8; export with torch 2.13 to 2.15");
}

TEST_CASE("JSON of another shape than the schema's is an error", "[core][pt2][damaged]") {
  CHECK_THAT(error_of_program([](json& program) { graph_of(program)["nodes"] = 3; }),
             Catch::Contains("does not follow the schema"));
  CHECK_THAT(error_of_program([](json& program) {
               graph_of(program)["nodes"][0]["inputs"][0]["arg"] = {{"as_unheard", 1}};
             }),
             Catch::Contains("an alternative is missing or unknown"));
  CHECK_THAT(error_of_program([](json& program) { graph_of(program) = nullptr; }),
             Catch::Contains("there is no graph"));
  CHECK_THAT(error_of_program(
                 [](json& program) { graph_of(program)["tensor_values"]["x"]["dtype"] = 99; }),
             Catch::Contains("unknown dtype, got number 99"));
}

TEST_CASE("a value used before its definition is an error", "[core][pt2][damaged]") {
  const std::string error = error_of_program([](json& program) {
    graph_of(program)["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "linear";
  });
  CHECK(error ==
        "pt2: bad.pt2: node 0 (torch.ops.aten.conv2d.default): argument \"input\": uses %linear "
        "before it is defined; the file is damaged");
}

TEST_CASE("a name defined twice is an error", "[core][pt2][damaged]") {
  CHECK(error_of_program([](json& program) {
          graph_of(program)["nodes"][1]["outputs"][0]["as_tensor"]["name"] = "conv2d";
        }) ==
        "pt2: bad.pt2: node 1 (torch.ops.aten.relu.default): result 0: defines %conv2d a second "
        "time; the file is damaged");
  CHECK_THAT(
      error_of_program([](json& program) { graph_of(program)["nodes"][1]["name"] = "conv2d"; }),
      Catch::Contains("a second node is named \"conv2d\""));
}

TEST_CASE("a signature that does not fit the graph is an error", "[core][pt2][damaged]") {
  CHECK_THAT(error_of_program([](json& program) {
               program["graph_module"]["signature"]["input_specs"].erase(0);
             }),
             Catch::Contains("the signature has 4 inputs and the graph 5, want equal numbers"));
  CHECK_THAT(error_of_program([](json& program) {
               program["graph_module"]["signature"]["output_specs"].clear();
             }),
             Catch::Contains("the signature has 0 outputs and the graph 1, want equal numbers"));
  CHECK_THAT(error_of_weights([](json& weights) { weights["config"].erase("fc.bias"); }),
             Catch::Contains("there is no tensor \"fc.bias\" in the archive"));
}

TEST_CASE("a name with control characters stays in one line of message", "[core][pt2][damaged]") {
  const std::string error = error_of_program([](json& program) {
    graph_of(program)["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "a\nb";
  });
  CHECK_THAT(error, Catch::Contains("uses %a b before it is defined"));
}

TEST_CASE("an op from nowhere is an error", "[core][pt2][damaged]") {
  CHECK_THAT(
      error_of_program(
          [](json& program) { graph_of(program)["nodes"][0]["target"] = "os.system"; }),
      Catch::Contains("target \"os.system\" is neither torch.ops.* nor a function on symbols"));
}

TEST_CASE("pickled, sparse, remote and absurdly large tensors are errors", "[core][pt2][damaged]") {
  const auto meta = [](json& weights) -> json& {
    return weights["config"]["fc.bias"]["tensor_meta"];
  };
  CHECK_THAT(
      error_of_weights([](json& weights) { weights["config"]["fc.bias"]["use_pickle"] = true; }),
      Catch::Contains("tensor \"fc.bias\": is pickled"));
  CHECK_THAT(error_of_weights([&](json& weights) { meta(weights)["layout"] = 1; }),
             Catch::Contains("tensor \"fc.bias\": is sparse, want a dense tensor"));
  CHECK_THAT(error_of_weights([&](json& weights) { meta(weights)["device"]["type"] = "cuda"; }),
             Catch::Contains("is on cuda, want cpu"));
  CHECK_THAT(error_of_weights(
                 [&](json& weights) { meta(weights)["sizes"][0]["as_int"] = int64_t{1} << 62; }),
             Catch::Contains("tensor \"fc.bias\": "));
  CHECK_THAT(error_of_weights([&](json& weights) { meta(weights)["sizes"][0]["as_int"] = -5; }),
             Catch::Contains("want sizes of at least 0"));
  CHECK_THAT(
      error_of_weights([&](json& weights) { meta(weights)["storage_offset"]["as_int"] = -1; }),
      Catch::Contains("tensor \"fc.bias\": "));
  CHECK_THAT(error_of_weights([&](json& weights) { meta(weights)["sizes"][0] = json::object(); }),
             Catch::Contains("an alternative is missing or unknown"));
  CHECK_THAT(error_of_weights([&](json& weights) { meta(weights)["strides"].clear(); }),
             Catch::Contains("got 1 sizes and 0 strides"));
}

}  // namespace octet::test_pt2_damaged
