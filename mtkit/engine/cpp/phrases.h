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
#include <unordered_map>
#include <vector>

namespace mtkit {

typedef std::vector<int64_t> Tokens;

// A possible next token of a hypothesis.
struct Candidate {
  float value;  // The hypothesis's log-probability with it.
  int64_t hypothesis, token;
  bool may_enter = false;  // The pool of finished outputs.
  bool may_live = true;
};

// Where a hypothesis is in the phrases: its state, its tokens of completed phrases, and how often it
// has each phrase.
struct Progress {
  int64_t state = 0, held = 0;
  std::vector<int64_t> counts;
};

class Phrases {
 public:
  explicit Phrases(const std::vector<Tokens>& given) {
    std::map<Tokens, size_t> numbers;
    for (const Tokens& phrase : given) {
      if (phrase.empty()) continue;
      const auto [known, is_new] = numbers.emplace(phrase, phrases_.size());
      if (is_new) {
        phrases_.push_back(phrase);
        wanted_.push_back(0);
      }
      ++wanted_[known->second];
    }
    if (phrases_.empty()) return;
    build_automaton();
    const std::vector<int64_t> times = wanted_;
    for (size_t other = 0; other < phrases_.size(); ++other) {
      int64_t state = 0;
      for (const int64_t token : phrases_[other]) {
        state = step(state, indices_.at(token));
        visit_ends(state, [&](size_t i) {
          if (i != other) wanted_[i] += times[other];
        });
      }
    }
    for (size_t i = 0; i < phrases_.size(); ++i)
      total_ += wanted_[i] * int64_t(phrases_[i].size());
  }

  bool is_empty() const { return phrases_.empty(); }
  // The number of phrase tokens that an output must have.
  int64_t total() const { return total_; }
  Progress begin() const { return {0, 0, std::vector<int64_t>(phrases_.size(), 0)}; }

  // Adds a token to a hypothesis's progress.
  void follow(Progress& progress, int64_t token) const {
    enter(progress, find_next(progress.state, token));
  }

  // The number of phrase tokens of a hypothesis, including those of a phrase that has begun.
  int64_t measure(const Progress& progress) const {
    const auto lacks = [&](size_t i) { return progress.counts[i] < wanted_[i]; };
    for (int64_t at = progress.state; at != 0; at = state(at).fallback)
      if (std::any_of(state(at).begun.begin(), state(at).begun.end(), lacks))
        return progress.held + state(at).depth;
    return progress.held;
  }

  // The tokens that advance a hypothesis.
  Tokens find_advancing(Progress progress) const {
    Tokens found;
    const int64_t now = measure(progress);
    for (const auto& [index, next] : list_next(progress.state))
      if (measure_at(progress, next) > now) found.push_back(alphabet_[size_t(index)]);
    return found;
  }

  // Returns the tokens that a hypothesis may take next so that its missing phrases still fit into
  // `room` more tokens; empty if any may follow, or if they can't fit anyway.
  Tokens find_only(Progress progress, int64_t room) const {
    Tokens found;
    if (total_ - progress.held <= room) return found;
    for (const auto& [index, next] : list_next(progress.state))
      if (total_ - measure_at(progress, next) <= room)
        found.push_back(alphabet_[size_t(index)]);
    return found;
  }

  // Sorts the candidates so that banks of equal progress share the beam: each bank's best first, in
  // order of falling progress, then each one's second, and so on.
  //
  // Args: `candidates`, best first; `is_last`, whether outputs end at this length.
  void allocate(std::vector<Progress>& hypotheses, int64_t width, bool is_last, int64_t eos,
                std::vector<Candidate>& candidates) const {
    struct Ranked {
      int64_t rank, progress;
      Candidate candidate;
    };
    std::vector<Ranked> ranked;
    std::map<int64_t, int64_t> sizes;
    for (const Candidate& each : candidates) {
      Progress& parent = hypotheses[size_t(each.hypothesis)];
      const int64_t progress = measure_at(parent, find_next(parent.state, each.token));
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
  typedef std::pair<int64_t, int64_t> Edge;  // A token's index in the alphabet, and a state.

  // A prefix of phrases.
  struct State {
    std::vector<Edge> next;     // By a token's index in the alphabet.
    int64_t depth = 0;          // Number of tokens.
    int64_t fallback = 0;       // The longest proper suffix that is a state, too.
    int64_t phrase = -1;        // The phrase that this completes, or -1.
    int64_t ending = -1;        // The longest suffix that completes a phrase, or this.
    std::vector<size_t> begun;  // Phrases that it is a proper prefix of.
  };

  const State& state(int64_t number) const { return states_[size_t(number)]; }

  int64_t step(int64_t at, int64_t index) const {
    for (;; at = state(at).fallback) {
      const std::vector<Edge>& next = state(at).next;
      const auto known = std::lower_bound(next.begin(), next.end(), Edge{index, 0});
      if (known != next.end() && known->first == index) return known->second;
      if (at == 0) return 0;
    }
  }

  int64_t find_next(int64_t at, int64_t token) const {
    const auto known = indices_.find(token);
    // Any other token leads to state 0.
    return known == indices_.end() ? 0 : step(at, known->second);
  }

  // Calls `visit` with each phrase that ends at a state.
  template <class Visit>
  void visit_ends(int64_t at, Visit visit) const {
    for (at = state(at).ending; at >= 0; at = state(state(at).fallback).ending)
      visit(size_t(state(at).phrase));
  }

  // Transitions from a state to any but the first, in the order of the alphabet.
  std::vector<Edge> list_next(int64_t at) const {
    std::vector<Edge> found;
    for (;; at = state(at).fallback) {
      found.insert(found.end(), state(at).next.begin(), state(at).next.end());
      if (at == 0) break;
    }
    // The longest suffix's comes first.
    std::stable_sort(found.begin(), found.end(),
                     [](const Edge& a, const Edge& b) { return a.first < b.first; });
    const auto is_same = [](const Edge& a, const Edge& b) { return a.first == b.first; };
    found.erase(std::unique(found.begin(), found.end(), is_same), found.end());
    return found;
  }

  void enter(Progress& progress, int64_t next) const {
    progress.state = next;
    visit_ends(next, [&](size_t i) {
      if (progress.counts[i]++ < wanted_[i]) progress.held += int64_t(phrases_[i].size());
    });
  }

  // What `measure` would return in the next state; the progress is unchanged.
  int64_t measure_at(Progress& progress, int64_t next) const {
    const int64_t before = progress.state, held = progress.held;
    enter(progress, next);
    const int64_t found = measure(progress);
    visit_ends(next, [&](size_t i) { --progress.counts[i]; });
    progress.state = before;
    progress.held = held;
    return found;
  }

  void build_automaton() {
    std::vector<std::map<int64_t, int64_t>> next(1);
    states_.emplace_back();
    for (size_t i = 0; i < phrases_.size(); ++i) {
      int64_t at = 0;
      for (const int64_t token : phrases_[i]) {
        const int64_t index = indices_.emplace(token, int64_t(alphabet_.size())).first->second;
        if (index == int64_t(alphabet_.size())) alphabet_.push_back(token);
        states_[size_t(at)].begun.push_back(i);
        const int64_t depth = state(at).depth + 1;
        const auto [known, is_new] = next[size_t(at)].emplace(index, int64_t(states_.size()));
        at = known->second;
        if (is_new) {
          next.emplace_back();
          states_.emplace_back();
          states_.back().depth = depth;
        }
      }
      states_[size_t(at)].phrase = int64_t(i);
    }
    for (size_t i = 0; i < states_.size(); ++i) states_[i].next.assign(next[i].begin(), next[i].end());
    // Shorter prefixes first.
    std::vector<int64_t> order{0};
    for (size_t done = 0; done < order.size(); ++done)
      for (const auto& [index, next] : state(order[done]).next) {
        State& found = states_[size_t(next)];
        if (order[done] != 0) found.fallback = step(state(order[done]).fallback, index);
        found.ending = found.phrase >= 0 ? next : state(found.fallback).ending;
        order.push_back(next);
      }
  }

  std::vector<Tokens> phrases_;
  std::vector<int64_t> wanted_;
  Tokens alphabet_;
  std::unordered_map<int64_t, int64_t> indices_;  // Of tokens in the alphabet.
  std::vector<State> states_;
  int64_t total_ = 0;
};

}  // namespace mtkit
