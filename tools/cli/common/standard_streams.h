// "-" as the name of a file: what comes in on stdin, what goes out on stdout.
#pragma once

namespace CLI {
class Option;
}

namespace octet {

// For one option of a command at a time. What comes through a pipe is taken whole, as these files
// are read at random.
CLI::Option* accept_standard_input(CLI::Option* option);
// REQUIRES: the command prints nothing on stdout, or check_free_standard_output() stands in front
// of that.
CLI::Option* accept_standard_output(CLI::Option* option);
// Throws Error(subject, ...) when an output goes to stdout. subject: an option that prints there.
void check_free_standard_output(const char* subject);

}  // namespace octet
