#include <catch2/catch.hpp>

#include "core/base/printable.h"

using octet::printable;
using octet::printable_line;
using octet::short_line;

TEST_CASE("text for a terminal: control characters are escaped", "[core][printable]") {
  CHECK(printable("conv_1 größe 北\t|\n") == "conv_1 größe 北\t|\n");
  CHECK(printable_line("a\nb\r") == "a\\nb\\x0d");
  CHECK(printable("\x1b[31mred\a\x7f") == "\\x1b[31mred\\x07\\x7f");
  CHECK(printable("\xe2\x80\xae"
                  "desrever") == "\\u{202e}desrever");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\x9b31m");
  CHECK(printable("\xef\xbb\xbfx\xe2\x80\x8b") == "\\u{feff}x\\u{200b}");
}

TEST_CASE("text for a terminal: a long text is shown by its beginning and end",
          "[core][printable]") {
  CHECK(short_line("a\nb", 4) == "a\\nb");
  CHECK(short_line("0123456789", 4) == "01 ... (6 bytes) ... 89");
  CHECK(short_line("äöüäöü", 6) == "ä ... (8 bytes) ... ü");
}

TEST_CASE("text for a terminal: bytes that are not UTF-8 are escaped one by one",
          "[core][printable]") {
  CHECK(printable("\xff"
                  "a\xc3") == "\\xffa\\xc3");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // longer than need be
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // half a pair
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(printable("\xf0\x9f\x98\x80") == "\xf0\x9f\x98\x80");
}
