// Layers of a Transformer (arXiv 1706.03762), for inference: parts that its encoder and decoder share.
#pragma once

#include "products.h"

namespace mtkit {

struct Norm {
  const float* weight;
  const float* bias;
  float epsilon;
};

enum Activation : int32_t { kRelu, kGelu, kGeluTanh, kSilu, kSwiglu };

// A layer's parts; those of attention to a source are null in an encoder.
struct Layer {
  Norm self_norm, cross_norm, feed_forward_norm;
  const Linear *query_key_value, *self_output;
  const Linear *cross_query, *cross_key_value, *cross_output;
  const Linear *inner, *outer;
};

struct Shape {
  int64_t d_model, num_heads, d_key, d_value;
  int32_t norm_first;
  int32_t activation;
};

inline void normalize(const float* from, float* to, int64_t width, const Norm& norm) {
  Floats total{};
  float rest = 0.0f;
  along(
      width, [&](int64_t i) { total += load(from + i); }, [&](int64_t i) { rest += from[i]; });
  const float mean = (sum(total) + rest) / float(width);
  Floats squares{};
  float rest_squares = 0.0f;
  along(
      width,
      [&](int64_t i) {
        const Floats off = load(from + i) - mean;
        squares += off * off;
      },
      [&](int64_t i) { rest_squares += (from[i] - mean) * (from[i] - mean); });
  const float variance = (sum(squares) + rest_squares) / float(width);
  const float scale = 1.0f / std::sqrt(variance + norm.epsilon);
  along(
      width,
      [&](int64_t i) {
        store(to + i, (load(from + i) - mean) * scale * load(norm.weight + i) + load(norm.bias + i));
      },
      [&](int64_t i) { to[i] = (from[i] - mean) * scale * norm.weight[i] + norm.bias[i]; });
}

// The softmax of rows of scores, several rows at a time, since the steps of one depend on each
// other. Rows are padded to whole vectors, and the padding is written to.
template <int kNum>
inline void softmax_rows(float* scores, int64_t stride, int64_t num_scores) {
  const int64_t padded = round_up(num_scores, kLanes);
  Floats greatest[kNum], total[kNum];
#pragma GCC unroll 4
  for (int row = 0; row < kNum; ++row) {
    for (int64_t i = num_scores; i < padded; ++i) scores[row * stride + i] = -INFINITY;
    greatest[row] = load(scores + row * stride);
    total[row] = Floats{};
  }
  for (int64_t i = kLanes; i < padded; i += kLanes)
#pragma GCC unroll 4
    for (int row = 0; row < kNum; ++row)
      greatest[row] = max(greatest[row], load(scores + row * stride + i));
#pragma GCC unroll 4
  for (int row = 0; row < kNum; ++row) greatest[row] = broadcast(largest(greatest[row]));
  for (int64_t i = 0; i < padded; i += kLanes)
#pragma GCC unroll 4
    for (int row = 0; row < kNum; ++row) {
      float* at = scores + row * stride + i;
      const Floats power = exponential(load(at) - greatest[row]);
      total[row] += power;
      store(at, power);
    }
#pragma GCC unroll 4
  for (int row = 0; row < kNum; ++row) total[row] = broadcast(1.0f / sum(total[row]));
  for (int64_t i = 0; i < padded; i += kLanes)
#pragma GCC unroll 4
    for (int row = 0; row < kNum; ++row) {
      float* at = scores + row * stride + i;
      store(at, load(at) * total[row]);
    }
}

inline void softmax(float* scores, int64_t num_rows, int64_t stride, int64_t num_scores) {
  int64_t row = 0;
  for (; row + 4 <= num_rows; row += 4) softmax_rows<4>(scores + row * stride, stride, num_scores);
  for (; row < num_rows; ++row) softmax_rows<1>(scores + row * stride, stride, num_scores);
}

// The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
inline Floats error_function(Floats x) {
  const Floats size = absolute(x);
  const Floats t = 1.0f / (1.0f + 0.3275911f * size);
  const Floats p =
      ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
       0.254829592f) * t;
  const Floats y = 1.0f - p * exponential(-size * size);
  return x < Floats{} ? -y : y;
}

inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

inline Floats activate(Floats x, int32_t kind) {
  switch (kind) {
    case kRelu:
      return x < Floats{} ? Floats{} : x;
    case kGelu:
      return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    case kGeluTanh:
      // tanh(y) = 2 sigmoid(2y) - 1.
      return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
    default:
      return x * sigmoid(x);
  }
}

// Activates a row of the feed-forward layer's inner width in place. With SwiGLU the gates come first,
// and the first half holds the result.
inline void activate_row(float* row, int64_t width, int32_t kind) {
  const float* gated = kind == kSwiglu ? row + width : nullptr;
  const auto one = [&](int64_t i) {
    float result = activate(broadcast(row[i]), kind)[0];
    row[i] = gated == nullptr ? result : result * gated[i];
  };
  along(
      width,
      [&](int64_t i) {
        const Floats result = activate(load(row + i), kind);
        store(row + i, gated == nullptr ? result : result * load(gated + i));
      },
      one);
}

// Keys and values of one sentence's source, as attention reads them: a head's keys transposed,
// [d_key, width], where `width` is a multiple of kLanes.
struct Source {
  const float* keys;
  const float* values;
  int64_t length, width, value_stride;
};

inline int64_t source_width(int64_t length) { return round_up(length, kLanes); }

// Transposes keys [length, heads, d_key] to [heads, d_key, width].
inline void lay_across(const float* keys, int64_t stride, int64_t length, const Shape& shape,
                       float* to) {
  const int64_t width = source_width(length);
  for (int64_t i = 0; i < shape.num_heads * shape.d_key; ++i) {
    for (int64_t position = 0; position < length; ++position)
      to[i * width + position] = keys[position * stride + i];
    for (int64_t position = length; position < width; ++position) to[i * width + position] = 0.0f;
  }
}

// Dot products of a query with kLanes keys, one per lane, over dimensions from `begin` on, `width`
// of them.
inline Floats dot_each(const float* query, const float* const* keys, int64_t begin, int64_t width) {
  Floats totals[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) totals[i] = Floats{};
  int64_t at = begin;
  for (; at + kLanes <= begin + width; at += kLanes) {
    const Floats part = load(query + at);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) totals[i] += part * load(keys[i] + at);
  }
  Floats result = sum_each(totals);
  for (; at < begin + width; ++at)
    for (int i = 0; i < kLanes; ++i) result[i] += query[at] * keys[i][at];
  return result;
}

// Adds up values times weights: `value_at(position)` points to a position's values.
template <class ValueAt>
inline void mix(const float* weights, int64_t length, int64_t d_value, ValueAt value_at,
                float* result) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= d_value; i += 2 * kLanes) {
    // Several accumulators, since each addition waits for the one before.
    Floats sums[4]{};
    int64_t position = 0;
    for (; position + 2 <= length; position += 2) {
      const float *value = value_at(position) + i, *next = value_at(position + 1) + i;
      sums[0] += weights[position] * load(value);
      sums[1] += weights[position] * load(value + kLanes);
      sums[2] += weights[position + 1] * load(next);
      sums[3] += weights[position + 1] * load(next + kLanes);
    }
    if (position < length) {
      const float* value = value_at(position) + i;
      sums[0] += weights[position] * load(value);
      sums[1] += weights[position] * load(value + kLanes);
    }
    store(result + i, sums[0] + sums[2]);
    store(result + i + kLanes, sums[1] + sums[3]);
  }
  for (; i + kLanes <= d_value; i += kLanes) {
    Floats total{};
    for (int64_t position = 0; position < length; ++position)
      total += weights[position] * load(value_at(position) + i);
    store(result + i, total);
  }
  for (; i < d_value; ++i) {
    float total = 0.0f;
    for (int64_t position = 0; position < length; ++position)
      total += weights[position] * value_at(position)[i];
    result[i] = total;
  }
}

constexpr int64_t kMeanOfHeads = -1, kMaxOfHeads = -2;

// Where the weights of a position's attention to its source are written; either may be null.
struct Watched {
  float* mean = nullptr;  // Of all heads.
  float* weights = nullptr;
  int64_t head = kMeanOfHeads;
};

inline void average(const float* weights, int64_t num_heads, int64_t stride, int64_t length,
                    float* result) {
  for (int64_t i = 0; i < length; ++i) {
    float total = 0.0f;
    for (int64_t head = 0; head < num_heads; ++head) total += weights[head * stride + i];
    result[i] = total / float(num_heads);
  }
}

inline void watch(const float* weights, int64_t num_heads, int64_t stride, int64_t length,
                  int64_t head, float* result) {
  if (head == kMeanOfHeads) {
    average(weights, num_heads, stride, length, result);
  } else if (head == kMaxOfHeads) {
    std::copy_n(weights, length, result);
    for (int64_t other = 1; other < num_heads; ++other)
      for (int64_t i = 0; i < length; ++i)
        result[i] = std::max(result[i], weights[other * stride + i]);
  } else {
    std::copy_n(weights + head * stride, length, result);
  }
}

// Scaled dot-product attention of one position to a source (section 3.2.1).
//
// Args: `queries` of all heads; `scores`, a buffer of [heads, source width]; `result`, all heads'
// values.
inline void attend(const float* queries, const Source& source, const Shape& shape, float* scores,
                   float* result, const Watched& watched = {}) {
  const float scale = 1.0f / std::sqrt(float(shape.d_key));
  for (int64_t head = 0; head < shape.num_heads; ++head) {
    const float* query = queries + head * shape.d_key;
    const float* keys = source.keys + head * shape.d_key * source.width;
    for (int64_t i = 0; i < source.width; i += kLanes) {
      Floats sums[4]{};
      int64_t k = 0;
      for (; k + 4 <= shape.d_key; k += 4)
#pragma GCC unroll 4
        for (int part = 0; part < 4; ++part)
          sums[part] += query[k + part] * load(keys + (k + part) * source.width + i);
      for (; k < shape.d_key; ++k) sums[0] += query[k] * load(keys + k * source.width + i);
      store(scores + head * source.width + i, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale);
    }
  }
  softmax(scores, shape.num_heads, source.width, source.length);
  if (watched.mean != nullptr)
    average(scores, shape.num_heads, source.width, source.length, watched.mean);
  if (watched.weights != nullptr)
    watch(scores, shape.num_heads, source.width, source.length, watched.head, watched.weights);
  for (int64_t head = 0; head < shape.num_heads; ++head) {
    const float* weights = scores + head * source.width;
    const float* values = source.values + head * shape.d_value;
    mix(
        weights, source.length, shape.d_value,
        [&](int64_t position) { return values + position * source.value_stride; },
        result + head * shape.d_value);
  }
}

// One thread's buffers.
struct Workspace {
  Buffer<float> states, normed, projected, attended, inner, scores, across, logits;
  Rows rows;
};

// Writes states times a map, normalised first if pre-norm.
inline void project(const float* states, int64_t num_rows, const Linear& map, const Norm& norm,
                    const Shape& shape, float* outputs, Then then, Workspace& space,
                    int num_threads) {
  const int64_t width = shape.d_model;
  map.reserve(space.rows, num_rows);
  float* normed = space.normed.reserve(width);
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* from = states + row * width;
    if (shape.norm_first) {
      normalize(from, normed, width, norm);
      from = normed;
    }
    map.convert(space.rows, row, from);
  }
  map.apply(space.rows, 0, num_rows, outputs, map.num_outputs, then, num_threads);
}

// Adds a sub-layer's output to the states: `outputs` [rows, stride] times its last map.
inline void add_output(const float* outputs, int64_t stride, int64_t num_rows, const Linear& map,
                       const Norm& norm, const Shape& shape, float* states, Workspace& space,
                       int num_threads) {
  map.reserve(space.rows, num_rows);
  for (int64_t row = 0; row < num_rows; ++row)
    map.convert(space.rows, row, outputs + row * stride);
  map.apply(space.rows, 0, num_rows, states, shape.d_model, Then::kAdd, num_threads);
  if (!shape.norm_first)
    for (int64_t row = 0; row < num_rows; ++row)
      normalize(states + row * shape.d_model, states + row * shape.d_model, shape.d_model, norm);
}

// Runs rows through the feed-forward layer, and adds its output to them.
inline void feed_forward(const Layer& layer, const Shape& shape, float* states, int64_t num_rows,
                         Workspace& space, int num_threads) {
  const int64_t inner_width = layer.inner->num_outputs;
  float* inner = space.inner.reserve(num_rows * inner_width);
  const bool is_relu = shape.activation == kRelu;
  project(states, num_rows, *layer.inner, layer.feed_forward_norm, shape, inner,
          is_relu ? Then::kRelu : Then::kWrite, space, num_threads);
  if (!is_relu)
    for (int64_t row = 0; row < num_rows; ++row)
      activate_row(inner + row * inner_width, layer.outer->num_inputs, shape.activation);
  add_output(inner, inner_width, num_rows, *layer.outer, layer.feed_forward_norm, shape, states,
             space, num_threads);
}

}  // namespace mtkit
