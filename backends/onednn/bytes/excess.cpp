// Computes which sums of a band read a listed word of x, and adds the products of its excess to
// them.
#include "backends/onednn/bytes/excess.h"

namespace octet::onednn {
namespace {

// A word of the band's input.
struct Word {
  int64_t plane, row, column, index;  // index: of the pixel's words
};

// The output position that reads `input` with the kernel's `tap`, or -1.
int64_t reader(int64_t input, int64_t tap, int64_t dilation, int64_t stride, int64_t count) {
  const int64_t at = input - tap * dilation;
  if (at < 0) return -1;
  const int64_t position =
      stride == 1 ? at : static_cast<int32_t>(at) / static_cast<int32_t>(stride);
  return position < count && position * stride == at ? position : -1;
}

// Appends what `rest` adds to each sum that reads the word; false when the list is full. count: the
// length of the list, updated.
bool append(const ByteConvShape& s, const BandInput& band, const Word& word,
            const std::array<uint8_t, 4>& rest, const ExcessMemory& memory, int64_t& count) {
  for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
    const int64_t row = reader(word.row, ky, s.dilation[1], s.stride[1], band.rows);
    if (row < 0) continue;
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      const int64_t column = reader(word.column, kx, s.dilation[2], s.stride[2], band.columns);
      if (column < 0) continue;
      if (count == memory.most) return false;
      const int64_t step =
          ((word.plane * s.kernel[1] + ky) * s.kernel[2] + kx) * (s.channels / 4) + word.index;
      memory.excess[count++] = {static_cast<int32_t>(row * band.columns + column),
                                static_cast<int32_t>(step), rest};
    }
  }
  return true;
}

void give_back(std::byte* x, const Taken* taken, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    for (size_t byte = 0; byte < 4; ++byte) {
      std::byte& to = x[int64_t{taken[i].word} * 4 + static_cast<int64_t>(byte)];
      to = static_cast<std::byte>(static_cast<uint8_t>(to) + taken[i].rest[byte]);
    }
}

}  // namespace

bool list_excess(const ByteConvShape& s, const BinTiles& tiles, const BandInput& band, std::byte* x,
                 const ExcessMemory& memory) {
  const int64_t pixel_words = s.channels / 4, row_words = band.input_columns * pixel_words;
  int64_t taken = 0, listed = 0;
  for (int64_t group = 0; group < s.groups; ++group) {
    memory.of_group[group] = static_cast<int32_t>(listed);
    for (int64_t plane = 0; plane < s.kernel[0]; ++plane) {
      for (int64_t row = 0; row < band.input_rows; ++row) {
        const int64_t first =
            ((plane * band.scratch_rows + row) * s.groups + group) * band.group_step / 4;
        Taken* here = memory.taken + taken;
        const int64_t found =
                          tiles.take_excess(x + first * 4, row_words, here, memory.most - taken),
                      count = found < 0 ? ~found : found;
        bool is_listed = found >= 0;
        int64_t column = 0;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t word = here[i].word;
          while ((column + 1) * pixel_words <= word) ++column;
          here[i].word = static_cast<int32_t>(first + word);
          is_listed =
              is_listed && append(s, band, {plane, row, column, word - column * pixel_words},
                                  here[i].rest, memory, listed);
        }
        taken += count;
        if (is_listed) continue;
        give_back(x, memory.taken, taken);
        return false;
      }
    }
  }
  memory.of_group[s.groups] = static_cast<int32_t>(listed);
  return true;
}

}  // namespace octet::onednn
