#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "tools/cli/common/messages.h"

namespace octet {
namespace {

// What a Progress wrote into a file while `work` ran.
std::string written(bool is_terminal, const std::function<void(Progress&)>& work) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  {
    Progress progress({{"calibrate", 1}, {"round", 3}, {"calibrate", 4}},
                      {file, is_terminal, std::chrono::milliseconds(5)});
    work(progress);
  }
  std::fclose(file);
  const std::string result(text, size);
  std::free(text);
  return result;
}

void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

TEST_CASE("progress shows the share of all work, the elapsed time and what is left",
          "[tools][messages]") {
  CHECK(progress_text("round", 12, 64, 0.25, 0, 30, 0) ==
        "round 12/64, 25 %, 0:30 elapsed, about 1:30 left");
  CHECK(progress_text("round", 0, 0, 0.5, 0.25, 3600, 0) ==
        "round, 50 %, 1:00:00 elapsed, about 2:00:00 left");
  CHECK(progress_text("round", 1, 64, 0.26, 0.25, 30, 0) == "round 1/64, 26 %, 0:30 elapsed");
  CHECK(progress_text("round", 1, 2, 0.5, 0, 2, 4) ==
        "[##..] round 1/2, 50 %, 0:02 elapsed, about 0:02 left");
}

TEST_CASE("a bar is redrawn in one line and removed, lines stay above it", "[tools][messages]") {
  const std::string text = written(true, [](Progress& progress) {
    wait();
    progress.begin("calibrate");
    progress.advance(1, 2);
    wait();
    progress.write_above("a line");
    progress.begin("calibrate");  // the next of that name
    wait();
  });
  CHECK(text.starts_with("\r\x1b[K["));
  CHECK(text.find("calibrate 1/2, 6 %") != std::string::npos);
  CHECK(text.find("\r\x1b[Ka line\n") != std::string::npos);
  CHECK(text.find("calibrate, 50 %") != std::string::npos);
  CHECK(text.ends_with("\r\x1b[K"));
}

TEST_CASE("off a terminal progress is lines", "[tools][messages]") {
  const std::string text = written(false, [](Progress& progress) {
    progress.begin("round");
    progress.advance(1, 3);
    wait();
    progress.begin("none of that name");
    progress.advance(5, 3);  // no more than there are
    wait();
  });
  CHECK(text.find("round 1/3, 25 %, 0:00 elapsed\n") != std::string::npos);
  CHECK(text.find("round 3/3, 50 %, 0:00 elapsed\n") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("progress without a stage says nothing", "[tools][messages]") {
  CHECK(written(false, [](Progress& progress) {
          progress.advance(1, 2);
          wait();
        }).empty());
}

TEST_CASE("a sink takes lines and warnings unchanged", "[tools][messages]") {
  std::string told;
  set_message_sink([&](bool is_warning, std::string_view text) {
    told += (is_warning ? "warning " : "line ") + std::string(text) + ";";
  });
  set_quiet(true);
  log_line("a\x1b");
  log_warning("b");
  set_quiet(false);
  set_message_sink(nullptr);
  CHECK(told == "line a\x1b;warning b;");
}

TEST_CASE("what checks for interrupts ends the work", "[tools][messages]") {
  struct Stop {};
  set_interrupt_check([] { throw Stop(); });
  CHECK_THROWS_AS(written(false, [](Progress& progress) { progress.advance(1, 2); }), Stop);
  set_interrupt_check(nullptr);
}

}  // namespace
}  // namespace octet
