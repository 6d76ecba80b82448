// Gives Python a program that it trains (octet/_qat_module.py), and converts what it has trained.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "annotate/convert/convert.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observers/affine.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/observers/min_max.h"
#include "annotate/training/qat_conv_bn.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "tools/cli/qat/train.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report_file.h"
#include "tools/python/torch/bindings.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/data.h"
#include "tools/python/torch/graph.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

using Json = nlohmann::ordered_json;

QuantizeFlow flow_of(const nb::dict& settings, bool learns_ranges) {
  QuantizeFlow flow{.is_training = true};
  take(settings, options_of(flow), "train");
  flow.learns_ranges = learns_ranges;
  return flow;
}

template <typename Kind>
bool is_exactly(const Observer& observer) {
  return typeid(observer) == typeid(Kind);
}

// "": a kind that Python does not have.
std::string range_name(const Observer& observer) {
  const bool is_known = is_exactly<MinMaxObserver>(observer) ||
                        is_exactly<PerChannelMinMaxObserver>(observer) ||
                        is_exactly<AffineObserver>(observer);
  return is_known ? observer.args().choice.name : "";
}

std::string kind_name(const Observer& observer) {
  if (dynamic_cast<const DataFreeObserver*>(&observer) != nullptr) return "nothing";
  if (is_exactly<FixedQParamsFakeQuantize>(observer)) return "fixed";
  if (is_exactly<FusedMovingAvgObsFakeQuantize>(observer)) return "fused";
  if (is_exactly<LearnableFakeQuantize>(observer)) return "learnable";
  if (is_exactly<AffineFakeQuantize>(observer) || is_exactly<FakeQuantize>(observer))
    return "fake_quantize";
  return "observer";
}

Json json_of(const AffineOptions& options) {
  const auto dtype = [](const std::optional<DType>& given) {
    return given ? Json(name_of(*given)) : Json();
  };
  const Granularity& granularity = options.granularity;
  return {{"granularity", name_of(granularity.kind)},
          {"axis", granularity.axis},
          {"group_size", granularity.group_size},
          {"block_size", granularity.block_size},
          {"mapping_type", name_of(options.mapping_type)},
          {"scale_dtype", dtype(options.scale_dtype)},
          {"zero_point_dtype", dtype(options.zero_point_dtype)}};
}

Json json_of(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  const FakeQuantize* fake_quant = dynamic_cast<const FakeQuantize*>(&observer);
  const Observer& inner = fake_quant == nullptr ? observer : fake_quant->observer();
  Json json = {{"kind", kind_name(observer)},
               {"name", args.choice.name},
               {"range", range_name(inner)},
               {"dtype", name_of(args.dtype)},
               {"quant_min", observer.quant_min()},
               {"quant_max", observer.quant_max()},
               {"has_custom_range", args.quant_min.has_value()},
               {"qscheme", name_of(args.qscheme)},
               {"ch_axis", args.ch_axis.value_or(0)},
               {"is_dynamic", args.is_dynamic},
               {"eps", args.choice.eps.value_or(kFloatEps)},
               {"has_eps", args.choice.eps.has_value()},
               {"averaging_constant", args.choice.averaging_constant},
               {"affine", nullptr}};
  if (args.choice.affine) json["affine"] = json_of(*args.choice.affine);
  if (json["kind"] != "fixed") return json;
  const QParams qparams = observer.calculate_qparams();
  json["scale"] = qparams.scale.front();
  json["zero_point"] = qparams.zero_point.front();
  return json;
}

// The program as QatModel runs it, with an alias in place of each observer node, and a description
// of the aliases and of the observers.
std::pair<Graph, Json> marked_program(const ObservedGraph& observed) {
  std::unique_ptr<Graph> program = clone(observed.graph);
  move_scale_to_weight(*program);
  Json points = Json::array();
  for (Node* point : observer_nodes(*program)) {
    Value* input = point->find_input("input");
    const std::string seen = observed_value(*point)->name();
    const int group = group_of(*point);
    Node* alias = program->insert("aten.alias.default", {{"self", input}},
                                  program->fresh_name("fake_quant"), input->meta, point);
    program->replace_uses(point->output(), alias->output());
    program->erase(*point);
    points.push_back({{"name", alias->output()->name()}, {"value", seen}, {"group", group}});
  }
  Json observers = Json::array();
  for (const std::shared_ptr<Observer>& observer : observed.observers)
    observers.push_back(json_of(*observer));
  Json json = {{"points", points}, {"observers", observers}};
  return {std::move(*program), std::move(json)};
}

std::tuple<GraphHandle, std::string> training_program(const nb::dict& settings,
                                                      bool learns_ranges) {
  const QuantizeFlow flow = flow_of(settings, learns_ranges);
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    Report report;
    auto [graph, json] = marked_program(prepare_model(read_model(flow), flow, report));
    std::string text = text_of(json);
    return std::tuple(handle_of(std::move(graph), std::move(sources)), std::move(text));
  });
}

// What Python has learned for one observer.
struct Learned {
  ObserverState state;
  at::Tensor scale, zero_point;  // undefined: the observer rounds nothing, or saw no data
};

std::vector<float> numbers_of(nb::handle tensor) {
  const at::Tensor values = from_torch(tensor).to(at::kFloat).contiguous();
  const float* first = values.const_data_ptr<float>();
  return {first, first + values.numel()};
}

Learned learned_of(const nb::dict& given) {
  Learned learned;
  if (given.contains("min"))
    learned.state = {.min = numbers_of(given["min"]),
                     .max = numbers_of(given["max"]),
                     .histogram = {},
                     .batches = nb::cast<int64_t>(given["batches"]),
                     .first_min = numbers_of(given["first_min"]),
                     .first_max = numbers_of(given["first_max"])};
  if (!given.contains("scale")) return learned;
  learned.scale = from_torch(given["scale"]);
  learned.zero_point = from_torch(given["zero_point"]);
  return learned;
}

void restore(QatModel& model, const std::map<std::string, at::Tensor>& tensors,
             const std::vector<Learned>& groups) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.tensors()) {
    const auto given = tensors.find(name);
    if (given == tensors.end())
      throw Error("convert", name, "is missing; give the module of prepare_qat()");
    tensor.copy_(given->second);
  }
  const std::vector<std::shared_ptr<Observer>>& observers = model.prepared().observers;
  if (groups.size() != observers.size())
    throw Error("convert", "model",
                fmt::format("has {} fake-quants, want {}; give the module of prepare_qat()",
                            groups.size(), observers.size()));
  for (size_t i = 0; i < observers.size(); ++i) {
    if (observers[i]->keeps_state()) observers[i]->set_state(groups[i].state);
    if (FakeQuantize* fake_quant = dynamic_cast<FakeQuantize*>(observers[i].get());
        fake_quant != nullptr && groups[i].scale.defined())
      fake_quant->set_qparams(groups[i].scale, groups[i].zero_point);
  }
}

Outcome convert_trained(const nb::dict& settings, bool learns_ranges, const nb::dict& tensors,
                        const nb::list& groups) {
  QuantizeFlow flow = flow_of(settings, learns_ranges);
  std::vector<std::string> sources = sources_of(settings);
  std::map<std::string, at::Tensor> trained;
  for (const auto& [name, tensor] : tensors)
    trained[nb::cast<std::string>(name)] = from_torch(tensor);
  std::vector<Learned> learned;
  for (nb::handle group : groups) learned.push_back(learned_of(nb::cast<nb::dict>(group)));
  return without_gil([&] {
    Report report;
    const Graph float_model = read_model(flow);
    QatModel model(prepare_model(std::move(*clone(float_model)), flow, report));
    restore(model, trained, learned);
    ObservedGraph prepared = std::move(model).finish();
    ReportFile pages("qat", flow);
    pages.before_convert(prepared, annotations_to_json(prepared));
    Graph graph = convert_pt2e(std::move(prepared), {.compat = flow.compat}, report);
    pages.after_convert(graph, report);
    const Json figures = quality_json({}, weigh(float_model, graph, report), 0);
    return Outcome{.graph = handle_of(std::move(graph), std::move(sources)),
                   .report = pages.json(report, figures),
                   .page = text_of(pages.page(report, figures)),
                   .lines = quality_lines(figures),
                   .io = ""};
  });
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("training_program", training_program, "settings"_a, "learns_ranges"_a,
             "The prepared program, and JSON that describes its fake-quants.");
  module.def("order_of_batches", order_of_batches, "count"_a, "seed"_a, "epoch"_a,
             "The order in which `octet qat` trains in an epoch.");
  module.def("convert_trained", convert_trained, "settings"_a, "learns_ranges"_a, "tensors"_a,
             "groups"_a);
}

}  // namespace octet::python
