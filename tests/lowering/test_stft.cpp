// Compares spectrograms and their inverses with the interpreter.
#include <catch2/catch.hpp>

#include "tests/lowering/lowering_helpers.h"

namespace octet::test_stft {

using Catch::Matchers::Contains;

TEST_CASE("a spectrogram is a convolution", "[lowering][stft]") {
  // hop, win_length, window, normalized, onesided
  for (const char* options : {"4, None, %w, False, True", "3, None, None, True, True",
                              "None, 10, %v, False, True", "4, None, %w, False, False"}) {
    const bool is_half = std::string(options).ends_with("True");
    const int hop = options[0] == '3' ? 3 : 4;
    const std::string shape =
        "[2," + std::to_string(is_half ? 9 : 16) + "," + std::to_string((50 - 16) / hop + 1);
    const std::string text =
        "graph(%w = buffer \"w\": f32[16], %v = buffer \"v\": f32[10], %x: f32[2,50]):\n  %f: c64" +
        shape + "] = aten.stft.default(%x, 16, " + options + ", True)\n  %y: f32" + shape +
        ",2] = aten.view_as_real.default(%f)\n  return (%y)";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 2e-5);
  }
}

TEST_CASE("a signal without a batch, as real parts", "[lowering][stft]") {
  CHECK(compare_with_interpreter(make_graph(R"(graph(%x: f32[40]):
  %y: f32[9,7,2] = aten.stft.default(%x, 16, 4, None, None, False, True, False)
  return (%y))"))
            .greatest < 1e-5);
}

TEST_CASE("a signal is put together from its frames", "[lowering][stft]") {
  // center, normalized, onesided, length
  for (const auto& [options, size] :
       {std::pair{"True, False, None, None", 24}, std::pair{"True, True, True, 21", 21},
        std::pair{"False, False, None, None", 40}}) {
    const std::string text = std::string(R"(graph(%x: f32[2,40]):
  %f: c64[2,9,7] = aten.stft.default(%x, 16, 4, None, None, False, True, True)
  %p: c64[2,9,7] = aten.mul.Tensor(%f, %f)
  %y: f32[2,)") + std::to_string(size) +
                             "] = aten.istft.default(%p, 16, 4, None, None, " + options +
                             ")\n  return (%y)";
    CAPTURE(text);
    CHECK(compare_with_interpreter(make_graph(text)).greatest < 1e-4);
  }
}

TEST_CASE("spectrograms that are not a convolution are refused by name", "[lowering][stft]") {
  CHECK_THAT(error_of(make_graph(R"(graph(%w: f32[16], %x: f32[2,40]):
  %y: f32[2,9,7,2] = aten.stft.default(%x, 16, 4, None, %w, False, True, False)
  return (%y))")),
             Contains("y (aten.stft.default) with a window that is not a float32 constant"));
  CHECK_THAT(error_of(make_graph(R"(graph(%x: f32[2,40]):
  %f: c64[2,9,7] = aten.stft.default(%x, 16, 4, None, None, False, True, True)
  %y: f32[2,60] = aten.istft.default(%f, 16, 4, None, None, True, False, None, 60)
  return (%y))")),
             Contains("y (aten.istft.default) of another length than its frames have"));
}

}  // namespace octet::test_stft
