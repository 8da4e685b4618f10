"use strict";

const TYPING_PAUSE = 350; // Milliseconds without a key before a text is translated.
const UNSURE = -0.5; // Mean natural log-probability of a token below which a line is marked.
const UNSURE_TEXT = "The translator is unsure of this.";
const NUM_ALTERNATIVES = 3;
const QUOTED = 40; // Characters of a line that are shown beside what to check of it.
const get = (id) => document.getElementById(id);
const ui = Object.fromEntries(
  ["source", "target", "swap", "text", "translation", "detected", "count", "state", "copy", "error",
    "others", "alternatives", "to-check", "flags", "files", "file", "upload", "file-state", "key", "key-row", "form"]
    .map((id) => [id, get(id)]));
let languages = [];
let limits = {};
let timer = 0;
let running = null;

function show_error(message) {
  ui.error.textContent = message;
  ui.error.hidden = !message;
}

async function call(path, options = {}) {
  const headers = options.headers || {};
  if (ui.key.value) headers.Authorization = `Bearer ${ui.key.value}`;
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server can't be reached; try again.");
  });
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error || `The server answered ${response.status}.`);
  return content;
}

function post(path, body, signal) {
  return call(path, {
    method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" },
  });
}

function name_of(code) {
  const found = languages.find((language) => language.code === code);
  return found ? found.name : code;
}

function fill(select, entries) {
  const chosen = select.value;
  select.replaceChildren(...entries.map(({ code, name }) => new Option(name, code)));
  if (entries.some(({ code }) => code === chosen)) select.value = chosen;
}

function fill_targets() {
  const source = languages.find(({ code }) => code === ui.source.value);
  const reached = source ? source.targets : languages.flatMap(({ targets }) => targets);
  fill(ui.target, languages.filter(({ code }) => reached.includes(code) && code !== ui.source.value));
}

function shorten(text) {
  const characters = [...text];
  return characters.length > QUOTED ? `${characters.slice(0, QUOTED).join("")}…` : text;
}

function render(translations) {
  // Only text nodes: whatever a model says, none of it is markup.
  const told = [];
  const nodes = translations.flatMap(({ text, mean, flags, quality, released }, index) => {
    const reasons = flags.map((flag) => `${flag.name}: ${flag.text}`);
    if (released === false) {
      reasons.push(`not released${quality === null ? "" : `: quality ${quality.toFixed(2)}`}`);
    }
    const toCheck = reasons.length > 0;
    if (!reasons.length && mean !== null && mean < UNSURE) reasons.push(UNSURE_TEXT);
    const line = document.createElement(reasons.length ? "mark" : "span");
    line.textContent = text;
    if (reasons.length) {
      line.className = "unsure";
      line.title = reasons.join("\n");
      if (toCheck) {
        const item = document.createElement("li");
        item.id = `flag-${index}`;
        item.textContent = `${shorten(text)} – ${reasons.join("; ")}`;
        line.setAttribute("aria-describedby", item.id);
        told.push(item);
      }
    }
    return index ? ["\n", line] : [line];
  });
  ui.translation.replaceChildren(...nodes);
  ui.flags.replaceChildren(...told);
  ui["to-check"].hidden = !told.length;
  ui.copy.disabled = !translations.some(({ text }) => text);
}

function clear(error = "") {
  render([]);
  ui.others.hidden = true;
  ui.detected.textContent = "";
  ui.state.textContent = "";
  show_error(error);
}

async function translate() {
  clearTimeout(timer);
  if (!languages.length) return start();
  if (running) running.abort();
  const text = ui.text.value;
  ui.count.textContent = limits.charLimit ? `${text.length} of ${limits.charLimit}` : "";
  if (!text.trim()) return clear();
  const mine = running = new AbortController();
  ui.translation.classList.add("waiting");
  ui.state.textContent = "Translating…";
  try {
    const target = ui.target.value;
    const body = { q: text, source: ui.source.value, target, scores: true,
      alternatives: NUM_ALTERNATIVES };
    const found = await post("translate", body, mine.signal);
    if (mine !== running) return;
    ui.translation.lang = ui.alternatives.lang = target;
    const lines = found.translatedText.split("\n");
    const of_line = (key, index) => (found[key] || [])[index] ?? null;
    render(lines.map((line, index) => ({
      text: line,
      mean: of_line("scores", index),
      flags: of_line("flags", index) || [],
      quality: of_line("quality", index),
      released: of_line("released", index),
    })));
    const { detectedLanguage: detected, alternatives, pivot } = found;
    ui.detected.textContent = detected ? `Detected: ${name_of(detected.language)}` : "";
    const by = [...new Set((found.models || []).filter(Boolean))].join(", ");
    ui.state.textContent = `Translated${pivot ? ` through ${name_of(pivot)}` : ""}${by ? ` by ${by}` : ""}`;
    ui.alternatives.replaceChildren(...(alternatives || []).map((other) => {
      const item = document.createElement("li");
      item.dir = "auto";
      item.textContent = other;
      return item;
    }));
    ui.others.hidden = !(alternatives || []).length;
    show_error("");
  } catch (error) {
    // An older translation beside the new text would be taken for its own.
    if (error.name !== "AbortError") clear(error.message);
  } finally {
    if (mine === running) ui.translation.classList.remove("waiting");
  }
}

function translate_soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, TYPING_PAUSE);
}

function swap() {
  const detected = ui.detected.textContent && languages.find(
    ({ name }) => ui.detected.textContent.endsWith(name));
  const source = ui.source.value === "auto" ? (detected ? detected.code : "") : ui.source.value;
  const target = ui.target.value;
  const turned = languages.find(({ code }) => code === target);
  if (!source || !turned || !turned.targets.includes(source)) {
    return show_error(`There is no translation from ${name_of(target)} back.`);
  }
  ui.source.value = target;
  fill_targets();
  ui.target.value = source;
  ui.text.value = ui.translation.textContent;
  translate();
}

async function upload() {
  const body = new FormData();
  body.append("file", ui.file.files[0]);
  body.append("source", ui.source.value);
  body.append("target", ui.target.value);
  ui.upload.disabled = true;
  ui["file-state"].textContent = "Translating the file…";
  try {
    const { translatedFileUrl, report } = await call("translate_file", { method: "POST", body });
    const link = document.createElement("a");
    // Relative, so that it holds behind a proxy too.
    link.href = `download_file/${translatedFileUrl.split("/").pop()}`;
    link.textContent = "Download the translation";
    link.download = "";
    ui["file-state"].replaceChildren(link, ` (${report.summary})`);
    show_error("");
  } catch (error) {
    ui["file-state"].textContent = "";
    show_error(error.message);
  } finally {
    ui.upload.disabled = !ui.file.files.length;
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(ui.translation.textContent);
    ui.state.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(ui.translation);
    ui.state.textContent = "Selected: press Control+C";
  }
}

function listen() {
  ui.text.addEventListener("input", translate_soon);
  ui.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  ui.source.addEventListener("change", () => { fill_targets(); translate(); });
  ui.target.addEventListener("change", translate);
  ui.key.addEventListener("change", translate);
  ui.swap.addEventListener("click", swap);
  ui.copy.addEventListener("click", copy);
  ui.upload.addEventListener("click", upload);
  ui.file.addEventListener("change", () => { ui.upload.disabled = !ui.file.files.length; });
  ui.form.addEventListener("submit", (event) => event.preventDefault());
}

async function start() {
  try {
    [languages, limits] = await Promise.all([call("languages"), call("frontend/settings")]);
  } catch (error) {
    return show_error(error.message);
  }
  ui["key-row"].hidden = !limits.keyRequired;
  const sources = languages.filter(({ code, targets }) => targets.some((target) => target !== code));
  fill(ui.source, [{ code: "auto", name: "Detect" }, ...sources]);
  fill_targets();
  ui.target.value = limits.language.target.code;
  ui.files.hidden = !limits.filesTranslation;
  ui.file.accept = limits.supportedFilesFormat.join(",");
  if (ui.text.value) translate();
}

listen();
start();
