// Lists the ops of the NPU: a check and a function that writes the commands for each kind.
#include "acme_compiler.h"

#include <cmath>
#include <optional>

#include "acme_numbers.h"
#include "acme_tiles.h"

namespace acme {

using namespace octet;

namespace {

// ---- convolutions and linear layers

Image image_of(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = program.input(op, 0).shape;
  const std::vector<int64_t>& w = program.input(op, 1).shape;
  if (op.is("linear")) return {product(x) / std::max<int64_t>(w[1], 1), w[1], 1, 1, w[0]};
  const std::vector<int64_t>& y = program.output(op).shape;
  const std::vector<int64_t> stride = op.get(attr::kStride, {1, 1});
  const std::vector<int64_t> pad = op.get(attr::kPadding, {0, 0});
  return {x[0],      x[1],      x[2],   x[3],   w[0], w[2], w[3],
          stride[0], stride[1], pad[0], pad[1], y[2], y[3]};
}

// Where the parts of a tile lie in the SRAM.
struct ProductTile {
  int64_t x, weight, bias, sums, y, bytes;
};
ProductTile lay_out_product(const Image& image, const Tile& tile) {
  const int64_t pixels = tile.rows * image.out_width;
  const int64_t in_rows =
      std::min((tile.rows - 1) * image.stride_y + image.kernel_height, image.height);
  Sram sram;
  ProductTile parts{};
  parts.weight = sram.take(tile.channels * image.depth());
  parts.bias = sram.take(tile.channels * 4);
  parts.x = sram.take(image.in_channels * in_rows * image.width);
  parts.sums = sram.take(tile.channels * pixels * 4);
  parts.y = sram.take(tile.channels * pixels);
  parts.bytes = sram.used();
  return parts;
}
Tile product_tile(const Image& image) {
  return find_tile(image, [&](const Tile& tile) { return lay_out_product(image, tile).bytes; });
}

Verdict check_product(const Program& program, const ProgramOp& op) {
  for (const ProgramTensor* tensor : {&program.input(op, 0), &program.output(op)})
    if (Verdict fits = check_activation(*tensor); !fits) return fits;
  if (Verdict fits = check_weight(program.input(op, 1)); !fits) return fits;
  const Image image = image_of(program, op);
  // so that the sums and the bias together have 32 bits
  if (image.depth() > kGreatestDepth)
    return Verdict::refuse("it adds " + std::to_string(image.depth()) +
                           " products, the NPU at most " + std::to_string(kGreatestDepth));
  if (op.has_input(2))
    if (Verdict fits = check_bias(program, op); !fits) return fits;
  if (!find_ratio(sum_step(program, op) / scale_of(program.output(op))))
    return Verdict::refuse("the ratio of its scales is outside of the NPU's 2^-32 to 2^30");
  return check_sram(lay_out_product(image, product_tile(image)).bytes);
}

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
}

Verdict check_conv(const Program& program, const ProgramOp& op) {
  if (program.input(op, 0).shape.size() != 4) return Verdict::refuse("it is not 2-d");
  if (op.get(attr::kGroups) != 1) return Verdict::refuse("it has groups");
  if (!all_are(op.get(attr::kDilation), 1)) return Verdict::refuse("it is dilated");
  if (op.get(attr::kPaddingEnd, op.get(attr::kPadding)) != op.get(attr::kPadding))
    return Verdict::refuse("its padding differs before and after");
  return check_product(program, op);
}

// The weights of some channels stay in the SRAM while the images pass.
OpQueue compile_product(const Program& program, const ProgramOp& op, Buffers& buffers) {
  OpQueue queue{op.name, "array", {}};
  const auto add = [&](const Command& command) { queue.commands.push_back(command); };
  const Image image = image_of(program, op);
  const Tile tile = product_tile(image);
  const ProductTile at = lay_out_product(image, tile);
  const int x = op.inputs[0], w = op.inputs[1], y = op.outputs[0];
  const int bias = static_cast<int>(buffers.size());
  buffers.push_back(bias_in_steps(program, op, image.channels));
  const Ratio ratio = *find_ratio(sum_step(program, op) / scale_of(program.tensor(y)));
  const Range range = post_range(op, program.tensor(y));
  const int64_t plane = image.height * image.width, out_plane = image.out_height * image.out_width;
  for (int64_t c = 0; c < image.channels; c += tile.channels) {
    const int64_t channels = std::min(tile.channels, image.channels - c);
    add(Load{{w, c * image.depth(), 0, 1, channels * image.depth(), at.weight}});
    add(Load{{bias, c * 4, 0, 1, channels * 4, at.bias}});
    for (int64_t n = 0; n < image.batch; ++n)
      for (int64_t i = 0; i < image.out_height; i += tile.rows) {
        const int64_t rows = std::min(tile.rows, image.out_height - i);
        const int64_t pixels = rows * image.out_width;
        const InputRows in = input_rows(image, i, rows);
        add(Load{{x, n * image.in_channels * plane + in.first * image.width, plane,
                  image.in_channels, in.count * image.width, at.x}});
        add(SetSums{at.bias, at.sums, channels, pixels});
        for (int64_t d = 0; d < image.depth(); d += kArrayDepth)
          add(Multiply{at.x, at.weight, at.sums, windows_of(image, in, rows), channels,
                       image.depth(), d, std::min(kArrayDepth, image.depth() - d)});
        add(Requantize{at.sums, at.y, channels * pixels, ratio, range.low, range.high});
        add(Store{{y, (n * image.channels + c) * out_plane + i * image.out_width, out_plane,
                   channels, pixels, at.y}});
      }
  }
  return queue;
}

// ---- max pooling

Image pool_image(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = program.input(op, 0).shape;
  const std::vector<int64_t>& y = program.output(op).shape;
  const std::vector<int64_t>& kernel = op.get(attr::kKernelSize);
  const std::vector<int64_t> stride = op.get(attr::kStride, kernel);
  const std::vector<int64_t> pad = op.get(attr::kPadding, {0, 0});
  return {1,         1,         x[2],   x[3],   x[0] * x[1], kernel[0], kernel[1],
          stride[0], stride[1], pad[0], pad[1], y[2],        y[3]};
}

struct PoolTile {
  int64_t x, y, bytes;
};
PoolTile lay_out_pool(const Image& image, const Tile& tile) {
  const int64_t in_rows =
      std::min((tile.rows - 1) * image.stride_y + image.kernel_height, image.height);
  Sram sram;
  const int64_t x = sram.take(tile.channels * in_rows * image.width);
  const int64_t y = sram.take(tile.channels * tile.rows * image.out_width);
  return {x, y, sram.used()};
}
Tile pool_tile(const Image& image) {
  return find_tile(image, [&](const Tile& tile) { return lay_out_pool(image, tile).bytes; });
}

Verdict check_pool(const Program& program, const ProgramOp& op) {
  if (Verdict fits = check_same_numbers(program, op); !fits) return fits;
  if (program.input(op, 0).shape.size() != 4) return Verdict::refuse("it is not 2-d");
  if (op.outputs.size() > 1 && op.outputs[1] >= 0) return Verdict::refuse("it gives indices");
  if (!all_are(op.get(attr::kDilation), 1)) return Verdict::refuse("it is dilated");
  const Image image = pool_image(program, op);
  return check_sram(lay_out_pool(image, pool_tile(image)).bytes);
}

OpQueue compile_pool(const Program& program, const ProgramOp& op, Buffers&) {
  OpQueue queue{op.name, "vector", {}};
  const Image image = pool_image(program, op);
  const Tile tile = pool_tile(image);
  const PoolTile at = lay_out_pool(image, tile);
  const int64_t plane = image.height * image.width, out_plane = image.out_height * image.out_width;
  for (int64_t c = 0; c < image.channels; c += tile.channels)
    for (int64_t i = 0; i < image.out_height; i += tile.rows) {
      const int64_t planes = std::min(tile.channels, image.channels - c);
      const int64_t rows = std::min(tile.rows, image.out_height - i);
      const InputRows in = input_rows(image, i, rows);
      queue.commands.insert(queue.commands.end(),
                            {Load{{op.inputs[0], c * plane + in.first * image.width, plane, planes,
                                   in.count * image.width, at.x}},
                             MaxPool{at.x, at.y, planes, windows_of(image, in, rows)},
                             Store{{op.outputs[0], c * out_plane + i * image.out_width, out_plane,
                                    planes, rows * image.out_width, at.y}}});
    }
  return queue;
}

// ---- element by element

// Calls write(first element, count) for pieces of which the SRAM holds `bytes` per element beside
// a table.
template <typename Write>
void for_each_piece(int64_t count, int64_t bytes, const Write& write) {
  const int64_t most = (kSramBytes - kTableBytes) / bytes / kAlignment * kAlignment;
  for (int64_t first = 0; first < count; first += most) write(first, std::min(most, count - first));
}

Load load(int buffer, int64_t first, int64_t count, int64_t size, int64_t address) {
  return {{buffer, first * size, 0, 1, count * size, address}};
}
Store store(int buffer, int64_t first, int64_t count, int64_t size, int64_t address) {
  return {{buffer, first * size, 0, 1, count * size, address}};
}

Verdict check_add(const Program& program, const ProgramOp& op) {
  const ProgramTensor &a = program.input(op, 0), &b = program.input(op, 1), &y = program.output(op);
  for (const ProgramTensor* tensor : {&a, &b, &y})
    if (Verdict fits = check_activation(*tensor); !fits) return fits;
  if (a.shape != y.shape || b.shape != y.shape) return Verdict::refuse("it broadcasts");
  if (!find_ratio(std::max(scale_of(a), std::abs(op.get(attr::kAlpha)) * scale_of(b)) /
                  scale_of(y)))
    return Verdict::refuse("the ratio of its scales is outside of the NPU's 2^-32 to 2^30");
  return Verdict::accept();
}

OpQueue compile_add(const Program& program, const ProgramOp& op, Buffers&) {
  OpQueue queue{op.name, "vector", {}};
  const ProgramTensor& y = program.output(op);
  const double a_ratio = scale_of(program.input(op, 0)) / scale_of(y);
  const double b_ratio = op.get(attr::kAlpha) * scale_of(program.input(op, 1)) / scale_of(y);
  const int shift = find_ratio(std::max(a_ratio, std::abs(b_ratio)))->shift;
  const auto multiplier = [&](double ratio) {
    return static_cast<int32_t>(std::llround(std::ldexp(ratio, shift)));
  };
  const Range range = post_range(op, y);
  for_each_piece(y.numel(), 3, [&](int64_t first, int64_t count) {
    Sram sram;
    const int64_t a = sram.take(count), b = sram.take(count), sum = sram.take(count);
    queue.commands.insert(
        queue.commands.end(),
        {load(op.inputs[0], first, count, 1, a), load(op.inputs[1], first, count, 1, b),
         Add{a, b, sum, count, multiplier(a_ratio), multiplier(b_ratio), shift, range.low,
             range.high},
         store(op.outputs[0], first, count, 1, sum)});
  });
  return queue;
}

Verdict check_table(const Program& program, const ProgramOp& op) {
  for (const ProgramTensor* tensor : {&program.input(op, 0), &program.output(op)})
    if (Verdict fits = check_activation(*tensor); !fits) return fits;
  if (!find_function(op)) return Verdict::refuse("the NPU has no table for " + op.get(attr::kFn));
  return Verdict::accept();
}

// Functions of one element are tables of 256 entries.
OpQueue compile_table(const Program& program, const ProgramOp& op, Buffers& buffers) {
  OpQueue queue{op.name, "vector", {}};
  const int entries = static_cast<int>(buffers.size());
  buffers.push_back(table_of(program, op));
  Sram tables;
  const int64_t table = tables.take(kTableBytes);
  queue.commands.push_back(load(entries, 0, kTableBytes, 1, table));
  for_each_piece(program.output(op).numel(), 2, [&](int64_t first, int64_t count) {
    Sram sram = tables;
    const int64_t x = sram.take(count), y = sram.take(count);
    queue.commands.insert(queue.commands.end(),
                          {load(op.inputs[0], first, count, 1, x), LookUp{x, table, y, count},
                           store(op.outputs[0], first, count, 1, y)});
  });
  return queue;
}

Verdict check_quantize(const Program& program, const ProgramOp& op) {
  if (program.input(op, 0).is_constant()) return Verdict::refuse("its input is a constant");
  return check_activation(program.output(op));
}
Verdict check_dequantize(const Program& program, const ProgramOp& op) {
  return check_activation(program.input(op, 0));
}

// quantize and dequantize
OpQueue compile_conversion(const Program& program, const ProgramOp& op, Buffers&) {
  OpQueue queue{op.name, "vector", {}};
  const bool is_quantize = op.is("quantize");
  const float scale = (is_quantize ? program.output(op) : program.input(op, 0)).qparams->scale[0];
  for_each_piece(program.output(op).numel(), 5, [&](int64_t first, int64_t count) {
    Sram sram;
    const int64_t reals = sram.take(count * 4), integers = sram.take(count);
    std::vector<Command>& all = queue.commands;
    all.push_back(
        load(op.inputs[0], first, count, is_quantize ? 4 : 1, is_quantize ? reals : integers));
    if (is_quantize)
      all.push_back(Quantize{reals, integers, count, scale,
                             static_cast<int32_t>(op.get(attr::kQuantMin, -128)),
                             static_cast<int32_t>(op.get(attr::kQuantMax, 127))});
    else
      all.push_back(Dequantize{integers, reals, count, scale});
    all.push_back(
        store(op.outputs[0], first, count, is_quantize ? 1 : 4, is_quantize ? integers : reals));
  });
  return queue;
}

Verdict check_custom(const Program& program, const ProgramOp& op) {
  if (op.get(attr::kCustomOp) != "acme.swish.default")
    return Verdict::refuse("the NPU has no " + op.get(attr::kCustomOp));
  if (program.input(op, 0).is_constant()) return Verdict::refuse("its input is a constant");
  return Verdict::accept();
}

OpQueue compile_custom(const Program& program, const ProgramOp& op, Buffers&) {
  OpQueue queue{op.name, "vector", {}};
  const float beta = static_cast<float>(op.get(attr::Real("beta")));
  for_each_piece(program.output(op).numel(), 8, [&](int64_t first, int64_t count) {
    Sram sram;
    const int64_t x = sram.take(count * 4), y = sram.take(count * 4);
    queue.commands.insert(queue.commands.end(),
                          {load(op.inputs[0], first, count, 4, x), Swish{x, y, count, beta},
                           store(op.outputs[0], first, count, 4, y)});
  });
  return queue;
}

// reshape and copy: through the SRAM, as the DMA unit knows no other way
OpQueue compile_move(const Program& program, const ProgramOp& op, Buffers&) {
  OpQueue queue{op.name, "dma", {}};
  for_each_piece(program.output(op).numel(), 1, [&](int64_t first, int64_t count) {
    queue.commands.push_back(load(op.inputs[0], first, count, 1, 0));
    queue.commands.push_back(store(op.outputs[0], first, count, 1, 0));
  });
  return queue;
}

struct OpRow {
  OpKind kind;
  Verdict (*check)(const Program&, const ProgramOp&);
  OpQueue (*compile)(const Program&, const ProgramOp&, Buffers&);
};

const OpRow kOps[] = {
    {"conv", check_conv, compile_product},
    {"linear", check_product, compile_product},
    {"add", check_add, compile_add},
    {"max_pool", check_pool, compile_pool},
    {"unary", check_table, compile_table},
    {"clamp", check_table, compile_table},
    {"requantize", check_table, compile_table},
    {"quantize", check_quantize, compile_conversion},
    {"dequantize", check_dequantize, compile_conversion},
    {"reshape", check_same_numbers, compile_move},
    {"copy", check_same_numbers, compile_move},
    {"custom", check_custom, compile_custom},
};

const OpRow* find_row(const ProgramOp& op) {
  for (const OpRow& row : kOps)
    if (op.is(row.kind)) return &row;
  return nullptr;
}

}  // namespace

Verdict check_op(const Program& program, const ProgramOp& op) {
  const OpRow* row = find_row(op);
  if (row == nullptr) return Verdict::refuse("the NPU has no " + op.kind);
  for (const std::vector<int>* tensors : {&op.inputs, &op.outputs})
    for (int index : *tensors)
      if (index >= 0 && program.tensor(index).numel() == 0)
        return Verdict::refuse(program.tensor(index).name + " has no elements");
  return row->check(program, op);
}

OpQueue compile_op(const Program& program, const ProgramOp& op, Buffers& buffers) {
  return find_row(op)->compile(program, op, buffers);
}

std::vector<std::string_view> op_kinds() {
  std::vector<std::string_view> kinds;
  for (const OpRow& row : kOps) kinds.push_back(row.kind.name);
  return kinds;
}

}  // namespace acme
