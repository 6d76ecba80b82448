// im2col: the windows of an image as columns; col2im: the columns added up to an image.
#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

constexpr const char* kWindowKeys[] = {"kernel_size", "stride", "padding", "dilation"};

struct Columns {
  int64_t planes = 1;  // batch * channels
  std::array<int64_t, 2> image, kernel, stride, padding, dilation, windows;

  // Calls visit(element of the image, element of the columns) for each pair that belongs together,
  // plane by plane; pixels of the padding are left out.
  template <typename Visit>
  void for_each_pair(const Visit& visit) const {
    const int64_t count = windows[0] * windows[1];
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t k = 0; k < kernel[0] * kernel[1]; ++k)
        for (int64_t i = 0; i < count; ++i) {
          const int64_t y = i / windows[1] * stride[0] - padding[0] + k / kernel[1] * dilation[0],
                        x = i % windows[1] * stride[1] - padding[1] + k % kernel[1] * dilation[1];
          if (y < 0 || y >= image[0] || x < 0 || x >= image[1]) continue;
          visit((plane * image[0] + y) * image[1] + x,
                (plane * kernel[0] * kernel[1] + k) * count + i);
        }
  }
};

// Of an image [N, C, H, W] or [C, H, W]; nullopt when the attributes do not fit.
std::optional<Columns> find_columns(const ProgramOp& op, const std::vector<int64_t>& image) {
  if (image.size() != 3 && image.size() != 4) return std::nullopt;
  Columns columns;
  for (size_t d = 0; d + 2 < image.size(); ++d) columns.planes *= image[d];
  std::array<int64_t, 2>* const fields[] = {&columns.kernel, &columns.stride, &columns.padding,
                                            &columns.dilation};
  for (size_t f = 0; f < 4; ++f) {
    const std::vector<int64_t>* given = op.find<std::vector<int64_t>>(kWindowKeys[f]);
    if (given == nullptr ? f == 0 : given->size() != 2) return std::nullopt;
    const int64_t least = f == 2 ? 0 : 1;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t value = given == nullptr ? least : (*given)[d];
      if (value < least || value > kLargestAttribute) return std::nullopt;
      (*fields[f])[d] = value;
    }
  }
  for (size_t d = 0; d < 2; ++d) {
    columns.image[d] = image[image.size() - 2 + d];
    const int64_t reach = columns.image[d] + 2 * columns.padding[d] -
                          columns.dilation[d] * (columns.kernel[d] - 1) - 1;
    if (reach < 0) return std::nullopt;
    columns.windows[d] = reach / columns.stride[d] + 1;
  }
  return columns;
}

void im2col(const KernelCall& call) {
  const Columns columns = *find_columns(call.op, call.input_shape(0));
  const Buffer<double> image = elements<double>(call, 0);
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  columns.for_each_pair([&](int64_t pixel, int64_t at) {
    y[static_cast<size_t>(at)] = image[static_cast<size_t>(pixel)];
  });
  store<double>(call, y);
}

void col2im(const KernelCall& call) {
  const Columns columns = *find_columns(call.op, call.output_shape());
  const Buffer<double> x = elements<double>(call, 0);
  Buffer<double> image(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  columns.for_each_pair([&](int64_t pixel, int64_t at) {
    image[static_cast<size_t>(pixel)] += x[static_cast<size_t>(at)];
  });
  store<double>(call, image);
}

Verdict check_columns(const Program& program, const ProgramOp& op) {
  if (Verdict counts = check_counts(op, 1, 1); !counts) return counts;
  const bool makes_columns = op.kind == "im2col";
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& y = program.output(op).shape;
  const std::vector<int64_t>& image = makes_columns ? x : y;
  const std::optional<Columns> columns = find_columns(op, image);
  if (!columns)
    return Verdict::refuse(fmt::format("its windows do not fit the image {}", shape_text(image)));
  if (!makes_columns) {
    const std::vector<int64_t> size = op.integers("output_size");
    if (size != std::vector<int64_t>(columns->image.begin(), columns->image.end()))
      return Verdict::refuse(
          fmt::format("output_size {} of the image {}", shape_text(size), shape_text(image)));
  }
  const int64_t kernel = columns->kernel[0] * columns->kernel[1];
  const int64_t channels = image[image.size() - 3];
  if (channels > 0 && kernel > INT64_MAX / channels)
    return Verdict::refuse("its windows are too large");
  std::vector<int64_t> want(image.begin(), image.end() - 3);
  want.push_back(channels * kernel);
  want.push_back(columns->windows[0] * columns->windows[1]);
  const std::vector<int64_t>& got = makes_columns ? y : x;
  if (got == want) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("columns of shape {}, want {}", shape_text(got), shape_text(want)));
}

constexpr KernelRow kColumnKernels[] = {
    {"im2col", im2col, check_columns},
    {"col2im", col2im, check_columns},
};

}  // namespace

std::span<const KernelRow> column_kernels() { return kColumnKernels; }

}  // namespace octet::reference
