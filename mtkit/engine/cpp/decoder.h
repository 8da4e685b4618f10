// The decoder: target positions of any hypotheses, in any order, one per row.
#pragma once

#include "encoder.h"

namespace mtkit {

// A network that predicts tokens.
struct Network {
  const Stack* encoder;  // Null for a language model.
  const Stack* decoder;
  const Linear* projection;
  Positions source_positions, target_positions;
  // 0 for a member of an ensemble; else the weight of its log-probabilities when they are added to
  // the ensemble's (shallow fusion).
  float fusion_weight;
  // The decoder layer, from 0, whose attention to the source is kept; -1 for none.
  int64_t watched_layer;
  int64_t watched_head;  // From 0; or kMeanOfHeads or kMaxOfHeads.
};

// Slots of target positions, shared by the hypotheses that descend from them.
class SlotPool {
 public:
  // Returns a slot that one hypothesis uses.
  int32_t take() {
    if (free_.empty()) {
      users_.push_back(1);
      return int32_t(users_.size()) - 1;
    }
    const int32_t slot = free_.back();
    free_.pop_back();
    users_[size_t(slot)] = 1;
    return slot;
  }
  void share(const std::vector<int32_t>& chain) {
    for (const int32_t slot : chain) ++users_[size_t(slot)];
  }
  void release(const std::vector<int32_t>& chain) {
    for (const int32_t slot : chain)
      if (--users_[size_t(slot)] == 0) free_.push_back(slot);
  }

 private:
  std::vector<int32_t> users_, free_;
};

// A source as a decoder reads it: each layer's transposed keys, then its values.
struct Memory {
  int64_t length = 0;
  Buffer<float> numbers;
};

// One target position to run through a decoder.
struct Row {
  int64_t token;
  const int32_t* chain;  // Slots of the positions up to this one.
  int64_t length;        // Their number.
  const Memory* memory;  // Null for a language model.
};

// What one thread decodes with one network.
class Decoder {
 public:
  // Args: `longest`, tokens of the longest source; `keeps_attention`, whether the last layer's mean
  // attention is needed.
  Decoder(const Network& network, int64_t longest, bool keeps_attention)
      : network_(network),
        stack_(*network.decoder),
        watched_width_(network.watched_layer < 0 ? 0 : longest),
        mean_width_(keeps_attention ? longest : 0) {}

  // Reads sources: sentence s has tokens [starts[s], starts[s + 1]).
  void read(const int64_t* tokens, const int64_t* starts, int64_t num_sentences,
            Memory* const* memories, int num_threads) {
    if (network_.encoder == nullptr) return;
    const Shape& shape = stack_.shape;
    Workspace& space = workspace();
    const int64_t num_rows = starts[num_sentences];
    float* states = states_.reserve(num_rows * shape.d_model);
    encode(*network_.encoder, network_.source_positions, tokens, starts, num_sentences, states,
           num_threads);
    // All layers' maps take the same inputs.
    const Linear& any = *stack_.layers[0].cross_key_value;
    any.reserve(space.rows, num_rows);
    for (int64_t row = 0; row < num_rows; ++row)
      any.convert(space.rows, row, states + row * shape.d_model);
    const int64_t projected_width = keys_width() + values_width();
    float* projected = space.projected.reserve(num_rows * projected_width);
    for (int64_t sentence = 0; sentence < num_sentences; ++sentence) {
      Memory& memory = *memories[sentence];
      memory.length = starts[sentence + 1] - starts[sentence];
      memory.numbers.reserve(
          int64_t(stack_.layers.size()) *
          (keys_width() * source_width(memory.length) + values_width() * memory.length));
    }
    for (size_t layer = 0; layer < stack_.layers.size(); ++layer) {
      stack_.layers[layer].cross_key_value->apply(space.rows, 0, num_rows, projected,
                                                  projected_width, Then::kWrite, num_threads);
      for (int64_t sentence = 0; sentence < num_sentences; ++sentence) {
        const Source source = source_of(*memories[sentence], int64_t(layer));
        const float* from = projected + starts[sentence] * projected_width;
        lay_across(from, projected_width, source.length, shape, const_cast<float*>(source.keys));
        for (int64_t row = 0; row < source.length; ++row)
          std::copy_n(from + row * projected_width + keys_width(), values_width(),
                      const_cast<float*>(source.values) + row * values_width());
      }
    }
  }

  // Runs rows through the decoder, and keeps their states. Earlier positions of a row's chain were
  // decoded before, or are earlier rows.
  void decode(const std::vector<Row>& rows, int num_threads) {
    const int64_t num_rows = int64_t(rows.size());
    const int64_t width = stack_.shape.d_model;
    float* states = states_.reserve(num_rows * width);
    mean_attention_.reserve(num_rows * mean_width_);
    for (const Row& row : rows) grow(row.chain[row.length - 1]);
    for (int64_t first = 0; first < num_rows; first += kRowsOfBlock) {
      const int64_t count = std::min(kRowsOfBlock, num_rows - first);
      decode_block(&rows[size_t(first)], count, states + first * width,
                   mean_attention_.data() + first * mean_width_, num_threads);
    }
  }

  // Writes the logits of the token after each of these decoded rows, [rows, vocab].
  void predict(const int64_t* rows, int64_t num_rows, float* logits, int num_threads) const {
    Workspace& space = workspace();
    const Linear& projection = *network_.projection;
    projection.reserve(space.rows, num_rows);
    for (int64_t i = 0; i < num_rows; ++i)
      projection.convert(space.rows, i, states_.data() + rows[i] * stack_.shape.d_model);
    projection.apply(space.rows, 0, num_rows, logits, vocab_size(), Then::kWrite, num_threads);
  }

  int64_t vocab_size() const { return network_.projection->num_outputs; }
  int64_t count_rows_at_once() const { return network_.projection->count_rows_at_once(); }
  const Network& network() const { return network_; }

  // The mean attention of the last layer's heads at a row of the last `decode`, by source token.
  const float* mean_attention(int64_t row) const {
    return mean_attention_.data() + row * mean_width_;
  }
  // The watched attention at a position, by source token.
  const float* watched(int32_t slot) const { return watched_of(slot); }

 private:
  static constexpr int32_t kSlotsOfBlock = 64;

  int64_t keys_width() const { return stack_.shape.num_heads * stack_.shape.d_key; }
  int64_t values_width() const { return stack_.shape.num_heads * stack_.shape.d_value; }

  void grow(int32_t slot) {
    const int64_t num_layers = int64_t(stack_.layers.size());
    while (int64_t(blocks_.size()) * kSlotsOfBlock <= slot)
      blocks_.emplace_back((num_layers * (keys_width() + values_width()) + watched_width_) *
                           kSlotsOfBlock);
  }
  float* keys(int64_t layer, int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           layer * (keys_width() + values_width()) * kSlotsOfBlock +
           slot % kSlotsOfBlock * keys_width();
  }
  float* values(int64_t layer, int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           (layer * (keys_width() + values_width()) + keys_width()) * kSlotsOfBlock +
           slot % kSlotsOfBlock * values_width();
  }
  float* watched_of(int32_t slot) const {
    return blocks_[size_t(slot / kSlotsOfBlock)].data() +
           int64_t(stack_.layers.size()) * (keys_width() + values_width()) * kSlotsOfBlock +
           slot % kSlotsOfBlock * watched_width_;
  }

  Source source_of(const Memory& memory, int64_t layer) const {
    const int64_t width = source_width(memory.length);
    const int64_t of_layer = keys_width() * width + values_width() * memory.length;
    const float* keys = memory.numbers.data() + layer * of_layer;
    return Source{keys, keys + keys_width() * width, memory.length, width, values_width()};
  }

  void decode_block(const Row* rows, int64_t num_rows, float* states, float* mean_attention,
                    int num_threads) {
    const Shape& shape = stack_.shape;
    Workspace& space = workspace();
    const int64_t width = shape.d_model, projected_width = 2 * keys_width() + values_width();
    for (int64_t row = 0; row < num_rows; ++row)
      embed(stack_, network_.target_positions, rows[row].token, rows[row].length - 1,
            states + row * width);
    float* projected = space.projected.reserve(num_rows * projected_width);
    float* attended = space.attended.reserve(num_rows * values_width());
    for (size_t number = 0; number < stack_.layers.size(); ++number) {
      const Layer& layer = stack_.layers[number];
      project(states, num_rows, *layer.query_key_value, layer.self_norm, shape, projected,
              Then::kWrite, space, num_threads);
      for (int64_t row = 0; row < num_rows; ++row) {
        const int32_t slot = rows[row].chain[rows[row].length - 1];
        const float* from = projected + row * projected_width + keys_width();
        std::copy_n(from, keys_width(), keys(int64_t(number), slot));
        std::copy_n(from + keys_width(), values_width(), values(int64_t(number), slot));
      }
      for (int64_t row = 0; row < num_rows; ++row)
        attend_to_chain(int64_t(number), rows[row], projected + row * projected_width,
                        attended + row * values_width(), space);
      add_output(attended, values_width(), num_rows, *layer.self_output, layer.self_norm, shape,
                 states, space, num_threads);
      if (layer.cross_query != nullptr) {
        project(states, num_rows, *layer.cross_query, layer.cross_norm, shape, projected,
                Then::kWrite, space, num_threads);
        const bool is_last = number + 1 == stack_.layers.size();
        for (int64_t row = 0; row < num_rows; ++row) {
          const Source source = source_of(*rows[row].memory, int64_t(number));
          Watched watched;
          if (is_last && mean_width_ > 0) watched.mean = mean_attention + row * mean_width_;
          if (int64_t(number) == network_.watched_layer) {
            watched.weights = watched_of(rows[row].chain[rows[row].length - 1]);
            watched.head = network_.watched_head;
          }
          float* scores = space.scores.reserve(shape.num_heads * source.width);
          attend(projected + row * keys_width(), source, shape, scores,
                 attended + row * values_width(), watched);
        }
        add_output(attended, values_width(), num_rows, *layer.cross_output, layer.cross_norm, shape,
                   states, space, num_threads);
      }
      feed_forward(layer, shape, states, num_rows, space, num_threads);
    }
    if (stack_.final_norm != nullptr)
      for (int64_t row = 0; row < num_rows; ++row)
        normalize(states + row * width, states + row * width, width, *stack_.final_norm);
  }

  // Attends to all positions of a row's chain.
  void attend_to_chain(int64_t layer, const Row& row, const float* query, float* result,
                       Workspace& space) const {
    const Shape& shape = stack_.shape;
    const int64_t length = row.length;
    const int64_t stride = round_up(length, kLanes);
    float* scores = space.scores.reserve(shape.num_heads * stride);
    const float scale = 1.0f / std::sqrt(float(shape.d_key));
    for (int64_t first = 0; first < length; first += kLanes) {
      const int64_t count = std::min<int64_t>(kLanes, length - first);
      const float* several[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        several[i] = keys(layer, row.chain[first + std::min(i, count - 1)]);
      // Prefetched by the time they are needed.
      for (int64_t i = 0; i < count; ++i)
        prefetch(values(layer, row.chain[first + i]), values_width());
      for (int64_t head = 0; head < shape.num_heads; ++head)
        store(scores + head * stride + first,
              scale * dot_each(query, several, head * shape.d_key, shape.d_key));
    }
    softmax(scores, shape.num_heads, stride, length);
    for (int64_t head = 0; head < shape.num_heads; ++head)
      mix(
          scores + head * stride, length, shape.d_value,
          [&](int64_t position) { return values(layer, row.chain[position]) + head * shape.d_value; },
          result + head * shape.d_value);
  }

  const Network network_;
  const Stack& stack_;
  const int64_t watched_width_, mean_width_;
  std::vector<Buffer<float>> blocks_;
  Buffer<float> states_, mean_attention_;
};

// Combines networks: the mean of an ensemble's probabilities, and fused language models.
class Decoders {
 public:
  Decoders(const Network* networks, int64_t num_networks, int64_t longest, bool keeps_attention) {
    for (int64_t i = 0; i < num_networks; ++i) {
      if (networks[i].projection->num_outputs != networks[0].projection->num_outputs)
        throw std::out_of_range("vocabulary");
      num_members_ += networks[i].fusion_weight == 0.0f;
      decoders_.emplace_back(networks[i], longest,
                             keeps_attention && networks[i].encoder != nullptr);
    }
  }

  int64_t size() const { return int64_t(decoders_.size()); }
  Decoder& operator[](int64_t i) { return decoders_[size_t(i)]; }
  const Decoder& operator[](int64_t i) const { return decoders_[size_t(i)]; }
  int64_t vocab_size() const { return decoders_[0].vocab_size(); }
  int64_t count_rows_at_once() const { return decoders_[0].count_rows_at_once(); }
  int64_t num_members() const { return num_members_; }

  // Writes logits after each of these rows, [rows, vocab], and what to subtract for natural
  // log-probabilities, [rows]: NaN where a logit is NaN or infinite.
  void predict(const int64_t* rows, int64_t num_rows, float* logits, float* log_sums,
               int num_threads) {
    const int64_t vocab = vocab_size();
    decoders_[0].predict(rows, num_rows, logits, num_threads);
    for (int64_t row = 0; row < num_rows; ++row)
      log_sums[row] = log_of_sum(logits + row * vocab, vocab);
    if (decoders_.size() == 1) return;
    float* other = other_.reserve(num_rows * vocab);
    for (int64_t row = 0; row < num_rows; ++row) {
      add_to(logits + row * vocab, vocab, -log_sums[row]);
      log_sums[row] = log_sums[row] * 0.0f;
    }
    for (size_t i = 1; i < decoders_.size(); ++i) {
      decoders_[i].predict(rows, num_rows, other, num_threads);
      const float weight = decoders_[i].network().fusion_weight;
      for (int64_t row = 0; row < num_rows; ++row) {
        float *from = other + row * vocab, *to = logits + row * vocab;
        const float log_sum = log_of_sum(from, vocab);
        log_sums[row] += log_sum * 0.0f;
        add_to(from, vocab, -log_sum);
        if (weight != 0.0f)
          along(
              vocab, [&](int64_t at) { store(to + at, load(to + at) + weight * load(from + at)); },
              [&](int64_t at) { to[at] += weight * from[at]; });
        else
          along(
              vocab,
              [&](int64_t at) { store(to + at, log_of_two(load(to + at), load(from + at))); },
              [&](int64_t at) {
                to[at] = log_of_two(broadcast(to[at]), broadcast(from[at]))[0];
              });
      }
      // The members of an ensemble come first.
      if (int64_t(i) + 1 == num_members_)
        for (int64_t row = 0; row < num_rows; ++row)
          add_to(logits + row * vocab, vocab, -std::log(float(num_members_)));
    }
  }

 private:
  static void add_to(float* row, int64_t size, float number) {
    along(
        size, [&](int64_t i) { store(row + i, load(row + i) + number); },
        [&](int64_t i) { row[i] += number; });
  }

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
    const float found = offset + std::log(sum(total) + rest_total);
    return std::fabs(found) < INFINITY ? found : NAN;
  }

  std::vector<Decoder> decoders_;
  int64_t num_members_ = 0;
  Buffer<float> other_;
};

}  // namespace mtkit
