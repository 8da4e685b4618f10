// Linear maps as products read them: in 8 bits, in bfloat16 or in fp32.
#pragma once

#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "threads.h"
#include "tiles.h"
#include "vectors.h"

namespace mtkit {

// Uninitialised memory, aligned to a cache line.
template <class Value>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { reserve(size); }
  ~Buffer() { operator delete[](values_, kAlignment); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : values_(other.values_), size_(other.size_) {
    other.values_ = nullptr;
    other.size_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(values_, other.values_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Reserves memory; its content is lost if it must grow.
  Value* reserve(int64_t size) {
    if (size > size_) {
      operator delete[](values_, kAlignment);
      values_ = nullptr;
      size_ = 0;
      values_ = static_cast<Value*>(operator new[](size_t(size) * sizeof(Value), kAlignment));
      size_ = size;
    }
    return values_;
  }
  Value* data() const { return values_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  Value* values_ = nullptr;
  int64_t size_ = 0;
};

// Rows in a product's input format.
struct Rows {
  Buffer<char> numbers;
  std::vector<float> scales;  // Dequantisation scale of each row; only for 8 bits, like the sums.
  std::vector<int32_t> sums;
  int64_t stride = 0;  // Bytes from a row to the next.
};

// A kind of arithmetic defines the memory layout, and how many rows and output vectors a product
// keeps in registers at once. `kGroup` inputs of an output are adjacent, since one instruction adds
// up their products.

// Products of 8-bit integers. The largest number of a row becomes 127; sums are exact.
struct Int8 {
#if defined(__AVX512VNNI__)
  // The instruction multiplies signed by unsigned integers: 128 is added to each weight, and 128
  // times a row's sum is subtracted at the end.
  typedef int8_t Input;
  typedef uint8_t Weight;
  static constexpr int kGroup = 4, kRows = 12, kVectors = 2;
  static constexpr int32_t kWeightOffset = 128;
#elif defined(__AVX2__)
  // In 16 bits: without VNNI the 8-bit instruction adds up pairs of products in 16 bits, which can
  // overflow.
  typedef int16_t Input;
  typedef int8_t Weight;
  static constexpr int kGroup = 2, kRows = 6, kVectors = 2;
  static constexpr int32_t kWeightOffset = 0;
#elif defined(__ARM_FEATURE_DOTPROD)
  // Products of matrices (i8mm) would need rows and outputs in pairs. No speed on ARM is measured.
  typedef int8_t Input;
  typedef int8_t Weight;
  static constexpr int kGroup = 4, kRows = 8, kVectors = 2;
  static constexpr int32_t kWeightOffset = 0;
#else
  typedef int16_t Input;
  typedef int8_t Weight;
  static constexpr int kGroup = 1, kRows = 4, kVectors = 2;
  static constexpr int32_t kWeightOffset = 0;
#endif
  typedef Ints Sums;
  // Sums are exact, so tiles and vectors give the same result; the faster one is used.
  static constexpr int64_t kMinRowsOfTiles = 16;
  static constexpr int64_t kMaxInputs = INT32_MAX / (255 * 127);
  static constexpr float kInputUnits = 127.0f;  // Of a row's largest input.
  static constexpr float kTiny = 0x1p-100f, kEnlarging = 0x1p100f;

  // An output's scale: its largest weight becomes 127. NaN and infinity make it NaN.
  static float find_scale(const float* weights, int64_t width) {
    float largest = 0.0f, not_finite = 0.0f;
    for (int64_t i = 0; i < width; ++i) {
      largest = std::fabs(weights[i]) > largest ? std::fabs(weights[i]) : largest;
      not_finite += weights[i] * 0.0f;
    }
    largest /= kInputUnits;
    return (largest == 0.0f ? 1.0f : largest) + not_finite;
  }
  static Weight convert_weight(float weight, float scale) {
    const float unit = std::nearbyint(weight / scale);
    // A subnormal scale is rounded so much that integers would overflow.
    const float kept = unit > 127.0f ? 127.0f : unit < -127.0f ? -127.0f : unit;
    return Weight((kept == kept ? int32_t(kept) : 0) + kWeightOffset);
  }

  static Sums add_products(Sums sums, const Input* inputs, const Weight* weights) {
#if defined(__AVX512VNNI__)
    int32_t four;
    std::memcpy(&four, inputs, 4);
    return Ints(_mm512_dpbusd_epi32(__m512i(sums), _mm512_loadu_si512(weights),
                                    _mm512_set1_epi32(four)));
#elif defined(__AVX2__)
    int32_t two;
    std::memcpy(&two, inputs, 4);
    const __m256i wide =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights)));
    return sums + Ints(_mm256_madd_epi16(wide, _mm256_set1_epi32(two)));
#elif defined(__ARM_FEATURE_DOTPROD)
    int32_t four;
    std::memcpy(&four, inputs, 4);
    return Ints(vdotq_s32(int32x4_t(sums), vld1q_s8(weights),
                          vreinterpretq_s8_s32(vdupq_n_s32(four))));
#else
    typedef int8_t Narrow __attribute__((vector_size(kLanes)));
    Narrow narrow;
    std::memcpy(&narrow, weights, sizeof narrow);
    return sums + __builtin_convertvector(narrow, Ints) * broadcast(int32_t(*inputs));
#endif
  }

  // The largest number of a row becomes 127; a row of zeros stays so; one with NaN or infinity gets a scale of NaN.
  static void convert(const float* values, int64_t width, Input* to, float* scale,
                      int32_t* total) {
    // As integers, absolute numbers have the same order, and NaN and infinity come last.
    Ints greatest{};
    int32_t rest = 0;
    along(
        width,
        [&](int64_t i) {
          const Ints each = as_ints(absolute(load(values + i)));
          greatest = each > greatest ? each : greatest;
        },
        [&](int64_t i) { rest = std::max(rest, as_ints(absolute(broadcast(values[i])))[0]); });
    const float size = as_floats(broadcast(std::max(largest(greatest), rest)))[0];
    *total = 0;
    *scale = size < INFINITY ? size : NAN;
    if (!(size > 0.0f && size < INFINITY)) {
      std::fill(to, to + width, Input{0});
      return;
    }
    if (size < kTiny) {
      // The reciprocal could be infinite.
      std::vector<float> enlarged(values, values + width);
      for (float& each : enlarged) each *= kEnlarging;
      convert(enlarged.data(), width, to, scale, total);
      *scale = size;
      return;
    }
    const float factor = 127.0f / size;
    Ints added{};
    int32_t rest_added = 0;
    along(
        width,
        [&](int64_t i) {
          const Floats rounded = load(values + i) * factor + broadcast(kRounder);
          const Ints integer = as_ints(rounded) - broadcast(kRounderBits);
          added += integer;
          typedef Input Narrow __attribute__((vector_size(kLanes * sizeof(Input))));
          const Narrow narrow = __builtin_convertvector(integer, Narrow);
          std::memcpy(to + i, &narrow, sizeof narrow);
        },
        [&](int64_t i) {
          const Ints integer =
              as_ints(values[i] * factor + broadcast(kRounder)) - broadcast(kRounderBits);
          rest_added += integer[0];
          to[i] = Input(integer[0]);
        });
    *total = sum(added) + rest_added;
  }

  static Sums begin(int32_t total) { return broadcast(-kWeightOffset * total); }
  static Floats finish(Sums sums, float scale, Floats scales, Floats bias) {
    const Floats exact = __builtin_convertvector(sums, Floats);
    // One after the other: the product of both scales may be too small for a float.
    return exact * scales * broadcast(scale) + bias;
  }
};

// Products in fp32.
struct Fp32 {
  typedef float Input;
  typedef float Weight;
  typedef Floats Sums;
#if defined(__AVX512F__)
  static constexpr int kGroup = 1, kRows = 12, kVectors = 2;
#elif defined(__AVX2__)
  static constexpr int kGroup = 1, kRows = 6, kVectors = 2;
#elif defined(__aarch64__)
  // It has 32 registers of vectors.
  static constexpr int kGroup = 1, kRows = 8, kVectors = 2;
#else
  static constexpr int kGroup = 1, kRows = 4, kVectors = 2;
#endif
  static constexpr int64_t kMinRowsOfTiles = kNoTiles;
  static constexpr int64_t kMaxInputs = INT64_C(1) << 30;
  static constexpr float kInputUnits = 1.0f;

  static float find_scale(const float*, int64_t) { return 1.0f; }
  static Weight convert_weight(float weight, float) { return weight; }
  static Sums add_products(Sums sums, const Input* inputs, const Weight* weights) {
    return sums + broadcast(*inputs) * load(weights);
  }
  static void convert(const float* values, int64_t width, Input* to, float*, int32_t*) {
    std::copy(values, values + width, to);
  }
  static Sums begin(int32_t) { return Sums{}; }
  static Floats finish(Sums sums, float, Floats, Floats bias) { return sums + bias; }
};

// The nearest bfloat16, ties to even.
inline uint16_t to_bfloat16(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  if (number != number) return uint16_t(bits >> 16 | 1);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Products of bfloat16, added up in fp32.
#if defined(__AVX512BF16__)
struct Bf16 {
  typedef uint16_t Input;
  typedef uint16_t Weight;
  typedef Floats Sums;
  // Tiles add up in another order: a row's result must not depend on how many there are.
  static constexpr int64_t kMinRowsOfTiles = 1;
  static constexpr int kGroup = 2, kRows = 12, kVectors = 2;
  static constexpr int64_t kMaxInputs = INT64_C(1) << 30;
  static constexpr float kInputUnits = 1.0f;

  static float find_scale(const float*, int64_t) { return 1.0f; }
  static Weight convert_weight(float weight, float) { return to_bfloat16(weight); }
  static Sums add_products(Sums sums, const Input* inputs, const Weight* weights) {
    int32_t two;
    std::memcpy(&two, inputs, 4);
    return Floats(_mm512_dpbf16_ps(__m512(sums), __m512bh(_mm512_loadu_si512(weights)),
                                   __m512bh(_mm512_set1_epi32(two))));
  }
  static void convert(const float* values, int64_t width, Input* to, float*, int32_t*) {
    along(
        width,
        [&](int64_t i) {
          const __m256bh narrow = _mm512_cvtneps_pbh(__m512(load(values + i)));
          std::memcpy(to + i, &narrow, sizeof narrow);
        },
        [&](int64_t i) { to[i] = to_bfloat16(values[i]); });
  }
  static Sums begin(int32_t) { return Sums{}; }
  static Floats finish(Sums sums, float, Floats, Floats bias) { return sums + bias; }
};
#else
// Without the instruction they are widened: products of two bfloat16 are exact in fp32.
struct Bf16 {
  typedef float Input;
  typedef uint16_t Weight;
  typedef Floats Sums;
  static constexpr int64_t kMinRowsOfTiles = kNoTiles;
  static constexpr int kGroup = 1, kRows = Fp32::kRows, kVectors = Fp32::kVectors;
  static constexpr int64_t kMaxInputs = INT64_C(1) << 30;
  static constexpr float kInputUnits = 1.0f;

  static float find_scale(const float*, int64_t) { return 1.0f; }
  static Weight convert_weight(float weight, float) { return to_bfloat16(weight); }
  static Sums add_products(Sums sums, const Input* inputs, const Weight* weights) {
    typedef Weight Narrow __attribute__((vector_size(kLanes * sizeof(Weight))));
    Narrow narrow;
    std::memcpy(&narrow, weights, sizeof narrow);
    return sums + broadcast(*inputs) * as_floats(__builtin_convertvector(narrow, Ints) << 16);
  }
  static void convert(const float* values, int64_t width, Input* to, float*, int32_t*) {
    for (int64_t i = 0; i < width; ++i) {
      const uint32_t bits = uint32_t(to_bfloat16(values[i])) << 16;
      std::memcpy(to + i, &bits, 4);
    }
  }
  static Sums begin(int32_t) { return Sums{}; }
  static Floats finish(Sums sums, float, Floats, Floats bias) { return sums + bias; }
};
#endif

enum class Then { kWrite, kRelu, kAdd };

// A linear map: a matrix and a bias.
class Linear {
 public:
  virtual ~Linear() = default;

  // Reserves memory for rows.
  virtual void reserve(Rows& rows, int64_t num_rows) const = 0;

  // Converts a row to what the product takes.
  virtual void convert(Rows& rows, int64_t row, const float* values) const = 0;

  // Writes each row times the matrix, transposed, plus the bias.
  //
  // Args: rows from `first` to `end`; `outputs`, the first one's, `stride` floats from the next.
  virtual void apply(const Rows& rows, int64_t first, int64_t end, float* outputs, int64_t stride,
                     Then then, int num_threads) const = 0;

  // Enough rows for reading the matrix to cost little compared with multiplying: the larger it is,
  // the farther from the processor it is cached.
  int64_t count_rows_at_once() const {
    const int64_t num_weights = num_outputs * num_inputs;
    return num_weights < (1 << 19) ? 24 : num_weights < (1 << 21) ? 48 : 96;
  }

  const int64_t num_outputs, num_inputs;

 protected:
  Linear(int64_t num_outputs, int64_t num_inputs)
      : num_outputs(num_outputs), num_inputs(num_inputs) {}
};

// A matrix in a kind of arithmetic: panels of `kPanel` outputs, one after the other.
template <class Kind>
class LinearOf final : public Linear {
 public:
  typedef typename Kind::Input Input;
  typedef typename Kind::Weight Weight;

  // Args: `weight`, [outputs, inputs]; `bias` may be null.
  LinearOf(int64_t num_outputs, int64_t num_inputs, const float* weight, const float* bias)
      : Linear(num_outputs, num_inputs),
        num_groups_(round_up(num_inputs, kGroups * Kind::kGroup) / Kind::kGroup),
        num_panels_(round_up(num_outputs, kPanel) / kPanel),
        weights_(num_panels_ * num_groups_ * Kind::kGroup * kPanel),
        scales_(size_t(num_panels_ * kPanel), 0.0f),
        bias_(size_t(num_panels_ * kPanel), 0.0f) {
    for (int64_t output = 0; output < num_outputs; ++output)
      scales_[size_t(output)] = Kind::find_scale(weight + output * num_inputs, num_inputs);
    if (bias != nullptr) std::copy(bias, bias + num_outputs, bias_.begin());
    Weight* to = weights_.data();
    for (int64_t panel = 0; panel < num_panels_; ++panel)
      for (int64_t group = 0; group < num_groups_; ++group)
        for (int64_t output = panel * kPanel; output < (panel + 1) * kPanel; ++output)
          for (int64_t input = group * Kind::kGroup; input < (group + 1) * Kind::kGroup; ++input) {
            const bool is_inside = output < num_outputs && input < num_inputs;
            *to++ = is_inside ? Kind::convert_weight(weight[output * num_inputs + input],
                                                     scales_[size_t(output)])
                              : Kind::convert_weight(0.0f, 1.0f);
          }
    for (float& scale : scales_) scale /= Kind::kInputUnits;
  }

  void reserve(Rows& rows, int64_t num_rows) const override {
    rows.stride = round_up(num_inputs * int64_t(sizeof(Input)), 64);
    rows.numbers.reserve(num_rows * rows.stride);
    if (int64_t(rows.scales.size()) < num_rows) {
      rows.scales.resize(size_t(num_rows));
      rows.sums.resize(size_t(num_rows));
    }
  }

  void convert(Rows& rows, int64_t row, const float* values) const override {
    Input* to = find(rows, row);
    Kind::convert(values, num_inputs, to, &rows.scales[size_t(row)], &rows.sums[size_t(row)]);
    fill_group(to);
  }

  void apply(const Rows& rows, int64_t first, int64_t end, float* outputs, int64_t stride,
             Then then, int num_threads) const override {
    const int64_t operations = (end - first) * num_outputs * num_inputs;
    const bool is_shared = num_threads > 1 && operations >= kMinOperationsToShare;
    const int64_t num_parts = is_shared ? std::min<int64_t>(num_threads, num_panels_) : 1;
    share(int(num_parts), num_parts, [&](int64_t part) {
      const int64_t panel = num_panels_ * part / num_parts;
      const int64_t end_panel = num_panels_ * (part + 1) / num_parts;
      if constexpr (kTakesTiles)
        if (end - first >= Kind::kMinRowsOfTiles)
          return apply_tiles(panel, end_panel, rows, first, end, outputs, stride, then);
      apply_vectors(panel, end_panel, rows, first, end, outputs, stride, then);
    });
  }

 private:
  static constexpr int kRows = Kind::kRows, kVectors = Kind::kVectors;
  static constexpr int64_t kPanel = kVectors * kLanes;
  static constexpr int64_t kMinOperationsToShare = 4'000'000;
  static constexpr bool kTakesTiles = kHasTiles && Kind::kMinRowsOfTiles != kNoTiles;
  static constexpr int64_t kGroups = kTakesTiles ? kTileRows : 1;

  static Input* find(const Rows& rows, int64_t row) {
    return reinterpret_cast<Input*>(rows.numbers.data() + row * rows.stride);
  }

  // The padding after a row is multiplied too, by zeros, and must be finite.
  void fill_group(Input* row) const {
    std::fill(row + num_inputs, row + num_groups_ * Kind::kGroup, Input{});
  }

  const Weight* find_weights(int64_t panel) const {
    return weights_.data() + panel * num_groups_ * Kind::kGroup * kPanel;
  }

  // Rows are in an even number of tiles of one size; the last ones may overlap.
  void apply_tiles(int64_t panel, int64_t end_panel, const Rows& rows, int64_t first, int64_t end,
                   float* outputs, int64_t stride, Then then) const {
    const int64_t num_pairs = round_up(end - first, 2 * kTileRows) / (2 * kTileRows);
    const int64_t height = round_up(end - first, 2 * num_pairs) / (2 * num_pairs);
    const Tiles tiles(height);
    alignas(64) typename Kind::Sums sums[2 * kTileRows][kVectors];
    for (; panel < end_panel; ++panel) {
      const Finish finish(*this, panel, then);
      for (int64_t row = first; row < end; row += 2 * height) {
        const int64_t begins[2] = {std::min(row, end - height),
                                   std::min(row + height, end - height)};
        tiles.multiply<std::is_same_v<Kind, Int8>>(
            rows.numbers.data() + begins[0] * rows.stride,
            rows.numbers.data() + begins[1] * rows.stride, rows.stride,
            reinterpret_cast<const char*>(find_weights(panel)), num_groups_ / kTileRows,
            reinterpret_cast<char*>(sums));
        for (int64_t tile = 0; tile < 2; ++tile) {
          const int64_t last = std::min(row + (tile + 1) * height, end);
          for (int64_t i = row + tile * height; i < last; ++i) {
            const auto begin = Kind::begin(rows.sums[size_t(i)]);
            const auto& found = sums[tile * height + i - begins[tile]];
            const typename Kind::Sums of_row[kVectors] = {found[0] + begin, found[1] + begin};
            finish.write(of_row, rows.scales[size_t(i)], outputs + (i - first) * stride);
          }
        }
      }
    }
  }

  void apply_vectors(int64_t panel, int64_t end_panel, const Rows& rows, int64_t first, int64_t end,
                     float* outputs, int64_t stride, Then then) const {
    for (; panel < end_panel; ++panel) {
      int64_t row = first;
      for (; row + kRows <= end; row += kRows)
        apply_rows<kRows>(panel, rows, row, outputs + (row - first) * stride, stride, then);
      apply_rest<kRows - 1>(end - row, panel, rows, row, outputs + (row - first) * stride, stride,
                            then);
    }
  }

  template <int kNum>
  void apply_rest(int64_t num_rows, int64_t panel, const Rows& rows, int64_t row, float* outputs,
                  int64_t stride, Then then) const {
    if constexpr (kNum > 0) {
      if (num_rows == kNum)
        apply_rows<kNum>(panel, rows, row, outputs, stride, then);
      else
        apply_rest<kNum - 1>(num_rows, panel, rows, row, outputs, stride, then);
    }
  }

  template <int kNum>
  void apply_rows(int64_t panel, const Rows& rows, int64_t row, float* outputs, int64_t stride,
                  Then then) const {
    typename Kind::Sums sums[kNum][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kNum; ++i) {
      const auto begin = Kind::begin(rows.sums[size_t(row + i)]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sums[i][j] = begin;
    }
    const Weight* weights = find_weights(panel);
    const int64_t panel_size = num_groups_ * Kind::kGroup * kPanel;
    const Input* inputs = find(rows, row);
    const int64_t inputs_stride = rows.stride / int64_t(sizeof(Input));
    for (int64_t group = 0; group < num_groups_; ++group) {
#pragma GCC unroll 16
      for (int i = 0; i < kNum; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j)
          sums[i][j] = Kind::add_products(sums[i][j], inputs + i * inputs_stride,
                                          weights + j * kLanes * Kind::kGroup);
      // The next panel is prefetched: a large model's weights are far away. Fewer rows leave
      // no time for that.
      if constexpr (kNum >= 4)
        prefetch_bytes<int64_t(Kind::kGroup * kPanel * sizeof(Weight))>(weights + panel_size);
      weights += Kind::kGroup * kPanel;
      inputs += Kind::kGroup;
    }
    const Finish finish(*this, panel, then);
#pragma GCC unroll 16
    for (int i = 0; i < kNum; ++i)
      finish.write(sums[i], rows.scales[size_t(row + i)], outputs + i * stride);
  }

  // The epilogue of a panel of outputs: scales, bias, and ReLU if wanted.
  struct Finish {
    Floats scales[kVectors], bias[kVectors];
    const int64_t output, width;
    const Then then;

    Finish(const LinearOf& linear, int64_t panel, Then then)
        : output(panel * kPanel),
          width(std::min(linear.num_outputs - output, kPanel)),
          then(then) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        scales[j] = load(&linear.scales_[size_t(output + j * kLanes)]);
        bias[j] = load(&linear.bias_[size_t(output + j * kLanes)]);
      }
    }

    // Args: `outputs` of the row.
    void write(const typename Kind::Sums (&sums)[kVectors], float scale, float* outputs) const {
      float* to = outputs + output;
      Floats results[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        results[j] = Kind::finish(sums[j], scale, scales[j], bias[j]);
        if (then == Then::kRelu) results[j] = results[j] < Floats{} ? Floats{} : results[j];
      }
      if (width == kPanel) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
          float* at = to + j * kLanes;
          store(at, then == Then::kAdd ? results[j] + load(at) : results[j]);
        }
      } else {
        const float* from = reinterpret_cast<const float*>(results);
        for (int64_t at = 0; at < width; ++at)
          to[at] = then == Then::kAdd ? to[at] + from[at] : from[at];
      }
    }
  };

  const int64_t num_groups_, num_panels_;
  Buffer<Weight> weights_;
  std::vector<float> scales_, bias_;
};

}  // namespace mtkit
