// The memory of XNNPACK, and the pages of a file that are released once weights are packed.
#include <cstdint>
#include <cstring>
#include <filesystem>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"
#include "backends/xnnpack/memory.h"
#include "core/base/mapped_file.h"
#include "lowering/program/artifact.h"
#include "tests/backends/small_programs.h"

namespace octet {
namespace {

constexpr size_t kLarge = size_t{1} << 20;

bool holds(const void* block, size_t size, unsigned char value) {
  const unsigned char* bytes = static_cast<const unsigned char*>(block);
  return bytes[0] == value && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

}  // namespace

TEST_CASE("XNNPACK's blocks are aligned and apart, whatever their size and order of release",
          "[backends][xnnpack][memory]") {
  const xnn_allocator& source = *xnnpack::memory_source();
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t i = 0; i < 60; ++i) {
    const size_t size = i % 3 == 0 ? 100 + i : kLarge + 4097 * i;
    void* block = source.aligned_allocate(source.context, 64, size);
    REQUIRE(block != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
    std::memset(block, static_cast<int>(i), size);
    blocks.push_back({block, size});
  }
  for (size_t i = 0; i < blocks.size(); i += 2)
    source.aligned_deallocate(source.context, blocks[i].first);
  for (size_t i = 1; i < blocks.size(); i += 2) {
    CHECK(holds(blocks[i].first, blocks[i].second, static_cast<unsigned char>(i)));
    source.aligned_deallocate(source.context, blocks[i].first);
  }
  source.deallocate(source.context, nullptr);
}

TEST_CASE("XNNPACK's blocks keep their bytes when they grow and shrink",
          "[backends][xnnpack][memory]") {
  const xnn_allocator& source = *xnnpack::memory_source();
  void* block = source.reallocate(source.context, nullptr, 1000);
  std::memset(block, 7, 1000);
  block = source.reallocate(source.context, block, kLarge);
  CHECK(holds(block, 1000, 7));
  source.deallocate(source.context, block);
  block = source.reallocate(source.context, nullptr, kLarge);
  std::memset(block, 9, kLarge);
  block = source.reallocate(source.context, block, 3 * kLarge);
  CHECK(holds(block, kLarge, 9));
  block = source.reallocate(source.context, block, 10);
  CHECK(holds(block, 10, 9));
  source.deallocate(source.context, block);
}

TEST_CASE("constants of a file can be read again after their pages were given back, others stay",
          "[backends][memory][artifact]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kInt8, {1, 64}, quantized(0.1f, 0));
  const Tensor values = random_integers(DType::kInt8, {512, 64}, 3, -127);
  const int w = b.constant("w", values, quantized(0.01f, 0));
  b.output(b.op("linear", {x, w, -1}, "y", DType::kInt8, {1, 512}, quantized(0.1f, 0)));
  const Program program = with_one_segment(b.finish(), "xnnpack");
  const std::filesystem::path path = temporary_file("released.octet");
  save_program(program, path);
  const Program mapped = load_program(path);
  const Tensor input = random_integers(DType::kInt8, {1, 64}, 9);
  const Tensor first = Session(mapped).run({input})[0], again = Session(mapped).run({input})[0],
               want = Session(program).run({input})[0];
  CHECK(std::memcmp(first.raw(), want.raw(), want.nbytes()) == 0);
  CHECK(std::memcmp(again.raw(), want.raw(), want.nbytes()) == 0);
  release_pages(mapped.tensor(w).data);
  CHECK(std::memcmp(mapped.tensor(w).data.raw(), values.raw(), values.nbytes()) == 0);
  const std::string bytes = read_bytes(path);
  const Program in_memory = load_program(std::as_bytes(std::span(bytes)));
  for (const Tensor& tensor : {values, in_memory.tensor(w).data, Tensor()}) release_pages(tensor);
  CHECK(std::memcmp(in_memory.tensor(w).data.raw(), values.raw(), values.nbytes()) == 0);
  std::filesystem::remove(path);
}

}  // namespace octet
