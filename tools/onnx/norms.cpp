// Normalizations and softmax.
#include <numeric>

#include "core/base/shape.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

float epsilon(const OnnxSteps& s) { return static_cast<float>(s.node.float_or("eps", 1e-5)); }

bool is_used(const Value* value) { return !value->is_unused(); }

// Weight or bias of channels, or what stands for it.
std::string of_channels(OnnxSteps& s, std::initializer_list<const char*> names, double value,
                        int64_t channels) {
  const std::string given = s.input(names);
  return given.empty() ? s.filled(value, {channels}, s.dtype(s.self())) : given;
}

void convert_batch_norm(OnnxSteps& s) {
  const bool is_training = s.node.bool_or("training", s.node.bool_or("train", false));
  const std::string mean = s.input("running_mean"), variance = s.input("running_var");
  if (is_training || mean.empty() || variance.empty())
    return s.refuse("by the statistics of its input");
  const std::optional<int64_t> channels = s.fixed_size(s.self(), 1);
  if (!channels) return;
  const std::string weight = of_channels(s, {"weight"}, 1, *channels);
  const std::string bias = of_channels(s, {"bias"}, 0, *channels);
  s.give(
      s.op("BatchNormalization", {s.x(), weight, bias, mean, variance}, {{"epsilon", epsilon(s)}}));
}

void convert_layer_norm(OnnxSteps& s) {
  const std::vector<int64_t> shape = s.node.ints_or("normalized_shape", {});
  std::string weight = s.input("weight");
  if (weight.empty()) weight = s.filled(1, shape, s.dtype(s.self()));
  const std::vector<Value*> results = s.node.outputs();
  for (size_t i = 1; i < results.size(); ++i)
    if (is_used(results[i])) return s.refuse("whose mean or deviation is used");
  s.give(s.op("LayerNormalization", {s.x(), weight, s.input("bias")},
              {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", epsilon(s)}}));
}

// [C] as [C, 1, 1] for x of rank 4.
std::string along_channels(OnnxSteps& s, const std::string& name, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t d = 2; d < rank; ++d) axes.push_back(static_cast<int64_t>(d) - 1);
  return s.unsqueeze(name, axes);
}

std::string scaled_and_shifted(OnnxSteps& s, std::string y, size_t rank) {
  const std::string weight = s.input("weight"), bias = s.input("bias");
  if (!weight.empty()) y = s.mul(y, along_channels(s, weight, rank));
  if (!bias.empty()) y = s.add(y, along_channels(s, bias, rank));
  return y;
}

// The groups as the channels of an instance norm; then weight and bias of the channels.
void convert_group_norm(OnnxSteps& s) {
  const size_t rank = s.rank(s.self());
  const int64_t groups = s.node.int_or("num_groups", s.node.int_or("group", 1));
  const DType dtype = s.dtype(s.self());
  const std::string apart = s.reshape(s.x(), {0, groups, -1});
  const std::string ones = s.filled(1, {groups}, dtype), zeros = s.filled(0, {groups}, dtype);
  const std::string y =
      s.op("InstanceNormalization", {apart, ones, zeros}, {{"epsilon", epsilon(s)}});
  s.give(scaled_and_shifted(s, s.reshaped(y, s.self(), s.result()), rank));
}

void convert_instance_norm(OnnxSteps& s) {
  if (!s.node.bool_or("use_input_stats", true)) return s.refuse("by running statistics");
  const std::optional<int64_t> channels = s.fixed_size(s.self(), 1);
  if (!channels) return;
  const std::string weight = of_channels(s, {"weight"}, 1, *channels);
  const std::string bias = of_channels(s, {"bias"}, 0, *channels);
  s.give(s.op("InstanceNormalization", {s.x(), weight, bias}, {{"epsilon", epsilon(s)}}));
}

// x / sqrt(mean(x * x) + eps) * weight
void convert_rms_norm(OnnxSteps& s) {
  std::vector<int64_t> axes;
  const size_t count = s.node.ints_or("normalized_shape", {0}).size();
  for (size_t i = count; i > 0; --i) axes.push_back(-static_cast<int64_t>(i));
  const std::string x = s.x();
  const std::string mean = s.reduce("ReduceMean", s.mul(x, x), axes, true);
  const double eps = s.has("eps") ? s.node.float_or("eps", 0) : 1.1920929e-07;
  std::string y = s.div(x, s.op("Sqrt", {s.add(mean, s.number(eps))}));
  if (s.has("weight")) y = s.mul(y, s.input("weight"));
  s.give(y);
}

void give_softmax(OnnxSteps& s, const char* type) {
  if (s.rank(s.self()) == 0) return s.refuse("of a tensor without dimensions");
  s.give(s.op(type, {s.cast(s.self(), s.dtype(s.result()))},
              {{"axis", static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", -1)))}}));
}
void convert_softmax(OnnxSteps& s) { give_softmax(s, "Softmax"); }
void convert_log_softmax(OnnxSteps& s) { give_softmax(s, "LogSoftmax"); }

constexpr OnnxRow kNormRows[] = {
    {"aten.batch_norm", convert_batch_norm},
    {"aten.native_batch_norm", convert_batch_norm},
    {"aten._native_batch_norm_legit_no_training", convert_batch_norm},
    {"aten.layer_norm", convert_layer_norm},
    {"aten.native_layer_norm", convert_layer_norm},
    {"aten.group_norm", convert_group_norm},
    {"aten.native_group_norm", convert_group_norm},
    {"aten.instance_norm", convert_instance_norm},
    {"aten.rms_norm", convert_rms_norm},
    {"aten.softmax", convert_softmax},
    {"aten._softmax", convert_softmax},
    {"aten.log_softmax", convert_log_softmax},
    {"aten._log_softmax", convert_log_softmax},
};

}  // namespace

std::span<const OnnxRow> norm_onnx_rows() { return kNormRows; }

}  // namespace octet
