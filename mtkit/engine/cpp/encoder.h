// Stacks of layers and embeddings; the encoder.
#pragma once

#include <stdexcept>
#include <utility>

#include "layers.h"

namespace mtkit {

// Token vectors, and how they enter the first layer.
struct Embedding {
  const float* tokens;  // [num_tokens, d_model]
  int64_t num_tokens;
  float scale;
  const Norm* norm;  // May be null.
};

// Position vectors, [count, d_model]; the caller makes as many as it needs.
struct Positions {
  const float* vectors;
  int64_t count;
};

// The layers of an encoder or of a decoder.
struct Stack {
  Shape shape;
  Embedding embedding;
  std::vector<Layer> layers;
  const Norm* final_norm = nullptr;  // Null if norms come last.
};

// Maximum rows that run through a layer together: their values stay in a CPU's cache.
constexpr int64_t kRowsOfBlock = 96;

// Rows that are searched together. With more, weights are read less often; with fewer, the keys
// and values of their sources stay in the cache, as do a small model's weights.
inline int64_t count_rows_at_once(const Stack& decoder) {
  int64_t num_weights = 0;
  for (const Layer& layer : decoder.layers)
    for (const Linear* map : {layer.query_key_value, layer.self_output, layer.cross_query,
                              layer.cross_output, layer.inner, layer.outer})
      if (map != nullptr) num_weights += map->num_inputs * map->num_outputs;
  return num_weights < (1 << 21) ? 24 : num_weights < (1 << 23) ? 48 : kRowsOfBlock;
}

// Writes the vector of a token at a position.
inline void embed(const Stack& stack, const Positions& positions, int64_t token, int64_t position,
                  float* to) {
  const Embedding& embedding = stack.embedding;
  if (token < 0 || token >= embedding.num_tokens || position >= positions.count)
    throw std::out_of_range("token or position");
  const int64_t width = stack.shape.d_model;
  const float* vector = embedding.tokens + token * width;
  const float* added = positions.vectors + position * width;
  for (int64_t i = 0; i < width; ++i) to[i] = vector[i] * embedding.scale + added[i];
  if (embedding.norm != nullptr) normalize(to, to, width, *embedding.norm);
}

inline Workspace& workspace() {
  static thread_local Workspace space;
  return space;
}

// Encodes sentences: sentence s has tokens [starts[s], starts[s + 1]).
//
// Args: `states`, [tokens, d_model], written.
inline void encode(const Stack& encoder, const Positions& positions, const int64_t* tokens,
                   const int64_t* starts, int64_t num_sentences, float* states, int num_threads) {
  const Shape& shape = encoder.shape;
  Workspace& space = workspace();
  const int64_t num_rows = starts[num_sentences];
  const int64_t width = shape.d_model;
  const int64_t keys_width = shape.num_heads * shape.d_key;
  const int64_t values_width = shape.num_heads * shape.d_value;
  const int64_t projected_width = 2 * keys_width + values_width;
  for (int64_t sentence = 0; sentence < num_sentences; ++sentence)
    for (int64_t row = starts[sentence]; row < starts[sentence + 1]; ++row)
      embed(encoder, positions, tokens[row], row - starts[sentence], states + row * width);
  float* projected = space.projected.reserve(num_rows * projected_width);
  float* attended = space.attended.reserve(num_rows * values_width);
  for (const Layer& layer : encoder.layers) {
    project(states, num_rows, *layer.query_key_value, layer.self_norm, shape, projected,
            Then::kWrite, space, num_threads);
    for (int64_t sentence = 0; sentence < num_sentences; ++sentence) {
      const int64_t length = starts[sentence + 1] - starts[sentence];
      const float* of_sentence = projected + starts[sentence] * projected_width;
      float* across = space.across.reserve(keys_width * source_width(length));
      lay_across(of_sentence + keys_width, projected_width, length, shape, across);
      const Source source{across, of_sentence + 2 * keys_width, length, source_width(length),
                          projected_width};
      float* scores = space.scores.reserve(shape.num_heads * source.width);
      for (int64_t row = 0; row < length; ++row)
        attend(of_sentence + row * projected_width, source, shape, scores,
               attended + (starts[sentence] + row) * values_width);
    }
    add_output(attended, values_width, num_rows, *layer.self_output, layer.self_norm, shape, states,
               space, num_threads);
    feed_forward(layer, shape, states, num_rows, space, num_threads);
  }
  if (encoder.final_norm != nullptr)
    for (int64_t row = 0; row < num_rows; ++row)
      normalize(states + row * width, states + row * width, width, *encoder.final_norm);
}

}  // namespace mtkit
