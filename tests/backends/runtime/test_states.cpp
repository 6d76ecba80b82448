// What a session keeps from run to run: it continues, restarts, and survives a failed run; its
// form in a file, and errors for damaged files.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "backends/runtime/state_memory.h"
#include "lowering/program/artifact.h"
#include "tests/backends/small_programs.h"

namespace octet::test_states {
namespace {

using Catch::Matchers::Contains;

Tensor filled(float value) {
  return Tensor::from<float>(DType::kFloat32, {2, 3}, std::vector<float>(6, value));
}

std::vector<float> plus(std::vector<float> values, float number) {
  for (float& value : values) value += number;
  return values;
}

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// x f32[1, 4] -> y = x + mean, where mean becomes 0.5 * mean + x; on the backend.
Program running_mean(const std::string& backend) {
  constexpr DType kF32 = DType::kFloat32;
  ProgramBuilder b;
  const int x = b.input("x", kF32, {1, 4}), mean = b.state("mean", kF32, {1, 4});
  const int half = b.constant("half", Tensor::from<float>(kF32, {1}, std::vector<float>{0.5f}));
  const int part = b.op("mul", {mean, half}, "part", kF32, {1, 4});
  b.becomes(mean, b.op("add", {part, x}, "next", kF32, {1, 4}));
  b.output(b.op("add", {x, mean}, "y", kF32, {1, 4}));
  const Program program = b.finish();
  REQUIRE(refusal(program, backend) == std::nullopt);
  return with_one_segment(program, backend);
}

}  // namespace

TEST_CASE("each run reads the states as the one before left them", "[backends][states]") {
  const Program program = with_states();
  const std::vector<float> begin = floats_of(program.tensor(program.states[0].start).data);
  Session session(program);
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 3; ++i) {
      const std::vector<Tensor> outputs = session.run({filled(static_cast<float>(i + 1))});
      std::vector<float> total = begin;
      for (int64_t k = 0; k <= i; ++k) total = plus(total, static_cast<float>(k + 1));
      CHECK(floats_of(outputs[0]) == total);
      CHECK(floats_of(outputs[1]) == floats_of(filled(static_cast<float>(i))));
      CHECK(outputs[2].data<int64_t>()[0] == i);
      CHECK(floats_of(outputs[3]) == (i % 2 == 0 ? begin : std::vector<float>(6, 0)));
    }
    session.reset_states();
  }
}

TEST_CASE("another session of a program has separate states", "[backends][states]") {
  Session first(with_states());
  first.run({filled(1)});
  Session second = first.duplicate();
  CHECK(second.run({filled(1)})[2].data<int64_t>()[0] == 0);
  CHECK(first.run({filled(1)})[2].data<int64_t>()[0] == 1);
}

TEST_CASE("states are kept between runs on every backend", "[backends][states]") {
  for (const std::string& backend : backend_names()) {
    if (backend == "torch") continue;
    INFO(backend);
    Session session(running_mean(backend));
    std::vector<float> mean(4, 0);
    for (uint32_t i = 0; i < 4; ++i) {
      const Tensor x = random_floats({1, 4}, -1, 1, i + 1);
      const Tensor y = session.run({x})[0];
      for (size_t k = 0; k < 4; ++k) {
        CHECK(y.data<float>()[k] == Approx(x.data<float>()[k] + mean[k]));
        mean[k] = 0.5f * mean[k] + x.data<float>()[k];
      }
    }
  }
}

TEST_CASE("a run that fails leaves the states as they were", "[backends][states]") {
  ProgramBuilder b;
  const int rows = b.input("rows", DType::kInt64, {1}),
            table = b.constant("table", random_floats({2, 3}));
  const int count = b.state("count", DType::kInt64, {1});
  b.becomes(count, b.op("add", {count, rows}, "sum", DType::kInt64, {1}));
  b.output(b.op("embedding", {table, rows}, "found", DType::kFloat32, {1, 3}));
  b.output(count);
  Session session(with_one_segment(b.finish(), "reference"));
  const auto run = [&](int64_t row) {
    return session.run({Tensor::from<int64_t>(DType::kInt64, {1}, std::vector<int64_t>{row})});
  };
  run(1);
  CHECK_THAT(error_of([&] { run(7); }), Contains("7"));
  CHECK(run(0)[1].data<int64_t>()[0] == 1);
}

namespace {

// cache f32[1, 2, 8, 3], whose rows `at` become `rows`; y is the whole cache, then a row of a table
// is read that exists for 0 and 1 only.
Program cached_rows(int64_t count, bool is_read_before) {
  constexpr DType kF32 = DType::kFloat32;
  ProgramBuilder b;
  const int rows = b.input("rows", kF32, {1, 2, count, 3}),
            at = b.input("at", DType::kInt64, {count}), row = b.input("row", DType::kInt64, {1}),
            table = b.constant("table", random_floats({2, 3}));
  const int cache = b.state("cache", kF32, {1, 2, 8, 3});
  const int next = b.op("index_put", {cache, rows, -1, -1, at}, "next", kF32, {1, 2, 8, 3});
  b.becomes(cache, next);
  b.output(b.op("unary", {next}, "y", kF32, {1, 2, 8, 3}, {}, {{"fn", std::string("neg")}}));
  b.output(b.op("embedding", {table, row}, "found", kF32, {1, 3}));
  if (is_read_before)
    b.output(
        b.op("unary", {cache}, "before", kF32, {1, 2, 8, 3}, {}, {{"fn", std::string("abs")}}));
  return with_one_segment(b.finish(), "reference");
}

Tensor indices_of(std::vector<int64_t> values) {
  return Tensor::from<int64_t>(DType::kInt64, {std::ssize(values)}, values);
}

}  // namespace

TEST_CASE("rows are written into a cache in place", "[backends][states]") {
  for (const bool is_read_before : {false, true}) {
    const Program program = cached_rows(2, is_read_before);
    CHECK(is_written_in_place(program, program.states[0]) == !is_read_before);
    Session session(program);
    std::vector<float> cache(48, 0);
    for (const std::vector<int64_t>& at : {std::vector<int64_t>{0, 1}, {2, 3}, {7, -6}, {4, 4}}) {
      const Tensor rows = random_floats({1, 2, 2, 3}, -1, 1, static_cast<uint32_t>(at[0]) + 1);
      const std::vector<Tensor> outputs = session.run({rows, indices_of(at), indices_of({1})});
      if (is_read_before)
        for (size_t i = 0; i < 48; ++i) CHECK(outputs[2].data<float>()[i] == std::fabs(cache[i]));
      for (size_t head = 0; head < 2; ++head)
        for (size_t i = 0; i < 2; ++i)
          std::copy_n(rows.data<float>() + (head * 2 + i) * 3, 3,
                      cache.begin() + static_cast<std::ptrdiff_t>(
                                          (head * 8 + static_cast<size_t>((at[i] + 8) % 8)) * 3));
      for (size_t i = 0; i < 48; ++i) CHECK(outputs[0].data<float>()[i] == -cache[i]);
    }
  }
}

TEST_CASE("a failed run takes back what it wrote into a cache", "[backends][states]") {
  Session session(cached_rows(2, false));
  const auto run = [&](float value, std::vector<int64_t> at, int64_t row) {
    const Tensor rows =
        Tensor::from<float>(DType::kFloat32, {1, 2, 2, 3}, std::vector<float>(12, value));
    return session.run({rows, indices_of(std::move(at)), indices_of({row})});
  };
  const std::vector<float> first = floats_of(run(1, {2, 3}, 0)[0]);
  CHECK_THAT(error_of([&] { run(2, {3, 8}, 0); }),
             Contains("index 8 is outside of a dimension of 8 elements"));
  CHECK_THAT(error_of([&] { run(3, {3, 3}, 2); }), Contains("index 2 is outside"));
  CHECK_THAT(error_of([&] { run(4, {0, 2}, 5); }), Contains("index 5 is outside"));
  CHECK(floats_of(run(1, {3, 2}, 1)[0]) == first);
}

TEST_CASE("a state keeps two copies where its value is needed after the write",
          "[backends][states]") {
  const Program program = cached_rows(2, false);
  const auto is_in_place = [&](const std::function<void(Program&)>& change) {
    Program changed = program;
    change(changed);
    return is_written_in_place(changed, changed.states[0]);
  };
  CHECK(is_in_place([](Program&) {}));
  CHECK_FALSE(is_in_place([](Program& p) { p.outputs.push_back(p.states[0].value); }));
  CHECK_FALSE(is_in_place([](Program& p) { p.outputs.push_back(p.states[0].next); }));
  CHECK_FALSE(is_in_place([](Program& p) { p.states.push_back(p.states[0]); }));
  CHECK_FALSE(is_in_place([](Program& p) { p.ops[0].attributes["accumulate"] = true; }));
  Program accumulating = program;
  accumulating.ops[0].attributes["accumulate"] = true;
  CHECK(peak_bytes(accumulating) == peak_bytes(program) + 48 * sizeof(float));
  CHECK_FALSE(is_in_place([](Program& p) { p.ops[0].inputs[1] = p.states[0].value; }));
  CHECK_FALSE(is_in_place([](Program& p) { p.segments[0].backend = "other"; }));
}

TEST_CASE("states stay when other sizes are bound", "[backends][states]") {
  Program program = open_columns();
  ProgramTensor value{"seen", DType::kFloat32, {1}, {}, ProgramTensor::Role::kState, {}};
  ProgramTensor next{"seen_next", DType::kFloat32, {1}, {}, ProgramTensor::Role::kOutput, {}};
  program.tensors.push_back(std::move(value));
  program.tensors.push_back(std::move(next));
  const int state = static_cast<int>(program.tensors.size()) - 2;
  const int one = static_cast<int>(program.tensors.size());
  program.tensors.push_back({"one",
                             DType::kFloat32,
                             {1},
                             {},
                             ProgramTensor::Role::kConstant,
                             Tensor::from<float>(DType::kFloat32, {1}, std::vector<float>{1})});
  ProgramOp op;
  op.kind = "add";
  op.name = "count";
  op.inputs = {state, one};
  op.outputs = {state + 1};
  program.ops.push_back(op);
  program.segments.push_back(
      {"reference", {static_cast<int>(program.ops.size()) - 1}, {state}, {state + 1}});
  program.states.push_back({"seen", state, state + 1, -1});
  program.outputs.push_back(state + 1);
  Session session(program);
  float expected = 0;
  for (int64_t m : {4, 5, 4, 6})
    CHECK(session.run({random_floats({2, m}), random_floats({2, 3})}).back().data<float>()[0] ==
          ++expected);
}

TEST_CASE("a duplicate continues from copied states, and then has its own", "[backends][states]") {
  Session first(running_mean("reference"));
  const Tensor x = Tensor::from<float>(DType::kFloat32, {1, 4}, std::vector<float>(4, 1));
  first.run({x});
  Session second = first.duplicate();
  second.copy_states(first);
  for (int i = 0; i < 3; ++i) CHECK(floats_of(second.run({x})[0]) == floats_of(first.run({x})[0]));
  second.run({x});
  CHECK(floats_of(second.run({x})[0]) != floats_of(first.run({x})[0]));
  Session other(with_states());
  CHECK_THROWS_WITH(other.copy_states(first), Contains("the sessions have different states"));
}

TEST_CASE("a cache that was cut continues like one that never had more", "[backends][states]") {
  for (const bool is_read_before : {false, true}) {
    Program program = cached_rows(2, is_read_before);
    for (const bool has_start : {false, true}) {
      if (has_start) {
        program.tensors.push_back({"first",
                                   DType::kFloat32,
                                   {1, 2, 8, 3},
                                   {},
                                   ProgramTensor::Role::kConstant,
                                   random_floats({1, 2, 8, 3})});
        program.states[0].start = static_cast<int>(program.tensors.size()) - 1;
      }
      Session cut(program), whole = cut.duplicate();
      const auto run = [](Session& session, std::vector<int64_t> at) {
        const Tensor rows =
            random_floats({1, 2, 2, 3}, -1, 1, static_cast<uint32_t>(at[0] + 10 * at[1]));
        return floats_of(session.run({rows, indices_of(std::move(at)), indices_of({1})})[0]);
      };
      run(whole, {0, 1});
      for (const std::vector<int64_t>& at : {std::vector<int64_t>{0, 1}, {2, 3}, {7, 5}})
        run(cut, at);
      CHECK_THAT(error_of([&] { cut.truncate_states(9); }),
                 Contains("session: truncate_states: got 9 positions, want 0 to 8"));
      CHECK_THAT(error_of([&] { cut.truncate_states(-1); }), Contains("got -1 positions"));
      cut.truncate_states(8);
      CHECK(run(cut, {6, 6}) != run(whole, {6, 6}));
      cut.truncate_states(2);
      whole.truncate_states(3);
      CHECK(run(cut, {4, 3}) == run(whole, {4, 3}));
      cut.truncate_states(0);
      whole.reset_states();
      CHECK(run(cut, {5, 1}) == run(whole, {5, 1}));
    }
  }
}

TEST_CASE("states without a row for each position cannot be cut", "[backends][states]") {
  const auto refusal_of = [](Program program) {
    Session session(std::move(program));
    return error_of([&] { session.truncate_states(0); });
  };
  CHECK_THAT(refusal_of(with_states()), Contains("session: state module.total: has no row for"));
  CHECK_THAT(refusal_of(running_mean("reference")), Contains("state module.mean:"));
  CHECK_THAT(refusal_of(open_columns()), Contains("truncate_states: the program has no cache"));
  Program accumulating = cached_rows(2, false);
  accumulating.ops[0].attributes["accumulate"] = true;
  CHECK_THAT(refusal_of(accumulating), Contains("state module.cache:"));
  using RowOf = std::function<int(ProgramBuilder&, int at)>;
  const auto refusal_at = [&](const RowOf& row_of, std::vector<int64_t> shape = {2}) {
    ProgramBuilder b;
    const int rows = b.input("rows", DType::kFloat32, {2, 3}),
              row = row_of(b, b.input("at", DType::kInt64, std::move(shape)));
    for (const char* name : {"keys", "values"}) {
      const int cache = b.state(name, DType::kFloat32, {8, 3});
      b.becomes(cache, b.op("index_put", {cache, rows, row}, std::string("next_") + name,
                            DType::kFloat32, {8, 3}));
    }
    return refusal_of(with_one_segment(b.finish(), "reference"));
  };
  const auto sum_with = [](std::vector<int64_t> numbers, Attributes attributes = {}) -> RowOf {
    return [=](ProgramBuilder& b, int at) {
      return b.op("add", {b.constant("numbers", indices_of(numbers)), at}, "row", DType::kInt64,
                  {2}, {}, attributes);
    };
  };
  CHECK(refusal_at([](ProgramBuilder&, int at) { return at; }) == "no Error");
  CHECK(refusal_at(sum_with({0, 1})) == "no Error");
  CHECK(refusal_at(sum_with({0, 1}), {}) == "no Error");   // the position of the first row
  const RowOf remainder = [](ProgramBuilder& b, int at) {  // a ring buffer
    return b.op("binary", {at, b.constant("four", indices_of({4}))}, "row", DType::kInt64, {2}, {},
                {{"fn", std::string("remainder")}});
  };
  const RowOf doubled = [](ProgramBuilder& b, int at) {
    for (int i = 0; i < 50; ++i)
      at = b.op("add", {at, at}, "row" + std::to_string(i), DType::kInt64, {2});
    return at;
  };
  const RowOf cut = [](ProgramBuilder& b, int at) {
    const int numbers = b.constant("numbers", indices_of({0, 1, 2}));
    const int last = b.op("slice", {numbers}, "last", DType::kInt64, {2}, {},
                          {{"dim", int64_t{0}}, {"start", int64_t{1}}, {"step", int64_t{1}}});
    return b.op("add", {last, at}, "row", DType::kInt64, {2});
  };
  for (const RowOf& row_of : {remainder, doubled, cut, sum_with({4, 4}), sum_with({-1, 0}),
                              sum_with({0, 1}, {{"alpha", 2.0}})})
    CHECK_THAT(refusal_at(row_of), Contains("state module.keys: has no row for"));
  // A mark for each token that there was, for a penalty, beside a cache.
  ProgramBuilder b;
  const int rows = b.input("rows", DType::kFloat32, {2, 3}), at = b.input("at", DType::kInt64, {2}),
            ids = b.input("ids", DType::kInt64, {2}), ones = b.constant("ones", random_floats({2}));
  const int cache = b.state("cache", DType::kFloat32, {8, 3});
  const int seen = b.state("seen", DType::kFloat32, {40});
  b.becomes(cache, b.op("index_put", {cache, rows, at}, "next", DType::kFloat32, {8, 3}));
  b.becomes(seen, b.op("index_put", {seen, ones, ids}, "marked", DType::kFloat32, {40}));
  CHECK_THAT(refusal_of(with_one_segment(b.finish(), "reference")),
             Contains("state module.seen: takes its rows from input ids, want at like"));
}

TEST_CASE("C: truncate_states rolls a cache back", "[backends][states][c]") {
  const std::string bytes = artifact_bytes(cached_rows(1, false));
  octet_model* const model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  const float rows[6] = {1, 1, 1, 1, 1, 1};
  int64_t at = 2, row = 0;
  float cache[48], found[3];
  const void* const inputs[] = {rows, &at, &row};
  void* const outputs[] = {cache, found};
  for (at = 0; at < 3; ++at) REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
  REQUIRE(octet_truncate_states(model, 1) == OCTET_OK);
  CHECK(octet_truncate_states(model, 9) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("got 9 positions, want 0 to 8"));
  at = 3;
  REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
  CHECK(std::count(cache, cache + 48, -1.0f) == 2 * 2 * 3);
  octet_free(model);
  CHECK(octet_truncate_states(nullptr, 0) == OCTET_FAILED);
}

TEST_CASE("C: copy_states continues in a duplicate", "[backends][states][c]") {
  const std::string bytes = artifact_bytes(with_states());
  octet_model* const first = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  octet_model* const second = octet_duplicate(first);
  REQUIRE(second != nullptr);
  const float x[6] = {};
  float sum[6], last[6], begin[6];
  int64_t count = -1;
  const void* const inputs[] = {x};
  void* const outputs[] = {sum, last, &count, begin};
  for (int64_t i = 0; i < 3; ++i) REQUIRE(octet_run(first, inputs, outputs) == OCTET_OK);
  REQUIRE(octet_copy_states(second, first) == OCTET_OK);
  REQUIRE(octet_run(second, inputs, outputs) == OCTET_OK);
  CHECK(count == 3);
  CHECK(octet_copy_states(second, nullptr) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("from: is null"));
  octet_free(first);
  octet_free(second);
}

TEST_CASE("C: reset_states restores the initial states", "[backends][states][c]") {
  const std::string bytes = artifact_bytes(with_states());
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  REQUIRE(model != nullptr);
  CHECK(octet_input_count(model) == 1);
  CHECK(octet_output_count(model) == 4);
  const float x[6] = {};
  float sum[6], last[6], first[6];
  int64_t count = -1;
  const void* const inputs[] = {x};
  void* const outputs[] = {sum, last, &count, first};
  for (int64_t i = 0; i < 3; ++i) {
    REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
    CHECK(count == i);
  }
  REQUIRE(octet_reset_states(model) == OCTET_OK);
  REQUIRE(octet_run(model, inputs, outputs) == OCTET_OK);
  CHECK(count == 0);
  octet_free(model);
  CHECK(octet_reset_states(nullptr) == OCTET_FAILED);
  CHECK_THAT(octet_last_error(), Contains("model: is null"));
}

TEST_CASE("a file with states says so by its version and reads back equal",
          "[backends][states][artifact]") {
  const std::string file = artifact_bytes(with_states());
  CHECK_THAT(file, Contains("\"version\":\"4\""));
  const Program loaded = load_program(span_of(file));
  CHECK(to_text(loaded) == to_text(with_states()));
  CHECK_THAT(to_text(loaded), Contains("state module.total is total f32[2,3], then sum; starts as "
                                       "begin\nstate module.last is last f32[2,3], then x; starts "
                                       "as zeros\n"));
  CHECK(artifact_bytes(loaded) == file);
  CHECK(peak_bytes(loaded) == 12 * 24 + 3 * 8 + 3 * 48);  // and three tensors in 64 bits
}

TEST_CASE("states that contradict the program are refused", "[backends][states][artifact]") {
  const auto fault = [](const std::function<void(Program&)>& change) {
    Program program = with_states();
    change(program);
    try {
      verify(program);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(fault([](Program&) {}) == "none");
  CHECK_THAT(fault([](Program& p) { p.states[0].value = 99; }), Contains("out of range"));
  CHECK_THAT(fault([](Program& p) { p.states[0].next = -1; }), Contains("out of range"));
  CHECK_THAT(fault([](Program& p) { p.states[0].start = 99; }), Contains("out of range"));
  CHECK_THAT(fault([](Program& p) { p.states[1].value = p.states[0].value; }),
             Contains("total is a state and something else"));
  CHECK_THAT(fault([](Program& p) { p.states[0].value = p.inputs[0]; }),
             Contains("has another role"));
  CHECK_THAT(fault([](Program& p) { p.inputs.push_back(p.states[0].value); }),
             Contains("is a state and something else"));
  CHECK_THAT(fault([](Program& p) { p.states[0].next = p.states[2].next; }),
             Contains("differ in dtype or shape"));
  CHECK_THAT(fault([](Program& p) { p.states[2].start = p.states[0].start; }),
             Contains("differ in dtype or shape"));
  CHECK_THAT(fault([](Program& p) { p.states[0].start = p.inputs[0]; }),
             Contains("which is not a constant"));
  CHECK_THAT(fault([](Program& p) { p.states[0].name = p.states[1].name; }),
             Contains("without a unique name"));
  CHECK_THAT(fault([](Program& p) { p.states.clear(); }), Contains("before it is made"));
  std::string file = artifact_bytes(with_states());
  const std::string good = "\\\"value\\\":", bad = "\\\"valus\\\":";
  file.replace(file.find(good), good.size(), bad);
  CHECK_THAT(error_of([&] { load_program(span_of(file), {.verifies_checksum = false}); }),
             Contains("malformed"));
}

}  // namespace octet::test_states
