// Fourier transforms and other complex numbers, lowered to pairs of real tensors and compared with
// the interpreter.
#include <array>

#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_complex {

using Catch::Matchers::Contains;

TEST_CASE("transforms of several dimensions and norms are products", "[lowering][complex]") {
  for (const char* norm : {"None", "\"ortho\"", "\"forward\""}) {
    const std::string text = std::string(R"(graph(%x: f32[2,5,6]):
  %f: c64[2,5,6] = aten.fft_fftn.default(%x, None, [1, 2], )") +
                             norm + R"()
  %back: c64[2,5,6] = aten.fft_ifft.default(%f, None, 1, )" +
                             norm + R"()
  %re: f32[2,5,6] = aten.real.default(%back)
  %both: f32[2,5,6,2] = aten.view_as_real.default(%f)
  %size: f32[2,5,6] = aten.abs.default(%back)
  return (%re, %both, %size))";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
}

TEST_CASE("a filter of half a spectrum is real arithmetic", "[lowering][complex]") {
  for (const char* columns : {"8", "7"}) {
    const std::string half = columns[0] == '8' ? "5" : "4";
    const std::string spectrum = "c64[2,4," + half + "]";
    const std::string text =
        std::string("graph(%w = param \"w\": f32[4,") + half + ",2], %x: f32[2,4," + columns +
        "]):\n  %f: " + spectrum +
        " = aten.fft_rfft2.default(%x, None, [1, 2], \"ortho\")\n  %c: c64[4," + half +
        "] = aten.view_as_complex.default(%w)\n  %p: " + spectrum +
        " = aten.mul.Tensor(%f, %c)\n  %s: " + spectrum +
        " = aten.add.Tensor(%p, %f)\n  %j: " + spectrum +
        " = aten.conj_physical.default(%s)\n  %y: f32[2,4," + columns +
        "] = aten.fft_irfft2.default(%j, [4, " + columns + "], [1, 2], \"ortho\")\n  return (%y)";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
}

TEST_CASE("ops on both parts alike and products", "[lowering][complex]") {
  const auto [shape, op] = GENERATE(table<std::string, std::string>({
      {"2,3,3", "aten.slice.Tensor(%f, 2, 1, 4)"},
      {"2,5", "aten.select.int(%f, 1, 1)"},
      {"2,15", "aten.reshape.default(%f, [2, -1])"},
      {"5,3,2", "aten.permute.default(%f, [2, 1, 0])"},
      {"2,1,5", "aten.sum.dim_IntList(%f, [1], True)"},
      {"2,3,8", "aten.pad.default(%f, [1, 2])"},
      {"2,3,10", "aten.cat.default([%f, %c], 2)"},
      {"2,3,3", "aten.matmul.default(%f, %t)"},
      {"2,3,3", "aten.einsum.default(\"bix,bjx->bij\", [%f, %c])"},
  }));
  const std::string text =
      "graph(%x: f32[2,3,8]):\n"
      "  %f: c64[2,3,5] = aten.fft_rfft.default(%x)\n"
      "  %c: c64[2,3,5] = aten.conj_physical.default(%f)\n"
      "  %t: c64[2,5,3] = aten.transpose.int(%c, 1, 2)\n"
      "  %y: c64[" +
      shape + "] = " + op + "\n  %re: f32[" + shape + "] = aten.real.default(%y)\n  %im: f32[" +
      shape + "] = aten.imag.default(%y)\n  return (%re, %im)";
  CAPTURE(text);
  CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-4);
}

TEST_CASE("a list of complex results", "[lowering][complex]") {
  CHECK(compare_with_interpreter(make_graph(R"(graph(%x: f32[2,4,6]):
  %f: c64[2,4,4] = aten.fft_rfft.default(%x)
  [%a: c64[2,2,4], %b: c64[2,2,4]] = aten.split.Tensor(%f, 2, 1)
  %p: c64[2,2,4] = aten.mul.Tensor(%a, %b)
  %y: f32[2,2,6] = aten.fft_irfft.default(%p, 6)
  return (%y))"))
            .greatest < 1e-4);
}

TEST_CASE("only what is read of a transform is computed", "[lowering][complex]") {
  const std::string text = lowered(make_graph(R"(graph(%x: f32[2,4]):
  %f: c64[2,4] = aten.fft_fft.default(%x)
  %y: f32[2,4] = aten.real.default(%f)
  return (%y))"));
  CAPTURE(text);
  CHECK(text.find("_sines") == std::string::npos);
}

TEST_CASE("transforms cut their input, or fill it with zeros", "[lowering][complex]") {
  for (const auto& [op, input, size, output] : {std::array{"fft", "f32[2,4]", "6", "c64[2,6]"},
                                                std::array{"fft", "f32[2,7]", "3", "c64[2,3]"},
                                                std::array{"rfft", "f32[2,4]", "9", "c64[2,5]"},
                                                std::array{"rfft", "f32[2,9]", "4", "c64[2,3]"}}) {
    const std::string text = std::string("graph(%x: ") + input + "):\n  %f: " + output +
                             " = aten.fft_" + op + ".default(%x, " + size + ")\n  %b: f32" +
                             (output + 3) + " = aten.real.default(%f)\n  %i: f32" + (output + 3) +
                             " = aten.imag.default(%f)\n  return (%b, %i)";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
  // Half a spectrum of 5 gives 8 by default.
  for (const char* size : {"5", "6", "8", "9", "12"}) {
    const std::string text = std::string(R"(graph(%x: f32[2,8]):
  %f: c64[2,5] = aten.fft_rfft.default(%x)
  %y: f32[2,)") + size + R"(] = aten.fft_irfft.default(%f, )" +
                             size + R"(, -1, "forward")
  return (%y))";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
}

TEST_CASE("transforms of a single line", "[lowering][complex]") {
  for (const auto& [call, output] : {std::array{"fft_rfft.default(%x)", "[5]"},
                                     std::array{"fft_rfft.default(%x, 5, 0, \"ortho\")", "[3]"},
                                     std::array{"fft_fft.default(%x, 11, -1, \"forward\")", "[11]"},
                                     std::array{"fft_ifft.default(%x)", "[8]"}}) {
    const std::string shape = output;
    const std::string text = "graph(%x: f32[8]):\n  %f: c64" + shape + " = aten." + call +
                             "\n  %y: f32" + shape + " = aten.abs.default(%f)\n  return (%y)";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
  CHECK(compare_with_interpreter(make_graph(R"(graph(%x: f32[8]):
  %f: c64[5] = aten.fft_rfft.default(%x)
  %y: f32[9] = aten.fft_irfft.default(%f, 9, -1, "ortho")
  return (%y))"))
            .greatest < 1e-5);
  for (const char* shape : {"", "2,"}) {
    const std::string text = std::string("graph(%x: f32[") + shape + "5]):\n  %y: f32[" + shape +
                             "7] = aten.fft_irfft.default(%x, 7)\n  return (%y)";
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-5);
  }
}

TEST_CASE("complex numbers that no row knows are refused by name", "[lowering][complex]") {
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,4]):
  %f: c64[2,4] = aten.fft_fft.default(%x)
  %e: c64[2,4] = aten.exp.default(%f)
  %y: f32[2,4] = aten.real.default(%e)
  return (%y))")),
             Contains("e (aten.exp.default) of complex numbers"));
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,4]):
  %f: c64[2,4] = aten.fft_fft.default(%x)
  return (%f))")),
             Contains("%f: is complex, want real tensors here"));
}

}  // namespace octet::test_complex
