// Elements of activations: floats or signed bytes.
#pragma once

#include <cstdint>

namespace octet::xnnpack {

// real = scale * (byte - zero_point)
struct ByteScale {
  float scale = 1;
  int32_t zero_point = 0;
};

// Calls body(X(), Y()) with the element types of an input and an output: int8_t where it has bytes,
// else float.
template <typename Body>
void with_elements(bool has_byte_input, bool has_byte_output, const Body& body) {
  if (has_byte_input && has_byte_output) return body(int8_t{}, int8_t{});
  if (has_byte_input) return body(int8_t{}, float{});
  has_byte_output ? body(float{}, int8_t{}) : body(float{}, float{});
}

}  // namespace octet::xnnpack
