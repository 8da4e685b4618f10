// Phrases that an output must contain: dynamic beam allocation (arXiv 1804.06609).
//
// A hypothesis's progress is its number of phrase tokens, including those of a phrase that has begun.
// An automaton of the phrases' prefixes (Aho and Corasick 1975) finds them, so that a phrase whose
// beginning repeats itself isn't missed. A phrase must occur as often as it is given, not counting
// occurrences inside another phrase; occurrences may overlap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace mtkit {

typedef std::vector<int64_t> Tokens;

// A possible next token of a hypothesis.
struct Candidate {
  float value;  // The hypothesis's log-probability with it.
  int64_t hypothesis, token;
  bool may_enter = false;  // The pool of finished outputs.
  bool may_live = true;
  bool operator==(const Candidate& other) const {
    return hypothesis == other.hypothesis && token == other.token;
  }
};

// Where a hypothesis is in the phrases: its state, and how often it has each phrase.
struct Progress {
  int64_t state = 0;
  std::vector<int64_t> counts;
};

class Phrases {
 public:
  explicit Phrases(const std::vector<Tokens>& given) {
    for (const Tokens& phrase : given) {
      const auto known = std::find(phrases_.begin(), phrases_.end(), phrase);
      if (known == phrases_.end()) {
        phrases_.push_back(phrase);
        wanted_.push_back(1);
      } else {
        ++wanted_[size_t(known - phrases_.begin())];
      }
    }
    const std::vector<int64_t> times = wanted_;
    for (size_t i = 0; i < phrases_.size(); ++i)
      for (size_t other = 0; other < phrases_.size(); ++other)
        wanted_[i] += times[other] * count_inside(phrases_[i], phrases_[other]);
    for (size_t i = 0; i < phrases_.size(); ++i) {
      total_ += wanted_[i] * int64_t(phrases_[i].size());
      for (const int64_t token : phrases_[i])
        if (std::find(alphabet_.begin(), alphabet_.end(), token) == alphabet_.end())
          alphabet_.push_back(token);
    }
    build_automaton();
  }

  bool is_empty() const { return phrases_.empty(); }
  // The number of tokens that an output must have.
  int64_t total() const { return total_; }
  const Tokens& alphabet() const { return alphabet_; }
  Progress begin() const { return {0, std::vector<int64_t>(phrases_.size(), 0)}; }

  Progress follow(const Progress& progress, int64_t token) const {
    const auto known = std::find(alphabet_.begin(), alphabet_.end(), token);
    Progress next = progress;
    // Any other token leads to state 0.
    next.state = known == alphabet_.end()
                     ? 0
                     : states_[size_t(progress.state)].next[size_t(known - alphabet_.begin())];
    for (size_t i = 0; i < phrases_.size(); ++i)
      next.counts[i] += states_[size_t(next.state)].ends[i];
    return next;
  }

  // The number of phrase tokens of a hypothesis; `complete`, without those of a phrase that has begun.
  int64_t measure(const Progress& progress, bool complete = false) const {
    int64_t held = 0, begun = 0;
    for (size_t i = 0; i < phrases_.size(); ++i) {
      held += std::min(progress.counts[i], wanted_[i]) * int64_t(phrases_[i].size());
      if (!complete && progress.counts[i] < wanted_[i])
        begun = std::max(begun, states_[size_t(progress.state)].depths[i]);
    }
    return held + begun;
  }

  // The tokens that advance a hypothesis.
  Tokens find_advancing(const Progress& progress) const {
    Tokens found;
    const int64_t now = measure(progress);
    for (const int64_t token : alphabet_)
      if (measure(follow(progress, token)) > now) found.push_back(token);
    return found;
  }

  // Returns the tokens that a hypothesis may take next so that what it lacks still fits into `room`
  // more tokens; none if any may follow, or if there is too little room for all of them.
  Tokens find_only(const Progress& progress, int64_t room) const {
    Tokens found;
    if (total_ - measure(progress, true) <= room) return found;
    for (const int64_t token : alphabet_)
      if (total_ - measure(follow(progress, token)) <= room) found.push_back(token);
    return found;
  }

  // Sorts the candidates so that banks of equal progress share the beam: each bank's best first, in
  // order of falling progress, then each one's second, and so on.
  //
  // Args: `candidates`, best first; `is_last`, whether outputs end at this length.
  void allocate(const std::vector<Progress>& hypotheses, int64_t width, bool is_last, int64_t eos,
                std::vector<Candidate>& candidates) const {
    struct Ranked {
      int64_t rank, progress;
      Candidate candidate;
    };
    std::vector<Ranked> ranked;
    std::map<int64_t, int64_t> sizes;
    for (const Candidate& each : candidates) {
      const int64_t progress =
          measure(follow(hypotheses[size_t(each.hypothesis)], each.token));
      ranked.push_back({sizes[progress]++, progress, each});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.progress > b.progress;
    });
    if (int64_t(ranked.size()) > 2 * width) ranked.resize(size_t(2 * width));
    int64_t furthest = -1;
    for (size_t i = 0; i < ranked.size() && int64_t(i) < width; ++i)
      furthest = std::max(furthest, ranked[i].progress);
    candidates.clear();
    int64_t num_alive = 0;
    for (size_t i = 0; i < ranked.size(); ++i) {
      Candidate each = ranked[i].candidate;
      // If none has all phrases at the limit, those that lack the fewest tokens enter.
      each.may_enter = int64_t(i) < width && (!is_last || ranked[i].progress == furthest);
      each.may_live = each.token != eos && num_alive++ < width;
      candidates.push_back(each);
    }
  }

 private:
  // Next states by index in the alphabet; by phrase, whether it ends here, and how many of its tokens
  // have begun.
  struct State {
    std::vector<int64_t> next, ends, depths;
  };

  static int64_t count_inside(const Tokens& phrase, const Tokens& other) {
    int64_t count = 0;
    if (phrase.size() >= other.size()) return 0;
    for (size_t start = 0; start + phrase.size() <= other.size(); ++start)
      count += std::equal(phrase.begin(), phrase.end(), other.begin() + int64_t(start));
    return count;
  }

  void build_automaton() {
    std::vector<Tokens> prefixes{{}};
    for (const Tokens& phrase : phrases_)
      for (size_t end = 1; end <= phrase.size(); ++end)
        prefixes.emplace_back(phrase.begin(), phrase.begin() + int64_t(end));
    std::sort(prefixes.begin(), prefixes.end(), [](const Tokens& a, const Tokens& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    std::map<Tokens, int64_t> numbers;
    for (size_t i = 0; i < prefixes.size(); ++i) numbers[prefixes[i]] = int64_t(i);
    // For each state, the longest proper suffix of its tokens that is also a state.
    std::vector<int64_t> fallbacks(prefixes.size(), 0);
    for (size_t number = 0; number < prefixes.size(); ++number) {
      const Tokens& prefix = prefixes[number];
      const size_t fallback = size_t(fallbacks[number]);
      State state;
      for (size_t index = 0; index < alphabet_.size(); ++index) {
        Tokens longer = prefix;
        longer.push_back(alphabet_[index]);
        const auto known = numbers.find(longer);
        const int64_t otherwise = number > 0 ? states_[fallback].next[index] : 0;
        if (known != numbers.end()) fallbacks[size_t(known->second)] = otherwise;
        state.next.push_back(known == numbers.end() ? otherwise : known->second);
      }
      for (size_t i = 0; i < phrases_.size(); ++i) {
        const Tokens& phrase = phrases_[i];
        const bool is_prefix =
            prefix.size() < phrase.size() && std::equal(prefix.begin(), prefix.end(), phrase.begin());
        state.ends.push_back(phrase == prefix || (number > 0 && states_[fallback].ends[i] > 0));
        state.depths.push_back(is_prefix      ? int64_t(prefix.size())
                               : number > 0 ? states_[fallback].depths[i]
                                              : 0);
      }
      states_.push_back(std::move(state));
    }
  }

  std::vector<Tokens> phrases_;
  std::vector<int64_t> wanted_;
  Tokens alphabet_;
  std::vector<State> states_;
  int64_t total_ = 0;
};

}  // namespace mtkit
