// Lets a run write into its states in place. What it writes over is kept until the run ends, and
// put back if the run throws.
#pragma once

#include <cstddef>
#include <vector>

namespace octet::reference {

class StateJournal {
 public:
  // Keeps `count` bytes that a kernel is about to write over, if a run of this thread has a
  // journal. Allocates only when a run writes more than the ones before.
  static void keep(std::byte* bytes, size_t count);

  // Makes `journal` the current one of this thread for a run, and undoes the run if it throws.
  class Use {
   public:
    explicit Use(StateJournal& journal);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    StateJournal* before_;
    int exceptions_;
  };

 private:
  struct Entry {
    std::byte* bytes;
    size_t start;  // of its bytes in kept_
    size_t count;
  };

  void undo();

  std::vector<Entry> entries_;
  std::vector<std::byte> kept_;  // of all entries, in their order
};

}  // namespace octet::reference
