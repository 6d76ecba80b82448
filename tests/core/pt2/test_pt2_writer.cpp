// Reading and writing again is the identity; edits are written; failures leave no files.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/passes/verify.h"
#include "core/pt2/archive.h"
#include "core/pt2/archive_fixture.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"

namespace octet::test_pt2_writer {
using octet::testing::model_path;
using octet::testing::program_json;
using octet::testing::Scratch;

namespace {

// All records but those in .data/, which depend on the writer, and the JSON.
std::map<std::string, std::string> records(const std::filesystem::path& path) {
  const ArchiveReader reader(path, "test");
  std::map<std::string, std::string> result;
  for (const std::string& name : reader.names())
    if (!name.starts_with(".data/") && !name.ends_with(".json")) result[name] = reader.read(name);
  return result;
}

void check_round_trip(const std::filesystem::path& before, const std::filesystem::path& after) {
  write_pt2(read_pt2(before), after);
  CHECK(program_json(before) == program_json(after));
  CHECK(records(before) == records(after));
}

// %x -> full_like(%x, value)
Graph filled(double value) {
  Graph graph;
  const TensorMeta meta = make_meta(DType::kFloat32, {2});
  Value* x = graph.add_input("x", ValueKind::kTensor, meta);
  Node* node =
      graph.insert("aten.full_like.default", {{"self", x}, {"fill_value", Argument(value)}},
                   "full_like", meta, nullptr);
  graph.add_output({node->output(), OutputKind::kUserOutput, ""});
  return graph;
}

}  // namespace

TEST_CASE("a program that was read and written has equal JSON and equal records", "[core][pt2]") {
  Scratch scratch;
  for (const char* name : {"net",           "net_strict",     "tied",       "slices",
                           "channels_last", "constants",      "mutating",   "mutating_decomposed",
                           "dynamic",       "dynamic_strict", "nested",     "named",
                           "plain",         "branch",         "while_loop", "scan",
                           "multiple",      "recurrent",      "symbols",    "symbolic_inputs"}) {
    INFO(name);
    verify(read_pt2(model_path(name)));
    check_round_trip(model_path(name), scratch / "again.pt2");
  }
}

TEST_CASE("a program can be written over the file that its weights view", "[core][pt2]") {
  Scratch scratch;
  std::filesystem::copy_file(model_path("net"), scratch / "net.pt2");
  const Graph graph = read_pt2(scratch / "net.pt2");
  write_pt2(graph, scratch / "net.pt2");
  write_pt2(graph, scratch / "net.pt2");
  CHECK(records(scratch / "net.pt2") == records(model_path("net")));
}

TEST_CASE("a new constant is written and a dropped weight is gone", "[core][pt2]") {
  Scratch scratch;
  Graph graph = read_pt2(model_path("net"));
  const std::vector<float> values = {0.5f};
  Value* scale = graph.add_constant("_scale_0", Tensor::from<float>(DType::kFloat32, {1}, values));
  Node* relu = graph.nodes_of("aten.relu").front();
  Node* mul = graph.insert("aten.mul.Tensor", {{"self", relu->output()}, {"other", scale}}, "mul",
                           relu->output()->meta, graph.nodes_of("aten.mean").front());
  graph.nodes_of("aten.mean").front()->set_argument("self", mul->output());
  Node* linear = graph.nodes_of("aten.linear").front();
  Value* bias = linear->find_input("bias");
  linear->erase_argument("bias");
  graph.erase_input(*bias);
  write_pt2(graph, scratch / "edited.pt2");
  const Graph again = read_pt2(scratch / "edited.pt2");
  CHECK(again.constants.at("_scale_0").tensor.data<float>()[0] == 0.5f);
  CHECK_FALSE(again.constants.contains("fc.bias"));
  CHECK(records(scratch / "edited.pt2").size() == records(model_path("net")).size());
  CHECK(again.nodes_of("aten.mul").size() == 1);
}

TEST_CASE("infinities and NaN of literals keep their sign", "[core][pt2]") {
  Scratch scratch;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {infinity, -infinity}) {
    write_pt2(filled(value), scratch / "filled.pt2");
    CHECK(read_pt2(scratch / "filled.pt2").nodes().front()->float_or("fill_value", 0) == value);
  }
  write_pt2(filled(std::nan("")), scratch / "filled.pt2");
  CHECK(std::isnan(read_pt2(scratch / "filled.pt2").nodes().front()->float_or("fill_value", 0)));
}

TEST_CASE("a graph built by hand is written with a calling convention", "[core][pt2]") {
  Scratch scratch;
  write_pt2(filled(1.0), scratch / "filled.pt2");
  const nlohmann::json signature = program_json(scratch / "filled.pt2")
                                       .at("graph_module")
                                       .at("module_call_graph")
                                       .at(0)
                                       .at("signature");
  CHECK(signature.at("forward_arg_names") == nlohmann::json({"x"}));
}

TEST_CASE("a value without dtype and sizes cannot be written", "[core][pt2]") {
  Scratch scratch;
  Graph graph = filled(1.0);
  graph.nodes().front()->output()->meta.reset();
  CHECK_THROWS_WITH(write_pt2(graph, scratch / "filled.pt2"),
                    "pt2: filled.pt2: %full_like has no dtype and sizes, want them on every value "
                    "of a program that is written");
  CHECK(scratch.files().empty());
}

TEST_CASE("a folder that does not exist is an error", "[core][pt2]") {
  Scratch scratch;
  const std::string path = (scratch / "missing/net.pt2").string();
  CHECK_THROWS_WITH(write_pt2(filled(1.0), path),
                    "pt2: " + path + ": cannot be written: No such file or directory");
}

TEST_CASE("a target that is a folder is an error and leaves no temporary file", "[core][pt2]") {
  Scratch scratch;
  std::filesystem::create_directories(scratch / "taken.pt2/inside");
  CHECK_THROWS_WITH(write_pt2(filled(1.0), scratch / "taken.pt2"),
                    Catch::Contains("cannot be written: "));
  CHECK(scratch.files() == std::vector<std::string>{"taken.pt2"});
}

TEST_CASE("a full disk is an error", "[core][pt2]") {
  if (!std::filesystem::exists("/dev/full")) return;
  CHECK_THROWS_WITH(write_file("/dev/full/x", "bytes", "outputs"),
                    Catch::Contains("cannot be written: "));
  CHECK_THROWS_WITH(write_file("/dev/full", "bytes", "outputs"),
                    Catch::Contains("cannot be written: No space left on device"));
}

TEST_CASE("every golden program is read and written equal", "[core][pt2][long]") {
  const char* folder = std::getenv("OCTET_GOLDEN_DIR");
  if (folder == nullptr) {
    WARN("skipped: OCTET_GOLDEN_DIR is not set");
    return;
  }
  Scratch scratch;
  int count = 0;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path before = entry.path() / "model.pt2";
    if (!std::filesystem::exists(before)) continue;
    INFO(before.string());
    verify(read_pt2(before));
    check_round_trip(before, scratch / "again.pt2");
    ++count;
  }
  CHECK(count > 0);
}

}  // namespace octet::test_pt2_writer
