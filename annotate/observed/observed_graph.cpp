#include "annotate/observed/observed_graph.h"

#include <fmt/format.h>

#include "annotate/observers/data_free.h"
#include "core/base/error.h"

namespace octet {
namespace {

// Who computed the qparams, for messages.
std::string source_of(const Observer& observer) {
  if (const DerivedObserver* derived = dynamic_cast<const DerivedObserver*>(&observer))
    return fmt::format("the derive function \"{}\"", derived->function());
  return fmt::format("the observer \"{}\"", observer.args().choice.name);
}

void check_channels(const QParams& qparams, const Value& value, const std::string& source,
                    const std::string& subject) {
  const size_t count = qparams.scale.size();
  if (qparams.axis < 0 && count != 1)
    throw Error(
        "convert", subject,
        fmt::format("{} returned {} scales for the whole tensor, want 1; set the qscheme and "
                    "the axis of channels",
                    source, count));
  if (qparams.axis < 0 || !value.meta) return;
  const std::vector<Dim>& sizes = value.meta->sizes;
  const size_t axis = static_cast<size_t>(qparams.axis);
  if (axis >= sizes.size())
    throw Error("convert", subject,
                fmt::format("its channels are along dimension {}, but it has {}; correct ch_axis",
                            axis, sizes.size()));
  if (!sizes[axis].is_symbolic() && static_cast<size_t>(sizes[axis].value) != count)
    throw Error(
        "convert", subject,
        fmt::format("{} returned {} scales for the {} channels along dimension {}; want one "
                    "each",
                    source, count, sizes[axis].value, axis));
}

}  // namespace

std::string subject_of_point(const Node& point) {
  Value* value = observed_value(point);
  const std::vector<Node*>& users = point.output()->users();
  return fmt::format("{} (observer group {})",
                     users.size() == 1 ? to_text(Edge{value, users.front()}) : to_text(value),
                     group_of(point));
}

QParams qparams_at(const Node& point, const Observer& observer) {
  const std::string subject = subject_of_point(point);
  const std::string source = source_of(observer);
  try {
    const QParams qparams = observer.calculate_qparams();
    check_qparams(qparams, {observer.quant_min(), observer.quant_max()}, source);
    if (!observer.args().choice.affine)
      check_channels(qparams, *observed_value(point), source, subject);
    return qparams;
  } catch (const Error& error) {
    if (error.subject() == subject) throw;
    throw Error("convert", subject, error.without_stage());
  }
}

QParams qparams_of(const ObservedGraph& observed, const Value& value) {
  for (const Node* user : value.users())
    if (is_observer_node(user))
      return qparams_at(*user, *observed.observers.at(static_cast<size_t>(group_of(*user))));
  throw Error("convert", "%" + value.name(), "has no observer; give it a spec");
}

}  // namespace octet
