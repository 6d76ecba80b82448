// Writes torchao's affine quantize and dequantize ops for an observer, with scales that are stored
// or computed at run time.
#include "annotate/convert/convert_steps.h"

#include <algorithm>

#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

Argument or_none(const std::optional<int64_t>& value) {
  return value ? Argument(*value) : Argument(None{});
}
Argument or_none(const std::optional<double>& value) {
  return value ? Argument(*value) : Argument(None{});
}
Argument or_none(const std::optional<DType>& value) {
  return value ? Argument(*value) : Argument(None{});
}

// Sizes of the input; -1 where they are known at run time only.
std::vector<int64_t> known_shape(const TensorMeta& meta) {
  std::vector<int64_t> shape;
  for (const Dim& size : meta.sizes) shape.push_back(size.is_symbolic() ? -1 : size.value);
  return shape;
}

class AffineEmitter {
 public:
  AffineEmitter(Graph& graph, Node& point, Value* input, const AffineObserver& observer)
      : graph_(graph),
        point_(point),
        input_(input),
        observer_(observer),
        subject_("%" + observed_value(point)->name()),
        meta_(meta_of(*input)) {}

  Value* run() {
    shape_ = known_shape(meta_);
    if (!observer_.args().is_dynamic) fix_shape();
    block_ = block_size_of(observer_.options().granularity, shape_, subject_);
    const bool is_of_elements = std::ranges::all_of(block_, [](int64_t size) { return size == 1; });
    if (observer_.args().is_dynamic && is_of_elements) return input_;
    const auto [scale, zero_point] =
        observer_.args().is_dynamic ? choose_qparams() : stored_qparams();
    return add_pair(scale, zero_point);
  }

 private:
  static const TensorMeta& meta_of(const Value& input) {
    if (!input.meta)
      throw Error(
          "convert", "%" + input.name(),
          "its shape is not known, which affine quantization needs; export the model again");
    return *input.meta;
  }

  // With varying sizes, one stored scale per block fits a single shape: that of calibration.
  void fix_shape() {
    if (std::ranges::find(shape_, -1) == shape_.end()) return;
    if (!observer_.observed_shape())
      throw Error("convert", subject_,
                  "its scales would be stored, but the number of blocks is known only at run time; "
                  "calibrate and "
                  "convert in one run, or choose dynamic quantization");
    shape_ = *observer_.observed_shape();
  }

  std::pair<Value*, Value*> stored_qparams() {
    const auto [scale, zero_point] = observer_.qparam_tensors(shape_, meta_.dtype, subject_);
    return {add_numbered_constant(graph_, "_scale", from_aten(scale.contiguous())),
            add_numbered_constant(graph_, "_zero_point", from_aten(zero_point.contiguous()))};
  }

  std::pair<Value*, Value*> choose_qparams() {
    const ObserverArgs& args = observer_.args();
    const AffineOptions& options = observer_.options();
    Node* choose = graph_.add_node("torchao.choose_qparams_affine.default",
                                   {{"input", input_},
                                    {"mapping_type", std::string(name_of(options.mapping_type))},
                                    {"block_size", block_},
                                    {"target_dtype", args.dtype},
                                    {"quant_min", or_none(args.quant_min)},
                                    {"quant_max", or_none(args.quant_max)},
                                    {"eps", or_none(args.choice.eps)},
                                    {"scale_dtype", or_none(options.scale_dtype)},
                                    {"zero_point_dtype", or_none(options.zero_point_dtype)}},
                                   "choose_qparams_affine", &point_);
    const DType scale_dtype = options.scale_dtype.value_or(meta_.dtype);
    const DType without_option =
        options.mapping_type == MappingType::kAsymmetric ? DType::kInt32 : meta_.dtype;
    Value* scale =
        graph_.add_result(*choose, graph_.fresh_name("getitem"), scale_meta(scale_dtype));
    Value* zero_point =
        graph_.add_result(*choose, graph_.fresh_name("getitem"),
                          scale_meta(options.zero_point_dtype.value_or(without_option)));
    return {scale, zero_point};
  }

  // Sizes known only at run time are allowed for dimensions with one element per block, which the
  // scales keep.
  TensorMeta scale_meta(DType dtype) const {
    const std::vector<int64_t> hints = meta_.shape();
    TensorMeta result = make_meta(dtype, block_reduction(block_, hints).scales);
    size_t next = 0;
    for (size_t i = 0; i < block_.size(); ++i) {
      if (block_[i] != 1 && block_[i] == hints[i]) continue;
      if (block_[i] == 1) result.sizes[next] = meta_.sizes[i];
      ++next;
    }
    return result;
  }

  Value* add_pair(Value* scale, Value* zero_point) {
    TensorMeta meta = meta_;
    meta.requires_grad = false;
    TensorMeta quantized = meta;
    quantized.dtype = observer_.args().dtype;
    std::vector<NamedArgument> arguments = {{"input", input_},
                                            {"block_size", block_},
                                            {"scale", scale},
                                            {"zero_point", zero_point},
                                            {"output_dtype", observer_.args().dtype},
                                            {"quant_min", or_none(observer_.args().quant_min)},
                                            {"quant_max", or_none(observer_.args().quant_max)}};
    Node* quantize = graph_.insert("torchao.quantize_affine.default", arguments, "quantize_affine",
                                   quantized, &point_);
    arguments[0].value = quantize->output();
    arguments[4].name = "input_dtype";
    arguments.push_back({"output_dtype", meta.dtype, ArgumentKind::kKeyword});
    return graph_
        .insert("torchao.dequantize_affine.default", std::move(arguments), "dequantize_affine",
                meta, &point_)
        ->output();
  }

  Graph& graph_;
  Node& point_;
  Value* input_;
  const AffineObserver& observer_;
  std::string subject_;  // for messages
  const TensorMeta& meta_;
  std::vector<int64_t> shape_;  // -1: known at run time only
  std::vector<int64_t> block_;
};

}  // namespace

Value* add_affine_pair(Graph& graph, Node& point, Value* input, const AffineObserver& observer) {
  return AffineEmitter(graph, point, input, observer).run();
}

Value* add_numbered_constant(Graph& graph, const std::string& prefix, Tensor tensor) {
  const auto is_taken = [&](int number) {
    return graph.constants.contains(prefix + std::to_string(number));
  };
  // Numbers have no gaps, so the first free one can be found by bisection.
  int low = -1;  // taken, or before all
  int high = 0;
  for (; is_taken(high); high = 2 * high + 1) low = high;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (is_taken(middle) ? low : high) = middle;
  }
  return graph.add_constant(prefix + std::to_string(high), std::move(tensor));
}

}  // namespace octet
