// Opens shared libraries: finds their functions, and gives one line for what is missing.
#include <catch2/catch.hpp>

#include <cmath>

#include "backends/common/isolated_library.h"
#include "tests/backends/small_programs.h"

namespace octet {

TEST_CASE("an opened library gives the addresses of its functions", "[backends]") {
  const IsolatedLibrary library("maths", "libm.so.6");
  double (*cosine)(double) = reinterpret_cast<double (*)(double)>(library.function("cos"));
  CHECK(cosine(0) == 1);
  CHECK(library.functions({"sin", "cos"})[1] == library.function("cos"));
  CHECK_THAT(file_of(library.function("cos")), Catch::Contains("libm.so.6"));
}

TEST_CASE("a library that is missing, broken or of another release is one line of error",
          "[backends]") {
  CHECK(error_of([] { IsolatedLibrary("maths", "libnone.so.7"); }) ==
        "backend: maths: libnone.so.7 cannot be opened, got \"libnone.so.7: cannot open shared "
        "object file: No such file or directory\", want it in "
        "the dynamic linker's folders; install it, or name its folder in LD_LIBRARY_PATH");
  const std::filesystem::path broken = temporary_file("libbroken.so");
  write_bytes(broken, "no library at all");
  CHECK_THAT(error_of([&] { IsolatedLibrary("maths", broken.c_str()); }),
             Catch::Contains("libbroken.so: file too short"));
  std::filesystem::remove(broken);
  const IsolatedLibrary library("maths", "libm.so.6");
  CHECK(error_of([&] { library.function("cosine_of_tomorrow"); }) ==
        "backend: maths: libm.so.6 is not the release of the headers, got no cosine_of_tomorrow, "
        "want it; put the library that Octet "
        "was built "
        "with first");
}

}  // namespace octet
