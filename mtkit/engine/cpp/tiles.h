// Products of tiles (AMX): sixteen rows of 64 bytes each, where the processor has them.
#pragma once

#include <algorithm>

#include "vectors.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mtkit {

constexpr int64_t kTileRows = 16, kTileBytes = 64;
constexpr int64_t kNoTiles = INT64_MAX;

#if defined(__AMX_TILE__)
constexpr bool kHasTiles = true;

// The tiles of this thread, configured while this lives: 0 to 3 for sums of two tiles of rows by two
// of outputs, 4 and 5 for the rows, 6 and 7 for weights.
class Tiles {
 public:
  static constexpr int64_t kOutputs = 2 * kTileRows;

  explicit Tiles(int64_t num_rows) : num_rows_(num_rows) {
    struct alignas(64) {
      uint8_t palette, start_row, reserved[14];
      uint16_t num_bytes[16];
      uint8_t num_rows[16];
    } config{};
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config.num_bytes[tile] = kTileBytes;
      config.num_rows[tile] = uint8_t(tile < 6 ? num_rows : kTileRows);
    }
    // The compiler doesn't know that tile loads read memory: all stores to it must be done before.
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Writes the products of two tiles of rows by `kOutputs` outputs: 8-bit integers with a sign by
  // ones without, or bfloat16.
  //
  // Args: both tiles' inputs, `stride` bytes from a row to the next; weights of `num_steps` times 64
  // bytes of a row; `sums` [2 tiles, rows, kOutputs], of 4 bytes each.
  template <bool kIsInteger>
  void multiply(const char* first, const char* second, int64_t stride, const char* weights,
                int64_t num_steps, char* sums) const {
    constexpr int64_t kStride = kOutputs * 4;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t step = 0; step < num_steps; ++step) {
      _tile_loadd(6, weights, kStride);
      _tile_loadd(4, first, stride);
      _tile_loadd(7, weights + kTileBytes, kStride);
      _tile_loadd(5, second, stride);
      if constexpr (kIsInteger) {
        _tile_dpbsud(0, 4, 6);
        _tile_dpbsud(1, 4, 7);
        _tile_dpbsud(2, 5, 6);
        _tile_dpbsud(3, 5, 7);
      } else {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      first += kTileBytes;
      second += kTileBytes;
      weights += kTileRows * kStride;
    }
    _tile_stored(0, sums, kStride);
    _tile_stored(1, sums + kTileBytes, kStride);
    _tile_stored(2, sums + num_rows_ * kStride, kStride);
    _tile_stored(3, sums + num_rows_ * kStride + kTileBytes, kStride);
  }

 private:
  const int64_t num_rows_;
};
#else
constexpr bool kHasTiles = false;

struct Tiles {
  explicit Tiles(int64_t);
  template <bool>
  void multiply(const char*, const char*, int64_t, const char*, int64_t, char*) const;
};
#endif

// Asks Linux for the tiles of this process, which their first use needs; false where there are none.
inline bool allow_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  // Older compilers don't know these by name: bfloat16, tiles and 8-bit integers.
  constexpr unsigned kWanted = 1u << 22 | 1u << 24 | 1u << 25;
  unsigned eax, ebx, ecx, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & kWanted) != kWanted) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace mtkit
