#include "tools/cli/commands/command.h"

int main(int argc, char** argv) { return octet::run_command_line(argc, argv); }
