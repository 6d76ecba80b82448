// Helpers of the custom kernels for AVX512-VNNI: the instruction set, the order of channels in
// vectors, and the conversion of sums to bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/kernels/isa.h"
#include "backends/onednn/form.h"
#include "backends/onednn/packed.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define OCTET_VNNI [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni" OCTET_WIDEST)]]
#define OCTET_VNNI_INLINE                                                      \
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni" OCTET_WIDEST), \
    gnu::always_inline]] inline
#endif

namespace octet::onednn {

inline constexpr int64_t kVector = 64;  // bytes
inline constexpr int64_t kLanes = 16;   // sums of 32 bits in a vector

// An undilated convolution of bytes: x u8 [N, C, H, W], y u8 or s8 [N, O, out_height, out_width],
// both channels-last.
struct ByteWindowShape {
  int64_t batch = 1, channels = 1, outputs = 1;
  int64_t height = 1, width = 1, out_height = 1, out_width = 1;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t padding_h = 0, padding_w = 0;  // before the first element
};

inline bool has_vnni() { return may_use(Isa::kAvx512Vnni); }

// Channels that are summed together: 64 in four vectors, up to 32 in two, up to 16 in one.
struct ChannelBlock {
  int64_t channel;
  int64_t count;
  int vectors;        // 4, 2 or 1
  int64_t weights;    // vectors before this block's
  int64_t constants;  // vectors before this block's scales and biases
};

// The channel, within its block, of a 32-bit lane. Unpacking the bytes of a block leaves its
// channels in this order; packing restores the original one.
inline int64_t channel_of_lane(int vectors, int64_t vector, int64_t lane) {
  const int64_t quarter = lane / 4, place = vector * 4 + quarter;
  const int64_t across = vectors;
  return place % across * 16 + place / across * 4 + lane % 4;
}

inline std::shared_ptr<std::byte> zeroed_vectors(int64_t count) {
  std::shared_ptr<std::byte> block = aligned_block(count * kVector);
  std::fill_n(block.get(), count * kVector, std::byte{0});
  return block;
}

// The number of vectors for a block's constants: scales, biases, then low, high, xor mask, and the
// residual's scale.
inline constexpr int64_t constant_vectors(int vectors) { return 2 * vectors + 4; }

// Splits all channels (at least one) into blocks; the weights of a block take `weight_vectors` for
// each of its vectors.
inline std::vector<ChannelBlock> channel_blocks(int64_t channels, int64_t weight_vectors) {
  std::vector<ChannelBlock> blocks;
  int64_t weights = 0, constants = 0;
  for (int64_t channel = 0; channel < channels; channel += blocks.back().count) {
    const int64_t left = channels - channel;
    const int vectors = left >= 64 ? 4 : left > kLanes ? 2 : 1;
    blocks.push_back(
        {channel, std::min<int64_t>(left, vectors * kLanes), vectors, weights, constants});
    weights += weight_vectors * vectors;
    constants += constant_vectors(vectors);
  }
  return blocks;
}

// Packs int8 weights for a kernel, calling `pack_block(block, weights, to)` for each block;
// `weight_vectors` as above. Shared by all callers with the same weights and `form`.
template <typename PackBlock>
std::shared_ptr<std::byte> pack_blocks(const Tensor& weights, const std::string& form,
                                       const std::vector<ChannelBlock>& blocks,
                                       int64_t weight_vectors, const PackBlock& pack_block) {
  const int64_t vectors = blocks.back().weights + weight_vectors * blocks.back().vectors;
  const size_t bytes = static_cast<size_t>(vectors * kVector);
  return find_or_pack(weights, {form, {}, {}, bytes}, [&]() -> PackedBlock {
    const std::shared_ptr<std::byte> all = zeroed_vectors(vectors);
    const Tensor data = weights.contiguous();
    for (const ChannelBlock& block : blocks) pack_block(block, data.data<int8_t>(), all.get());
    return {all, bytes};
  });
}

inline void pack_constants(const ChannelBlock& block, const ByteScales& scales, std::byte* all) {
  float* to = reinterpret_cast<float*>(all) + block.constants * kLanes;
  for (int64_t vector = 0; vector < block.vectors; ++vector)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t channel = channel_of_lane(block.vectors, vector, lane);
      if (channel >= block.count) continue;
      to[vector * kLanes + lane] = scales.scale[static_cast<size_t>(block.channel + channel)];
      to[(block.vectors + vector) * kLanes + lane] =
          scales.bias[static_cast<size_t>(block.channel + channel)];
    }
  std::byte* limits = all + (block.constants + 2 * block.vectors) * kVector;
  std::fill_n(limits, kVector, std::byte{scales.low});
  std::fill_n(limits + kVector, kVector, std::byte{scales.high});
  std::fill_n(limits + 2 * kVector, kVector,
              std::byte{static_cast<unsigned char>(scales.is_signed ? 128 : 0)});
  std::fill_n(reinterpret_cast<float*>(limits + 3 * kVector), kLanes, scales.residual);
}

inline std::shared_ptr<std::byte> pack_constants(const std::vector<ChannelBlock>& blocks,
                                                 const ByteScales& scales) {
  std::shared_ptr<std::byte> all =
      zeroed_vectors(blocks.back().constants + constant_vectors(blocks.back().vectors));
  for (const ChannelBlock& block : blocks) pack_constants(block, scales, all.get());
  return all;
}

#if defined(__x86_64__)

struct ByteFinish {
  const __m512* constants;
  bool is_full;    // the block fills its vectors
  __mmask32 mask;  // channels of a block of one or two vectors
};

inline ByteFinish finish_of(const ChannelBlock& block, const std::byte* all) {
  return {reinterpret_cast<const __m512*>(all) + block.constants,
          block.count == block.vectors * kLanes,
          static_cast<__mmask32>((uint64_t{1} << std::min<int64_t>(block.count, 32)) - 1)};
}

OCTET_VNNI_INLINE __m512i steps_of(__m512i sums, __m512 scale, __m512 bias) {
  return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, bias));
}

// Stores 64 channels with the residual added.
OCTET_VNNI_INLINE void store_sum(const __m512i* sums, const ByteFinish& f, const uint8_t* residual,
                                 uint8_t* y) {
  const __m512* c = f.constants;
  asm volatile("" : "+r"(c));
  const __m512i* limit = reinterpret_cast<const __m512i*>(c + 8);
  const __m512i zero = _mm512_setzero_si512(), r = _mm512_loadu_si512(residual);
  const __m512i r_low = _mm512_unpacklo_epi8(r, zero), r_high = _mm512_unpackhi_epi8(r, zero);
  const __m512i low = _mm512_packs_epi32(
      steps_of(
          sums[0], c[0],
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(r_low, zero)), c[11], c[4])),
      steps_of(
          sums[1], c[1],
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(r_low, zero)), c[11], c[5])));
  const __m512i high = _mm512_packs_epi32(
      steps_of(
          sums[2], c[2],
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(r_high, zero)), c[11], c[6])),
      steps_of(
          sums[3], c[3],
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(r_high, zero)), c[11], c[7])));
  const __m512i bytes =
      _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), limit[0]), limit[1]);
  _mm512_storeu_si512(y, _mm512_xor_si512(bytes, limit[2]));
}

// Stores one pixel of a block's channels. Loops or constants in registers would make GCC 12 spill
// the sums, so indices are constants, and the constants stay in memory.
template <int kVectors>
OCTET_VNNI_INLINE void store_bytes(const __m512i* sums, const ByteFinish& f, uint8_t* y) {
  const __m512* c = f.constants;
  asm volatile("" : "+r"(c));
  const __m512i* limit = reinterpret_cast<const __m512i*>(c + 2 * kVectors);
  if constexpr (kVectors == 4) {
    const __m512i low =
        _mm512_packs_epi32(steps_of(sums[0], c[0], c[4]), steps_of(sums[1], c[1], c[5]));
    const __m512i high =
        _mm512_packs_epi32(steps_of(sums[2], c[2], c[6]), steps_of(sums[3], c[3], c[7]));
    const __m512i bytes =
        _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), limit[0]), limit[1]);
    _mm512_storeu_si512(y, _mm512_xor_si512(bytes, limit[2]));
  } else {
    const __m512i first = steps_of(sums[0], c[0], c[kVectors]),
                  second = kVectors == 2 ? steps_of(sums[1], c[1], c[3]) : first;
    const __m512i words = _mm512_packs_epi32(first, second);
    __m512i bytes =
        _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(words, words), limit[0]), limit[1]);
    bytes = _mm512_xor_si512(bytes, limit[2]);
    if constexpr (kVectors == 2) {
      const __m256i in_order = _mm512_castsi512_si256(_mm512_permutexvar_epi32(
          _mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 0, 0, 0, 0, 0, 0, 0, 0), bytes));
      f.is_full ? _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), in_order)
                : _mm256_mask_storeu_epi8(y, f.mask, in_order);
    } else {
      const __m128i in_order = _mm512_castsi512_si128(_mm512_permutexvar_epi32(
          _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), bytes));
      f.is_full ? _mm_storeu_si128(reinterpret_cast<__m128i*>(y), in_order)
                : _mm_mask_storeu_epi8(y, static_cast<__mmask16>(f.mask), in_order);
    }
  }
}

#endif

}  // namespace octet::onednn
