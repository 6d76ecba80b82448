// Calls code from outside of Octet (a quantizer, a derive function, a backend) so that whatever it
// throws becomes an Error that names it.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet {

// An exception of another language that passes through unchanged. Not a std::exception, so that no
// handler swallows it.
struct ForeignException {
  std::exception_ptr error;
};

// Returns the result of `call`. Throws Error(stage, subject, "its annotate() says: ...") for
// exceptions other than Error, std::bad_alloc and bugs of Octet. what: "its annotate()".
template <typename Call>
auto in_user_code(const std::string& stage, const std::string& subject, const std::string& what,
                  const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const ForeignException&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(stage, subject, what + " says: " + first_line(error.what()));
  } catch (...) {
    throw Error(stage, subject,
                what + " threw something that is not a std::exception; throw an octet::Error");
  }
}

}  // namespace octet
