// See the header.
#include "lowering/program/real_functions.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace octet {
namespace {

constexpr RealFunction kFunctions[] = {
    {"sigmoid",     [](double x, double) { return 1 / (1 + std::exp(-x)); },                      1   },
    {"tanh",        [](double x, double) { return std::tanh(x); },                                1   },
    {"hardswish",   [](double x, double) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }, 1   },
    {"hardsigmoid", [](double x, double) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; },     1   },
    {"silu",        [](double x, double) { return x / (1 + std::exp(-x)); },                      1   },
    {"gelu",        [](double x, double) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); },     1   },
    {"gelu_tanh",
     [](double x,                double) {
       return 0.5 * x * (1 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x)));
     },                                                                          1   },
    {"leaky_relu",  [](double x, double alpha) { return x >= 0 ? x : alpha * x; },                0.01},
    {"elu",         [](double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); },     1   },
    {"exp",         [](double x, double) { return std::exp(x); },                                 1   },
    {"neg",         [](double x, double) { return -x; },                                          1   },
    {"abs",         [](double x, double) { return std::fabs(x); },                                1   },
    {"sqrt",        [](double x, double) { return std::sqrt(x); },                                1   },
    {"rsqrt",       [](double x, double) { return 1 / std::sqrt(x); },                            1   },
    {"pow",         [](double x, double alpha) { return std::pow(x, alpha); },                    1   },
};

}  // namespace

const RealFunction* find_real_function(std::string_view name) {
  const RealFunction* found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [name](const RealFunction& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace octet
