#include "core/passes/put_number.h"

#include <algorithm>

namespace octet {
namespace {

template <typename List, typename T>
void put_into_list(Argument& argument, const Value* value, const Argument& number) {
  const T* literal = number.find<T>();
  List* list = std::get_if<List>(static_cast<ArgumentVariant*>(&argument));
  if (literal == nullptr || list == nullptr) return;
  for (auto& item : list->items)
    if (Value** held = std::get_if<Value*>(&item); held != nullptr && *held == value)
      item = *literal;
}

void make_plain(Argument& argument) {
  const SymIntList* list = argument.find<SymIntList>();
  if (list == nullptr) return;
  std::vector<int64_t> numbers;
  for (const auto& item : list->items)
    if (const int64_t* number = std::get_if<int64_t>(&item)) numbers.push_back(*number);
  if (numbers.size() == list->items.size()) argument = std::move(numbers);
}

bool holds(const Argument& argument, const Value& value) {
  bool found = false;
  for_each_value(argument, [&](const Value* held) { found = found || held == &value; });
  return found;
}

}  // namespace

void put_number(Value& value, const Argument& number) {
  const std::vector<Node*> users = value.users();
  for (Node* user : users) {
    const std::vector<NamedArgument> arguments = user->arguments();
    for (const NamedArgument& argument : arguments) {
      // set_argument goes by names
      const bool is_only =
          std::count_if(arguments.begin(), arguments.end(), [&](const NamedArgument& other) {
            return other.name == argument.name;
          }) == 1;
      if (!is_only || !holds(argument.value, value)) continue;
      Argument changed = argument.value;
      if (changed.find<Value*>() != nullptr) changed = number;
      put_into_list<SymIntList, int64_t>(changed, &value, number);
      put_into_list<SymFloatList, double>(changed, &value, number);
      put_into_list<SymBoolList, bool>(changed, &value, number);
      make_plain(changed);
      user->set_argument(argument.name, std::move(changed), argument.kind);
    }
  }
}

}  // namespace octet
