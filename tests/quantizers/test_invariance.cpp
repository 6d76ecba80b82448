// What must not change annotations: names of nodes, the order of independent nodes, and metadata
// other than module names.
#include <iostream>
#include <random>

#include <fmt/format.h>

#include "annotate/conformance/annotation_checks.h"
#include "annotate/conformance/checked_quantizer.h"
#include "core/base/error.h"
#include "core/passes/fold_conv_bn.h"
#include "core/pt2/reader.h"
#include "core/text/text.h"
#include "quantizers/golden/golden_quantizer.h"
#include "quantizers/registry.h"
#include "support/golden.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_invariance {
namespace {

void strip_metadata(Graph& graph, bool keeps_modules) {
  for (Node* node : graph.nodes())
    std::erase_if(node->metadata, [&](const auto& entry) {
      return !keeps_modules || entry.first != "nn_module_stack";
    });
}

std::string annotate(Graph& graph, Quantizer& quantizer, const OldNames& names = {}) {
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  rename_back(graph, names);
  return sorted_text(graph, annotations);
}

// The differences after each change, or "".
std::string differences_of(const Graph& graph, const MakeQuantizer& make, bool uses_modules,
                           unsigned seed) {
  std::mt19937 random(seed);
  std::unique_ptr<Graph> original = clone(graph);
  const std::string want = annotate(*original, *make());
  const std::unique_ptr<Graph> renamed = clone(graph);
  const OldNames names = rename_all(*renamed, random);
  if (const std::string found = first_difference(annotate(*renamed, *make(), names), want);
      !found.empty())
    return "renamed: " + found;
  const std::unique_ptr<Graph> stripped = clone(graph);
  strip_metadata(*stripped, uses_modules);
  if (const std::string found = first_difference(annotate(*stripped, *make()), want);
      !found.empty())
    return "stripped: " + found;
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Graph> moved = permuted(graph, random);
    if (const std::string found = first_difference(annotate(*moved, *make()), want); !found.empty())
      return "permuted: " + found;
  }
  return "";
}

Graph ready_to_annotate(Graph graph, Quantizer& quantizer) {
  fold_conv_bn(graph);
  quantizer.transform_for_annotation(graph);
  return graph;
}

// The quantizers by name, and the one of the case; those that filter by node names are left out.
void check_golden(const test::GoldenCase& golden) {
  const test::Json& description = golden.meta.at("quantizer");
  std::vector<std::pair<std::string, MakeQuantizer>> makers = {
      {"xnnpack", [] { return make_quantizer("xnnpack"); }},
      {"x86", [] { return make_quantizer("x86"); }}};
  const std::string type = description.at("type");
  if ((type == "xnnpack" || type == "x86") && !description.contains("filter_exclude_names") &&
      golden.meta.at("mode") != "qat")
    makers.emplace_back("its own",
                        [&] { return test::make_golden_quantizer(description, Compat::kNone); });
  for (const auto& [name, make] : makers) {
    std::string found;
    try {
      const Graph graph = ready_to_annotate(read_pt2(golden.folder / "model.pt2"), *make());
      found = differences_of(graph, make, name == "its own", 7);
    } catch (const Error& error) {
      found = error.what();
    }
    if (!found.empty()) std::cerr << fmt::format("{} with {}: {}\n", golden.name(), name, found);
    INFO(golden.name() << " with " << name);
    CHECK_THAT(found, Catch::Matchers::Equals(""));
  }
}

constexpr const char* kTwoBranches = R"(
graph(%x: f32[1,4,8,8], %w1 = param "a.weight": f32[4,4,3,3], %w2 = param "b.weight": f32[4,4,1,1], %w3 = param "c.weight": f32[5,8]):
    %a: f32[1,4,8,8] = aten.conv2d.default(%x, %w1, None, [1, 1], [1, 1])
    %r: f32[1,4,8,8] = aten.relu.default(%a)
    %b: f32[1,4,8,8] = aten.conv2d.default(%x, %w2)
    %s: f32[1,4,8,8] = aten.add.Tensor(%r, %b)
    %t: f32[1,4,8,8] = aten.relu.default(%s)
    %m: f32[1,4,8,8] = aten.mul.Tensor(%b, %x)
    %c: f32[1,8,8,8] = aten.cat.default([%t, %m], 1)
    %p: f32[1,8,1,1] = aten.adaptive_avg_pool2d.default(%c, [1, 1])
    %f: f32[1,8] = aten.flatten.using_ints(%p, 1)
    %l: f32[1,5] = aten.linear.default(%f, %w3)
    %g: f32[1,8,8,8] = aten.sigmoid.default(%c)
    return (%l, %g)
)";

}  // namespace

TEST_CASE("names, order and metadata leave the annotations of a small graph unchanged",
          "[quantizers][invariance]") {
  for (const char* name : {"xnnpack", "x86"}) {
    const MakeQuantizer make = [name] { return make_quantizer(name); };
    const Graph graph = ready_to_annotate(parse_graph(kTwoBranches), *make());
    for (unsigned seed = 0; seed < 40; ++seed)
      CHECK_THAT(differences_of(graph, make, false, seed), Catch::Matchers::Equals(""));
  }
}

TEST_CASE("the invariance test notices another annotation", "[quantizers][invariance]") {
  CHECK(first_difference("a\nb\n", "a\nb\n").empty());
  CHECK(first_difference("a\nbx\n", "a\nby\n") == "got bx, want by");
}

TEST_CASE("golden: names, order and metadata leave annotations unchanged",
          "[quantizers][golden][invariance][long]") {
  int count = 0;
  for (const test::GoldenCase& golden : test::golden_cases("")) {
    if (!std::filesystem::exists(golden.folder / "model.pt2")) continue;
    check_golden(golden);
    ++count;
  }
  std::cerr << fmt::format("invariance: {} programs\n", count);
}

}  // namespace octet::test_invariance
