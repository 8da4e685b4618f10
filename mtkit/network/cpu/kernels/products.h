// A linear map whose weight is 8-bit integers: rows are quantised one by one, sums are exact.
#pragma once

#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "threads.h"
#include "vectors.h"

namespace mtkit {

// Memory that begins where a cache line does; what is in it isn't set.
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

  // Makes room; what was in it is lost where there wasn't enough.
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
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  Value* values_ = nullptr;
  int64_t size_ = 0;
};

// How integers lie in memory, and how many rows a product keeps in registers at once.
//
// `kGroup` inputs of an output lie side by side, since one instruction adds up their products.
#if defined(__AVX512VNNI__)
// The instruction multiplies numbers with a sign by numbers without: 128 is added to each weight, and
// 128 times a row's sum is taken off at the end.
typedef int8_t Input;
typedef uint8_t Weight;
constexpr int kGroup = 4, kRows = 12, kVectors = 2;
constexpr int32_t kWeightOffset = 128;
typedef Ints Group;

inline Group load_weights(const Weight* from) {
  return *reinterpret_cast<const IntsInMemory*>(from);
}
inline Ints add_products(Ints sums, const Input* inputs, Group weights) {
  int32_t four;
  std::memcpy(&four, inputs, 4);
  return Ints(_mm512_dpbusd_epi32(__m512i(sums), __m512i(weights), _mm512_set1_epi32(four)));
}
#elif defined(__AVX2__)
// In 16 bits: the instruction for 8 bits without VNNI adds pairs of products up in 16, and overflows.
typedef int16_t Input;
typedef int8_t Weight;
constexpr int kGroup = 2, kRows = 6, kVectors = 2;
constexpr int32_t kWeightOffset = 0;
typedef __m256i Group;

inline Group load_weights(const Weight* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Ints add_products(Ints sums, const Input* inputs, Group weights) {
  int32_t two;
  std::memcpy(&two, inputs, 4);
  return sums + Ints(_mm256_madd_epi16(weights, _mm256_set1_epi32(two)));
}
#else
typedef int16_t Input;
typedef int8_t Weight;
constexpr int kGroup = 1, kRows = 4, kVectors = 2;
constexpr int32_t kWeightOffset = 0;
typedef Ints Group;

inline Group load_weights(const Weight* from) {
  Ints weights{};
  for (int i = 0; i < kLanes; ++i) weights[i] = from[i];
  return weights;
}
inline Ints add_products(Ints sums, const Input* inputs, Group weights) {
  return sums + weights * broadcast(int32_t(*inputs));
}
#endif

constexpr int64_t kPanel = kVectors * kLanes;  // Outputs of a panel.
constexpr int64_t kMaxInputs = INT32_MAX / (255 * 127);

// Rows of integers with their scales.
struct QuantizedRows {
  Buffer<Input> integers;
  std::vector<float> scales;  // What a row's 127 is worth.
  std::vector<int32_t> sums;
  int64_t stride = 0;

  void reserve(int64_t num_rows, int64_t width) {
    stride = round_up(width, 64 / int64_t(sizeof(Input)));
    integers.reserve(num_rows * stride);
    if (int64_t(scales.size()) < num_rows) {
      scales.resize(size_t(num_rows));
      sums.resize(size_t(num_rows));
    }
  }

  // Takes a row of integers as it is, whose scale is 1.
  void take(int64_t row, const int8_t* values, int64_t width) {
    Input* to = integers.data() + row * stride;
    std::copy(values, values + width, to);
    std::fill(to + width, to + stride, Input{0});
    scales[size_t(row)] = 1.0f;
    sums[size_t(row)] = std::accumulate(values, values + width, int32_t{0});
  }

  // The largest number of a row becomes 127. A row of zeros stays so; one with NaN or infinity gets a
  // scale of NaN.
  void quantize(int64_t row, const float* values, int64_t width) {
    Input* to = integers.data() + row * stride;
    Floats greatest{}, not_finite{};
    float rest = 0.0f, rest_not_finite = 0.0f;
    along(
        width,
        [&](int64_t i) {
          const Floats each = load(values + i);
          greatest = max(greatest, absolute(each));
          not_finite += each * 0.0f;
        },
        [&](int64_t i) {
          rest = std::fabs(values[i]) > rest ? std::fabs(values[i]) : rest;
          rest_not_finite += values[i] * 0.0f;
        });
    const float in_vectors = largest(greatest);
    const float scale =
        (in_vectors > rest ? in_vectors : rest) + (sum(not_finite) + rest_not_finite);
    scales[size_t(row)] = scale;
    sums[size_t(row)] = 0;
    // Of a smaller number the reciprocal would be infinite.
    if (!(scale > 1e-37f)) {
      std::memset(to, 0, size_t(stride) * sizeof(Input));
      if (scale == scale) scales[size_t(row)] = 0.0f;
      return;
    }
    const float factor = 127.0f / scale;
    Ints total{};
    int32_t rest_total = 0;
    along(
        width,
        [&](int64_t i) {
          const Floats rounded = load(values + i) * factor + broadcast(kRounder);
          const Ints integer = as_ints(rounded) - broadcast(kRounderBits);
          total += integer;
          typedef Input Narrow __attribute__((vector_size(kLanes * sizeof(Input))));
          const Narrow narrow = __builtin_convertvector(integer, Narrow);
          std::memcpy(to + i, &narrow, sizeof narrow);
        },
        [&](int64_t i) {
          const float rounded = values[i] * factor + kRounder;
          int32_t integer;
          std::memcpy(&integer, &rounded, 4);
          integer -= kRounderBits;
          rest_total += integer;
          to[i] = Input(integer);
        });
    for (int64_t i = width; i < round_up(width, 4); ++i) to[i] = 0;
    sums[size_t(row)] = sum(total) + rest_total;
  }
};

enum class Then { kWrite, kRelu, kAdd };

// A matrix of integers as products read it: panels of `kPanel` outputs, one after the other.
class Linear {
 public:
  Linear(int64_t num_outputs, int64_t num_inputs, const int8_t* weight, const float* scales,
         const float* bias)
      : num_outputs(num_outputs),
        num_inputs(num_inputs),
        num_groups_(round_up(num_inputs, 4) / kGroup),
        num_panels_(round_up(num_outputs, kPanel) / kPanel),
        weights_(num_panels_ * num_groups_ * kGroup * kPanel),
        scales_(size_t(num_panels_ * kPanel), 0.0f),
        bias_(size_t(num_panels_ * kPanel), 0.0f) {
    std::copy(scales, scales + num_outputs, scales_.begin());
    if (bias != nullptr) std::copy(bias, bias + num_outputs, bias_.begin());
    Weight* to = weights_.data();
    for (int64_t panel = 0; panel < num_panels_; ++panel)
      for (int64_t group = 0; group < num_groups_; ++group)
        for (int64_t output = panel * kPanel; output < (panel + 1) * kPanel; ++output)
          for (int64_t input = group * kGroup; input < (group + 1) * kGroup; ++input) {
            const bool is_inside = output < num_outputs && input < num_inputs;
            *to++ = Weight((is_inside ? weight[output * num_inputs + input] : 0) + kWeightOffset);
          }
  }

  // Writes each row times the weight, transposed, plus the bias.
  //
  // Args: rows from `first` to `end`; `outputs`, the first one's, `stride` floats from the next.
  void apply(const QuantizedRows& rows, int64_t first, int64_t end, float* outputs, int64_t stride,
             Then then, int num_threads = 1) const {
    const int64_t operations = (end - first) * num_outputs * num_inputs;
    if (num_threads < 2 || operations < kMinOperationsToShare || num_panels_ < 2) {
      for (int64_t panel = 0; panel < num_panels_; ++panel)
        apply_panel(panel, rows, first, end, outputs, stride, then);
      return;
    }
    const int64_t num_parts = std::min<int64_t>(num_threads, num_panels_);
    share(num_threads, num_parts, [&](int64_t part) {
      for (int64_t panel = num_panels_ * part / num_parts;
           panel < num_panels_ * (part + 1) / num_parts; ++panel)
        apply_panel(panel, rows, first, end, outputs, stride, then);
    });
  }

  // As many rows as it takes for reading the weight to cost little beside multiplying it: the larger
  // the weight, the farther from the processor it lies.
  int64_t count_rows_at_once() const {
    const int64_t num_weights = num_outputs * num_inputs;
    return num_weights < (1 << 19) ? 2 * kRows : num_weights < (1 << 21) ? 4 * kRows : 8 * kRows;
  }

  const int64_t num_outputs, num_inputs;

 private:
  static constexpr int64_t kMinOperationsToShare = 4'000'000;

  void apply_panel(int64_t panel, const QuantizedRows& rows, int64_t first, int64_t end,
                   float* outputs, int64_t stride, Then then) const {
    int64_t row = first;
    for (; row + kRows <= end; row += kRows)
      apply_rows<kRows>(panel, rows, row, outputs + (row - first) * stride, stride, then);
    apply_rest<kRows - 1>(end - row, panel, rows, row, outputs + (row - first) * stride, stride,
                          then);
  }

  template <int kNum>
  void apply_rest(int64_t num_rows, int64_t panel, const QuantizedRows& rows, int64_t row,
                  float* outputs, int64_t stride, Then then) const {
    if constexpr (kNum > 0) {
      if (num_rows == kNum)
        apply_rows<kNum>(panel, rows, row, outputs, stride, then);
      else
        apply_rest<kNum - 1>(num_rows, panel, rows, row, outputs, stride, then);
    }
  }

  template <int kNum>
  void apply_rows(int64_t panel, const QuantizedRows& rows, int64_t row, float* outputs,
                  int64_t stride, Then then) const {
    Ints sums[kNum][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kNum; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sums[i][j] = Ints{};
    const Weight* weights = weights_.data() + panel * num_groups_ * kGroup * kPanel;
    const Input* inputs = rows.integers.data() + row * rows.stride;
    for (int64_t group = 0; group < num_groups_; ++group) {
      Group loaded[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) loaded[j] = load_weights(weights + j * kLanes * kGroup);
#pragma GCC unroll 16
      for (int i = 0; i < kNum; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j)
          sums[i][j] = add_products(sums[i][j], inputs + i * rows.stride, loaded[j]);
      weights += kGroup * kPanel;
      inputs += kGroup;
    }
    const int64_t output = panel * kPanel;
#pragma GCC unroll 16
    for (int i = 0; i < kNum; ++i) {
      const Floats scale = broadcast(rows.scales[size_t(row + i)]);
      const Ints offset = broadcast(kWeightOffset * rows.sums[size_t(row + i)]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        const int64_t at = output + j * kLanes;
        const Floats exact = __builtin_convertvector(sums[i][j] - offset, Floats);
        Floats result = exact * (scale * load(&scales_[size_t(at)])) + load(&bias_[size_t(at)]);
        float* to = outputs + i * stride + at;
        if (at + kLanes <= num_outputs) {
          if (then == Then::kRelu) result = result < Floats{} ? Floats{} : result;
          if (then == Then::kAdd) result += load(to);
          store(to, result);
        } else {
          for (int64_t lane = 0; at + lane < num_outputs; ++lane) {
            float one = result[lane];
            if (then == Then::kRelu) one = one < 0.0f ? 0.0f : one;
            to[lane] = then == Then::kAdd ? to[lane] + one : one;
          }
        }
      }
    }
  }

  const int64_t num_groups_, num_panels_;
  Buffer<Weight> weights_;
  std::vector<float> scales_, bias_;
};

}  // namespace mtkit
