// Searches in the page itself, with an index that is a script: a worker and JSON need a server.
(function () {
  var list = document.getElementById("properdocs-search-results");
  var input = document.getElementById("properdocs-search-query");
  if (!list || !input) { return; }
  // Characters of a section that are shown, and those before the first word that was found.
  var SHOWN = 200, BEFORE = 60;

  function load(names, next) {
    if (!names.length) { next(); return; }
    var script = document.createElement("script");
    script.src = base_url + "/search/" + names[0];
    script.onload = function () { load(names.slice(1), next); };
    document.body.appendChild(script);
  }

  // Adds the part of a section that has the words, or the first of them, with each in a mark.
  function addExcerpt(paragraph, section) {
    var text = section.text;
    function escape(word) { return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"); }
    var pattern = new RegExp("\\b(" + section.words.map(escape).join("|") + ")", "i");
    var together = new RegExp(section.phrase.map(escape).join("[^a-z]{1,9}"), "i");
    var found = text.search(together) < 0 ? text.search(pattern) : text.search(together);
    var start = found > BEFORE ? text.indexOf(" ", found - BEFORE) + 1 : 0;
    var shown = text.slice(start, start + SHOWN);
    if (start + SHOWN < text.length) { shown = shown.slice(0, shown.lastIndexOf(" ")) + " …"; }
    ((start ? "… " : "") + shown).split(new RegExp(pattern.source, "gi")).forEach(function (part, number) {
      var node = document.createElement(number % 2 ? "mark" : "span");
      node.textContent = part;
      paragraph.appendChild(node);
    });
  }

  function show(found) {
    list.textContent = found.length ? "" : list.getAttribute("data-no-results-text");
    found.forEach(function (section) {
      var article = list.appendChild(document.createElement("article"));
      var link = article.appendChild(document.createElement("h3")).appendChild(document.createElement("a"));
      link.href = base_url + "/" + section.location;
      link.textContent = section.title === section.page ? section.page : section.title + " (" + section.page + ")";
      addExcerpt(article.appendChild(document.createElement("p")), section);
    });
  }

  input.value = new URLSearchParams(location.search).get("q") || "";
  load(["lunr.js", "search_index.js", "ranking.js"], function () {
    var rank = openRanking(lunr, searchIndex);
    function search() { show(rank(input.value)); }
    input.addEventListener("input", search);
    search();
  });
})();
