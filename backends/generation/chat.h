// Formats a conversation with the chat template that a model was trained on. Free of torch.
#pragma once

#include <string>

#include "backends/tokenizer/tokenizer.h"

namespace octet {

// The text that asks for an answer to one message of a user, special tokens included: encode it
// without adding others. Recognizes the families of chat templates by their tokens. Throws
// Error("generate", file, ...) for a tokenizer without a template or with one of another family.
std::string chat_prompt(const tokenizer::Tokenizer& words, const std::string& message);

}  // namespace octet
