// Writes ONNX files. No other source includes the code that protoc generates from onnx.proto.
#include "tools/onnx/model.h"

#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "onnx.pb.h"

namespace octet {
namespace {

constexpr size_t kLargestFile = 2'000'000'000;  // protobuf's limit is 2^31 - 1
constexpr size_t kLeastBeside = 1024;
constexpr size_t kAlignment = 4096;  // alignment in the weights' file, for mmap

// The IR version that was released with an opset.
int64_t ir_version(int64_t opset) { return opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : 11; }

void write_graph(const OnnxGraph& graph, bool has_metadata, onnx::GraphProto& made);

struct AttributeWriter {
  onnx::AttributeProto& attribute;
  bool has_metadata;

  void operator()(int64_t value) const {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::string& value) const {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) attribute.add_ints(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) attribute.add_strings(value);
  }
  void operator()(const Tensor& tensor) const {
    attribute.set_type(onnx::AttributeProto::TENSOR);
    onnx::TensorProto& made = *attribute.mutable_t();
    made.set_data_type(static_cast<int32_t>(onnx_type_of(tensor.dtype(), attribute.name())));
    for (int64_t size : tensor.shape()) made.add_dims(size);
    const Tensor data = tensor.contiguous();
    made.set_raw_data(data.raw(), data.nbytes());
  }
  void operator()(const std::shared_ptr<OnnxGraph>& graph) const {
    attribute.set_type(onnx::AttributeProto::GRAPH);
    attribute.mutable_g()->set_name(attribute.name());
    write_graph(*graph, has_metadata, *attribute.mutable_g());
  }
};

void write_entries(const std::vector<std::pair<std::string, std::string>>& entries, auto add) {
  for (const auto& [key, value] : entries) {
    if (value.empty()) continue;
    onnx::StringStringEntryProto& entry = *add();
    entry.set_key(key);
    entry.set_value(value);
  }
}

void write_node(const OnnxNode& node, bool has_metadata, onnx::NodeProto& made) {
  made.set_op_type(node.op);
  made.set_name(node.name);
  for (const std::string& name : node.inputs) made.add_input(name);
  for (const std::string& name : node.outputs) made.add_output(name);
  for (const auto& [key, value] : node.attributes) {
    onnx::AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(key);
    std::visit(AttributeWriter{attribute, has_metadata}, value);
  }
  if (has_metadata) write_entries(node.metadata, [&] { return made.add_metadata_props(); });
}

void write_value(const OnnxValue& value, onnx::ValueInfoProto& made) {
  made.set_name(value.name);
  onnx::TypeProto::Tensor& type = *made.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(value.type));
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  for (const OnnxDim& dim : value.dims) {
    if (dim.name.empty())
      shape.add_dim()->set_dim_value(dim.value);
    else
      shape.add_dim()->set_dim_param(dim.name);
  }
}

void write_graph(const OnnxGraph& graph, bool has_metadata, onnx::GraphProto& made) {
  for (const OnnxValue& input : graph.inputs) write_value(input, *made.add_input());
  for (const OnnxValue& output : graph.outputs) write_value(output, *made.add_output());
  for (const OnnxNode& node : graph.nodes) write_node(node, has_metadata, *made.add_node());
}

std::string_view bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.nbytes()};
}

// Writes tensors one after the other to a separate file.
class WeightsFile {
 public:
  explicit WeightsFile(const std::filesystem::path& path)
      : name_(path.filename().string()), file_(path, "onnx") {}

  void add(const Tensor& data, onnx::TensorProto& made) {
    const std::string padding((kAlignment - size_ % kAlignment) % kAlignment, '\0');
    file_.write(padding);
    size_ += padding.size();
    made.set_data_location(onnx::TensorProto::EXTERNAL);
    write_entries({{"location", name_},
                   {"offset", std::to_string(size_)},
                   {"length", std::to_string(data.nbytes())}},
                  [&] { return made.add_external_data(); });
    file_.write(bytes_of(data));
    size_ += data.nbytes();
  }
  void commit() { file_.commit(); }

 private:
  std::string name_;
  OutputFile file_;
  size_t size_ = 0;
};

size_t size_of_weights(const OnnxModel& model) {
  size_t size = 0;
  for (const OnnxInitializer& constant : model.initializers) size += constant.data.nbytes();
  return size;
}

}  // namespace

OnnxFiles write_onnx(const OnnxModel& model, const std::filesystem::path& path,
                     OnnxWeights weights) {
  OnnxFiles files;
  if (weights == OnnxWeights::kBeside || size_of_weights(model) > kLargestFile)
    files.weights = path.string() + ".data";
  OutputFile file(path, "onnx");
  std::optional<WeightsFile> beside;
  if (!files.weights.empty()) beside.emplace(files.weights);

  onnx::ModelProto made;
  made.set_ir_version(ir_version(model.opset));
  made.set_producer_name("octet");
  made.set_producer_version(OCTET_VERSION);
  made.add_opset_import()->set_version(model.opset);
  made.mutable_opset_import(0)->set_domain("");
  write_entries(model.metadata, [&] { return made.add_metadata_props(); });
  onnx::GraphProto& graph = *made.mutable_graph();
  graph.set_name(path.stem().string());
  write_graph(model, made.ir_version() >= 10, graph);
  for (const OnnxInitializer& constant : model.initializers) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(constant.name);
    tensor.set_data_type(static_cast<int32_t>(constant.type));
    for (int64_t size : constant.shape) tensor.add_dims(size);
    if (beside && constant.data.nbytes() >= kLeastBeside)
      beside->add(constant.data, tensor);
    else
      tensor.set_raw_data(constant.data.raw(), constant.data.nbytes());
  }
  std::string bytes;
  if (made.ByteSizeLong() > kLargestFile || !made.SerializeToString(&bytes))
    throw Error("onnx", path.string(),
                fmt::format("would have {} bytes beside its weights, want at most {}",
                            made.ByteSizeLong(), kLargestFile));
  files.bytes = bytes.size();
  file.write(bytes);
  if (beside) beside->commit();
  file.commit();
  return files;
}

}  // namespace octet
