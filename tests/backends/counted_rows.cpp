#include "tests/backends/counted_rows.h"

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64;

// places [u0, 1], x -> twice the rows of x that are named, and their sum.
Program named_rows(const std::string& backend, bool open) {
  ProgramBuilder b;
  const int places = b.input("places", kI64, {4, 1}), x = b.input("x", kF32, {4, 3});
  const int index = b.op("reshape", {places}, "index", kI64, {4});
  const int rows = b.op("index", {x, index}, "rows", kF32, {4, 3});
  const int chosen = b.op("add", {rows, rows}, "chosen", kF32, {4, 3});
  b.output(chosen);
  b.output(b.op("reduce", {chosen}, "sum", kF32, {3}, {},
                {{"fn", std::string("sum")}, {"dims", ints({0})}}));
  Program program = b.finish();
  program.segments = {{"reference", {0, 1}, {places, x}, {rows}},
                      {backend, {2, 3}, {rows}, program.outputs}};
  program.backend = backend;
  const SizeExpr count = SizeExpr::symbol("u0");
  program.tensor(places).sizes = {count, 1};
  program.tensor(index).sizes = {count};
  for (int tensor : {rows, chosen}) program.tensor(tensor).sizes = {count, 3};
  if (open) {
    program.symbols = {{"n", 1, 9, 4}};
    program.tensor(x).sizes = {SizeExpr::symbol("n"), 3};
  }
  program.symbols.push_back({"u0", 0, open ? 9 : 4, 4});
  return program;
}

}  // namespace

Program counted_rows(const std::string& backend, bool open) {
  ProgramBuilder b;
  const int x = b.input("x", kF32, {4, 3}), mask = b.input("mask", DType::kBool, {4});
  const int places = b.op("nonzero", {mask}, "places", kI64, {4, 1});
  const int count = b.second_output("count", {}, kI64);
  const Attributes rest = {{"bodies", ints({b.body(named_rows(backend, false))})},
                           {"counts", int64_t{1}}};
  b.output(b.op("rest", {count, places, x}, "chosen", kF32, {4, 3}, {}, rest));
  b.output(b.second_output("sum", {3}));
  Program program = b.finish();
  program.segments = {{"reference", {0}, {mask}, {places, count}},
                      {"control", {1}, {count, places, x}, program.outputs}};
  program.backend = backend;
  if (!open) return program;
  const SizeExpr n = SizeExpr::symbol("n");
  program.symbols = {{"n", 1, 9, 4}};
  program.tensor(mask).sizes = {n};
  program.tensor(places).sizes = {n, 1};
  for (int tensor : {x, program.outputs[0]}) program.tensor(tensor).sizes = {n, 3};
  program.bodies[0] = named_rows(backend, true);
  verify(program);
  return program;
}

}  // namespace octet
