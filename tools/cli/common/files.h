// Handles the files that a command names: "-" for stdin and stdout, outputs that would overwrite an
// input, and text within a torch.save file.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace octet {

// Throws Error(command's name, file, ...) when an output of a parsed command is the same file as
// another option or argument, also through links: writing it would destroy an input. --checkpoint
// is exempt, because a resumed run replaces its file on purpose.
void check_outputs(const CLI::App& command);

// Lets an option take "-". A pipe is read whole, because these files need random access.
CLI::Option* accept_standard_input(CLI::Option* option);
// REQUIRES: the command prints nothing on stdout, or calls check_free_standard_output() first.
CLI::Option* accept_standard_output(CLI::Option* option);
// Throws Error(subject, ...) if an output goes to stdout. subject: the option that prints there.
void check_free_standard_output(const char* subject);

at::Tensor tensor_of_text(const std::string& text);
// Returns "" if the tensor does not hold bytes.
std::string text_of_tensor(const at::Tensor& bytes);

}  // namespace octet
