// When a session uses its threads. Simulated clocks replace measured time.
#include <cstdint>

#include <catch2/catch.hpp>

#include "backends/runtime/thread_choice.h"
#include "tests/backends/small_programs.h"

namespace octet::test_thread_choice {
namespace {

constexpr CpuTime kQuiet = {0.05, 0.0001}, kBusy = {0.01, 0.19};

// Runs a session with simulated clocks.
class World {
 public:
  explicit World(const CpuTime& past = {}) : cpu(past), choice(past) {}

  // For `seconds`: runs that take `taken`, and `waited` of each second without a CPU.
  void run(double seconds, double taken, double waited) {
    for (const double end = now + seconds; now < end;) step(taken, waited);
  }
  // Until the choice changes, for at most this many seconds.
  double until_change(double most, double taken, double waited) {
    const bool before = choice.uses_threads();
    const double start = now;
    while (choice.uses_threads() == before && now < start + most) step(taken, waited);
    return now - start;
  }
  void step(double taken, double waited) {
    if (choice.is_due(now)) choice.look(now, thread, cpu);
    now += taken;
    cpu.ran += taken * (1 - waited);
    cpu.waited += taken * waited;
    choice.note_run(now, taken);
  }

  double now = 1000;
  const void* thread = &now;
  CpuTime cpu;
  ThreadChoice choice;
};

}  // namespace

TEST_CASE("threads: a quiet thread starts with all, one that waited for a CPU with one",
          "[backends][threads]") {
  CHECK(ThreadChoice({}).uses_threads());
  CHECK(ThreadChoice(kQuiet).uses_threads());
  CHECK(ThreadChoice({10, 0.5}).uses_threads());
  CHECK_FALSE(ThreadChoice(kBusy).uses_threads());
}

TEST_CASE("threads: a session that starts while others use the CPUs starts with one",
          "[backends][threads]") {
  int looks = 0;
  CHECK_FALSE(ThreadChoice({}, [&] { return ++looks > 0; }).uses_threads());
  CHECK(looks == 4);
  // CPUs are taken for a moment.
  looks = 0;
  CHECK(ThreadChoice({}, [&] { return ++looks < 4; }).uses_threads());

  World world;
  bool is_taken = true;
  world.choice = ThreadChoice({}, [&] { return is_taken; });
  REQUIRE_FALSE(world.choice.uses_threads());
  world.run(5, 0.001, 0);
  CHECK_FALSE(world.choice.uses_threads());
  SECTION("and gets them when the CPUs are free") {
    is_taken = false;
    CHECK(world.until_change(10, 0.001, 0) < 5);
    CHECK(world.choice.uses_threads());
  }
  SECTION("and tries them after long, as others may yield") {
    CHECK(world.until_change(30, 0.001, 0) < 20);
    world.run(10, 0.001, 0);
    CHECK(world.choice.uses_threads());
  }
}

TEST_CASE("threads: CPUs are taken when others and the threads are more", "[backends][threads]") {
  CHECK(threads_running_elsewhere() >= 0);
  CHECK(are_cpus_taken(1 << 20));
  CHECK_FALSE(are_cpus_taken(-(1 << 20)));
}

TEST_CASE("threads: a small program runs on one, where its file tells that it is small",
          "[backends][threads]") {
  Program program = small_conv("reference");
  CHECK_FALSE(is_too_small_for_threads(program));  // nobody counted
  program.ops[0].macs = 10000;
  CHECK(is_too_small_for_threads(program));
  for (const int64_t many : {int64_t{1} << 20, INT64_MAX}) {
    program.ops[0].macs = many;
    CHECK_FALSE(is_too_small_for_threads(program));
  }
  Program open = open_conv("reference");
  open.ops[0].macs = 10000;  // at the sizes of the example
  CHECK_FALSE(is_too_small_for_threads(open));
  Program loops = with_bodies("reference");
  loops.ops[0].macs = 10000;
  CHECK_FALSE(is_too_small_for_threads(loops));
}

TEST_CASE("threads: runs that take equally long keep them", "[backends][threads]") {
  World world;
  world.step(0.05, 0);  // the first is slow
  world.run(10, 0.001, 0.01);
  CHECK(world.choice.uses_threads());
  world.step(0.008, 0);  // one that is late
  world.run(1, 0.001, 0);
  CHECK(world.choice.uses_threads());
}

TEST_CASE("threads: a thread without a CPU ends their use until CPUs are free",
          "[backends][threads]") {
  World world;
  world.run(1, 0.001, 0);
  CHECK(world.until_change(1, 0.001, 0.9) < 0.2);
  CHECK_FALSE(world.choice.uses_threads());
  world.run(20, 0.001, 0.9);
  CHECK_FALSE(world.choice.uses_threads());
  CHECK(world.until_change(20, 0.001, 0) < 20);
  CHECK(world.choice.uses_threads());
}

TEST_CASE("threads: late runs end their use where the system tells nothing of CPUs",
          "[backends][threads]") {
  World world;
  world.run(0.1, 0.0001, 0);
  world.step(0.18, 0);
  CHECK_FALSE(world.choice.uses_threads());
  // Each time that threads are tried and are late again, one thread runs for longer.
  double last = 0;
  for (int i = 0; i < 5; ++i) {
    const double alone = world.until_change(60, 0.0002, 0);
    CHECK(world.choice.uses_threads());
    CHECK(alone > 1.5 * last);
    last = alone;
    world.step(0.18, 0);
    CHECK_FALSE(world.choice.uses_threads());
  }
}

TEST_CASE("threads: what one thread does more slowly is not given to it again",
          "[backends][threads]") {
  World world;
  world.run(0.1, 0.001, 0);
  world.run(0.1, 0.02, 0);  // other data: longer loops
  REQUIRE_FALSE(world.choice.uses_threads());
  world.until_change(60, 0.04, 0);
  REQUIRE(world.choice.uses_threads());
  world.run(10, 0.02, 0);
  CHECK(world.choice.uses_threads());
}

TEST_CASE("threads: what compiling costs must be lost before they are given up",
          "[backends][threads]") {
  World world;
  world.choice.set_price(1);
  world.run(0.1, 0.001, 0);
  for (int i = 0; i < 5; ++i) world.step(0.18, 0);
  CHECK(world.choice.uses_threads());
  world.step(0.18, 0);
  CHECK_FALSE(world.choice.uses_threads());
  CHECK(world.until_change(60, 0.001, 0) >= 10);
}

TEST_CASE("threads: another caller's past and other sizes count for nothing",
          "[backends][threads]") {
  World world;
  world.run(0.1, 0.001, 0);
  const char other = 0;
  world.thread = &other;
  world.cpu = {5, 500};
  world.run(0.1, 0.001, 0);
  CHECK(world.choice.uses_threads());
  world.choice.forget_runs();
  world.run(1, 0.1, 0);
  CHECK(world.choice.uses_threads());
}

}  // namespace octet::test_thread_choice
