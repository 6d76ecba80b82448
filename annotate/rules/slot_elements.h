// Elements of list slots: "x[1]" is the second value that the slot x of cat(x...) binds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/pattern/pattern.h"

namespace octet {

struct AnnotationRule;

struct SlotElement {
  std::string slot;
  size_t element = 0;  // from 0, at most 999
};
// "x[1]"; nothing for plain names and for what is written otherwise ("x[01]", "x[-1]").
std::optional<SlotElement> parse_slot_element(std::string_view text);

// Whether `slot` is a slot of the pattern, or an element of one of its list slots.
bool is_slot_of(const Pattern& pattern, std::string_view slot);

// Adds a binding for each element that the rule names, so that Match::find("x[1]") gives it. Why
// the rule does not take the match after all: a list has no such element, or has its value twice;
// "".
std::string bind_elements(const AnnotationRule& rule, Match& match);

// The values that the cell of `slot` is for: what the slot binds, of a list slot without the
// elements that have cells of their own.
std::vector<Value*> rest_of(const AnnotationRule& rule, const std::string& slot,
                            const Match& match);

}  // namespace octet
