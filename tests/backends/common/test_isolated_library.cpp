// Opens shared libraries: finds their functions, and gives one line for what is missing.
#include <catch2/catch.hpp>

#include <cmath>

#include "backends/common/isolated_library.h"
#include "tests/backends/small_programs.h"

namespace octet {

TEST_CASE("an opened library gives the addresses of its functions", "[backends]") {
  const IsolatedLibrary library("maths", {"libnone.so.7", "libm.so.6"});  // the first that is here
  double (*cosine)(double) = reinterpret_cast<double (*)(double)>(library.function("cos"));
  CHECK(cosine(0) == 1);
  CHECK(library.find_function("cos") == library.function("cos"));
  CHECK(library.find_function("cosine_of_tomorrow") == nullptr);
  CHECK_THAT(file_of(library.function("cos")), Catch::Contains("libm.so.6"));
}

TEST_CASE("a library that is missing, broken or of another release is one line of error",
          "[backends]") {
  CHECK(error_of([] { IsolatedLibrary("maths", {"libnone.so.7", "libnone.so.8"}); }) ==
        "backend: maths: libnone.so.7 cannot be opened, got \"libnone.so.7: cannot open shared "
        "object file: No such file or directory\", want it in "
        "the dynamic linker's folders; install it, or name its folder in LD_LIBRARY_PATH");
  const std::filesystem::path broken = temporary_file("libbroken.so");
  write_bytes(broken, "no library at all");
  CHECK_THAT(error_of([&] { IsolatedLibrary("maths", {broken.c_str()}); }),
             Catch::Contains("libbroken.so: file too short"));
  std::filesystem::remove(broken);
  const IsolatedLibrary library("maths", {"libm.so.6"});
  CHECK(error_of([&] { library.function("cosine_of_tomorrow"); }) ==
        "backend: maths: libm.so.6 is a release that Octet does not know, got no "
        "cosine_of_tomorrow, want it; name the folder of another release in LD_LIBRARY_PATH");
}

namespace {
enum class Status { kFine, kMissing };
void* const* one_function_that_is_missing() {
  static void* const addresses[] = {nullptr};
  return addresses;
}
}  // namespace

TEST_CASE("a function that the release lacks returns a status", "[backends]") {
  constexpr auto twice =
      &OpenedFunction<one_function_that_is_missing, 0, Status::kMissing, Status(int)>::call;
  CHECK(twice(2) == Status::kMissing);
}

}  // namespace octet
