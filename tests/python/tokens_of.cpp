// tokens_of TOKENIZER TEXTS.json [--chat]: prints a line of JSON for each text of the list, its
// token ids and what they decode to, or the prompt that asks for an answer to it.
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "backends/generation/chat.h"
#include "backends/tokenizer/tokenizer.h"

int main(int count, char** arguments) {
  if (count < 3) return 2;
  try {
    const octet::tokenizer::Tokenizer words = octet::tokenizer::read_tokenizer(arguments[1]);
    std::ifstream in(arguments[2]);
    for (const std::string text : nlohmann::json::parse(in)) {
      if (count == 4) {
        std::cout << nlohmann::json(octet::chat_prompt(words, text)).dump() << "\n";
        continue;
      }
      const std::vector<int64_t> ids = words.encode(text);
      std::cout << nlohmann::json{ids, words.decode(ids)}.dump() << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
