// Which backend an op goes to: backends that refuse, in order of preference, and what transfers
// cost.
#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "tests/lowering/lowering_helpers.h"
#include "tests/support/error_message.h"

namespace octet::test_partition {
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// Takes the kinds of ops alone, or all but these; of integers or floats or both.
class Toy : public BackendSupport {
 public:
  enum class Takes { kOnly, kAllBut };
  Toy(std::string name, Takes takes, std::set<std::string> kinds, TransferCost cost = {})
      : name_(std::move(name)), takes_(takes), kinds_(std::move(kinds)), cost_(cost) {}
  std::string name() const override { return name_; }
  std::map<std::string, std::string> versions() const override { return {{name_, "1.2.3"}}; }
  TransferCost transfer_cost() const override { return cost_; }
  Verdict accepts(const Program& program, const ProgramOp& op) const override {
    const bool is_integer_op = program.tensor(op.inputs[0]).qparams.has_value();
    if (kinds_.contains(op.kind) == (takes_ == Takes::kOnly)) return Verdict::accept();
    if (takes_ == Takes::kAllBut && only_integers && !is_integer_op) return Verdict::accept();
    return Verdict::refuse("it lacks " + op.kind);
  }
  bool only_integers = false;  // whether it takes the other kinds too, in floats

 private:
  std::string name_;
  Takes takes_;
  std::set<std::string> kinds_;
  TransferCost cost_;
};

constexpr Toy::Takes kOnly = Toy::Takes::kOnly, kAllBut = Toy::Takes::kAllBut;

std::shared_ptr<const BackendSupport> toy(const char* name, Toy::Takes takes,
                                          std::set<std::string> kinds, TransferCost cost = {}) {
  return std::make_shared<Toy>(name, takes, std::move(kinds), cost);
}

// Lines "backend: ops; reasons", one for each segment.
std::string segments_of(const Program& program) {
  std::string text;
  for (const Segment& segment : program.segments) {
    text += segment.backend + ":";
    for (int index : segment.ops) {
      const std::string& name = program.op(index).name;
      const auto reason = program.reasons.find(name);
      text += " " + name;
      if (reason != program.reasons.end()) text += " (" + reason->second + ")";
    }
    text += "\n";
  }
  return text;
}

std::string segments_of(const Graph& graph, const Supports& supports,
                        Fallback fallback = Fallback::kReference) {
  Report report;
  return segments_of(lower(graph, supports, {.fallback = fallback}, report));
}

const char* const kBranches = R"(graph(%x: f32[2,3], %y: f32[2,3]):
  %a: f32[2,3] = aten.exp.default(%x)
  %b: f32[2,3] = aten.softmax.int(%a, 1)
  %c: f32[2,3] = aten.exp.default(%y)
  %d: f32[2,3] = aten.add.Tensor(%b, %c)
  return (%d))";

// 32 multiply-accumulates, 2048 and 32, with a softmax between each.
const char* const kLinears =
    R"(graph(%u = param "u": f32[4,8], %v = param "v": f32[512,4], %w = param "w": f32[8,4], %x: f32[1,8]):
  %small: f32[1,4] = aten.linear.default(%x, %u)
  %s: f32[1,4] = aten.softmax.int(%small, 1)
  %large: f32[1,512] = aten.linear.default(%s, %v)
  %t: f32[1,512] = aten.softmax.int(%large, 1)
  %part: f32[1,4] = aten.slice.Tensor(%t, 1, 0, 4)
  %last: f32[1,8] = aten.linear.default(%part, %w)
  return (%last))";

}  // namespace

TEST_CASE("refused ops go to the fallback and cut the program into segments",
          "[lowering][partition]") {
  const Graph graph = make_graph(kBranches);
  const Toy picky("picky", kAllBut, {"softmax"});
  Report report;
  const Program program = lower(graph, picky, {}, report);
  REQUIRE(program.segments.size() == 3);
  CHECK(program.segments[0].ops == std::vector<int>{0, 2});  // c does not wait for b
  CHECK(program.segments[1].backend == "reference");
  CHECK(program.reasons.at("b") == "it lacks softmax");
  CHECK(report.entries().size() == 1);
  CHECK_THAT(explain(program),
             Contains("softmax") && Contains("# it lacks softmax") && Contains("3 segments"));
  LowerOptions options;
  options.fallback = Fallback::kNone;
  CHECK_THROWS_WITH(lower(graph, picky, options, report),
                    Contains("refuses 1 op and there is no fallback: b (softmax): it lacks "
                             "softmax; allow the fallback reference"));
}

TEST_CASE("an op that is refused on integers runs in float32 where that is accepted",
          "[lowering][partition]") {
  const Graph graph = make_graph(
      R"(graph(%w = buffer "w": i8[4,3,3,3], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %q: i8[1,3,6,6]):
  %dq: f32[1,3,6,6] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
  %dw: f32[4,3,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %conv: f32[1,4,4,4] = aten.conv2d.default(%dq, %dw)
  %q2: i8[1,4,4,4] = quantized_decomposed.quantize_per_tensor.default(%conv, 0.02, -128, -128, 127, i8)
  return (%q2))");
  const auto floats = std::make_shared<Toy>("floats", kAllBut, std::set<std::string>{"conv"});
  floats->only_integers = true;
  Report report;
  const Program program = lower(graph, *floats, {}, report);
  CHECK(program.segments.size() == 1);
  CHECK_THAT(ops_text(program), Contains("= conv(q_f32 f32[1,3,6,6], w_f32 f32[4,3,3,3] stored as "
                                         "i8 in 4x1x1x1 blocks, none)"));
  CHECK(program.reasons.at("conv") == "runs in float32: it lacks conv");

  // Another backend takes the integers; or none of two does.
  CHECK(segments_of(graph, {floats, toy("npu", kOnly, {"conv"})}) ==
        "npu: conv (floats: it lacks conv)\n");
  CHECK(segments_of(graph, {toy("npu", kOnly, {"softmax"}), floats}) ==
        "floats: conv_dequantize (npu: it lacks dequantize) conv (runs in float32: npu: it lacks "
        "conv; floats: it lacks conv) conv_quantize (npu: it lacks quantize)\n");
}

TEST_CASE("an op goes to the first backend that takes it", "[lowering][partition]") {
  const Graph graph = make_graph(kBranches);
  const auto exps = toy("npu", kOnly, {"unary"}), no_adds = toy("dsp", kAllBut, {"add"});
  CHECK(segments_of(graph, {exps, no_adds}) ==
        "npu: a c\n"
        "dsp: b (npu: it lacks softmax)\n"
        "reference: d (npu: it lacks add; dsp: it lacks add)\n");
  CHECK(segments_of(graph, {no_adds, exps}) ==
        "dsp: a b c\n"
        "reference: d (dsp: it lacks add; npu: it lacks add)\n");
  CHECK_THAT(
      test::error_message([&] { segments_of(graph, {exps, no_adds}, Fallback::kNone); }),
      StartsWith("lower: npu,dsp: refuse 1 op and there is no fallback: d (add): npu: it lacks "
                 "add; dsp: it lacks add; allow"));
  Report report;
  const Program program = lower(graph, {exps, no_adds}, {}, report);
  CHECK(program.backend == "npu,dsp");
  CHECK(program.versions.at("npu") == "1.2.3");
  CHECK(program.versions.at("dsp") == "1.2.3");
  CHECK_THAT(explain(program), Contains("# npu: it lacks softmax\n") && Contains("npu: 2 ops") &&
                                   Contains("dsp: 1 ops") && Contains("reference: 1 ops"));
}

TEST_CASE("the bodies of branches have the same backends", "[lowering][partition]") {
  const Graph graph = make_graph(R"(graph(%yes: b8[], %x: f32[4]):
  [%y: f32[4]] = higher_order.cond(%yes, graph "then" (%a: f32[4]):
    %s: f32[4] = aten.softmax.int(%a, 0)
    return (%s)
  , graph "else" (%b: f32[4]):
    %e: f32[4] = aten.exp.default(%b)
    return (%e)
  , [%x])
  return (%y))");
  Report report;
  const Program program =
      lower(graph, {toy("npu", kOnly, {"unary"}), toy("dsp", kOnly, {"softmax"})}, {}, report);
  REQUIRE(program.bodies.size() == 2);
  CHECK(segments_of(program.bodies[0]) == "dsp: s (npu: it lacks softmax)\n");
  CHECK(segments_of(program.bodies[1]) == "npu: e\n");
  CHECK(program.bodies[0].backend == "npu,dsp");
}

TEST_CASE("a segment that its transfers cost more than its work goes to the next backend",
          "[lowering][partition]") {
  const Graph graph = make_graph(kLinears);
  const auto softmax = toy("dsp", kOnly, {"softmax", "linear"});
  const std::string few = "its segment of 1 op has 32 multiply-accumulates, want ";
  // Only `large` has 1000; the others join the softmax of the next backend.
  CHECK(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_segment = 1000}), softmax}) ==
        "dsp: small (npu: " + few +
            "1000 to make up for the transfer of 48 bytes) s (npu: it "
            "lacks softmax)\n"
            "npu: large\n"
            "dsp: t (npu: it lacks softmax)\n"
            "reference: part (npu: it lacks slice; dsp: it lacks slice)\n"
            "dsp: last (npu: " +
            few + "1000 to make up for the transfer of 48 bytes)\n");
  // large: 16 + 2048 bytes, and 0.9 * 2064 = 1857.6; small: 43.2
  CHECK_THAT(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_byte = 0.9}), softmax}),
             Contains("npu: large\n") && Contains("small (npu: " + few + "44 to make up"));
  CHECK_THAT(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_byte = 1.1}), softmax}),
             Contains("large (npu: its segment of 1 op has 2048 multiply-accumulates, want 2271 to "
                      "make up for the transfer of 2064 bytes)"));
  // Exactly enough, and nothing of an op that has no multiply-accumulates by itself.
  CHECK_THAT(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_segment = 32}), softmax}),
             Contains("npu: small\n") && Contains("npu: last\n"));
}

TEST_CASE("an op counts for the segment of the next backend that it goes to",
          "[lowering][partition]") {
  const Graph graph = make_graph(
      R"(graph(%u = param "u": f32[4,8], %v = param "v": f32[8,4], %x: f32[1,8]):
  %one: f32[1,4] = aten.linear.default(%x, %u)
  %two: f32[1,8] = aten.linear.default(%one, %v)
  %e: f32[1,8] = aten.exp.default(%two)
  return (%e))");
  // The second takes all three for 64, which the exp alone would not be worth.
  const TransferCost cost{.macs_per_segment = 64};
  const std::string few = "its segment of 2 ops has 64 multiply-accumulates, want ";
  CHECK(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_segment = 65}),
                            toy("dsp", kAllBut, {}, cost)}) ==
        "dsp: one (npu: " + few + "65 to make up for the transfer of 64 bytes) two (npu: " + few +
            "65 to make up for the transfer of 64 bytes) e (npu: it lacks unary)\n");
  // The fallback gets all where the second is too expensive as well.
  CHECK_THAT(segments_of(graph, {toy("npu", kOnly, {"linear"}, {.macs_per_segment = 65}),
                                 toy("dsp", kAllBut, {}, {.macs_per_segment = 100})}),
             StartsWith("reference: one (npu: ") && Contains("; dsp: its segment of 3 ops has 64"));
  // With one backend, its reason has no name; and it is an error without a fallback.
  const Supports one = {toy("npu", kAllBut, {}, {.macs_per_segment = 1e6})};
  CHECK_THAT(segments_of(graph, one), StartsWith("reference: one (its segment of 3 ops has 64"));
  CHECK_THAT(test::error_message([&] { segments_of(graph, one, Fallback::kNone); }),
             StartsWith("lower: npu: refuses 3 ops and there is no fallback: one (linear): its "
                        "segment of 3 ops has 64 multiply-accumulates, want 1000000 to"));
}

TEST_CASE("a cost that is not a number of at least 0 names the backend", "[lowering][partition]") {
  const Graph graph = make_graph(kBranches);
  const auto message = [&](TransferCost cost) {
    return test::error_message([&] { segments_of(graph, {toy("npu", kAllBut, {}, cost)}); });
  };
  CHECK(message({.macs_per_segment = -1}) ==
        "lower: npu: its transfer_cost() has -1, want numbers of at least 0");
  CHECK(message({.macs_per_byte = std::nan("")}) ==
        "lower: npu: its transfer_cost() has nan, want numbers of at least 0");
}

TEST_CASE("a list of backends that means nothing is one line", "[lowering][partition]") {
  const Graph graph = make_graph(kBranches);
  const auto npu = toy("npu", kOnly, {"unary"});
  const auto message = [&](const Supports& supports) {
    return test::error_message([&] { segments_of(graph, supports); });
  };
  CHECK(message({}) == "lower: the backends: the list is empty; name at least one");
  CHECK(message({npu, make_support("reference"), npu}) ==
        "lower: reference: is the fallback, not one of several backends; leave it out of the list");
  CHECK(message({npu, npu}) == "lower: npu: is named twice; name each backend once");
  CHECK(test::error_message([] { make_supports(""); }) ==
        "backend: \"\": has an empty name, want e.g. acme_npu,xnnpack");
  CHECK(test::error_message([] { make_supports("reference,"); }) ==
        "backend: \"reference,\": has an empty name, want e.g. acme_npu,xnnpack");
  CHECK_THAT(test::error_message([] { make_supports("reference,tpu"); }),
             StartsWith("backend: tpu: is not in this build, want one of "));
  CHECK(make_supports("reference").size() == 1);
}

namespace {

// A backend of the build, for these kinds alone.
class Part : public BackendSupport {
 public:
  Part(const std::string& name, std::set<std::string> kinds)
      : whole_(make_support(name)), kinds_(std::move(kinds)) {}
  std::string name() const override { return whole_->name(); }
  std::map<std::string, std::string> versions() const override { return whole_->versions(); }
  Verdict accepts(const Program& program, const ProgramOp& op) const override {
    return kinds_.contains(op.kind) ? whole_->accepts(program, op)
                                    : Verdict::refuse("not its part");
  }
  bool wants_channels_last_filter(const Program& program, const ProgramOp& op) const override {
    return whole_->wants_channels_last_filter(program, op);
  }

 private:
  std::unique_ptr<BackendSupport> whole_;
  std::set<std::string> kinds_;
};

}  // namespace

TEST_CASE("a file of two backends loads, runs, keeps its states and has duplicates",
          "[lowering][partition]") {
  const std::vector<std::string> names = backend_names();
  if (names.size() < 3) return;  // onednn, xnnpack and reference
  const Graph graph = make_graph(
      R"(graph(%w = param "w": f32[8,3,3,3], %v = param "v": f32[8,8,1,1], %total = buffer "total": f32[1,8,4,4], %x: f32[1,3,6,6]):
  %c: f32[1,8,4,4] = aten.conv2d.default(%x, %w)
  %e: f32[1,8,4,4] = aten.sigmoid.default(%c)
  %d: f32[1,8,4,4] = aten.conv2d.default(%e, %v)
  %sum: f32[1,8,4,4] = aten.add.Tensor(%d, %total)
  return (mutate "total" = %sum, %sum))");
  for (const auto& [first, second] :
       {std::pair("onednn", "xnnpack"), std::pair("xnnpack", "onednn")}) {
    CAPTURE(first, second);
    Report report;
    const Supports supports = {std::make_shared<Part>(first, std::set<std::string>{"conv"}),
                               make_support(second)};
    const std::string bytes = program_bytes(lower(graph, supports, {}, report));
    Session session(load_program(std::as_bytes(std::span(bytes))));
    Session other = session.duplicate();
    CHECK(session.program().backend == std::string(first) + "," + second);
    std::set<std::string> used;
    for (const Segment& segment : session.program().segments) used.insert(segment.backend);
    CHECK(used == std::set<std::string>{first, second});
    Interpreter interpreter(graph);
    const at::Tensor x = at::randn({1, 3, 6, 6});
    for (int run = 0; run < 3; ++run) {
      const at::Tensor want = interpreter.run({x}).at(0).toTensor();
      for (Session* each : {&session, &other}) {
        const at::Tensor got = to_aten(each->run({from_aten(x)}).at(0));
        CHECK(at::allclose(got, want, 1e-4, 1e-4));
      }
    }
    session.time_kernels(true);
    session.run({from_aten(x)});
    std::string notes;
    for (const KernelReport& kernel : session.kernels()) notes += kernel.note + "\n";
    CHECK_THAT(notes, Contains(std::string("not on ") + first + ": not its part"));
  }
}

}  // namespace octet::test_partition
