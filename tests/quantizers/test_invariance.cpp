// What must not change annotations: names of nodes, the order of independent nodes, and metadata
// other than module names.
#include <algorithm>
#include <iostream>
#include <random>
#include <set>

#include <fmt/format.h>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/sharing.h"
#include "core/base/error.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/simplify.h"
#include "core/pt2/reader.h"
#include "core/text/text.h"
#include "quantizers/golden/golden_quantizer.h"
#include "quantizers/registry.h"
#include "support/golden.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_invariance {
namespace {

using Names = std::map<std::string, std::string>;
using MakeQuantizer = std::function<std::unique_ptr<Quantizer>()>;

// ---- the three changes

// Gives every node and every value of a node another name; returns new -> old.
Names rename_all(Graph& graph, std::mt19937& random) {
  Names nodes;
  int number = static_cast<int>(random() % 1000);
  for (Node* node : graph.nodes()) {
    const std::string old = node->name();
    graph.rename(*node, fmt::format("renamed_{}", number += 7));
    nodes[node->name()] = old;
  }
  return nodes;
}

void rename_back(Graph& graph, const Names& names) {
  for (Node* node : graph.nodes()) {
    const auto old = names.find(node->name());
    if (old != names.end()) graph.rename(*node, old->second);
  }
}

// Reorders each run of nodes without side effects at random, definitions first.
void permute(Graph& graph, std::mt19937& random) {
  std::vector<Node*> nodes = graph.nodes();
  size_t begin = 0;
  while (begin < nodes.size()) {
    size_t end = begin;
    while (end < nodes.size() && !has_side_effects(*nodes[end])) ++end;
    std::vector<Node*> waiting(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                               nodes.begin() + static_cast<std::ptrdiff_t>(end));
    std::set<const Node*> inside(waiting.begin(), waiting.end());
    Node* behind = end < nodes.size() ? nodes[end] : nullptr;
    while (!waiting.empty()) {
      std::vector<Node*> ready;
      for (Node* node : waiting) {
        const std::vector<Value*> inputs = node->inputs();
        if (std::none_of(inputs.begin(), inputs.end(),
                         [&](const Value* input) { return inside.contains(input->producer()); }))
          ready.push_back(node);
      }
      Node* next = ready[random() % ready.size()];
      graph.move_before(*next, behind);
      inside.erase(next);
      std::erase(waiting, next);
    }
    begin = end + 1;
  }
}

void strip_metadata(Graph& graph, bool keeps_modules) {
  for (Node* node : graph.nodes())
    std::erase_if(node->metadata, [&](const auto& entry) {
      return !keeps_modules || entry.first != "nn_module_stack";
    });
}

// ---- what is compared

// Each node's annotation, and its group for each of its edges, sorted by the node's name.
std::string annotate(Graph& graph, Quantizer& quantizer, const Names& names = {}) {
  Annotations annotations;
  Report report;
  quantizer.annotate(graph, annotations, report);
  rename_back(graph, names);
  std::string text = to_text(graph, annotations);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  // Which edges and values share an observer, each group identified by its least member.
  const SharingGroups groups = find_sharing_groups(graph, annotations);
  std::map<int, std::set<std::string>> members;
  for (const SharingGroups::Member& member : groups.members)
    members[member.group].insert(to_text(member.key));
  for (const auto& [group, keys] : members) {
    std::string line = "group:";
    for (const std::string& key : keys) line += fmt::format(" ({})", key);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

// The first line in which they differ; "" when equal.
std::string first_difference(const std::string& got, const std::string& want) {
  size_t at = 0;
  while (at < got.size() && at < want.size() && got[at] == want[at]) ++at;
  if (at == got.size() && at == want.size()) return "";
  const auto line_at = [at](const std::string& text) {
    const size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t from = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(from, text.find('\n', at) - from);
  };
  return fmt::format("got {}, want {}", line_at(got), line_at(want));
}

// The differences after each change, or "".
std::string differences_of(const Graph& graph, const MakeQuantizer& make, bool uses_modules,
                           unsigned seed) {
  std::mt19937 random(seed);
  std::unique_ptr<Graph> original = clone(graph);
  const std::string want = annotate(*original, *make());
  const std::unique_ptr<Graph> renamed = clone(graph);
  const Names names = rename_all(*renamed, random);
  if (const std::string found = first_difference(annotate(*renamed, *make(), names), want);
      !found.empty())
    return "renamed: " + found;
  const std::unique_ptr<Graph> stripped = clone(graph);
  strip_metadata(*stripped, uses_modules);
  if (const std::string found = first_difference(annotate(*stripped, *make()), want);
      !found.empty())
    return "stripped: " + found;
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Graph> moved = clone(graph);
    permute(*moved, random);
    // again, so that lists of users follow the new order
    const std::unique_ptr<Graph> permuted = clone(*moved);
    if (const std::string found = first_difference(annotate(*permuted, *make()), want);
        !found.empty())
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
