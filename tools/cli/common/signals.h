// What Ctrl-C and kill leave behind: no unfinished file, and a line that says what there is.
#pragma once

#include <string>

namespace octet {

// From now on SIGINT, SIGTERM and SIGHUP remove the files that are being written and then end the
// process as they would have. says_so: with a line on stderr; of several processes that mpirun ends
// because one of them failed, that one has told why.
void clean_up_on_signals(bool says_so);

// What a run that is interrupted from now on leaves for the next: "the checkpoint c holds 3 epochs;
// the same command goes on from there".
void say_when_interrupted(const std::string& text);

// What operator new calls where there is no memory left: ends the process with a line on stderr and
// code 1, without unfinished files and without destructors, of which some take memory.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace octet
