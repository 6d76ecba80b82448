// Handles Ctrl-C and kill: removes unfinished files and prints a line that says what remains.
#pragma once

#include <string>

namespace octet {

// Makes SIGINT, SIGTERM and SIGHUP remove the files that are being written and then end the process
// as usual. says_so: print a line on stderr. When one of several processes fails, mpirun ends the
// others; these print nothing, because the failed one already printed why.
void clean_up_on_signals(bool says_so);

// Sets the line that an interrupted run prints from now on: "c holds the state of training; the
// same command resumes from it".
void say_when_interrupted(const std::string& text);

// Called by operator new when memory runs out. Prints a line on stderr, removes unfinished files
// and ends the process with code 1. Runs no destructors, because some allocate.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace octet
