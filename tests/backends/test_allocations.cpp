// After the first run a session takes no memory from the heap: malloc and its kin are counted for the whole process. Not under sanitizers, which bring
// their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <atomic>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/octet.h"
#include "tests/backends/program_builder.h"
#include "tests/backends/small_programs.h"

using namespace octet;

namespace {

std::atomic<int> allocations{0};

}  // namespace

// glibc's own functions under other names, so that ours can count and pass on.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  ++allocations;
  return __libc_realloc(block, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  ++allocations;
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? 12 : 0;
}
}

namespace {

// Allocations of the second and third run.
int allocations_of(const std::string& bytes) {
  octet_model* model = octet_load_memory(bytes.data(), bytes.size(), nullptr);
  INFO(octet_last_error());
  REQUIRE(model != nullptr);
  octet_tensor_info input{}, output{};
  input.size = output.size = sizeof(octet_tensor_info);
  REQUIRE(octet_input(model, 0, &input) == OCTET_OK);
  REQUIRE(octet_output(model, 0, &output) == OCTET_OK);
  const std::vector<std::byte> x(input.bytes);
  std::vector<std::byte> y(output.bytes);
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  int failures = octet_run(model, inputs, outputs);
  const int before = allocations;
  for (int i = 0; i < 2; ++i) failures += octet_run(model, inputs, outputs);
  const int counted = allocations - before;
  CHECK(failures == 0);
  octet_free(model);
  return counted;
}

}  // namespace

TEST_CASE("no heap allocation after the first run on XNNPACK", "[backends][session]") {
  CHECK(allocations > 0);
  for (const std::string& backend : backend_names()) {
    if (backend != "xnnpack") continue;
    CAPTURE(backend);
    CHECK(allocations_of(artifact_bytes(small_conv(backend))) == 0);
  }
}
#endif
