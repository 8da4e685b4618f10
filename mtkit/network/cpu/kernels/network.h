// A translator's network: what reads sources, and what continues hypotheses step by step.
#pragma once

#include <stdexcept>
#include <utility>

#include "layers.h"

namespace mtkit {

// Vectors of tokens, and what is done with them before the first layer.
struct Embedding {
  const float* tokens;  // [num_tokens, d_model]
  int64_t num_tokens;
  float scale;
  const Norm* norm;  // May be null.
};

// The layers of an encoder or of a decoder.
struct Stack {
  Shape shape;
  Embedding embedding;
  std::vector<Layer> layers;
  const Norm* final_norm = nullptr;  // Null where norms come last.
};

constexpr int64_t kRowsOfBlock = 96;
constexpr int64_t kMinRowsOfThread = 16;

// Writes a token's vector plus that of its position, which may be null.
inline void embed(const Stack& stack, int64_t token, const float* position, float* to) {
  const int64_t width = stack.shape.d_model;
  const float* from = stack.embedding.tokens + token * width;
  const float scale = stack.embedding.scale;
  for (int64_t i = 0; i < width; ++i)
    to[i] = from[i] * scale + (position == nullptr ? 0.0f : position[i]);
  if (stack.embedding.norm != nullptr) normalize(to, to, width, *stack.embedding.norm);
}

// Throws where a token has no vector.
inline void check_tokens(const Stack& stack, const int64_t* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || tokens[i] >= stack.embedding.num_tokens)
      throw std::out_of_range("token");
}

// Calls `work(first, end, num_threads)` with parts of consecutive sentences: blocks whose numbers stay
// in a processor's cache, in several threads where there are rows enough; else all at once, for the
// products to be shared. `row_of(sentence)` is its first row, that of the last plus one their number.
template <class RowOf, class Work>
void in_blocks(int64_t num_sentences, int num_threads, RowOf row_of, Work work) {
  const int64_t num_rows = row_of(num_sentences);
  if (num_sentences == 0) return;
  const bool is_shared = num_threads > 1 && num_rows >= num_threads * kMinRowsOfThread;
  int64_t num_blocks = round_up(num_rows, kRowsOfBlock) / kRowsOfBlock;
  if (is_shared) num_blocks = round_up(num_blocks, num_threads);
  std::vector<int64_t> starts{0};
  for (int64_t sentence = 1; sentence < num_sentences; ++sentence)
    if (row_of(sentence) * num_blocks >= num_rows * int64_t(starts.size()))
      starts.push_back(sentence);
  starts.push_back(num_sentences);
  share(is_shared ? num_threads : 1, int64_t(starts.size()) - 1, [&](int64_t block) {
    work(starts[size_t(block)], starts[size_t(block) + 1], is_shared ? 1 : num_threads);
  });
}

inline Workspace& workspace() {
  static thread_local Workspace space;
  return space;
}

// Encodes sentences [starts[first], starts[end]) of tokens that lie one behind the other.
//
// Args: `positions`, a vector of each position from 0, or null; `states`, [tokens, d_model], written.
inline void encode_block(const Stack& encoder, const int64_t* tokens, const int64_t* starts,
                         int64_t first, int64_t end, const float* positions, float* states,
                         int num_threads) {
  const Shape& shape = encoder.shape;
  Workspace& space = workspace();
  const int64_t num_rows = starts[end] - starts[first];
  const int64_t width = shape.d_model;
  const int64_t keys_width = shape.num_heads * shape.d_key;
  const int64_t values_width = shape.num_heads * shape.d_value;
  const int64_t projected_width = 2 * keys_width + values_width;
  float* rows = states + starts[first] * width;
  for (int64_t sentence = first; sentence < end; ++sentence)
    for (int64_t row = starts[sentence]; row < starts[sentence + 1]; ++row) {
      const int64_t position = row - starts[sentence];
      embed(encoder, tokens[row], positions == nullptr ? nullptr : positions + position * width,
            states + row * width);
    }
  float* projected = space.projected.reserve(num_rows * projected_width);
  float* attended = space.attended.reserve(num_rows * values_width);
  for (const Layer& layer : encoder.layers) {
    project(rows, num_rows, *layer.query_key_value, layer.self_norm, shape, projected,
            Then::kWrite, space, num_threads);
    for (int64_t sentence = first; sentence < end; ++sentence) {
      const int64_t length = starts[sentence + 1] - starts[sentence];
      const int64_t begin = starts[sentence] - starts[first];
      const float* of_sentence = projected + begin * projected_width;
      float* across = space.across.reserve(keys_width * source_width(length));
      lay_across(of_sentence + keys_width, projected_width, length, shape, across);
      const Source source{across, of_sentence + 2 * keys_width, length, source_width(length),
                          projected_width};
      float* scores = space.scores.reserve(shape.num_heads * source.width);
      for (int64_t row = 0; row < length; ++row)
        attend(of_sentence + row * projected_width, source, shape, scores,
               attended + (begin + row) * values_width);
    }
    add_output(attended, values_width, num_rows, *layer.self_output, layer.self_norm, shape, rows,
               space, num_threads);
    feed_forward(layer, shape, rows, num_rows, space, num_threads);
  }
  if (encoder.final_norm != nullptr)
    for (int64_t row = 0; row < num_rows; ++row)
      normalize(rows + row * width, rows + row * width, width, *encoder.final_norm);
}

inline void encode(const Stack& encoder, const int64_t* tokens, const int64_t* starts,
                   int64_t num_sentences, const float* positions, float* states, int num_threads) {
  check_tokens(encoder, tokens, starts[num_sentences]);
  in_blocks(
      num_sentences, num_threads, [&](int64_t sentence) { return starts[sentence]; },
      [&](int64_t first, int64_t end, int threads) {
        encode_block(encoder, tokens, starts, first, end, positions, states, threads);
      });
}

// Keys and values of positions in the target, and the attention to the source that is watched, in
// slots: each step adds one for each hypothesis, and one that no hypothesis descends from any more is
// used again.
class Slots {
 public:
  Slots(int64_t num_layers, int64_t keys_width, int64_t values_width, int64_t attention_width)
      : num_layers_(num_layers),
        keys_width_(keys_width),
        values_width_(values_width),
        attention_width_(attention_width) {}

  int32_t take() {
    if (free_.empty()) grow();
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int32_t slot) { free_.push_back(slot); }
  int64_t count() const { return int64_t(blocks_.size()) * kSlotsOfBlock; }

  float* keys(int64_t layer, int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           layer * (keys_width_ + values_width_) * kSlotsOfBlock +
           slot % kSlotsOfBlock * keys_width_;
  }
  float* values(int64_t layer, int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           (layer * (keys_width_ + values_width_) + keys_width_) * kSlotsOfBlock +
           slot % kSlotsOfBlock * values_width_;
  }
  float* attention(int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           num_layers_ * (keys_width_ + values_width_) * kSlotsOfBlock +
           slot % kSlotsOfBlock * attention_width_;
  }

 private:
  static constexpr int32_t kSlotsOfBlock = 256;

  void grow() {
    const int32_t first = int32_t(count());
    blocks_.emplace_back((num_layers_ * (keys_width_ + values_width_) + attention_width_) *
                         kSlotsOfBlock);
    for (int32_t slot = kSlotsOfBlock; slot-- > 0;) free_.push_back(first + slot);
  }

  const int64_t num_layers_, keys_width_, values_width_, attention_width_;
  std::vector<Buffer<float>> blocks_;
  std::vector<int32_t> free_;
};

// What a step is asked for, and where it goes: of log-probabilities and the best ones.
struct Wanted {
  float* log_probabilities;  // [rows, vocab], or null.
  // [rows, attention_width], the mean of the last layer's heads, zeros so far; or null.
  float* source_attention;
  int64_t attention_width;
  // The best continuations of each sentence, by a hypothesis's total plus the token's log-probability;
  // of equals the one of the earlier hypothesis, then that of the lower token id; or null.
  const float* totals;  // [rows]
  float* best_values;   // [sentences, num_best]
  int64_t* best;        // The hypothesis's index times the vocabulary's size plus the token.
  int64_t num_best;
  const int64_t* never;  // Tokens that are no continuation.
  int64_t num_never;
};

// Hypotheses of a batch of sentences, and all that a decoder remembers of them.
class Search {
 public:
  // Args: `memory`, the encoded sources one behind the other, [tokens, d_model]; sentence s from row
  // starts[s] to starts[s + 1]; `watched_layer`, whose attention to the source is kept, -1 for none;
  // `watched_head`, of which head, -1 for the mean.
  Search(const Stack& decoder, const Linear& projection, const float* memory,
         const int64_t* starts, int64_t num_sentences, int64_t watched_layer, int64_t watched_head,
         int num_threads)
      : decoder_(decoder),
        projection_(projection),
        watched_layer_(watched_layer),
        watched_head_(watched_head),
        slots_(int64_t(decoder.layers.size()), keys_width(), values_width(),
               watched_layer < 0 ? 0 : find_longest(starts, num_sentences)),
        num_sentences_(num_sentences),
        chains_(size_t(num_sentences)) {
    sources_.reserve(size_t(num_sentences));
    for (int64_t sentence = 0; sentence < num_sentences; ++sentence)
      sources_.emplace_back(starts[sentence + 1] - starts[sentence]);
    in_blocks(
        num_sentences, num_threads, [&](int64_t sentence) { return starts[sentence]; },
        [&](int64_t first, int64_t end, int threads) {
          read_sources(memory, starts, first, end, threads);
        });
  }

  // Writes the attention of a sentence's hypothesis that was watched at each step so far, [steps,
  // src_len].
  void copy_attention(int64_t sentence, int64_t hypothesis, float* to) const {
    const int64_t length = sources_[size_t(sentence)].length;
    for (const int32_t slot : chains_[size_t(sentence * beam_ + hypothesis)]) {
      std::copy_n(slots_.attention(slot), length, to);
      to += length;
    }
  }

  // Passes each hypothesis's newest token through the decoder.
  void step(const int64_t* tokens, const float* position, const Wanted& wanted, int num_threads) {
    check_tokens(decoder_, tokens, num_sentences_ * beam_);
    for (std::vector<int32_t>& chain : chains_) chain.push_back(slots_.take());
    in_blocks(
        num_sentences_, num_threads, [&](int64_t sentence) { return sentence * beam_; },
        [&](int64_t first, int64_t end, int threads) {
          step_block(first, end, tokens, position, wanted, threads);
        });
  }

  // Keeps these sentences, and in each of them these hypotheses, [kept, beam].
  void select(const int64_t* sentences, int64_t num_kept, const int64_t* parents, int64_t beam) {
    std::vector<std::vector<int32_t>> chains;
    chains.reserve(size_t(num_kept * beam));
    std::vector<SourceOfSentence> sources;
    sources.reserve(size_t(num_kept));
    // By slot: whether a hypothesis to come descends from it.
    std::vector<uint8_t> is_kept(size_t(slots_.count()), 0);
    for (int64_t row = 0; row < num_kept; ++row) {
      for (int64_t i = 0; i < beam; ++i) {
        const int64_t parent = sentences[row] * beam_ + parents[row * beam + i];
        chains.push_back(chains_[size_t(parent)]);
        for (const int32_t slot : chains.back()) is_kept[size_t(slot)] = 1;
      }
      sources.push_back(std::move(sources_[size_t(sentences[row])]));
    }
    
    for (const std::vector<int32_t>& chain : chains_)
      for (const int32_t slot : chain)
        if (!is_kept[size_t(slot)]) {
          slots_.give_back(slot);
          is_kept[size_t(slot)] = 1;  // Given back once.
        }
    chains_ = std::move(chains);
    sources_ = std::move(sources);
    num_sentences_ = num_kept;
    beam_ = beam;
  }

 private:
  struct SourceOfSentence {
    explicit SourceOfSentence(int64_t length) : length(length) {}
    int64_t length;
    Buffer<float> numbers;  // Of each layer: keys, laid across, then values.
  };

  static int64_t find_longest(const int64_t* starts, int64_t num_sentences) {
    int64_t longest = 0;
    for (int64_t sentence = 0; sentence < num_sentences; ++sentence)
      longest = std::max(longest, starts[sentence + 1] - starts[sentence]);
    return longest;
  }

  int64_t keys_width() const { return decoder_.shape.num_heads * decoder_.shape.d_key; }
  int64_t values_width() const { return decoder_.shape.num_heads * decoder_.shape.d_value; }

  Source source_of(int64_t sentence, int64_t layer) const {
    const SourceOfSentence& source = sources_[size_t(sentence)];
    const int64_t width = source_width(source.length);
    const int64_t of_layer = keys_width() * width + values_width() * source.length;
    const float* keys = source.numbers.data() + layer * of_layer;
    return Source{keys, keys + keys_width() * width, source.length, width, values_width()};
  }

  void read_sources(const float* memory, const int64_t* starts, int64_t first, int64_t end,
                    int num_threads) {
    const Shape& shape = decoder_.shape;
    Workspace& space = workspace();
    const int64_t num_rows = starts[end] - starts[first];
    // All layers' maps take the same.
    const Linear& any = *decoder_.layers[0].cross_key_value;
    any.reserve(space.rows, num_rows);
    for (int64_t row = 0; row < num_rows; ++row)
      any.convert(space.rows, row, memory + (starts[first] + row) * shape.d_model);
    const int64_t projected_width = keys_width() + values_width();
    float* projected = space.projected.reserve(num_rows * projected_width);
    for (int64_t sentence = first; sentence < end; ++sentence) {
      const int64_t length = sources_[size_t(sentence)].length;
      sources_[size_t(sentence)].numbers.reserve(
          int64_t(decoder_.layers.size()) *
          (keys_width() * source_width(length) + values_width() * length));
    }
    for (size_t layer = 0; layer < decoder_.layers.size(); ++layer) {
      decoder_.layers[layer].cross_key_value->apply(space.rows, 0, num_rows, projected,
                                                    projected_width, Then::kWrite, num_threads);
      for (int64_t sentence = first; sentence < end; ++sentence) {
        const Source source = source_of(sentence, int64_t(layer));
        const float* from = projected + (starts[sentence] - starts[first]) * projected_width;
        lay_across(from, projected_width, source.length, shape, const_cast<float*>(source.keys));
        for (int64_t row = 0; row < source.length; ++row)
          std::copy_n(from + row * projected_width + keys_width(), values_width(),
                      const_cast<float*>(source.values) + row * values_width());
      }
    }
  }

  void step_block(int64_t first, int64_t end, const int64_t* tokens, const float* position,
                  const Wanted& wanted, int num_threads) {
    const Shape& shape = decoder_.shape;
    Workspace& space = workspace();
    const int64_t first_row = first * beam_, num_rows = (end - first) * beam_;
    const int64_t width = shape.d_model;
    const int64_t projected_width = 2 * keys_width() + values_width();
    float* states = space.states.reserve(num_rows * width);
    for (int64_t row = 0; row < num_rows; ++row)
      embed(decoder_, tokens[first_row + row], position, states + row * width);
    float* projected = space.projected.reserve(num_rows * projected_width);
    float* attended = space.attended.reserve(num_rows * values_width());
    for (size_t number = 0; number < decoder_.layers.size(); ++number) {
      const Layer& layer = decoder_.layers[number];
      project(states, num_rows, *layer.query_key_value, layer.self_norm, shape, projected,
              Then::kWrite, space, num_threads);
      for (int64_t row = 0; row < num_rows; ++row)
        attend_to_chain(int64_t(number), chains_[size_t(first_row + row)],
                        projected + row * projected_width, attended + row * values_width(), space);
      add_output(attended, values_width(), num_rows, *layer.self_output, layer.self_norm, shape,
                 states, space, num_threads);
      project(states, num_rows, *layer.cross_query, layer.cross_norm, shape, projected,
              Then::kWrite, space, num_threads);
      const bool is_last = number + 1 == decoder_.layers.size();
      for (int64_t row = 0; row < num_rows; ++row) {
        const Source source = source_of(first + row / beam_, int64_t(number));
        Watched watched;
        if (is_last && wanted.source_attention != nullptr)
          watched.mean = wanted.source_attention + (first_row + row) * wanted.attention_width;
        if (int64_t(number) == watched_layer_) {
          watched.weights = slots_.attention(chains_[size_t(first_row + row)].back());
          watched.head = watched_head_;
        }
        float* scores = space.scores.reserve(shape.num_heads * source.width);
        attend(projected + row * keys_width(), source, shape, scores,
               attended + row * values_width(), watched);
      }
      add_output(attended, values_width(), num_rows, *layer.cross_output, layer.cross_norm, shape,
                 states, space, num_threads);
      feed_forward(layer, shape, states, num_rows, space, num_threads);
    }
    if (decoder_.final_norm != nullptr)
      for (int64_t row = 0; row < num_rows; ++row)
        normalize(states + row * width, states + row * width, width, *decoder_.final_norm);
    finish(states, first, end, wanted, space, num_threads);
  }

  // Adds the newest position's keys and values, and attends to all that a hypothesis descends from.
  void attend_to_chain(int64_t layer, const std::vector<int32_t>& chain, const float* projected,
                       float* result, Workspace& space) {
    const Shape& shape = decoder_.shape;
    const int64_t length = int64_t(chain.size());
    std::copy_n(projected + keys_width(), keys_width(), slots_.keys(layer, chain.back()));
    std::copy_n(projected + 2 * keys_width(), values_width(), slots_.values(layer, chain.back()));
    const int64_t stride = round_up(length, kLanes);
    float* scores = space.scores.reserve(shape.num_heads * stride);
    const float scale = 1.0f / std::sqrt(float(shape.d_key));
    for (int64_t first = 0; first < length; first += kLanes) {
      const int64_t count = std::min<int64_t>(kLanes, length - first);
      const float* keys[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        keys[i] = slots_.keys(layer, chain[size_t(first + std::min(i, count - 1))]);
      // They will be here by the time that they are needed.
      for (int64_t i = 0; i < count; ++i)
        prefetch(slots_.values(layer, chain[size_t(first + i)]), values_width());
      for (int64_t head = 0; head < shape.num_heads; ++head)
        store(scores + head * stride + first,
              scale * dot_each(projected, keys, head * shape.d_key, shape.d_key));
    }
    softmax(scores, shape.num_heads, stride, length);
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      mix(
          scores + head * stride, length, shape.d_value,
          [&](int64_t position) {
            return slots_.values(layer, chain[size_t(position)]) + head * shape.d_value;
          },
          result + head * shape.d_value);
    }
  }

  void finish(const float* states, int64_t first, int64_t end, const Wanted& wanted,
              Workspace& space, int num_threads) const {
    const int64_t width = decoder_.shape.d_model, vocab = projection_.num_outputs;
    const int64_t first_row = first * beam_, num_rows = (end - first) * beam_;
    if (wanted.log_probabilities == nullptr && wanted.best == nullptr) return;
    projection_.reserve(space.rows, num_rows);
    for (int64_t row = 0; row < num_rows; ++row)
      projection_.convert(space.rows, row, states + row * width);
    if (wanted.log_probabilities != nullptr) {
      float* to = wanted.log_probabilities + first_row * vocab;
      projection_.apply(space.rows, 0, num_rows, to, vocab, Then::kWrite, num_threads);
      for (int64_t row = 0; row < num_rows; ++row) {
        const float total = log_of_sum(to + row * vocab, vocab);
        along(
            vocab,
            [&](int64_t i) {
              float* at = to + row * vocab + i;
              store(at, load(at) - total);
            },
            [&](int64_t i) { to[row * vocab + i] -= total; });
      }
      return;
    }
    // A few sentences at a time, so that their logits stay in the cache.
    const int64_t sentences_at_once =
        std::max<int64_t>(1, projection_.count_rows_at_once() / beam_);
    float* logits = space.logits.reserve(sentences_at_once * beam_ * vocab);
    for (int64_t begin = first; begin < end; begin += sentences_at_once) {
      const int64_t stop = std::min(end, begin + sentences_at_once);
      projection_.apply(space.rows, (begin - first) * beam_, (stop - first) * beam_, logits,
                        vocab, Then::kWrite, num_threads);
      for (int64_t sentence = begin; sentence < stop; ++sentence)
        find_best(logits + (sentence - begin) * beam_ * vocab, sentence, wanted);
    }
  }

  // The logarithm of the sum of exponentials; NaN where a logit is NaN or infinite.
  static float log_of_sum(const float* logits, int64_t size) {
    Floats greatest = broadcast(-INFINITY);
    float rest = -INFINITY;
    along(
        size, [&](int64_t i) { greatest = max(greatest, load(logits + i)); },
        [&](int64_t i) { rest = logits[i] > rest ? logits[i] : rest; });
    const float in_vectors = largest(greatest);
    const float offset = in_vectors > rest ? in_vectors : rest;
    Floats total{};
    float rest_total = 0.0f;
    along(
        size, [&](int64_t i) { total += exponential(load(logits + i) - offset); },
        [&](int64_t i) { rest_total += exponential(broadcast(logits[i] - offset))[0]; });
    return offset + std::log(sum(total) + rest_total);
  }

  void find_best(const float* logits, int64_t sentence, const Wanted& wanted) const {
    const int64_t vocab = projection_.num_outputs, num_best = wanted.num_best;
    float* values = wanted.best_values + sentence * num_best;
    int64_t* best = wanted.best + sentence * num_best;
    const int64_t* never_end = wanted.never + wanted.num_never;
    int64_t num_found = 0;
    const auto add = [&](float value, int64_t hypothesis, int64_t token) {
      // It comes after all that are equal.
      if (num_found == num_best && !(value > values[num_best - 1])) return;
      if (std::find(wanted.never, never_end, token) != never_end) return;
      int64_t at = num_found < num_best ? num_found++ : num_best - 1;
      for (; at > 0 && value > values[at - 1]; --at) {
        values[at] = values[at - 1];
        best[at] = best[at - 1];
      }
      values[at] = value;
      best[at] = hypothesis * vocab + token;
    };
    for (int64_t hypothesis = 0; hypothesis < beam_; ++hypothesis) {
      const float* row = logits + hypothesis * vocab;
      const float total = wanted.totals[sentence * beam_ + hypothesis];
      const float log_sum = log_of_sum(row, vocab);
      if (!(std::fabs(log_sum) < INFINITY) || total != total) {
        // What isn't a number is found and reported by those who asked.
        for (int64_t i = 0; i < num_best; ++i) {
          values[i] = NAN;
          best[i] = hypothesis * vocab + i % vocab;
        }
        return;
      }
      along(
          vocab,
          [&](int64_t i) {
            const Floats all = (load(row + i) - log_sum) + total;
            uint32_t bits = num_found < num_best
                                ? ~uint32_t{0} >> (32 - kLanes)
                                : where_greater(all, broadcast(values[num_best - 1]));
            for (; bits != 0; bits &= bits - 1) {
              const int lane = __builtin_ctz(bits);
              add(all[lane], hypothesis, i + lane);
            }
          },
          [&](int64_t i) { add((row[i] - log_sum) + total, hypothesis, i); });
    }
    std::fill(values + num_found, values + num_best, -INFINITY);
    std::fill(best + num_found, best + num_best, 0);
  }

  const Stack& decoder_;
  const Linear& projection_;
  const int64_t watched_layer_, watched_head_;
  Slots slots_;
  int64_t num_sentences_, beam_ = 1;
  std::vector<SourceOfSentence> sources_;
  std::vector<std::vector<int32_t>> chains_;
};

}  // namespace mtkit
