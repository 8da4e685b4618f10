// Ranks the sections of the site for a query: lunr's score, times what lunr doesn't look at.
(function (scope) {
  // Pages for those who work on mtkit, or that repeat what others explain.
  var WEIGHTS = [
    [/^(log|changelog|benchmarks|architecture)\.html|^decisions\//, 0.25],
    [/^(recipes|reference)\/|^(performance|fidelity|index)\.html/, 0.6]
  ];
  // For a section with all words of a query, for one that has them side by side, and for one that
  // has the query as it is.
  var COMPLETE = 4, ADJACENT = 4, LITERAL = 1.5;

  function weigh(location) {
    return WEIGHTS.reduce(function (weight, entry) {
      return entry[0].test(location) ? weight * entry[1] : weight;
    }, 1);
  }

  // Whether every word is in the text, and whether so in as many words, in any order, and one more.
  function compare(stems, words) {
    var matches = words.map(function (word) {
      return stems.map(function (stem) { return stem === word.stem || stem.indexOf(word.text) === 0; });
    });
    function within(from, to) {
      return matches.every(function (found) { return found.slice(from, to).indexOf(true) >= 0; });
    }
    if (!within(0, stems.length)) { return { complete: false, adjacent: false }; }
    for (var from = 0; words.length > 1 && from < stems.length; from++) {
      if (within(from, from + words.length + 1)) { return { complete: true, adjacent: true }; }
    }
    return { complete: true, adjacent: false };
  }

  // Takes lunr and the site's index; returns a function from a query to sections, the best first.
  scope.openRanking = function (lunr, searchIndex) {
    var separator = new RegExp(searchIndex.config.separator);
    var sections = {}, titles = {}, texts = {};
    function split(text) { return text.toLowerCase().split(separator).filter(Boolean); }
    function stem(word) { return lunr.stemmer(new lunr.Token(word)).toString(); }
    function hasMeaning(word) { return lunr.stopWordFilter(new lunr.Token(word)); }
    function read(section) {
      var words = split([section.title, section.text, section.sought_as || ""].join(" "));
      return { words: " " + words.join(" ") + " ", stems: words.filter(hasMeaning).map(stem) };
    }

    lunr.tokenizer.separator = separator;
    var index = lunr(function () {
      this.field("title", { boost: 5 });
      this.field("sought_as", { boost: 10 });
      this.field("text");
      // A long section, such as a table of faults, is as good an answer as a short one.
      this.b(0.2);
      this.ref("location");
      searchIndex.docs.forEach(function (page) {
        // A page's sections are entries of their own, and hold all of its text.
        if (page.location.indexOf("#") < 0) { titles[page.location] = page.title; return; }
        sections[page.location] = page;
        this.add(page);
      }, this);
    });

    return function (query) {
      var words = split(query), phrase = words;
      var literal = " " + phrase.join(" ") + " ";
      // "of" is in every text; a query of such words alone is looked for as it is.
      words = words.some(hasMeaning) ? words.filter(hasMeaning) : words;
      words = words.map(function (word) { return { text: word, stem: stem(word) }; });
      if (!words.length) { return []; }
      var found = index.query(function (search) {
        words.forEach(function (word) {
          // lunr would stem a stem again, and find nothing.
          search.term(word.stem, { usePipeline: false });
          search.term(word.text, { usePipeline: false, wildcard: lunr.Query.wildcard.TRAILING, boost: 0.5 });
        });
      });
      return found.map(function (result) {
        var section = sections[result.ref];
        var text = texts[result.ref] = texts[result.ref] || read(section);
        var fit = compare(text.stems, words);
        var score = result.score * weigh(result.ref);
        if (fit.complete) { score *= COMPLETE; }
        if (fit.adjacent) { score *= ADJACENT; }
        if (text.words.indexOf(literal) >= 0) { score *= LITERAL; }
        return {
          location: result.ref, title: section.title, text: section.text, score: score,
          page: titles[result.ref.split("#")[0]], phrase: phrase,
          words: words.map(function (word) { return word.text; })
        };
      }).sort(function (one, other) { return other.score - one.score; });
    };
  };
})(typeof window === "undefined" ? globalThis : window);
