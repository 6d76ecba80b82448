#include "backends/runtime/plugin_backend.h"

#include <array>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "backends/runtime/plugin_program.h"
#include "core/base/error.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

constexpr size_t kMostEntries = 100'000;  // of a list that a plug-in ends with NULL

// What a plug-in writes its message to.
class Message {
 public:
  Message() { text_[0] = '\0'; }
  char* data() { return text_.data(); }
  size_t capacity() const { return text_.size(); }
  // Empty if the plug-in wrote nothing; it may have overwritten the final 0.
  std::string text() const { return {text_.data(), ::strnlen(text_.data(), text_.size())}; }

 private:
  std::array<char, 2048> text_;
};

// The caller adds the names of the function and the ops (in_user_code).
void check(octet_plugin_status status, const Message& message) {
  if (status == OCTET_PLUGIN_OK) return;
  if (status != OCTET_PLUGIN_FAILED)
    throw std::runtime_error(fmt::format(
        "got status {}, want OCTET_PLUGIN_OK or OCTET_PLUGIN_FAILED", static_cast<int>(status)));
  const std::string text = message.text();
  throw std::runtime_error(text.empty() ? "it failed without a message" : text);
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> names_of(size_t count, const char* const* names) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(text_of(names[i]));
  return texts;
}

class PluginSegment : public CompiledSegment {
 public:
  PluginSegment(const Plugin& plugin, const Program& program, const Segment& segment)
      : table_(plugin.table),
        program_(program, ops_of(program, segment), segment.inputs, segment.outputs,
                 plugin.table.reads_compact != 0),
        inputs_(segment.inputs.size()),
        outputs_(segment.outputs.size()) {
    for (int index : segment.outputs) shapes_.push_back(program.tensor(index).shape);
    const auto lowered = program.versions.find(hash_key(plugin.name));
    if (lowered == program.versions.end() || lowered->second == plugin.hash) return;
    const std::string reason = fmt::format(
        "the program was lowered with another build of the plug-in {} ({}, here {}); lower the "
        "model again",
        plugin.name, lowered->second, plugin.hash);
    other_build_.cause = reason;
    for (const ProgramOp* op : ops_of(program, segment)) other_build_.ops.push_back(op->name);
  }
  ~PluginSegment() override {
    if (compiled_ != nullptr) table_.destroy(compiled_);
  }

  // Whether the plug-in gave a segment.
  bool compile(int threads) {
    Message message;
    octet_plugin_segment* compiled = nullptr;
    check(table_.compile(program_.view(), threads, &compiled, message.data(), message.capacity()),
          message);
    compiled_ = compiled;
    return compiled_ != nullptr;
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i] = inputs[i].raw();
    for (size_t i = 0; i < outputs.size(); ++i) outputs_[i] = outputs[i].raw();
    Message message;
    check(
        table_.run(compiled_, inputs_.data(), outputs_.data(), message.data(), message.capacity()),
        message);
  }

  std::vector<int64_t> output_shape(size_t output) const override {
    if (table_.output_shape == nullptr) return {};
    const std::vector<int64_t>& most = shapes_[output];
    std::vector<int64_t> sizes = most;
    if (table_.output_shape(compiled_, output, sizes.data(), static_cast<int>(sizes.size())) == 0)
      return {};
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] < 0 || sizes[i] > most[i])
        throw Error("session", table_.name,
                    fmt::format("its output_shape() gives output {} the size {} in dimension {}, "
                                "want 0 to {}",
                                output, sizes[i], i, most[i]));
    return sizes;
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> reports;
    if (table_.kernel == nullptr) return reports;
    while (const octet_plugin_kernel* kernel = table_.kernel(compiled_, reports.size())) {
      reports.push_back({names_of(kernel->op_count, kernel->ops), text_of(kernel->what),
                         text_of(kernel->kernel), text_of(kernel->layout),
                         text_of(kernel->post_ops), kernel->seconds, text_of(kernel->note)});
      check_count(reports.size());
    }
    return reports;
  }

  void time_kernels(bool on) override {
    if (table_.time_kernels != nullptr) table_.time_kernels(compiled_, on ? 1 : 0);
  }

  std::vector<Warning> warnings() const override {
    std::vector<Warning> all;
    if (table_.warning != nullptr)
      while (const octet_plugin_warning* warning = table_.warning(compiled_, all.size())) {
        all.push_back({text_of(warning->cause), names_of(warning->op_count, warning->ops)});
        check_count(all.size());
      }
    std::erase_if(all, [](const Warning& warning) { return warning.ops.empty(); });
    if (!other_build_.cause.empty()) all.push_back(other_build_);
    return all;
  }

 private:
  static std::vector<const ProgramOp*> ops_of(const Program& program, const Segment& segment) {
    std::vector<const ProgramOp*> ops;
    for (int index : segment.ops) ops.push_back(&program.op(index));
    return ops;
  }
  static void check_count(size_t count) {
    if (count > kMostEntries)
      throw std::runtime_error("its kernel() or warning() never returns NULL");
  }

  const octet_plugin& table_;
  PluginProgram program_;
  octet_plugin_segment* compiled_ = nullptr;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<std::vector<int64_t>> shapes_;  // of the outputs
  Warning other_build_;                       // no cause: it is the same
};

}  // namespace

std::string hash_key(const std::string& plugin) { return plugin + ":library"; }

std::map<std::string, std::string> PluginSupport::versions() const {
  std::map<std::string, std::string> versions = plugin_.versions;
  versions[hash_key(plugin_.name)] = plugin_.hash;
  return versions;
}

Verdict PluginSupport::accepts(const Program& program, const ProgramOp& op) const {
  if (is_control(op)) return Verdict::refuse("the session runs control flow");
  if (const ProgramTensor* tensor = find_unknown_dtype(program, op))
    return Verdict::refuse(
        fmt::format("{} is {}, which plug-ins do not know", tensor->name, name_of(tensor->dtype)));
  const PluginProgram only(program, op, plugin_.table.reads_compact != 0);
  Message message;
  const octet_plugin_status status =
      plugin_.table.accepts(only.view(), message.data(), message.capacity());
  if (status == OCTET_PLUGIN_REFUSED) return Verdict::refuse(message.text());
  check(status, message);
  return Verdict::accept();
}

std::vector<std::string_view> PluginSupport::kinds() const {
  return {plugin_.kinds.begin(), plugin_.kinds.end()};
}

std::unique_ptr<CompiledSegment> PluginBackend::compile(const Program& program,
                                                        const Segment& segment, int threads) const {
  auto compiled = std::make_unique<PluginSegment>(plugin_, program, segment);
  if (!compiled->compile(threads)) return nullptr;
  return compiled;
}

}  // namespace octet
