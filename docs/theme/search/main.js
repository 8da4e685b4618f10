// Searches in the page itself, with an index that is a script: a worker and JSON need a server.
(function () {
  var list = document.getElementById("properdocs-search-results");
  var input = document.getElementById("properdocs-search-query");
  if (!list || !input) { return; }

  function load(name, next) {
    var script = document.createElement("script");
    script.src = base_url + "/search/" + name;
    script.onload = next;
    document.body.appendChild(script);
  }

  function show(found, documents, titles) {
    list.textContent = found.length ? "" : list.getAttribute("data-no-results-text");
    found.forEach(function (result) {
      var page = documents[result.ref];
      var article = document.createElement("article");
      var heading = article.appendChild(document.createElement("h3"));
      var link = heading.appendChild(document.createElement("a"));
      link.href = base_url + "/" + page.location;
      var within = titles[page.location.split("#")[0]];
      link.textContent = page.title === within ? within : page.title + " (" + within + ")";
      article.appendChild(document.createElement("p")).textContent = page.text.slice(0, 200);
      list.appendChild(article);
    });
  }

  function start() {
    var documents = {}, titles = {};
    lunr.tokenizer.separator = new RegExp(searchIndex.config.separator);
    var index = lunr(function () {
      this.field("title", { boost: 5 });
      this.field("text");
      this.ref("location");
      searchIndex.docs.forEach(function (page) {
        // A page's sections are entries of their own, and hold all of its text.
        if (page.location.indexOf("#") < 0) { titles[page.location] = page.title; return; }
        documents[page.location] = page;
        this.add(page);
      }, this);
    });
    function search() {
      var words = input.value.toLowerCase().split(lunr.tokenizer.separator).filter(Boolean);
      show(words.length ? index.query(function (query) {
        words.forEach(function (word) {
          query.term(lunr.stemmer(new lunr.Token(word)).toString(), {});
          query.term(word, { wildcard: lunr.Query.wildcard.TRAILING, boost: 0.5 });
        });
      }) : [], documents, titles);
    }
    input.addEventListener("input", search);
    search();
  }

  input.value = new URLSearchParams(location.search).get("q") || "";
  load("lunr.js", function () { load("search_index.js", start); });
})();
