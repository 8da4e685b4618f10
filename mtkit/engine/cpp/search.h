// Greedy search, beam search and sampling; a sentence's result doesn't depend on its neighbours.
#pragma once

#include <memory>
#include <numeric>
#include <set>

#include "decoder.h"
#include "phrases.h"

namespace mtkit {

constexpr int64_t kPad = 0, kBos = 2, kEos = 3;

// Settings of a search; mtkit/engine/search.py has the same structure.
struct Settings {
  int64_t beam_size, num_outputs;
  int64_t stop_margin;  // -1 for the length limit.
  int64_t min_length, no_repeat_ngram;  // 0 for none.
  int64_t max_repeated;  // Ends an output whose last tokens, this many, repeat a few; 0: never.
  int64_t top_k;                        // 0 for all.
  double top_p, epsilon, temperature;
  double penalty_alpha;
  int32_t has_power_penalty;  // Else it is GNMT's.
  int32_t is_sampling;
  float coverage_penalty;
};

// Concatenated lists: list i has values [starts[i], starts[i + 1]).
template <class Value>
struct Ragged {
  const Value* values;
  const int64_t* starts;

  const Value* begin(int64_t i) const { return values + starts[i]; }
  const Value* end(int64_t i) const { return values + starts[i + 1]; }
  int64_t size(int64_t i) const { return starts[i + 1] - starts[i]; }
};

// Phrases of sentences: sentence i has phrases [starts[i], starts[i + 1]).
struct RaggedPhrases {
  Ragged<int64_t> tokens;
  const int64_t* starts;

  std::vector<Tokens> of(int64_t i) const {
    std::vector<Tokens> found;
    for (int64_t phrase = starts[i]; phrase < starts[i + 1]; ++phrase)
      found.emplace_back(tokens.begin(phrase), tokens.end(phrase));
    return found;
  }
};

// Sentences to search; mtkit/engine/search.py has the same structure.
struct Requests {
  int64_t count;
  Ragged<int64_t> sources;  // Empty for a language model.
  Ragged<int64_t> prompts;  // What a decoder reads first: `<s>`, and a text to continue.
  Ragged<int64_t> prefixes;
  const int64_t* num_certain;  // Tokens of each prefix that have probability 1.
  const int64_t* limits;       // Maximum output lengths, including `</s>`.
  RaggedPhrases required, forbidden;
  Ragged<double> random;  // In [0, 1): one per token of each sample of a sentence.
};

// An output, with the alignment head's attention at each decoder input but the prompt's first.
struct Output {
  Tokens tokens;
  std::vector<float> cumulative;  // Log-probabilities up to each token.
  double score;
  std::vector<float> attention;  // [inputs, src_len]
};

struct Hypothesis {
  std::vector<int32_t> chain;
  Tokens tokens;
  std::vector<float> cumulative;
  std::vector<float> coverage;
  float total = 0.0f;    // Log-probability.
  float penalty = 0.0f;  // Added to its score if it ends now.
  Progress progress;
  int64_t number = 0;  // Of a sample.
};

struct Cancelled {};

// Args: `cancelled`, which another thread sets, may be null.
inline void stop_if(const int32_t* cancelled) {
  if (cancelled != nullptr && __atomic_load_n(cancelled, __ATOMIC_RELAXED) != 0) throw Cancelled();
}

class Sentence {
 public:
  Sentence(const Requests& requests, int64_t index, const Settings& settings, int64_t num_networks)
      : index_(index),
        requests_(requests),
        settings_(settings),
        memories(size_t(num_networks)),
        phrases_(requests.required.of(index)),
        limit_(requests.limits[index]) {
    constexpr int64_t kMaxAdded = 16;
    width_ = settings.is_sampling ? settings.num_outputs
                                  : settings.beam_size + std::min(phrases_.total(), kMaxAdded);
    is_greedy_ = !settings.is_sampling && width_ == 1 && phrases_.is_empty();
    hypotheses.emplace_back();
    hypotheses[0].progress = phrases_.begin();
  }

  int64_t index() const { return index_; }
  int64_t width() const { return width_; }
  bool is_finished() const { return hypotheses.empty(); }

  std::vector<Output> take_outputs() {
    if (settings_.is_sampling)
      std::stable_sort(outputs_.begin(), outputs_.end(),
                       [](const Output& a, const Output& b) { return a.score > b.score; });
    return std::move(outputs_);
  }

  // Extends the hypotheses by a token each. `logits` less `log_sums` are log-probabilities of each
  // hypothesis's next token; logits are overwritten. `rows`, those that were decoded.
  void advance(float* logits, const float* log_sums, const int64_t* rows, const Decoders& decoders,
               SlotPool& slots) {
    vocab_ = decoders.vocab_size();
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      if (!(std::fabs(log_sums[i]) < INFINITY)) {
        // The caller reports it: there is no output.
        outputs_.clear();
        return keep({}, slots);
      }
      if (settings_.coverage_penalty > 0.0f) attend(hypotheses[i], rows[i], decoders);
      forbid(hypotheses[i], logits + int64_t(i) * vocab_, log_sums[i]);
    }
    std::vector<Hypothesis> next;
    if (settings_.is_sampling)
      next = draw(logits, log_sums, decoders);
    else if (is_greedy_)
      next = choose_greedily(logits, log_sums[0], decoders);
    else
      next = choose(logits, log_sums, decoders);
    keep(std::move(next), slots);
  }

  // Live hypotheses, best first.
  std::vector<Hypothesis> hypotheses;

 private:
  int64_t length() const { return int64_t(hypotheses[0].tokens.size()); }
  bool is_last() const { return length() + 1 >= limit_; }
  // The prefix's next token, or -1.
  int64_t forced() const {
    return length() < requests_.prefixes.size(index_) ? requests_.prefixes.begin(index_)[length()]
                                                      : -1;
  }

  // Adds the newest step's attention to a hypothesis's coverage of the source (arXiv 1609.08144,
  // equation 14), the mean of an ensemble.
  void attend(Hypothesis& hypothesis, int64_t row, const Decoders& decoders) const {
    const int64_t source_length = memories[0].length;
    hypothesis.coverage.resize(size_t(source_length), 0.0f);
    float penalty = 0.0f;
    for (int64_t i = 0; i < source_length; ++i) {
      float attention = 0.0f;
      for (int64_t member = 0; member < decoders.num_members(); ++member)
        attention += decoders[member].mean_attention(row)[i];
      float& coverage = hypothesis.coverage[size_t(i)];
      coverage += attention / float(decoders.num_members());
      // The smallest normal number: its logarithm is finite.
      penalty += std::log(std::min(std::max(coverage, 0x1p-126f), 1.0f));
    }
    hypothesis.penalty = penalty * settings_.coverage_penalty;
  }

  // Writes -inf for tokens that may not follow a hypothesis, without renormalizing the others.
  void forbid(const Hypothesis& hypothesis, float* logits, float log_sum) const {
    const int64_t only = forced();
    const Tokens& history = hypothesis.tokens;
    if (only >= 0) {
      const bool is_certain = length() < requests_.num_certain[index_];
      const float kept = is_certain ? log_sum : only == kPad || only == kBos ? -INFINITY : logits[only];
      std::fill(logits, logits + vocab_, -INFINITY);
      logits[only] = kept;
      return;
    }
    logits[kPad] = logits[kBos] = -INFINITY;
    if (length() < settings_.min_length) logits[kEos] = -INFINITY;
    std::vector<std::pair<int64_t, float>> needed;
    if (!phrases_.is_empty())
      for (const int64_t token : phrases_.find_advancing(hypothesis.progress))
        needed.emplace_back(token, logits[token]);
    const int64_t before = settings_.no_repeat_ngram - 1;
    if (before >= 0 && length() > before)
      for (auto at = history.begin(); at + before < history.end(); ++at)
        if (std::equal(at, at + before, history.end() - before)) logits[at[before]] = -INFINITY;
    const RaggedPhrases& forbidden = requests_.forbidden;
    for (int64_t i = forbidden.starts[index_]; i < forbidden.starts[index_ + 1]; ++i) {
      const int64_t *phrase = forbidden.tokens.begin(i), last = forbidden.tokens.size(i) - 1;
      if (last >= 0 && last <= length() && std::equal(phrase, phrase + last, history.end() - last))
        logits[phrase[last]] = -INFINITY;
    }
    for (const auto& [token, logit] : needed) logits[token] = logit;
    if (phrases_.is_empty()) return;
    if (phrases_.measure(hypothesis.progress) < phrases_.total()) logits[kEos] = -INFINITY;
    const Tokens allowed = phrases_.find_only(hypothesis.progress, limit_ - length() - 1);
    if (allowed.empty()) return;
    std::vector<float> kept;
    for (const int64_t token : allowed) kept.push_back(logits[token]);
    std::fill(logits, logits + vocab_, -INFINITY);
    for (size_t i = 0; i < allowed.size(); ++i) logits[allowed[i]] = kept[i];
  }

  // The best continuations of all hypotheses, best first; of equals the earlier hypothesis's, then
  // the lower token's.
  std::vector<Candidate> find_best(const float* logits, const float* log_sums,
                                   size_t num_best) const {
    const auto is_better = [](const Candidate& a, const Candidate& b) {
      if (a.value != b.value) return a.value > b.value;
      return a.hypothesis != b.hypothesis ? a.hypothesis < b.hypothesis : a.token < b.token;
    };
    std::vector<Candidate> best;  // A heap with the worst on top.
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      const float* row = logits + int64_t(i) * vocab_;
      const float total = hypotheses[i].total, log_sum = log_sums[i];
      const auto add = [&](float value, int64_t token) {
        // It comes after all that are equal.
        if (value == -INFINITY || (best.size() == num_best && !(value > best.front().value)))
          return;
        if (best.size() == num_best) {
          std::pop_heap(best.begin(), best.end(), is_better);
          best.pop_back();
        }
        best.push_back(Candidate{value, int64_t(i), token});
        std::push_heap(best.begin(), best.end(), is_better);
      };
      along(
          vocab_,
          [&](int64_t at) {
            const Floats all = (load(row + at) - log_sum) + total;
            const float least = best.size() < num_best ? -INFINITY : best.front().value;
            for (uint32_t bits = where_greater(all, broadcast(least)); bits != 0; bits &= bits - 1) {
              const int lane = __builtin_ctz(bits);
              add(all[lane], at + lane);
            }
          },
          [&](int64_t at) { add((row[at] - log_sum) + total, at); });
    }
    std::sort_heap(best.begin(), best.end(), is_better);
    return best;
  }

  std::vector<Hypothesis> choose_greedily(const float* logits, float log_sum,
                                          const Decoders& decoders) {
    std::vector<Candidate> best = find_best(logits, &log_sum, 1);
    // Where no token may follow, the caller reports the output's probability of 0.
    if (best.empty()) best.push_back({-INFINITY, 0, kEos});
    if (best[0].token != kEos && !is_last() && best[0].value > -INFINITY) {
      std::vector<Hypothesis> next{extend(best[0])};
      if (!repeats_itself(next[0].tokens)) return next;
    }
    outputs_.push_back(end(best[0], 0.0f, decoders));
    return {};
  }

  std::vector<Hypothesis> choose(const float* logits, const float* log_sums,
                                 const Decoders& decoders) {
    std::vector<Candidate> candidates = find_best(logits, log_sums, size_t(2 * width_));
    if (phrases_.is_empty()) {
      for (size_t rank = 0; rank < candidates.size(); ++rank) {
        candidates[rank].may_enter = int64_t(rank) < width_;
        candidates[rank].may_live = candidates[rank].token != kEos;
      }
    } else {
      add_for_phrases(logits, log_sums, candidates);
    }
    std::vector<Candidate> alive;
    for (const Candidate& each : candidates) {
      if (each.may_enter && (each.token == kEos || is_last())) {
        Output output = end(each, hypotheses[size_t(each.hypothesis)].penalty, decoders);
        auto at = outputs_.end();
        while (at != outputs_.begin() && output.score > (at - 1)->score) --at;
        outputs_.insert(at, std::move(output));
        if (int64_t(outputs_.size()) > settings_.num_outputs) outputs_.pop_back();
      }
      if (each.may_live) alive.push_back(each);
    }
    std::stable_sort(alive.begin(), alive.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
    if (int64_t(alive.size()) > width_) alive.resize(size_t(width_));
    std::vector<Hypothesis> next;
    if (alive.empty() || !may_win(alive[0].value)) return next;
    for (const Candidate& each : alive) next.push_back(extend(each));
    // The next tokens are the last.
    if (repeats_itself(next[0].tokens)) limit_ = std::min(limit_, length() + 2);
    return next;
  }

  // Whether the last `max_repeated` tokens repeat a sequence of at most five.
  bool repeats_itself(const Tokens& tokens) const {
    constexpr int64_t kMaxPeriod = 5;
    const int64_t size = settings_.max_repeated;
    if (size == 0 || int64_t(tokens.size()) < size) return false;
    const auto newest = tokens.end() - size;
    for (int64_t period = 1; period <= std::min(kMaxPeriod, size - 1); ++period)
      if (std::equal(newest + period, tokens.end(), newest)) return true;
    return false;
  }

  // Adds each hypothesis's next phrase tokens and its best token, and shares the beam among banks.
  void add_for_phrases(const float* logits, const float* log_sums,
                       std::vector<Candidate>& candidates) const {
    std::set<std::pair<int64_t, int64_t>> known;
    for (const Candidate& each : candidates) known.emplace(each.hypothesis, each.token);
    const auto add = [&](float value, int64_t hypothesis, int64_t token) {
      if (value > -INFINITY && known.emplace(hypothesis, token).second)
        candidates.push_back({value, hypothesis, token});
    };
    const auto value_of = [&](size_t i, int64_t token) {
      return (logits[int64_t(i) * vocab_ + token] - log_sums[i]) + hypotheses[i].total;
    };
    std::vector<Progress> progress;
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      progress.push_back(hypotheses[i].progress);
      for (const int64_t token : phrases_.find_advancing(hypotheses[i].progress))
        add(value_of(i, token), int64_t(i), token);
    }
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      const float* row = logits + int64_t(i) * vocab_;
      const int64_t token = std::max_element(row, row + vocab_) - row;
      add(value_of(i, token), int64_t(i), token);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
    phrases_.allocate(progress, width_, is_last(), kEos, candidates);
  }

  // Whether a live hypothesis could still enter the outputs within the margin (beam.py).
  bool may_win(float log_probability) const {
    const int64_t now = length() + 1;
    if (now >= limit_ || !(log_probability > -INFINITY)) return false;
    if (int64_t(outputs_.size()) < settings_.num_outputs) return true;
    const int64_t end = settings_.stop_margin < 0 ? limit_
                                                  : std::min(limit_, now + settings_.stop_margin);
    return double(log_probability) / length_penalty(end) > outputs_.back().score;
  }

  double length_penalty(int64_t tokens) const {
    const double base = settings_.has_power_penalty ? double(tokens) : double(5 + tokens) / 6.0;
    return std::pow(base, settings_.penalty_alpha);
  }

  Hypothesis extend(const Candidate& chosen) const {
    Hypothesis next = hypotheses[size_t(chosen.hypothesis)];
    next.tokens.push_back(chosen.token);
    next.total = chosen.value;
    next.cumulative.push_back(chosen.value);
    if (!phrases_.is_empty()) phrases_.follow(next.progress, chosen.token);
    return next;
  }

  Output end(const Candidate& chosen, float penalty, const Decoders& decoders) const {
    const Hypothesis& parent = hypotheses[size_t(chosen.hypothesis)];
    Output output{parent.tokens, parent.cumulative, 0.0, {}};
    output.tokens.push_back(chosen.token);
    output.cumulative.push_back(chosen.value);
    output.score = double(chosen.value) / length_penalty(int64_t(output.tokens.size())) + penalty;
    if (decoders.size() == 1 && decoders[0].network().watched_layer >= 0)
      for (const int32_t slot : parent.chain) {
        const float* weights = decoders[0].watched(slot);
        output.attention.insert(output.attention.end(), weights, weights + memories[0].length);
      }
    return output;
  }

  std::vector<Hypothesis> draw(const float* logits, const float* log_sums,
                               const Decoders& decoders) {
    std::vector<Hypothesis> next;
    const bool is_first = length() == 0;
    const int64_t num_drawn = is_first ? width_ : int64_t(hypotheses.size());
    for (int64_t i = 0; i < num_drawn; ++i) {
      const int64_t parent = is_first ? 0 : i;
      const int64_t number = is_first ? i : hypotheses[size_t(i)].number;
      const float* row = logits + parent * vocab_;
      const double random = requests_.random.begin(index_)[number * limit_ + length()];
      const int64_t token = draw_token(row, log_sums[parent], random);
      const float total = hypotheses[size_t(parent)].total + (row[token] - log_sums[parent]);
      const Candidate drawn{total, parent, token};
      if (token == kEos || is_last()) {
        outputs_.push_back(end(drawn, 0.0f, decoders));
      } else {
        next.push_back(extend(drawn));
        next.back().number = number;
      }
    }
    return next;
  }

  // A token sampled at the temperature from those that top_k, top_p and epsilon leave.
  int64_t draw_token(const float* row, float log_sum, double random) const {
    struct Entry {
      float logit;
      int32_t token;
      bool operator<(const Entry& other) const {
        return logit != other.logit ? logit < other.logit : token > other.token;
      }
    };
    static thread_local std::vector<Entry> heap;
    heap.clear();
    for (int64_t i = 0; i < vocab_; ++i) heap.push_back({row[i] - log_sum, int32_t(i)});
    if (settings_.top_k > 0 && settings_.top_k < vocab_) {
      std::nth_element(heap.begin(), heap.begin() + (settings_.top_k - 1), heap.end(),
                       [](const Entry& a, const Entry& b) { return b < a; });
      heap.resize(size_t(settings_.top_k));
    }
    std::make_heap(heap.begin(), heap.end());
    const double greatest = heap.front().logit;
    const auto weigh = [&](const Entry& each) {
      return std::exp((double(each.logit) - greatest) / settings_.temperature);
    };
    double total = 0.0;
    for (const Entry& each : heap) total += weigh(each);
    // The likeliest tokens, their cumulative probabilities, and their probabilities.
    struct Kept {
      int64_t token;
      double up_to, probability;
    };
    std::vector<Kept> sums;
    double sum = 0.0;
    const bool keeps_all = settings_.top_p >= 1.0 && settings_.epsilon <= 0.0;
    while (!heap.empty() && (sums.empty() || sum < settings_.top_p)) {
      // With all of them, the sum of all is 1 and the rest isn't needed.
      if (keeps_all && sum > random) break;
      std::pop_heap(heap.begin(), heap.end());
      const double probability = weigh(heap.back()) / total;
      if (!sums.empty() && !(probability > 0.0)) break;
      // Those that follow are no likelier.
      if (!sums.empty() && settings_.top_p >= 1.0 && probability < settings_.epsilon) break;
      sum += probability;
      sums.push_back({heap.back().token, sum, probability});
      heap.pop_back();
    }
    if (settings_.top_p < 1.0) {
      // Epsilon is a fraction of the probability that top_p leaves.
      const double least = settings_.epsilon * sum;
      while (sums.size() > 1 && sums.back().probability < least) sums.pop_back();
      sum = sums.back().up_to;
    }
    const double target = random * (keeps_all ? std::max(sum, 1.0) : sum);
    for (const Kept& each : sums)
      if (each.up_to > target) return each.token;
    return sums.back().token;
  }

  // Replaces the hypotheses; releases positions that none descends from.
  void keep(std::vector<Hypothesis>&& next, SlotPool& slots) {
    for (const Hypothesis& each : next) slots.share(each.chain);
    for (const Hypothesis& each : hypotheses) slots.release(each.chain);
    hypotheses = std::move(next);
  }

  const int64_t index_;
  const Requests& requests_;
  const Settings& settings_;

 public:
  std::vector<Memory> memories;  // One for each network.

 private:
  const Phrases phrases_;
  int64_t limit_, width_, vocab_ = 0;
  bool is_greedy_;
  std::vector<Output> outputs_;  // Best first.
};

// Searches sentences; when one is finished, the next takes its place (continuous batching).
class Search {
 public:
  Search(const Network* networks, int64_t num_networks, const Requests& requests,
         const Settings& settings, const int32_t* cancelled)
      : networks_(networks),
        num_networks_(num_networks),
        requests_(requests),
        settings_(settings),
        cancelled_(cancelled),
        outputs(size_t(requests.count)),
        order_(size_t(requests.count)) {
    // Longest first: neighbours end at about the same time, and the last ones soon.
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return requests.sources.size(a) > requests.sources.size(b);
    });
    for (int64_t i = 0; i < requests.count; ++i)
      longest_ = std::max(longest_, requests.sources.size(i));
  }

  void run(int num_threads) {
    const int64_t width = settings_.is_sampling ? settings_.num_outputs : settings_.beam_size;
    const int64_t num_rows = requests_.count * width;
    const int64_t num_workers =
        std::max<int64_t>(1, std::min<int64_t>(num_threads, num_rows / kMinRowsOfThread));
    // Each worker's share, or as many rows as stay in the cache.
    rows_at_once_ = std::min(count_rows_at_once(*networks_[0].decoder),
                             round_up(num_rows, num_workers) / num_workers);
    const int threads_of_products = num_workers == 1 ? num_threads : 1;
    share(int(num_workers), num_workers, [&](int64_t) {
      try {
        work(threads_of_products);
      } catch (...) {
        next_ = requests_.count;  // The others end soon.
        throw;
      }
    });
  }

 private:
  static constexpr int64_t kMinRowsOfThread = 16;

  void work(int num_threads) {
    Decoders decoders(networks_, num_networks_, longest_, settings_.coverage_penalty > 0.0f);
    SlotPool slots;
    std::vector<std::unique_ptr<Sentence>> waiting, live;
    for (;;) {
      int64_t num_rows = 0;
      for (const auto& sentence : live) num_rows += sentence->width();
      while (num_rows < rows_at_once_) {
        if (waiting.empty() && !read(decoders, waiting, num_threads)) break;
        num_rows += waiting.back()->width();
        live.push_back(std::move(waiting.back()));
        waiting.pop_back();
      }
      if (live.empty()) return;
      stop_if(cancelled_);
      step(decoders, slots, live, num_threads);
    }
  }

  // Reads the next sources; returns whether there were any.
  bool read(Decoders& decoders, std::vector<std::unique_ptr<Sentence>>& waiting, int num_threads) {
    Tokens tokens;
    std::vector<int64_t> starts{0};
    const int64_t width = settings_.is_sampling ? settings_.num_outputs : settings_.beam_size;
    // As many as fit into a block, but no more than can be searched together.
    while (int64_t(tokens.size()) < kRowsOfBlock / 2 &&
           int64_t(waiting.size()) * width < rows_at_once_) {
      const int64_t turn = next_++;
      if (turn >= requests_.count) break;
      const int64_t index = order_[size_t(turn)];
      tokens.insert(tokens.end(), requests_.sources.begin(index), requests_.sources.end(index));
      starts.push_back(int64_t(tokens.size()));
      waiting.push_back(std::make_unique<Sentence>(requests_, index, settings_, num_networks_));
    }
    if (waiting.empty()) return false;
    std::vector<Memory*> memories(waiting.size());
    for (int64_t network = 0; network < num_networks_; ++network) {
      for (size_t i = 0; i < waiting.size(); ++i)
        memories[i] = &waiting[i]->memories[size_t(network)];
      decoders[network].read(tokens.data(), starts.data(), int64_t(waiting.size()),
                             memories.data(), num_threads);
    }
    // The longest is taken first.
    std::reverse(waiting.begin(), waiting.end());
    return true;
  }

  void step(Decoders& decoders, SlotPool& slots, std::vector<std::unique_ptr<Sentence>>& live,
            int num_threads) {
    std::vector<int64_t> predicting;  // Rows whose next token is chosen.
    const std::vector<std::vector<Row>> rows = list_rows(slots, live, predicting);
    for (int64_t network = 0; network < num_networks_; ++network)
      decoders[network].decode(rows[size_t(network)], num_threads);
    const int64_t vocab = decoders.vocab_size();
    // A few sentences at a time, so that their logits stay in the cache.
    const int64_t at_once = decoders.count_rows_at_once();
    for (size_t first = 0, begin = 0; first < live.size();) {
      size_t end = first;
      int64_t num_rows = 0;
      while (end < live.size() && (end == first || num_rows < at_once))
        num_rows += int64_t(live[end++]->hypotheses.size());
      float* logits = logits_of_thread().reserve(num_rows * vocab);
      std::vector<float> log_sums(static_cast<size_t>(num_rows));
      decoders.predict(&predicting[begin], num_rows, logits, log_sums.data(), num_threads);
      for (int64_t row = 0; first < end; ++first) {
        const int64_t count = int64_t(live[first]->hypotheses.size());
        live[first]->advance(logits + row * vocab, &log_sums[size_t(row)],
                             &predicting[begin + size_t(row)], decoders, slots);
        row += count;
      }
      begin += size_t(num_rows);
    }
    for (auto& sentence : live)
      if (sentence->is_finished()) {
        outputs[size_t(sentence->index())] = sentence->take_outputs();
        sentence.reset();
      }
    live.erase(std::remove(live.begin(), live.end(), nullptr), live.end());
  }

  // The newest position of each hypothesis, at first all of the prompt, for each network.
  std::vector<std::vector<Row>> list_rows(SlotPool& slots,
                                          std::vector<std::unique_ptr<Sentence>>& live,
                                          std::vector<int64_t>& predicting) const {
    std::vector<std::vector<Row>> rows(static_cast<size_t>(num_networks_));
    for (auto& sentence : live)
      for (Hypothesis& hypothesis : sentence->hypotheses) {
        const bool is_first = hypothesis.tokens.empty();
        const int64_t* token = is_first ? requests_.prompts.begin(sentence->index())
                                        : &hypothesis.tokens.back();
        const int64_t count = is_first ? requests_.prompts.size(sentence->index()) : 1;
        for (int64_t i = 0; i < count; ++i) hypothesis.chain.push_back(slots.take());
        const int64_t length = int64_t(hypothesis.chain.size());
        for (size_t network = 0; network < rows.size(); ++network)
          for (int64_t i = 0; i < count; ++i)
            rows[network].push_back({token[i], hypothesis.chain.data(), length - count + i + 1,
                                     &sentence->memories[network]});
        predicting.push_back(int64_t(rows[0].size()) - 1);
      }
    return rows;
  }

  static Buffer<float>& logits_of_thread() {
    static thread_local Buffer<float> logits;
    return logits;
  }

  const Network* networks_;
  const int64_t num_networks_;
  const Requests& requests_;
  const Settings& settings_;
  const int32_t* cancelled_;

 public:
  std::vector<std::vector<Output>> outputs;  // Of each sentence, best first.

 private:
  std::vector<int64_t> order_;
  int64_t longest_ = 1, rows_at_once_ = kRowsOfBlock;
  std::atomic<int64_t> next_{0};
};

// Decodes given targets, and writes the log-probability of each token, [all tokens].
//
// Args: `targets`, what follows the prompts; `attention`, of each sentence [inputs, src_len] from
// `attention_starts` on, the watched weights of the first network's inputs: the prompt's last token,
// then all target tokens but the last; null if none are wanted.
inline void score(const Network* networks, int64_t num_networks, const Requests& requests,
                  const Ragged<int64_t>& targets, float* log_probabilities, float* attention,
                  const int64_t* attention_starts, const int32_t* cancelled,
                  int num_threads) {
  int64_t longest = 1;
  // Consecutive sentences whose rows fit into a block.
  std::vector<int64_t> groups{0};
  for (int64_t i = 0, num_rows = 0; i < requests.count; ++i) {
    longest = std::max(longest, requests.sources.size(i));
    num_rows += requests.prompts.size(i) + targets.size(i);
    if (num_rows < kRowsOfBlock && i + 1 < requests.count) continue;
    groups.push_back(i + 1);
    num_rows = 0;
  }
  const int64_t num_groups = int64_t(groups.size()) - 1;
  const int threads_of_products = num_groups == 1 ? num_threads : 1;
  share(num_threads, num_groups, [&](int64_t group) {
    stop_if(cancelled);
    Decoders decoders(networks, num_networks, longest, false);
    const int64_t begin = groups[size_t(group)], count = groups[size_t(group) + 1] - begin;
    std::vector<Tokens> inputs;
    std::vector<std::vector<int32_t>> chains;
    std::vector<int64_t> rows;  // Those that predict a target's token.
    SlotPool slots;
    std::vector<Memory> memories(static_cast<size_t>(count));
    std::vector<Memory*> pointers;
    for (int64_t i = 0, num_rows = 0; i < count; ++i) {
      const int64_t sentence = begin + i, length = targets.size(sentence);
      inputs.emplace_back(requests.prompts.begin(sentence), requests.prompts.end(sentence));
      if (length > 0)
        inputs.back().insert(inputs.back().end(), targets.begin(sentence),
                             targets.end(sentence) - 1);
      chains.emplace_back();
      for (size_t input = 0; input < inputs.back().size(); ++input)
        chains.back().push_back(slots.take());
      num_rows += int64_t(inputs.back().size());
      for (int64_t row = num_rows - length; row < num_rows; ++row) rows.push_back(row);
      pointers.push_back(&memories[size_t(i)]);
    }
    std::vector<int64_t> starts(static_cast<size_t>(count) + 1);
    for (int64_t i = 0; i <= count; ++i)
      starts[size_t(i)] = requests.sources.starts[begin + i] - requests.sources.starts[begin];
    for (int64_t network = 0; network < num_networks; ++network) {
      decoders[network].read(requests.sources.begin(begin), starts.data(), count, pointers.data(),
                             threads_of_products);
      std::vector<Row> decoded;
      for (size_t i = 0; i < inputs.size(); ++i)
        for (size_t input = 0; input < inputs[i].size(); ++input)
          decoded.push_back({inputs[i][input], chains[i].data(), int64_t(input) + 1, pointers[i]});
      decoders[network].decode(decoded, threads_of_products);
    }
    if (attention != nullptr)
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int64_t length = targets.size(begin + int64_t(i)), width = memories[i].length;
        float* to = attention + attention_starts[begin + int64_t(i)];
        for (size_t input = inputs[i].size() - size_t(length); input < inputs[i].size(); ++input) {
          std::copy_n(decoders[0].watched(chains[i][input]), width, to);
          to += width;
        }
      }
    if (log_probabilities == nullptr) return;
    const int64_t vocab = decoders.vocab_size(), at_once = decoders.count_rows_at_once();
    const int64_t* tokens = targets.begin(begin);
    float* to = log_probabilities + targets.starts[begin];
    Buffer<float> logits(at_once * vocab);
    std::vector<float> log_sums(static_cast<size_t>(at_once));
    for (int64_t first = 0; first < int64_t(rows.size()); first += at_once) {
      const int64_t num_rows = std::min(at_once, int64_t(rows.size()) - first);
      decoders.predict(&rows[size_t(first)], num_rows, logits.data(), log_sums.data(),
                       threads_of_products);
      for (int64_t i = 0; i < num_rows; ++i) {
        const int64_t token = tokens[first + i];
        if (token < 0 || token >= vocab) throw std::out_of_range("token");
        to[first + i] = logits.data()[i * vocab + token] - log_sums[size_t(i)];
      }
    }
  });
}

}  // namespace mtkit
