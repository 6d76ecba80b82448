// Compares the interpreter with PyTorch's outputs of the oracle's float and quantized programs.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/set_training.h"
#include "core/pt2/reader.h"
#include "support/npy.h"

// Last, because the torch headers also define CHECK.
#include <catch2/catch.hpp>

namespace octet::test_interpreter_golden {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kRelativeTolerance = 1e-5;

// Empty when equal or close, otherwise the difference. Counts equal outputs.
std::string difference(const at::Tensor& got, const at::Tensor& want, bool& exact) {
  if (got.sizes() != want.sizes())
    return fmt::format("shape [{}], want [{}]", fmt::join(got.sizes(), ", "),
                       fmt::join(want.sizes(), ", "));
  if (got.scalar_type() == want.scalar_type() && at::equal(got, want)) return "";
  exact = false;
  const at::Tensor a = got.to(at::kDouble);
  const at::Tensor b = want.to(at::kDouble);
  const double error = (a - b).abs().max().item().toDouble();
  const double scale = std::max(b.abs().max().item().toDouble(), 1e-30);
  return error <= kRelativeTolerance * scale ? "" : fmt::format("off by {} of {}", error, scale);
}

TEST_CASE("the oracle's float programs give PyTorch's outputs", "[core][interpreter][long]") {
  const char* root = std::getenv("OCTET_GOLDEN_DIR");
  if (root == nullptr) {
    WARN("OCTET_GOLDEN_DIR is unset: skipped");
    return;
  }
  at::set_num_threads(1);  // as the oracle ran
  int cases = 0;
  int equal = 0;
  int trained = 0;
  std::ifstream index_file(fs::path(root) / "index.json");
  const Json index = Json::parse(index_file);
  for (const Json& entry : index.at("cases")) {
    const fs::path folder = fs::path(root) / entry.at("name").get<std::string>();
    if (!fs::exists(folder / "model.pt2") || !fs::exists(folder / "float_out0.npy")) continue;
    std::ifstream meta_file(folder / "case.json");
    const bool is_trained = Json::parse(meta_file).at("export_mode") != "eval";
    INFO(folder.filename().string());
    ++cases;
    std::string problem;
    bool exact = true;
    try {
      Graph graph = read_pt2(folder / "model.pt2");
      // as the oracle did before it ran the program
      if (is_trained) trained += set_training(graph, Mode::kEvaluation) > 0 ? 1 : 0;
      std::vector<c10::IValue> inputs;
      for (int i = 0; fs::exists(folder / fmt::format("example_arg{}.npy", i)); ++i)
        inputs.emplace_back(to_aten(test::read_npy(folder / fmt::format("example_arg{}.npy", i))));
      const std::vector<c10::IValue> outputs = Interpreter(graph).run(inputs);
      for (size_t i = 0; i < outputs.size() && problem.empty(); ++i)
        problem =
            difference(outputs[i].toTensor(),
                       to_aten(test::read_npy(folder / fmt::format("float_out{}.npy", i))), exact);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    CHECK(problem == "");
    if (problem.empty() && exact) ++equal;
  }
  std::cerr << fmt::format(
      "float programs: {} run, {} equal to the bit; {} of them switched to evaluation\n", cases,
      equal, trained);
  CHECK(cases > 0);
}

}  // namespace
}  // namespace octet::test_interpreter_golden
