// Ctrl-C and kill remove unfinished files and print a line that says what is left.
#pragma once

#include <string>

namespace octet {

// From now on SIGINT, SIGTERM and SIGHUP remove the files that are being written and then end the
// process as they would have. says_so: with a line on stderr; of several processes that mpirun ends
// because one of them failed, that one has told why.
void clean_up_on_signals(bool says_so);

// The line that an interrupted run prints from now on: "c holds the state of training; the same
// command resumes from it".
void say_when_interrupted(const std::string& text);

// Called by operator new when memory runs out: ends the process with a line on stderr and
// code 1, without unfinished files and without destructors, of which some take memory.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace octet
