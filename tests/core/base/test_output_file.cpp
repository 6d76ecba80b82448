// Output files: written whole or not at all, through links, with the mode of the file before, and
// to what is not a regular file.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include <catch2/catch.hpp>

#include "core/base/output_file.h"
#include "tests/core/pt2/archive_fixture.h"

using namespace octet;
using octet::testing::read_bytes;
using octet::testing::Scratch;
namespace fs = std::filesystem;

namespace {

int mode_of(const fs::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("an output appears when it is complete, and not at all without", "[core][output]") {
  Scratch scratch;
  write_file(scratch / "a", "before", "test");
  {
    OutputFile file(scratch / "a", "test");
    file.write("after");
    CHECK(scratch.files().size() == 2);
  }
  CHECK(scratch.files() == std::vector<std::string>{"a"});
  CHECK(read_bytes(scratch / "a") == "before");
  write_file(scratch / "a", "after", "test");
  CHECK(read_bytes(scratch / "a") == "after");
  CHECK(scratch.files() == std::vector<std::string>{"a"});
}

TEST_CASE("an output keeps the mode that the file had", "[core][output]") {
  Scratch scratch;
  write_file(scratch / "a", "before", "test");
  ::chmod((scratch / "a").c_str(), 0640);
  write_file(scratch / "a", "after", "test");
  CHECK(mode_of(scratch / "a") == 0640);
}

TEST_CASE("nobody else reads an output that is not complete", "[core][output]") {
  Scratch scratch;
  const mode_t mask = ::umask(027);
  write_file(scratch / "old", "before", "test");
  ::chmod((scratch / "old").c_str(), 0604);
  for (const auto& [name, mode] : {std::pair("new", 0640), std::pair("old", 0604)}) {
    OutputFile file(scratch / name, "test");
    file.write(std::string(1 << 20, 'x'));
    for (const std::string& each : scratch.files())
      if (each.ends_with(".tmp")) CHECK(mode_of(scratch / each) == 0600);
    file.commit();
    CHECK(mode_of(scratch / name) == mode);
    CHECK(read_bytes(scratch / name) == std::string(1 << 20, 'x'));
  }
  ::umask(mask);
}

TEST_CASE("an output is written to a new file, whatever others have put beside it",
          "[core][output]") {
  Scratch scratch;
  write_file(scratch / "victim", "victim", "test");
  for (const char* name : {"a.1.0.tmp", "a.99999999.tmp"})
    fs::create_symlink("victim", scratch / name);
  write_file(scratch / "a.99999998.tmp", "another user's", "test");
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::chown((scratch / "a.99999998.tmp").c_str(), 12345, 12345) == 0);
  write_file(scratch / "a", "bytes", "test");
  CHECK(read_bytes(scratch / "a") == "bytes");
  CHECK(read_bytes(scratch / "victim") == "victim");
  CHECK(fs::is_symlink(scratch / "a.99999999.tmp"));
  CHECK(fs::exists(scratch / "a.99999998.tmp") == is_root);
}

TEST_CASE("a write that fails leaves the existing file", "[core][output]") {
  Scratch scratch;
  write_file(scratch / "a", "before", "test");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  CHECK_THROWS_WITH(write_file(scratch / "a", std::string(1 << 20, 'x'), "test"),
                    Catch::Contains("cannot be written: File too large"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, action);
  CHECK(read_bytes(scratch / "a") == "before");
  CHECK(scratch.files() == std::vector<std::string>{"a"});
}

TEST_CASE("an output that is an input is known, through links", "[core][output]") {
  Scratch scratch;
  write_file(scratch / "a", "bytes", "test");
  fs::create_symlink("a", scratch / "link");
  fs::create_hard_link(scratch / "a", scratch / "hard");
  write_file(scratch / "other", "bytes", "test");
  for (const char* name : {"a", "link", "hard"}) {
    CHECK(is_same_file(scratch / name, scratch / "a"));
    CHECK_THROWS_WITH(check_no_input(scratch / name, {(scratch / "a").string()}, "test"),
                      Catch::EndsWith("and would be overwritten; name another one"));
  }
  CHECK_FALSE(is_same_file(scratch / "a", scratch / "other"));
  CHECK_FALSE(is_same_file(scratch / "a", scratch / "none"));
  CHECK(is_same_file(scratch / "none", scratch / "./none"));
  CHECK_FALSE(is_same_file("/dev/null", "/dev/null"));
}

TEST_CASE("an output follows links, also to files that do not exist yet", "[core][output]") {
  Scratch scratch;
  fs::create_directory(scratch / "below");
  fs::create_symlink("below/to", scratch / "link");
  fs::create_symlink("link", scratch / "chain");
  write_file(scratch / "chain", "one", "test");
  CHECK(read_bytes(scratch / "below/to") == "one");
  write_file(scratch / "link", "two", "test");
  CHECK(read_bytes(scratch / "below/to") == "two");
  CHECK(fs::is_symlink(scratch / "link"));
  CHECK(fs::is_symlink(scratch / "chain"));
  fs::create_symlink("round", scratch / "round");
  CHECK_THROWS_WITH(write_file(scratch / "round", "x", "test"),
                    Catch::Contains("cannot be written: "));
}

TEST_CASE("a pipe is written into and stays one", "[core][output]") {
  Scratch scratch;
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  const int reader = ::open((scratch / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_file(scratch / "pipe", "bytes", "test");
  char read[16] = {};
  CHECK(::read(reader, read, sizeof(read)) == 5);
  ::close(reader);
  CHECK(std::string(read) == "bytes");
  CHECK(fs::is_fifo(scratch / "pipe"));
}

TEST_CASE("paths with spaces, line breaks and other letters are as good as others",
          "[core][output]") {
  Scratch scratch;
  for (const char* name : {"a b", "a\nb", "größe 北", "-"}) {
    write_file(scratch / name, name, "test");
    CHECK(read_bytes(scratch / name) == name);
  }
  CHECK(scratch.files().size() == 4);
}

TEST_CASE(
    "files that a killed process left are removed by the next, and those that a running one writes "
    "are not",
    "[core][output]") {
  Scratch scratch;
  write_file(scratch / "a.99999999.tmp", "left", "test");
  write_file(scratch / "a.9x.tmp", "somebody's", "test");
  write_file(scratch / "b.99999999.tmp", "another's", "test");
  OutputFile living(scratch / "a", "test");
  CHECK_FALSE(fs::exists(scratch / "a.99999999.tmp"));
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      write_file(scratch / "a", "child", "test");
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(read_bytes(scratch / "a") == "child");
  living.write("parent");
  living.commit();
  CHECK(read_bytes(scratch / "a") == "parent");
  CHECK(scratch.files() == std::vector<std::string>{"a", "a.9x.tmp", "b.99999999.tmp"});
}

TEST_CASE("a signal handler can remove what is unfinished", "[core][output]") {
  Scratch scratch;
  OutputFile file(scratch / "a", "test");
  CHECK(remove_unfinished_files() == 1);
  CHECK(scratch.files().empty());
}

TEST_CASE("whether an output can be written is known before", "[core][output]") {
  Scratch scratch;
  fs::create_directory(scratch / "folder");
  check_writable(scratch / "new", "test");
  check_writable("/dev/null", "test");
  fs::create_symlink("missing/x", scratch / "dangling");
  CHECK_THROWS_WITH(check_writable(scratch / "folder", "test"),
                    Catch::EndsWith("cannot be written: it is a folder; name a file"));
  for (const char* name : {"missing/x", "dangling"})
    CHECK_THROWS_WITH(check_writable(scratch / name, "test"),
                      Catch::EndsWith("check that the folder exists and may be written to"));
}
