// The input under a band of output rows is copied to scratch memory with its padding (widened for kWords); 1x1 convolutions of bytes read x itself. Then each
// block of channels goes over the band's pixels in tiles, so that its weights are read once for the band.
#include "backends/onednn/onednn_byte_conv.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backends/onednn/onednn_byte_bins.h"
#include "backends/onednn/onednn_isa.h"
#include "backends/onednn/onednn_vnni.h"
#include "core/error.h"

namespace octet::onednn {
namespace {

constexpr int64_t kScratch = 128 * 1024;  // bytes of input under a band, for each thread
constexpr int64_t kBandPixels = 112;      // enough that reading weights is little beside multiplying
constexpr double kMostBinCost = 0.97;     // of kWords: else its scratch memory is the better bargain

// The weights of a convolution, packed: what sessions share. Independent of the sizes of x.
struct PackedTiles {
  const TileKernels* kernels = nullptr;
  std::vector<int64_t> first;                // per block: bytes
  std::vector<std::array<int32_t, kMostBin>> bins;  // per block; kPairs
  std::vector<std::vector<int32_t>> order;   // per block: steps; kPairs
  std::shared_ptr<std::byte> weights;
};

// A run of x's elements that the kernel reads in one piece, seen from a pixel.
struct Run {
  int64_t kernel_row = 0;  // depth * kernel height + height
  int64_t column = 0;      // in the kernel
  int64_t elements = 0;
};

struct Plan {
  ByteConvShape shape;
  ByteConvOutput output;
  std::shared_ptr<const PackedTiles> packed;
  bool is_in_place = false;  // x itself is read
  int64_t blocks = 1;        // of a group
  int64_t band = 1;          // output rows under which the input is copied
  int64_t columns = 1;       // output columns of a tile of them
  int64_t scratch_rows = 1;  // input rows of a band in one plane
  int64_t row_step = 0;      // bytes of one scratch row: all groups, one after the other
  int64_t group_step = 0;    // bytes of one group in it
  int64_t x_step = 0;        // bytes between pixels
  std::vector<std::vector<int32_t>> offsets;  // per block (kPairs), or one for all
  std::vector<float> scale, bias;             // per block: padded
};

std::vector<Run> runs_of(const ByteConvShape& s) {
  std::vector<Run> runs;
  const bool is_dense = s.dilation[2] == 1;
  for (int64_t row = 0; row < s.kernel[0] * s.kernel[1]; ++row)
    for (int64_t column = 0; column < (is_dense ? 1 : s.kernel[2]); ++column) runs.push_back({row, column, s.channels * (is_dense ? s.kernel[2] : 1)});
  return runs;
}

int64_t steps_of(const ByteConvShape& s, int step_elements) {
  int64_t steps = 0;
  for (const Run& run : runs_of(s)) steps += (run.elements + step_elements - 1) / step_elements;
  return steps;
}

// The weights of one block in the order of its steps: [steps, lanes, step_elements], 0 where there are none.
std::vector<int8_t> in_steps(const ByteConvShape& s, const int8_t* weights, int64_t group, int64_t channel, int lanes, int step_elements) {
  const int64_t kernel = s.kernel[0] * s.kernel[1] * s.kernel[2];
  std::vector<int8_t> packed(static_cast<size_t>(steps_of(s, step_elements) * lanes * step_elements), 0);
  const int64_t count = std::min<int64_t>(lanes, s.outputs - channel);
  int8_t* to = packed.data();
  for (const Run& run : runs_of(s)) {
    for (int64_t element = 0; element < (run.elements + step_elements - 1) / step_elements * step_elements; ++element) {
      if (element < run.elements) {
        const int64_t column = run.column + element / s.channels, input = element % s.channels;
        const int8_t* from = weights + ((group * s.outputs + channel) * s.channels + input) * kernel + run.kernel_row * s.kernel[2] + column;
        for (int64_t lane = 0; lane < count; ++lane) to[lane * step_elements + element % step_elements] = from[lane * s.channels * kernel];
      }
      if (element % step_elements == step_elements - 1) to += lanes * step_elements;
    }
  }
  return packed;
}

int64_t blocks_of(const ByteConvShape& s, const TileKernels& kernels) { return (s.outputs + kernels.lanes - 1) / kernels.lanes; }

PackedTiles pack_plain(const ByteConvShape& s, const int8_t* weights, const TileKernels& kernels) {
  PackedTiles packed;
  packed.kernels = &kernels;
  const int64_t blocks = blocks_of(s, kernels), block_bytes = steps_of(s, kernels.step_elements) * kernels.step_weights();
  packed.weights = aligned_block(s.groups * blocks * block_bytes);
  for (int64_t i = 0; i < s.groups * blocks; ++i) {
    const std::vector<int8_t> block = in_steps(s, weights, i / blocks, i % blocks * kernels.lanes, kernels.lanes, kernels.step_elements);
    std::byte* to = packed.weights.get() + i * block_bytes;
    packed.first.push_back(i * block_bytes);
    if (kernels.weight_bytes() == 2) {
      std::copy(block.begin(), block.end(), reinterpret_cast<int16_t*>(to));
    } else {
      std::memcpy(to, block.data(), block.size());
    }
  }
  return packed;
}

// Nothing when the weights are too large for bins to pay.
std::optional<PackedTiles> pack_bins(const ByteConvShape& s, const int8_t* weights, const TileKernels& kernels, int capacity) {
  const int64_t blocks = s.groups * blocks_of(s, kernels), steps = steps_of(s, kernels.step_elements);
  const auto block_at = [&](int64_t i) {
    const int64_t of_group = blocks / s.groups;
    return make_bins(in_steps(s, weights, i / of_group, i % of_group * kernels.lanes, kernels.lanes, kernels.step_elements), kernels.lanes, capacity);
  };
  double cost = 0;
  const int64_t samples = std::min<int64_t>(blocks, 3);
  // In steps of four elements, with what the last channels leave unused counted in.
  for (int64_t i = 0; i < samples; ++i) cost += cost_of(block_at(i * blocks / samples), steps) / static_cast<double>(samples);
  if (cost > kMostBinCost) return std::nullopt;
  PackedTiles packed;
  packed.kernels = &kernels;
  std::vector<BinnedBlock> all;
  int64_t bytes = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    all.push_back(block_at(i));
    packed.first.push_back(bytes);
    bytes += static_cast<int64_t>(all.back().weights.size());
  }
  packed.weights = aligned_block(bytes);
  for (int64_t i = 0; i < blocks; ++i) {
    BinnedBlock& block = all[static_cast<size_t>(i)];
    std::memcpy(packed.weights.get() + packed.first[static_cast<size_t>(i)], block.weights.data(), block.weights.size());
    packed.bins.push_back(std::to_array(block.bins));
    packed.order.push_back(std::move(block.order));
  }
  return packed;
}

std::shared_ptr<const PackedTiles> pack(const ByteConvShape& s, const Tensor& weights, uint8_t highest) {
  const TileKernels* bins = find_bin_kernels();
  const int capacity = 32767 / std::max<int>(highest, 1);
  const std::string form = fmt::format("tiles, {} groups, dense {}, capacity {}", s.groups, s.dilation[2] == 1, bins == nullptr ? 0 : capacity);
  return std::static_pointer_cast<const PackedTiles>(find_or_pack(weights, {form, {}, {}}, [&]() -> std::shared_ptr<void> {
    const Tensor data = weights.contiguous();
    std::optional<PackedTiles> packed;
    if (bins != nullptr) packed = pack_bins(s, data.data<int8_t>(), *bins, std::min(capacity, 4 * 128));
    if (!packed) packed = pack_plain(s, data.data<int8_t>(), *find_tile_kernels());
    return std::make_shared<PackedTiles>(std::move(*packed));
  }));
}

bool is_pointwise(const ByteConvShape& s) {
  constexpr std::array<int64_t, 3> kOnes = {1, 1, 1}, kZeros = {0, 0, 0};
  return s.groups == 1 && s.kernel == kOnes && s.stride == kOnes && s.padding == kZeros && s.size == s.out_size;
}

// A 1x1 convolution is one long row of pixels.
ByteConvShape with_long_rows(ByteConvShape s) {
  if (!is_pointwise(s)) return s;
  s.size = {1, 1, s.batch * s.size[0] * s.size[1] * s.size[2]};
  s.out_size = s.size;
  s.batch = 1;
  return s;
}

int64_t input_columns(const ByteConvShape& s, int64_t columns) { return (columns - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1; }
int64_t input_rows(const ByteConvShape& s, int64_t rows) { return (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1; }

// Columns and rows of a band, so that its input fits into scratch memory.
void choose_band(Plan& plan, int x_bytes) {
  const ByteConvShape& s = plan.shape;
  constexpr int64_t kOverrun = 8;  // the last step may read on
  const auto measure = [&] {
    plan.group_step = (input_columns(s, plan.columns) * s.channels * x_bytes + kOverrun + 3) / 4 * 4;
    plan.row_step = plan.group_step * s.groups;
    plan.scratch_rows = input_rows(s, plan.band);
    return s.kernel[0] * plan.scratch_rows * plan.row_step;
  };
  plan.columns = is_pointwise(s) ? std::min<int64_t>(s.out_size[2], kBandPixels) : s.out_size[2];
  plan.band = std::clamp<int64_t>((kBandPixels + plan.columns - 1) / plan.columns, 1, s.out_size[1]);
  while (measure() > kScratch && plan.band > 1) plan.band = (plan.band + 1) / 2;
  while (measure() > kScratch && plan.columns > 1) plan.columns = (plan.columns + 1) / 2;
  measure();
}

Plan make_plan(const ByteConvShape& given, const Tensor& weights, const ByteConvOutput& output, uint8_t highest) {
  Plan plan;
  plan.shape = with_long_rows(given);
  plan.output = output;
  plan.packed = pack(plan.shape, weights, highest);
  const TileKernels& kernels = *plan.packed->kernels;
  const ByteConvShape& s = plan.shape;
  plan.blocks = blocks_of(s, kernels);
  plan.is_in_place = is_pointwise(s) && kernels.x_bytes() == 1 && s.channels % 4 == 0;
  choose_band(plan, kernels.x_bytes());
  plan.x_step = s.stride[2] * s.channels * kernels.x_bytes();
  std::vector<int32_t> offsets;
  for (const Run& run : runs_of(s)) {
    const int64_t depth = run.kernel_row / s.kernel[1], height = run.kernel_row % s.kernel[1];
    const int64_t first = (depth * plan.scratch_rows + height * s.dilation[1]) * plan.row_step + run.column * s.dilation[2] * s.channels * kernels.x_bytes();
    for (int64_t element = 0; element < run.elements; element += kernels.step_elements)
      offsets.push_back(static_cast<int32_t>(first + element * kernels.x_bytes()));
  }
  if (kernels.multiply == Multiply::kPairs) {
    for (const std::vector<int32_t>& order : plan.packed->order) {
      std::vector<int32_t>& of_block = plan.offsets.emplace_back();
      for (int32_t step : order) of_block.push_back(offsets[static_cast<size_t>(step)]);
    }
  } else {
    plan.offsets.push_back(std::move(offsets));
  }
  const auto padded = [&](const std::vector<float>& values) {
    std::vector<float> all(static_cast<size_t>(s.groups * plan.blocks * kernels.lanes), 0.0f);
    for (int64_t i = 0; i < std::ssize(values); ++i)
      all[static_cast<size_t>(i / s.outputs * plan.blocks * kernels.lanes + i % s.outputs)] = values[static_cast<size_t>(i)];
    return all;
  };
  plan.scale = padded(output.scales.scale);
  plan.bias = padded(output.scales.bias);
  return plan;
}

// ---- the run

[[gnu::always_inline]] inline void widen_loop(const uint8_t* from, uint16_t* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

void put_elements(const Plan& p, const uint8_t* from, std::byte* to, int64_t count) {
  if (p.packed->kernels->x_bytes() == 1) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  run_vectorised([&]() __attribute__((always_inline)) { widen_loop(from, reinterpret_cast<uint16_t*>(to), count); });
}

void put_padding(const Plan& p, std::byte* to, int64_t count) {
  if (p.packed->kernels->x_bytes() == 1) {
    std::memset(to, p.output.scales.padding, static_cast<size_t>(count));
  } else {
    std::fill_n(reinterpret_cast<uint16_t*>(to), count, p.output.scales.padding);
  }
}

// The output pixels that are done together: rows [row, row + rows) of one plane, columns [column, column + columns).
struct Band {
  int64_t image, plane, row, rows, column, columns;
};

Band band_at(const Plan& p, int64_t index) {
  const ByteConvShape& s = p.shape;
  const int64_t across = (s.out_size[2] + p.columns - 1) / p.columns, down = (s.out_size[1] + p.band - 1) / p.band;
  const int64_t column = index % across * p.columns, row = index / across % down * p.band, plane = index / across / down;
  return {plane / s.out_size[0], plane % s.out_size[0], row, std::min(p.band, s.out_size[1] - row), column, std::min(p.columns, s.out_size[2] - column)};
}

int64_t band_count(const Plan& p) {
  const ByteConvShape& s = p.shape;
  return s.batch * s.out_size[0] * ((s.out_size[1] + p.band - 1) / p.band) * ((s.out_size[2] + p.columns - 1) / p.columns);
}

// One input row of a band: every group after the other.
void copy_row(const Plan& p, const uint8_t* row, int64_t first, int64_t count, std::byte* to) {
  const ByteConvShape& s = p.shape;
  const int64_t element = p.packed->kernels->x_bytes(), all = s.groups * s.channels;
  const int64_t from = std::clamp<int64_t>(first, 0, s.size[2]), end = std::clamp<int64_t>(first + count, from, s.size[2]);
  for (int64_t group = 0; group < s.groups; ++group, to += p.group_step) {
    if (row == nullptr) {
      put_padding(p, to, count * s.channels);
      continue;
    }
    put_padding(p, to, (from - first) * s.channels);
    std::byte* inside = to + (from - first) * s.channels * element;
    if (s.groups == 1) {
      put_elements(p, row + from * all, inside, (end - from) * s.channels);
    } else {
      for (int64_t column = from; column < end; ++column)
        put_elements(p, row + column * all + group * s.channels, inside + (column - from) * s.channels * element, s.channels);
    }
    put_padding(p, to + (end - first) * s.channels * element, (first + count - end) * s.channels);
  }
}

void copy_band(const Plan& p, const uint8_t* x, const Band& band, std::byte* scratch) {
  const ByteConvShape& s = p.shape;
  const int64_t first = band.column * s.stride[2] - s.padding[2], count = input_columns(s, band.columns);
  for (int64_t depth = 0; depth < s.kernel[0]; ++depth) {
    const int64_t plane = band.plane * s.stride[0] - s.padding[0] + depth * s.dilation[0];
    for (int64_t i = 0; i < input_rows(s, band.rows); ++i) {
      const int64_t row = band.row * s.stride[1] - s.padding[1] + i;
      const bool is_there = plane >= 0 && plane < s.size[0] && row >= 0 && row < s.size[1];
      const int64_t pixel = ((band.image * s.size[0] + plane) * s.size[1] + row) * s.size[2];
      copy_row(p, is_there ? x + pixel * s.groups * s.channels : nullptr, first, count, scratch + (depth * p.scratch_rows + i) * p.row_step);
    }
  }
}

// Block `index` of all groups' over the band. input: under its first pixel, of the first group.
void multiply_block(const Plan& p, int64_t index, const Band& band, const std::byte* input, std::byte* y, const uint8_t* residual) {
  const ByteConvShape& s = p.shape;
  const TileKernels& kernels = *p.packed->kernels;
  const int64_t group = index / p.blocks, block = index % p.blocks, outputs = s.groups * s.outputs;
  const int64_t y_bytes = p.output.output == TileOutput::kReals || p.output.output == TileOutput::kRaw ? 4 : 1;
  const bool is_binned = kernels.multiply == Multiply::kPairs;
  const std::vector<int32_t>& offsets = p.offsets[is_binned ? static_cast<size_t>(index) : 0];
  Tile tile{};
  tile.x_step = p.x_step;
  tile.offsets = offsets.data();
  tile.steps = std::ssize(offsets);
  tile.bins = is_binned ? p.packed->bins[static_cast<size_t>(index)].data() : nullptr;
  tile.weights = p.packed->weights.get() + p.packed->first[static_cast<size_t>(index)];
  tile.scale = p.scale.data() + index * kernels.lanes;
  tile.bias = p.bias.data() + index * kernels.lanes;
  tile.y_step = outputs;
  tile.channels = std::min<int64_t>(kernels.lanes, s.outputs - block * kernels.lanes);
  tile.residual_scale = p.output.scales.residual;
  tile.low = p.output.low;
  tile.high = p.output.high;
  tile.least = p.output.scales.low;
  tile.most = p.output.scales.high;
  tile.flip = p.output.scales.is_signed ? 128 : 0;
  const int64_t tiles = (band.columns + kernels.most_pixels - 1) / kernels.most_pixels;
  for (int64_t i = 0; i < band.rows; ++i) {
    const std::byte* row = input + i * s.stride[1] * p.row_step + group * p.group_step;
    const int64_t pixel = ((band.image * s.out_size[0] + band.plane) * s.out_size[1] + band.row + i) * s.out_size[2] + band.column;
    for (int64_t t = 0; t < tiles; ++t) {  // of about one width: 7 columns are 4 and 3
      const int64_t begin = band.columns * t / tiles, end = band.columns * (t + 1) / tiles;
      const int64_t element = (pixel + begin) * outputs + group * s.outputs + block * kernels.lanes;
      tile.x = row + begin * p.x_step;
      tile.y = y + element * y_bytes;
      tile.residual = residual == nullptr ? nullptr : residual + element;
      kernels.kernel(p.output.output, end - begin)(tile);
    }
  }
}

int64_t scratch_bytes(const Plan& p) { return p.is_in_place ? 0 : (p.shape.kernel[0] * p.scratch_rows * p.row_step + kVector - 1) / kVector * kVector + kVector; }

// scratch: scratch_bytes for each of `parts`. Bands are shared among the threads; few bands with many channels, the channels of each.
void run(const Plan& p, const uint8_t* x, std::byte* y, const uint8_t* residual, std::byte* scratch, int64_t parts) {
  const ByteConvShape& s = p.shape;
  const int64_t bands = band_count(p), all_blocks = s.groups * p.blocks;
  const int64_t shares = bands >= 2 * parts ? 1 : std::min(parts, all_blocks);  // of the blocks
  const int64_t work = s.outputs * s.groups * std::ssize(p.offsets[0]) * p.band * p.columns / shares;
  for_numbered_parts(bands * shares, work, [&](int64_t part, int64_t first, int64_t last) {
    std::byte* own = scratch + part * scratch_bytes(p);
    int64_t copied = -1;
    for (int64_t i = first; i < last; ++i) {
      const Band band = band_at(p, i / shares);
      const std::byte* input = own;
      if (p.is_in_place) {
        input = reinterpret_cast<const std::byte*>(x + band.column * s.channels);
      } else if (copied != i / shares) {
        copied = i / shares;
        copy_band(p, x, band, own);
      }
      const int64_t share = i % shares;
      for (int64_t b = all_blocks * share / shares; b < all_blocks * (share + 1) / shares; ++b) multiply_block(p, b, band, input, y, residual);
    }
  });
}

}  // namespace

ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ByteConvOutput output{TileOutput::kReals, {plan.scale, plan.bias}, -kInfinity, kInfinity};
  output.scales.scale.resize(outputs, plan.scale[0]);
  output.scales.bias.resize(outputs, 0.0f);
  output.scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  if (clamp.min) output.low = static_cast<float>(*clamp.min);
  if (clamp.max) output.high = static_cast<float>(*clamp.max);
  return output;
}

bool has_byte_conv(const ByteConvShape& shape) {
  constexpr int64_t kMostElements = 65000;  // 255 * 128 * kMostElements fits 32 bits
  const int64_t elements = shape.channels * shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  Plan plan;
  plan.shape = with_long_rows(shape);
  if (may_use(Isa::kAvx512Vnni) || find_tile_kernels() == nullptr || elements > kMostElements) return false;
  choose_band(plan, find_tile_kernels()->x_bytes());
  return scratch_bytes(plan) <= 2 * kScratch;
}

void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape, const Tensor& weights, const ByteConvOutput& output,
                   uint8_t highest, const Place& x, const Place& y, const Place* residual) {
  OCTET_ASSERT(has_byte_conv(shape) && (residual != nullptr) == (output.output == TileOutput::kSum), "a shape that the kernel does not take");
  if (builder.purpose() == SegmentBuilder::Purpose::kProve) return builder.add_loop(what, [](std::byte* const*) {}, {x, y});
  const std::shared_ptr<const Plan> plan = std::make_shared<const Plan>(make_plan(shape, weights, output, highest));
  const int64_t parts = omp_get_max_threads();
  std::vector<Place> places = {x, y};
  const bool has_scratch = scratch_bytes(*plan) > 0;
  if (has_scratch) places.push_back(builder.allocate({parts * scratch_bytes(*plan)}, {ElementType::u8, 1, 0}, {1}).place);
  if (residual != nullptr) places.push_back(*residual);
  builder.add_loop(
      what,
      [plan, has_scratch, parts](std::byte* const* arguments) {
        const bool adds = plan->output.output == TileOutput::kSum;
        const uint8_t* residual_bytes = adds ? reinterpret_cast<const uint8_t*>(arguments[has_scratch ? 3 : 2]) : nullptr;
        run(*plan, reinterpret_cast<const uint8_t*>(arguments[0]), arguments[1], residual_bytes, has_scratch ? arguments[2] : nullptr, parts);
      },
      places);
}

}  // namespace octet::onednn
