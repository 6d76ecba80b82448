// Measures the peak of oneDNN's kernels on this machine, in 10^9 operations per second: the best
// over shapes that networks have, with packed weights, and with sources in cache or not, depending
// on the shape. Prints {"int8": ..., "float": ...}. A program's operations per second divided by
// this peak is its share of the hardware.
//
//   OMP_NUM_THREADS=1 octet_kernel_peak
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

struct Shape {
  const char* name;
  memory::dim channels, outputs, size, kernel;
};
constexpr Shape kShapes[] = {
    {"3x3 64", 64, 64, 56, 3},
    {"3x3 128", 128, 128, 28, 3},
    {"3x3 256", 256, 256, 14, 3},
    {"1x1 256", 256, 1024, 14, 1},
};
constexpr int kRuns = 12;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

memory allocate(const memory::desc& desc, const dnnl::engine& engine) {
  memory result(desc, engine);
  std::fill_n(static_cast<unsigned char*>(result.get_data_handle()), desc.get_size(),
              static_cast<unsigned char>(1));
  return result;
}

// Returns the fastest of some runs, because the peak is the speed of undisturbed kernels.
double measure(const Shape& shape, memory::data_type source, memory::data_type weights,
               memory::data_type destination, const dnnl::engine& engine) {
  const memory::dim pad = shape.kernel / 2;
  const memory::desc src({1, shape.channels, shape.size, shape.size}, source,
                         memory::format_tag::any);
  const memory::desc wei({shape.outputs, shape.channels, shape.kernel, shape.kernel}, weights,
                         memory::format_tag::any);
  const memory::desc dst({1, shape.outputs, shape.size, shape.size}, destination,
                         memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc desc(engine, dnnl::prop_kind::forward_inference,
                                                       dnnl::algorithm::convolution_direct, src,
                                                       wei, dst, {1, 1}, {pad, pad}, {pad, pad});
  const dnnl::convolution_forward convolution(desc);
  dnnl::stream stream(engine);
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, allocate(desc.src_desc(), engine)},
      {DNNL_ARG_WEIGHTS, allocate(desc.weights_desc(), engine)},
      {DNNL_ARG_DST, allocate(desc.dst_desc(), engine)}};
  double best = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const Clock::time_point start = Clock::now();
    convolution.execute(stream, arguments);
    stream.wait();
    best = std::min(best, seconds_since(start));
  }
  const double operations =
      2.0 * static_cast<double>(shape.outputs * shape.channels * shape.kernel * shape.kernel) *
      static_cast<double>(shape.size * shape.size);
  return operations / best / 1e9;
}

}  // namespace

int main() {
  using type = memory::data_type;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  double int8 = 0, single = 0;
  for (const Shape& shape : kShapes) {
    int8 = std::max(int8, measure(shape, type::u8, type::s8, type::u8, engine));
    single = std::max(single, measure(shape, type::f32, type::f32, type::f32, engine));
  }
  std::printf("{\"int8\": %.1f, \"float\": %.1f}\n", int8, single);
}
