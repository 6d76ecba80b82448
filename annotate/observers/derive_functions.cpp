#include "annotate/observers/derive_functions.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/observers/observer.h"
#include "core/base/error.h"

namespace octet {
namespace {

std::vector<QParams> qparams_of(const std::vector<std::shared_ptr<Observer>>& observers) {
  std::vector<QParams> result;
  for (const std::shared_ptr<Observer>& observer : observers)
    result.push_back(observer->calculate_qparams());
  return result;
}

// Applies `combine` element by element; a vector of one element serves all channels.
std::vector<float> combine_scales(const std::vector<QParams>& qparams,
                                  float (*combine)(float, float)) {
  size_t channels = 1;
  for (const QParams& q : qparams) channels = std::max(channels, q.scale.size());
  std::vector<float> result(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < qparams.size(); ++i) {
      const std::vector<float>& scale = qparams[i].scale;
      if (scale.size() != 1 && scale.size() != channels)
        throw Error(
            "convert", "derived",
            fmt::format("scales of different lengths, got {} and {}", scale.size(), channels));
      const float value = scale.size() == 1 ? scale[0] : scale[c];
      result[c] = i == 0 ? value : combine(result[c], value);
    }
  }
  return result;
}

DerivedQParams product_of_scales(const std::vector<std::shared_ptr<Observer>>& observers) {
  DerivedQParams result{
      combine_scales(qparams_of(observers), [](float a, float b) { return a * b; }), {}};
  result.zero_point.assign(result.scale.size(), 0);
  return result;
}

DerivedQParams sum_of_scales(const std::vector<std::shared_ptr<Observer>>& observers) {
  const std::vector<QParams> qparams = qparams_of(observers);
  DerivedQParams result{combine_scales(qparams, [](float a, float b) { return a + b; }),
                        qparams.front().zero_point};
  if (result.zero_point.size() == 1)
    result.zero_point.resize(result.scale.size(), result.zero_point[0]);
  return result;
}

struct DeriveRow {
  std::string name;
  DeriveQParamsFn derive;
};

// The built-in functions, then those that were registered.
std::vector<DeriveRow>& rows() {
  static std::vector<DeriveRow> all = {{"product_of_scales", product_of_scales},
                                       {"sum_of_scales", sum_of_scales}};
  return all;
}

}  // namespace

std::vector<std::string> derive_fn_names() {
  std::vector<std::string> names;
  for (const DeriveRow& row : rows()) names.push_back(row.name);
  return names;
}

DeriveQParamsFn find_derive_fn(std::string_view name) {
  for (const DeriveRow& row : rows())
    if (row.name == name) return row.derive;
  return nullptr;
}

void register_derive_fn(const std::string& name, DeriveQParamsFn derive) {
  const std::string subject = fmt::format("derive function \"{}\"", name);
  if (!derive) throw Error("prepare", subject, "got no function; register one");
  if (find_derive_fn(name))
    throw Error("prepare", subject, "the name is taken; choose another one");
  rows().push_back({name, std::move(derive)});
}

DerivedQuantizationSpec derived_by(const std::string& name, DType dtype,
                                   std::optional<int> ch_axis) {
  DerivedQuantizationSpec spec;
  spec.derive_name = name;
  spec.derive_qparams_fn = find_derive_fn(name);
  if (!spec.derive_qparams_fn)
    throw Error("annotate", fmt::format("derive function \"{}\"", name),
                fmt::format("unknown, want one of {}", fmt::join(derive_fn_names(), ", ")));
  spec.dtype = dtype;
  spec.qscheme = ch_axis ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  spec.ch_axis = ch_axis;
  return spec;
}

}  // namespace octet
