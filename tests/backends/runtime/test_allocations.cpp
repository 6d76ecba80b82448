// Heap allocations: none after the first run of a session, and none of a size that only a hostile
// file claims. Watches malloc and the like in the whole process. Not for sanitizers, which replace
// them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "backends/runtime/session.h"
#include "lowering/program/control.h"
#include "lowering/program/filter_order.h"
#include "tests/backends/runtime/limited_programs.h"
#include "tests/backends/small_programs.h"
#include "tests/fuzz/seed_programs.h"

using namespace octet;

namespace {

std::atomic<int> allocations{0};
std::atomic<size_t> largest{0};  // bytes of one allocation
std::atomic<size_t> taken{0};    // bytes of all of them
std::atomic<int> allocations_of_onednn{0};
std::atomic<bool> looks_for_onednn{false};
uintptr_t onednn_begin = 0, onednn_end = 0;  // where the library is

int find_onednn(dl_phdr_info* info, size_t, void*) {
  if (std::string_view(info->dlpi_name).find("libdnnl") == std::string_view::npos) return 0;
  onednn_begin = onednn_end = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_LOAD)
      onednn_end = std::max<uintptr_t>(
          onednn_end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  return 1;
}

// Counts one more; it is oneDNN's when any of its functions is among the callers.
void count(size_t size) {
  ++allocations;
  taken += size;
  if (size > largest) largest = size;
  if (!looks_for_onednn) return;
  void* callers[32];
  const int depth = backtrace(callers, 32);
  for (int i = 0; i < depth; ++i) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(callers[i]);
    if (address < onednn_begin || address >= onednn_end) continue;
    ++allocations_of_onednn;
    return;
  }
}

}  // namespace

// glibc's functions under other names, so that ours can count and call them.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}
void* calloc(size_t items, size_t size) {
  count(items * size);
  return __libc_calloc(items, size);
}
void* realloc(void* block, size_t size) {
  count(size);
  return __libc_realloc(block, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  count(size);
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? 12 : 0;
}
}

namespace {

// Allocations of the second and third run that are not oneDNN's.
int allocations_of(const std::string& bytes) {
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  INFO(octet_last_error());
  REQUIRE(model != nullptr);
  octet_tensor_info info{};
  info.size = sizeof(octet_tensor_info);
  std::vector<std::vector<std::byte>> memory;
  std::vector<const void*> given;
  std::vector<void*> wanted;
  for (size_t i = 0; i < octet_input_count(model); ++i) {
    REQUIRE(octet_input(model, i, &info) == OCTET_OK);
    given.push_back(memory.emplace_back(info.bytes + 1).data());
  }
  for (size_t i = 0; i < octet_output_count(model); ++i) {
    REQUIRE(octet_output(model, i, &info) == OCTET_OK);
    wanted.push_back(memory.emplace_back(info.bytes + 1).data());
  }
  const void* const* const inputs = given.data();
  void* const* const outputs = wanted.data();
  int failures = octet_run(model, inputs, outputs);
  void* callers[4];
  dl_iterate_phdr(find_onednn, nullptr);
  backtrace(callers, 4);  // the first call allocates
  looks_for_onednn = onednn_end != 0;
  const int before = allocations - allocations_of_onednn;
  for (int i = 0; i < 2; ++i) failures += octet_run(model, inputs, outputs);
  const int counted = allocations - allocations_of_onednn - before;
  looks_for_onednn = false;
  CHECK(failures == 0);
  octet_free(model);
  return counted;
}

Program on_reference(Program program) {
  program.backend = "reference";
  for (Segment& segment : program.segments)
    if (segment.backend != kControl) segment.backend = "reference";
  for (Program& body : program.bodies) body = on_reference(std::move(body));
  return program;
}

}  // namespace

TEST_CASE("no heap allocation after the first run on XNNPACK", "[backends][session]") {
  CHECK(allocations > 0);
  for (const std::string& backend : backend_names()) {
    if (backend != "xnnpack") continue;
    CAPTURE(backend);
    CHECK(allocations_of(artifact_bytes(small_conv(backend))) == 0);
    CHECK(allocations_of(artifact_bytes(open_conv(backend))) == 0);
    CHECK(allocations_of(artifact_bytes(open_dynamic_linears(backend))) == 0);
  }
  for (const fuzz::SeedProgram& seed : fuzz::seed_programs()) {
    if (seed.program.segments.front().backend != "xnnpack") continue;
    CAPTURE(seed.name);
    CHECK(allocations_of(artifact_bytes(seed.program)) == 0);
  }
}

TEST_CASE("no heap allocation after the first run on the reference, whatever the ops",
          "[backends][session]") {
  for (const fuzz::SeedProgram& seed : fuzz::seed_programs()) {
    CAPTURE(seed.name);
    CHECK(allocations_of(artifact_bytes(on_reference(seed.program))) == 0);
  }
  for (const Program& program :
       {two_segments(), with_constants(), small_conv("reference"), open_conv("reference")})
    CHECK(allocations_of(artifact_bytes(program)) == 0);
}

namespace {

// Loads the file with each claim in place of the true value: an Error each time, and no large
// allocation.
void check_claims(const std::string& good,
                  const std::vector<std::pair<std::string, std::string>>& claims) {
  for (const auto& [from, to] : claims) {
    CAPTURE(from, to);
    std::string bytes = good;
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, from.size(), to);
    const uint64_t length =
        *reinterpret_cast<const uint64_t*>(good.data()) + bytes.size() - good.size();
    std::copy_n(reinterpret_cast<const char*>(&length), sizeof(length), bytes.begin());
    octet_options options{};
    options.size = sizeof(options);
    options.skip_checksum = 1;
    options.memory_limit = 1 << 20;
    largest = 0;
    octet_model* model = octet_load_memory(bytes.data(), bytes.size(), &options);
    const size_t taken = largest;
    CHECK(model == nullptr);
    CHECK(std::string(octet_last_error()) != "");
    CHECK(taken < size_t{1} << 20);
    octet_free(model);
  }
}

}  // namespace

// Bytes that a session of the program takes from the heap, those that it gave back included.
size_t taken_by(const Program& program) {
  taken = 0;
  const Session session(program);
  return taken;
}

TEST_CASE("a body is compiled once, however many ops run it", "[backends][limits]") {
  constexpr int64_t kElements = 1 << 18;  // 1 MiB
  CHECK(taken_by(conds_over_one_body(50, kElements)) < size_t{5} << 20);
  CHECK(taken_by(conds_in_conds(kDeepestBodies, 8)) < size_t{5} << 20);
}

TEST_CASE("segments take memory in their number, not its square", "[backends][limits]") {
  for (const std::string& backend : backend_names()) {
    if (backend == "torch") continue;
    CAPTURE(backend);
    taken_by(chain_of_segments(1, backend));  // opens the library
    const size_t some = taken_by(chain_of_segments(200, backend)),
                 many = taken_by(chain_of_segments(1600, backend));
    CHECK(many < 9 * some);
  }
}

TEST_CASE("sizes that a hostile file claims are not taken from the heap", "[backends][artifact]") {
  const std::string good = artifact_bytes(with_constants());
  check_claims(good, {
                         // the input's
                         {"\\\"shape\\\":[2,5]", "\\\"shape\\\":[2000000000,5]"},
                         {"\\\"shape\\\":[2,5]", "\\\"shape\\\":[2147483647,2147483647]"},
                         // the output's
                         {"\\\"shape\\\":[2,4]", "\\\"shape\\\":[2000000000,4]"},
                         // a constant's, in the program
                         {"\\\"shape\\\":[4,5]", "\\\"shape\\\":[2000000000,5]"},
                         // and in the list of tensors
                         {"\"shape\":[4,5]", "\"shape\":[2000000000,5]"},
                         {"\"data_offsets\":[64,80]", "\"data_offsets\":[64,20000000000]"},
                         {"\"data_offsets\":[64,80]", "\"data_offsets\":[20000000000,64]"},
                         {"\\\"axis\\\":0}", "\\\"axis\\\":2000000000}"},
                         {"\\\"outputs\\\":[3]", "\\\"outputs\\\":[2000000000]"},
                         {"\\\"inputs\\\":[0", "\\\"inputs\\\":[2147483647"},
                     });
  std::string length = good;
  length.replace(0, 8, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
  largest = 0;
  CHECK(octet_load_memory(length.data(), length.size(), nullptr) == nullptr);
  CHECK(largest < size_t{1} << 20);
}

TEST_CASE(
    "sizes that a hostile file claims of other forms of constants are not taken from the heap",
    "[backends][artifact]") {
  Program ordered = small_conv("reference");
  ordered.tensors[1].data = from_channels_last(as_channels_last(ordered.tensors[1].data));
  check_claims(artifact_bytes(ordered),
               {
                   {"\"shape\":[8,3,3,4]", "\"shape\":[2000000000,3,3,4]"},
                   {"\\\"shape\\\":[8,4,3,3]", "\\\"shape\\\":[200000000,4,3,3]"},
                   {"\\\"shape\\\":[8,4,3,3]", "\\\"shape\\\":[8,4,3,2000000000]"},
                   {"\"data_offsets\":[0,288]", "\"data_offsets\":[0,28800000000]"},
               });
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 6});
  const int w = b.constant("w", StoredConstant{random_integers(DType::kInt8, {4, 6}, 3, -8, 7),
                                               random_floats({4, 2}, 0.01f, 0.1f, 4), Tensor()});
  const std::vector<int> inputs = {x, w, -1};
  b.output(b.op("linear", inputs, "y", DType::kFloat32, {2, 4}));
  check_claims(artifact_bytes(with_one_segment(b.finish(), "reference")),
               {
                   {"\"shape\":[12]", "\"shape\":[12000000000]"},            // two values in a byte
                   {"\\\"shape\\\":[4,6]", "\\\"shape\\\":[2000000000,6]"},  // the constant's
                   {"\\\"shape\\\":[4,6]", "\\\"shape\\\":[2147483647,2]"},
                   {"\"shape\":[4,2]", "\"shape\":[4,2000000000]"},  // the scales'
                   {"\"shape\":[4,2]", "\"shape\":[2000000000,2]"},
               });
}

// oneDNN makes a new list of the arguments whenever it runs a primitive.
TEST_CASE("no heap allocation of ours after the first run on oneDNN", "[backends][session]") {
  for (const std::string& backend : backend_names()) {
    if (backend != "onednn") continue;
    CHECK(allocations_of(artifact_bytes(small_conv(backend))) == 0);
    const int before = allocations_of_onednn;
    CHECK(allocations_of(artifact_bytes(integer_network())) == 0);
    CHECK(allocations_of_onednn > before);  // or the count of ours proves nothing
  }
}
#endif
