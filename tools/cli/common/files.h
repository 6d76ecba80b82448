// Handles the files that a command names: "-" for stdin and stdout, and text within a torch.save
// file.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace octet {

// The file that an option names; "-": stdin. A pipe is read whole, because these files need random
// access.
std::string input_path(const std::string& name);
// The file that an output names; "-": stdout. REQUIRES: the command prints nothing on stdout, or
// calls check_free_standard_output() first.
std::string output_path(const std::string& name);
// Throws Error(subject, ...) if an output goes to stdout. subject: the option that prints there.
void check_free_standard_output(const char* subject);

at::Tensor tensor_of_text(const std::string& text);
// Returns "" if the tensor does not hold bytes.
std::string text_of_tensor(const at::Tensor& bytes);

}  // namespace octet
