// The journal of the run that a thread is in.
#include "backends/reference/state_journal.h"

#include <cstring>
#include <exception>

namespace octet::reference {
namespace {

thread_local StateJournal* current_journal = nullptr;

}  // namespace

void StateJournal::keep(std::byte* bytes, size_t count) {
  if (current_journal == nullptr) return;
  std::vector<std::byte>& kept = current_journal->kept_;
  const size_t start = kept.size();
  // The bytes before their entry: where memory ends between the two, undo() ignores the bytes.
  kept.insert(kept.end(), bytes, bytes + count);
  current_journal->entries_.push_back({bytes, start, count});
}

// The last write first, because writes may overlap.
void StateJournal::undo() {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
    std::memcpy(entry->bytes, kept_.data() + entry->start, entry->count);
}

StateJournal::Use::Use(StateJournal& journal)
    : before_(current_journal), exceptions_(std::uncaught_exceptions()) {
  current_journal = &journal;
}

StateJournal::Use::~Use() {
  if (std::uncaught_exceptions() > exceptions_) current_journal->undo();
  current_journal->entries_.clear();
  current_journal->kept_.clear();
  current_journal = before_;
}

}  // namespace octet::reference
