// beside_torch PROGRAM.octet INPUT.raw OUTPUT.raw: a program that uses both LibTorch and the
// runtime. LibTorch's thread pool (through QNNPACK) and oneDNN run before and after the .octet
// file, and must give the same results both times.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <octet.h>
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Free {
  void operator()(octet_model* model) const { octet_free(model); }
};
// Global: freed when the process ends, after the libraries that were opened in main.
std::unique_ptr<octet_model, Free> model;

std::vector<at::Tensor> torch_results() {
  torch::manual_seed(0);
  const at::Tensor images = torch::randn({1, 16, 32, 32}), filters = torch::randn({32, 16, 3, 3});
  const at::Tensor x = at::quantize_per_tensor(torch::randn({64, 256}), 0.05, 128, at::kQUInt8);
  const at::Tensor w = at::quantize_per_tensor(torch::randn({128, 256}), 0.05, 0, at::kQInt8);
  const auto call = [](const char* name, torch::jit::Stack stack) {
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
    return stack.at(0);
  };
  const at::IValue packed = call("quantized::linear_prepack", {w, c10::nullopt});
  return {torch::conv2d(images, filters),
          call("quantized::linear", {x, packed, 0.5, int64_t{128}}).toTensor().int_repr()};
}

int fail(const std::string& message) {
  std::cerr << "beside_torch: " << message << "\n";
  return 1;
}

int run(const char* input_path, const char* output_path) {
  octet_tensor_info info = {};
  info.size = sizeof info;
  octet_output(model.get(), 0, &info);
  std::vector<char> output(info.bytes);
  octet_input(model.get(), 0, &info);
  std::ifstream file(input_path, std::ios::binary);
  const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
  if (input.size() != info.bytes) return fail("the input has another size");
  const void* const inputs[] = {input.data()};
  void* const outputs[] = {output.data()};
  if (octet_run(model.get(), inputs, outputs) != OCTET_OK) return fail(octet_last_error());
  std::ofstream(output_path, std::ios::binary)
      .write(output.data(), static_cast<std::streamsize>(output.size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("want PROGRAM.octet INPUT.raw OUTPUT.raw");
  at::globalContext().setQEngine(at::QEngine::QNNPACK);
  const std::vector<at::Tensor> before = torch_results();
  octet_options options = {};
  options.size = sizeof options;
  options.threads = 2;
  model.reset(octet_load(argv[1], &options));
  if (model == nullptr) return fail(octet_last_error());
  if (const int code = run(argv[2], argv[3]); code != 0) return code;
  const std::vector<at::Tensor> after = torch_results();
  for (size_t i = 0; i < before.size(); ++i)
    if (!torch::equal(before[i], after[i]))
      return fail("LibTorch computes something else after the runtime ran");
  return 0;
}
