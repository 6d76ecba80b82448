// The input of a band of output rows is copied to scratch memory with its padding (widened for
// kWords); 1x1 convolutions of bytes read x directly. Then each block of channels processes the
// band's pixels in tiles, so that its weights are read once per band. If bins require small pairs
// of bytes, the excess is subtracted from the copy and added separately (excess.h); a band with too
// much excess is multiplied in words.
#include "backends/onednn/bytes/conv.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backends/kernels/isa.h"
#include "backends/onednn/bytes/excess.h"
#include "backends/onednn/bytes/pack.h"
#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {
namespace {

constexpr int64_t kScratch = 128 * 1024;  // input bytes of a band, per thread
// enough to make reading weights cheap beside multiplying
constexpr int64_t kBandPixels = 112;
// per band, over all steps; and at most this fraction of its products:
constexpr int64_t kMostExcess = 16384;
constexpr int64_t kExcessPart = 6;

struct ConvPlan {
  ByteConvShape shape;
  ByteConvOutput output;
  std::optional<PackedTiles> packed;
  bool is_in_place = false;  // x is read directly
  int64_t blocks = 1;        // per group
  int64_t band = 1;          // output rows per copy of the input
  int64_t columns = 1;       // output columns per tile of them
  int64_t scratch_rows = 1;  // input rows of a band in one plane
  // bytes of one scratch row, with all groups in order
  int64_t row_step = 0;
  int64_t group_step = 0;                     // bytes of a group in a scratch row
  int64_t x_step = 0;                         // bytes between pixels
  std::vector<std::vector<int32_t>> offsets;  // per piece (kPairs), or per segment
  std::vector<float> scale, bias;             // per segment and block: padded
  std::vector<int32_t> start;                 // as scale and bias; 0 for all segments but the first

  int64_t padded_outputs() const { return shape.groups * blocks * packed->kernels->lanes; }
};

// Chooses columns and rows of a band so that its input fits the scratch memory.
void choose_band(ConvPlan& plan, int x_bytes) {
  const ByteConvShape& s = plan.shape;
  constexpr int64_t kOverrun = 8;  // the last step may read past the end
  const auto measure = [&] {
    plan.group_step =
        (input_columns(s, plan.columns) * s.channels * x_bytes + kOverrun + 3) / 4 * 4;
    plan.row_step = plan.group_step * s.groups;
    plan.scratch_rows = input_rows(s, plan.band);
    return s.kernel[0] * plan.scratch_rows * plan.row_step;
  };
  plan.columns = is_pointwise(s) ? std::min<int64_t>(s.out_size[2], kBandPixels) : s.out_size[2];
  plan.band =
      std::clamp<int64_t>((kBandPixels + plan.columns - 1) / plan.columns, 1, s.out_size[1]);
  while (measure() > kScratch && plan.band > 1) plan.band = (plan.band + 1) / 2;
  while (measure() > kScratch && plan.columns > 1) plan.columns = (plan.columns + 1) / 2;
  measure();
}

ConvPlan make_plan(const ByteConvShape& given, const Tensor& weights, const ByteConvOutput& output,
                   ByteRange range) {
  ConvPlan plan;
  plan.shape = with_long_rows(given);
  plan.output = output;
  // padding may exceed the bytes of x
  range.highest = std::max(range.highest, output.scales.padding);
  plan.packed = pack_tiles(plan.shape, weights, range);
  const TileKernels& kernels = *plan.packed->kernels;
  const ByteConvShape& s = plan.shape;
  plan.blocks = blocks_of(s, kernels);
  plan.is_in_place = is_pointwise(s) && kernels.x_bytes() == 1 && s.channels % 4 == 0;
  choose_band(plan, kernels.x_bytes());
  plan.x_step = s.stride[2] * s.channels * kernels.x_bytes();
  std::vector<std::vector<int32_t>> offsets;  // per segment
  for (int64_t segment = 0; segment < s.segments; ++segment) {
    std::vector<int32_t>& of_segment = offsets.emplace_back();
    for (const Run& run : runs_of(s, segment)) {
      const int64_t depth = run.kernel_row / s.kernel[1], height = run.kernel_row % s.kernel[1];
      const int64_t first = (depth * plan.scratch_rows + height * s.dilation[1]) * plan.row_step;
      for (int64_t element = 0; element < run.elements; element += kernels.step_elements)
        of_segment.push_back(static_cast<int32_t>(
            first +
            (run.column * s.dilation[2] * s.channels + run.first + element) * kernels.x_bytes()));
    }
  }
  if (kernels.multiply == Multiply::kPairs) {
    for (size_t piece = 0; piece < plan.packed->order.size(); ++piece) {
      std::vector<int32_t>& of_piece = plan.offsets.emplace_back();
      for (int32_t step : plan.packed->order[piece])
        of_piece.push_back(
            offsets[piece % static_cast<size_t>(s.segments)][static_cast<size_t>(step)]);
    }
  } else {
    plan.offsets = std::move(offsets);
  }
  const auto padded = [&]<typename T>(const std::vector<T>& values) {
    std::vector<T> all(static_cast<size_t>(s.segments * plan.padded_outputs()), T{0});
    for (int64_t i = 0; i < std::ssize(values); ++i)  // groups of outputs of segments
      all[static_cast<size_t>(i / s.outputs * plan.blocks * kernels.lanes + i % s.outputs)] =
          values[static_cast<size_t>(i)];
    return all;
  };
  plan.scale = padded(output.scales.scale);
  plan.bias = padded(output.scales.bias);
  plan.start = padded(output.start);
  return plan;
}

// ---- the run

[[gnu::always_inline]] inline void widen_loop(const uint8_t* from, uint16_t* __restrict to,
                                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

void put_elements(const ConvPlan& p, const uint8_t* from, std::byte* to, int64_t count) {
  if (p.packed->kernels->x_bytes() == 1) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  run_vectorized([&]() __attribute__((always_inline)) {
    widen_loop(from, reinterpret_cast<uint16_t*>(to), count);
  });
}

void put_padding(const ConvPlan& p, std::byte* to, int64_t count) {
  if (p.packed->kernels->x_bytes() == 1) {
    std::memset(to, p.output.scales.padding, static_cast<size_t>(count));
  } else {
    std::fill_n(reinterpret_cast<uint16_t*>(to), count, p.output.scales.padding);
  }
}

// The output pixels that are processed together: rows [row, row + rows) of one plane, columns
// [column, column + columns).
struct Band {
  int64_t image, plane, row, rows, column, columns;
};

Band band_at(const ConvPlan& p, int64_t index) {
  const ByteConvShape& s = p.shape;
  const int64_t across = (s.out_size[2] + p.columns - 1) / p.columns,
                down = (s.out_size[1] + p.band - 1) / p.band;
  const int64_t column = index % across * p.columns, row = index / across % down * p.band,
                plane = index / across / down;
  return {plane / s.out_size[0],
          plane % s.out_size[0],
          row,
          std::min(p.band, s.out_size[1] - row),
          column,
          std::min(p.columns, s.out_size[2] - column)};
}

int64_t band_count(const ConvPlan& p) {
  const ByteConvShape& s = p.shape;
  return s.batch * s.out_size[0] * ((s.out_size[1] + p.band - 1) / p.band) *
         ((s.out_size[2] + p.columns - 1) / p.columns);
}

// Copies one input row of a band, group by group.
void copy_row(const ConvPlan& p, const uint8_t* row, int64_t first, int64_t count, std::byte* to) {
  const ByteConvShape& s = p.shape;
  const int64_t element = p.packed->kernels->x_bytes(), all = s.groups * s.channels;
  const int64_t from = std::clamp<int64_t>(first, 0, s.size[2]),
                end = std::clamp<int64_t>(first + count, from, s.size[2]);
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
        put_elements(p, row + column * all + group * s.channels,
                     inside + (column - from) * s.channels * element, s.channels);
    }
    put_padding(p, to + (end - first) * s.channels * element, (first + count - end) * s.channels);
  }
}

void copy_band(const ConvPlan& p, const uint8_t* x, const Band& band, std::byte* scratch) {
  const ByteConvShape& s = p.shape;
  const int64_t first = band.column * s.stride[2] - s.padding[2],
                count = input_columns(s, band.columns);
  for (int64_t depth = 0; depth < s.kernel[0]; ++depth) {
    const int64_t plane = band.plane * s.stride[0] - s.padding[0] + depth * s.dilation[0];
    for (int64_t i = 0; i < input_rows(s, band.rows); ++i) {
      const int64_t row = band.row * s.stride[1] - s.padding[1] + i;
      const bool is_there = plane >= 0 && plane < s.size[0] && row >= 0 && row < s.size[1];
      const int64_t pixel = ((band.image * s.size[0] + plane) * s.size[1] + row) * s.size[2];
      copy_row(p, is_there ? x + pixel * s.groups * s.channels : nullptr, first, count,
               scratch + (depth * p.scratch_rows + i) * p.row_step);
    }
  }
}

// The index in y of the output pixel at (row, column) of the band's plane.
int64_t y_pixel(const ByteConvShape& s, const Band& band, int64_t row, int64_t column) {
  const std::array<int64_t, 3>& size = s.y_size[2] == 0 ? s.out_size : s.y_size;
  const int64_t plane = s.y_first[0] + band.plane * s.y_step[0];
  return ((band.image * size[0] + plane) * size[1] + s.y_first[1] + row * s.y_step[1]) * size[2] +
         s.y_first[2] + column * s.y_step[2];
}

// The scratch memory of one thread: the band's input, then memory for excess.
struct Memory {
  std::byte* input;
  int32_t* starts;  // of one block, for all pixels of the band
  ExcessMemory excess;
};

int64_t most_excess(const ConvPlan& p) {
  const int64_t products = p.band * p.columns * std::ssize(p.offsets[0]) * p.shape.groups;
  return std::clamp<int64_t>(products / kExcessPart, 16, kMostExcess);
}

constexpr int64_t whole_vectors(int64_t bytes) { return (bytes + kVector - 1) / kVector * kVector; }

// Bytes of the input, starts, Taken, Excess and of_group.
std::array<int64_t, 5> memory_bytes(const ConvPlan& p) {
  const bool has_excess = p.packed && p.packed->bin_tiles != nullptr;
  const int64_t input =
      p.is_in_place && !has_excess
          ? 0
          : whole_vectors(p.shape.kernel[0] * p.scratch_rows * p.row_step) + kVector;
  if (!has_excess) return {input, 0, 0, 0, 0};
  return {input, whole_vectors(p.band * p.columns * p.packed->kernels->lanes * 4),
          whole_vectors(most_excess(p) * static_cast<int64_t>(sizeof(Taken))),
          whole_vectors(most_excess(p) * static_cast<int64_t>(sizeof(Excess))),
          whole_vectors((p.shape.groups + 1) * 4)};
}

int64_t scratch_bytes(const ConvPlan& p) {
  const std::array<int64_t, 5> bytes = memory_bytes(p);
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

Memory memory_at(const ConvPlan& p, std::byte* scratch) {
  const std::array<int64_t, 5> bytes = memory_bytes(p);
  std::array<std::byte*, 5> at{scratch};
  for (size_t i = 1; i < at.size(); ++i) at[i] = at[i - 1] + bytes[i - 1];
  return {at[0],
          reinterpret_cast<int32_t*>(at[1]),
          {reinterpret_cast<Taken*>(at[2]), reinterpret_cast<Excess*>(at[3]),
           reinterpret_cast<int32_t*>(at[4]), most_excess(p)}};
}

// The input of a band as its tiles read it.
struct Source {
  const std::byte* input;  // under the first pixel, of the first group
  const TileKernels* kernels;
  bool has_excess = false;
};

Source prepare_band(const ConvPlan& p, const Band& band, const uint8_t* x, const Memory& memory) {
  const ByteConvShape& s = p.shape;
  const BinTiles* bins = p.packed->bin_tiles;
  if (p.is_in_place) {
    const std::byte* pixels = reinterpret_cast<const std::byte*>(x + band.column * s.channels);
    if (bins == nullptr || !bins->has_excess(pixels, band.columns * s.channels / 4))
      return {pixels, p.packed->kernels};
    std::memcpy(memory.input, pixels, static_cast<size_t>(band.columns * s.channels));
  } else {
    copy_band(p, x, band, memory.input);
  }
  if (bins == nullptr) return {memory.input, p.packed->kernels};
  const BandInput input = {
      band.rows,      band.columns, input_rows(s, band.rows), input_columns(s, band.columns),
      p.scratch_rows, p.group_step};
  if (!list_excess(s, *bins, input, memory.input, memory.excess))
    return {memory.input, &bins->wide};
  return {memory.input, p.packed->kernels, memory.excess.of_group[s.groups] > 0};
}

// Fills the initial sums of a block, including its excess.
void fill_starts(const ConvPlan& p, int64_t index, const Band& band, const Memory& memory) {
  const int64_t lanes = p.packed->kernels->lanes, group = index / p.blocks;
  const int32_t first = memory.excess.of_group[group], last = memory.excess.of_group[group + 1];
  for (int64_t i = 0; i < band.rows * band.columns; ++i)
    std::copy_n(p.start.data() + index * lanes, lanes, memory.starts + i * lanes);
  p.packed->bin_tiles->add_excess(memory.excess.excess + first, last - first,
                                  p.packed->weights + p.packed->first[static_cast<size_t>(index)],
                                  p.packed->at[static_cast<size_t>(index)].data(), memory.starts);
}

// Multiplies block `index`, counted over all groups, for the band.
void multiply_block(const ConvPlan& p, int64_t index, const Band& band, const Source& source,
                    const Memory& memory, std::byte* y, const uint8_t* residual) {
  const ByteConvShape& s = p.shape;
  const TileKernels& kernels = *source.kernels;
  const int64_t group = index / p.blocks, block = index % p.blocks, outputs = s.groups * s.outputs;
  const bool is_binned = p.packed->kernels->multiply == Multiply::kPairs;
  if (source.has_excess) fill_starts(p, index, band, memory);
  Tile tile = tile_for(p.output);
  tile.x_step = p.x_step;
  tile.y_step = outputs * s.y_step[2];
  tile.channels = std::min<int64_t>(kernels.lanes, s.outputs - block * kernels.lanes);
  tile.bias = p.bias.data() + index * kernels.lanes;
  const int block_lanes = lanes_of(s, kernels, block);
  for (int64_t i = 0; i < band.rows; ++i) {
    const int64_t element = y_pixel(s, band, band.row + i, band.column) * outputs +
                            group * s.outputs + block * kernels.lanes;
    for (int64_t segment = 0; segment < s.segments; ++segment) {
      tile.x = source.input + i * s.stride[1] * p.row_step + group * p.group_step;
      tile.y = y + element * bytes_of(p.output.output);
      tile.residual = residual == nullptr ? nullptr : residual + element;
      const size_t piece = static_cast<size_t>(index * s.segments + segment);
      const std::vector<int32_t>& offsets =
          p.offsets[is_binned ? piece : static_cast<size_t>(segment)];
      tile.offsets = offsets.data();
      tile.steps = std::ssize(offsets);
      tile.bins = is_binned ? p.packed->bins[piece].data() : nullptr;
      tile.weights = p.packed->weights + p.packed->first[piece];
      tile.start = p.start.data() + segment * p.padded_outputs() + index * kernels.lanes;
      tile.scale = p.scale.data() + segment * p.padded_outputs() + index * kernels.lanes;
      if (source.has_excess) {
        tile.start = memory.starts + i * band.columns * kernels.lanes;
        tile.start_step = kernels.lanes;
      }
      const TileOutput output = segment == 0 ? p.output.output : TileOutput::kTotal;
      kernels.run(tile, output, block_lanes, band.columns);
    }
  }
}

// scratch: scratch_bytes for each of `parts`. Threads share the bands; if there are few bands with
// many channels, they share the channels of each.
void run(const ConvPlan& p, const uint8_t* x, std::byte* y, const uint8_t* residual,
         std::byte* scratch, int64_t parts) {
  const ByteConvShape& s = p.shape;
  const int64_t bands = band_count(p), all_blocks = s.groups * p.blocks;
  const int64_t shares = bands >= 2 * parts ? 1 : std::min(parts, all_blocks);  // of the blocks
  const int64_t work =
      s.outputs * s.groups * s.segments * std::ssize(p.offsets[0]) * p.band * p.columns / shares;
  for_numbered_parts(bands * shares, work, [&](int64_t part, int64_t first, int64_t last) {
    const Memory memory = memory_at(p, scratch + part * scratch_bytes(p));
    int64_t prepared = -1;
    Source source{};
    for (int64_t i = first; i < last; ++i) {
      const Band band = band_at(p, i / shares);
      if (std::exchange(prepared, i / shares) != i / shares)
        source = prepare_band(p, band, x, memory);
      const int64_t share = i % shares;
      for (int64_t b = all_blocks * share / shares; b < all_blocks * (share + 1) / shares; ++b)
        multiply_block(p, b, band, source, memory, y, residual);
    }
  });
}

}  // namespace

bool has_byte_conv(const ByteConvShape& shape) {
  constexpr int64_t kMostElements = 65000;  // 255 * 128 * kMostElements fits 32 bits
  const int64_t elements = shape.channels * shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  ConvPlan plan;
  plan.shape = with_long_rows(shape);
  if (may_use(Isa::kAvx512Vnni) || find_tile_kernels() == nullptr || elements > kMostElements)
    return false;
  choose_band(plan, find_tile_kernels()->x_bytes());
  return plan.shape.kernel[0] * plan.scratch_rows * plan.row_step <= 2 * kScratch;
}

ScratchLoop byte_conv_loop(const ByteConvShape& shape, const Tensor& weights,
                           const ByteConvOutput& output, ByteRange range) {
  const std::shared_ptr<const ConvPlan> plan =
      std::make_shared<const ConvPlan>(make_plan(shape, weights, output, range));
  const int64_t parts = omp_get_max_threads();
  const bool has_scratch = scratch_bytes(*plan) > 0;
  Loop loop = [plan, has_scratch, parts](std::byte* const* arguments) {
    const bool adds = plan->output.output == TileOutput::kSum;
    const uint8_t* residual_bytes =
        adds ? reinterpret_cast<const uint8_t*>(arguments[has_scratch ? 3 : 2]) : nullptr;
    run(*plan, reinterpret_cast<const uint8_t*>(arguments[0]), arguments[1], residual_bytes,
        has_scratch ? arguments[2] : nullptr, parts);
  };
  return {std::move(loop), parts * scratch_bytes(*plan), plan->packed->kernels->name};
}

}  // namespace octet::onednn
