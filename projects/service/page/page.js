"use strict";
// The text, its mentions and the panel. Corrections are in corrections.js.
// Everything that comes from the service or from the text is put in as text, never as HTML.
const byId = (id) => document.getElementById(id);
const state = {
  text: "", // as it was linked
  found: [], // what the pipeline found in it
  draft: null, // a mention that somebody selects, until it is confirmed
  mentions: [], // all that is shown, in order, and the elements that show it
  elements: [],
  chosen: -1,
  led: -1, // the last mention that the list of concepts led to
  gold: new Map(), // of each text, confirmed spans, withdrawn places that the service has yet to forget, and what it keeps
  undo: [], // what takes the last corrections of this text back
  lookUps: new Map(), // candidates by their words
  keeps: false, // whether the service keeps corrections
  isLooking: false, // whether the page asks for the corrections of others
  saving: Promise.resolve(), // ends when the service has answered to the last correction
  turn: 0,
};
// The least share of each colour, and what the legend says.
const LEVELS = {
  probability: [[0.9, "high", "likely right (90% or more)"], [0.5, "medium", "check (50 to 90%)"], [0, "low", "doubtful (below 50%)"]],
  similarity: [[0.95, "high", "same wording, or nearly"], [0.8, "medium", "similar wording"], [0, "low", "less similar: check"]],
};
const OTHERS = [["unlinked", "no concept"], ["corrected", "confirmed or corrected"], ["rejected", "not a mention"], ["no-finding", "negated, or not of this patient now"]];
const CONTEXTS = ["negated", "uncertain", "family", "historical", "hypothetical"];
const SECONDS = 5; // between two looks for the corrections of others

const nameOf = (span) => `${span.start}-${span.end}`;
const overlap = (one, other) => one.start < other.end && other.start < one.end;
const percent = (share) => `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

async function ask(path, body) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(path, options).catch(() => {
    throw new Error("The service does not answer. Is it running?");
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.error || `${response.status} ${response.statusText}`), { status: response.status });
  return answer;
}

function say(text, isError = false) {
  byId("message").textContent = text;
  byId("message").className = isError ? "error" : "";
}

function readOptions() {
  const type = byId("types").value;
  return { k: Number(byId("k").value), ...(type ? { types: [type] } : {}) };
}

// Linking

async function link() {
  const text = byId("text").value;
  const turn = ++state.turn;
  say("Finding concepts …");
  byId("link").disabled = true;
  try {
    const who = await (hasUnsaved(text) ? save(text, "Saved.") : state.saving.then(() => null));
    const threshold = Number(byId("threshold").value);
    const limits = { ...readOptions(), ...(threshold ? { threshold } : {}) };
    const { results } = await ask("link", { texts: [text], ...limits, utf16: true, gold: true });
    if (turn !== state.turn) return; // a later request is on its way
    const [{ entities, gold }] = results;
    state.keeps = Boolean(gold);
    const isReplaced = gold ? takeKept(text, gold).isReplaced : false;
    if (text !== state.text) state.undo = [];
    state.lookUps.clear();
    Object.assign(state, { text, found: entities, draft: null });
    close();
    showText();
    const figure = state.mentions.length === 1 ? "1 mention." : `${state.mentions.length} mentions.`;
    if (isReplaced || who) tellReplaced(who || "Somebody else");
    else say(state.mentions.length ? figure : "No mention was found. Select words to add one.");
  } catch (error) {
    if (turn === state.turn) say(error.message, true);
  } finally {
    if (turn === state.turn) byId("link").disabled = false;
  }
}

async function lookUp(words) {
  if (!state.lookUps.has(words)) {
    const { results } = await ask("link", { mentions: [words], ...readOptions() });
    state.lookUps.set(words, results[0].candidates);
  }
  return state.lookUps.get(words);
}

// The text

function listMentions() {
  // What is confirmed or being added stands in place of what the pipeline finds there.
  const { text, draft } = state;
  const confirmed = [...goldOf(text).spans.values()].filter((span) => !draft || !overlap(span, draft));
  const found = new Map(state.found.map((entity) => [nameOf(entity), entity]));
  const fixed = confirmed.map((span) => {
    const base = found.get(nameOf(span)) || { text: text.slice(span.start, span.end) };
    const { kb_id, context = span.rejected ? undefined : base.context, ...rest } = span;
    return { ...base, ...rest, context, id: kb_id === "NIL" ? null : kb_id, isConfirmed: true };
  });
  if (draft) fixed.push(draft);
  const free = state.found.filter((entity) => !fixed.some((span) => overlap(span, entity)));
  return [...fixed, ...free].sort((one, other) => one.start - other.start);
}

function findName(mention) {
  return mention.name || findCandidate(mention)?.canonical_name || mention.id;
}

function findCandidate(mention) {
  return (mention.candidates || []).find((candidate) => candidate.id === mention.id);
}

function rate(mention, kind) {
  return (kind === "probability" ? mention.probability : findCandidate(mention)?.score) ?? null;
}

function findLevel(share, kind) {
  return share === null ? "" : LEVELS[kind].find(([least]) => Math.max(0, share) >= least)[1];
}

function classify(mention, kind) {
  if (mention.isDraft) return "draft unlinked";
  if (mention.rejected) return "rejected";
  if (mention.isConfirmed) return "corrected";
  if (mention.context?.length) return "no-finding";
  return mention.id ? findLevel(rate(mention, kind), kind) : "unlinked";
}

function makeMention(mention, className) {
  const none = mention.isDraft ? "new" : mention.rejected ? "not a mention" : "no concept";
  const words = [mention.id ? findName(mention) : none, ...(mention.context || [])].filter(Boolean).join(" · ");
  const chip = make("small", {}, `${mention.isConfirmed ? "✓ " : ""}${words}`, mention.id ? make("i", { textContent: mention.id }) : null);
  // The compact view has no room for the chip.
  const element = make("span", { className: `mention ${className}`, tabIndex: -1, title: [words, mention.id].filter(Boolean).join(" · ") }, mention.text, chip);
  if (mention.context?.length) element.classList.add("no-finding");
  element.setAttribute("role", "button");
  element.setAttribute("aria-pressed", "false");
  element.dataset.start = mention.start;
  element.dataset.end = mention.end;
  return element;
}

function showText() {
  const before = state.mentions;
  const mentions = listMentions();
  const kind = mentions.some((mention) => mention.probability !== undefined) ? "probability" : "similarity";
  const classes = mentions.map((mention) => classify(mention, kind));
  const elements = mentions.map((mention, place) => makeMention(mention, classes[place]));
  const shown = byId("linked");
  // A long text is not laid out again when only the looks of a mention change.
  if (shown.dataset.turn === String(state.turn) && mentions.map(nameOf).join() === before.map(nameOf).join()) {
    elements.forEach((element, place) => {
      const old = state.elements[place];
      old.classList.remove("draft");
      if (old.className === element.className && old.textContent === element.textContent) elements[place] = old;
      else old.replaceWith(element);
    });
  } else {
    shown.replaceChildren(...makeLines(mentions, elements));
    shown.dataset.turn = state.turn;
  }
  Object.assign(state, { mentions, elements, chosen: -1 });
  if (elements.length) elements[0].tabIndex = 0;
  showLegend(kind, classes);
  showConcepts(kind);
  showCount();
}

function makeLines(mentions, elements) {
  const lines = [make("div")];
  let end = 0;
  const addText = (to) => {
    for (const piece of state.text.slice(end, to).split(/(?<=\n)/)) {
      const element = make("span", { textContent: piece });
      element.dataset.start = end;
      end += piece.length;
      element.dataset.end = end;
      lines.at(-1).append(element);
      if (piece.endsWith("\n")) lines.push(make("div"));
    }
  };
  mentions.forEach((mention, place) => {
    addText(mention.start);
    lines.at(-1).append(elements[place]);
    end = mention.end;
  });
  addText(state.text.length);
  for (const line of lines) line.classList.toggle("row", /\S(?: {2,}|\t)\S/.test(line.textContent));
  return lines;
}

function showLegend(kind, classes) {
  const rows = [...LEVELS[kind].map(([, level, words]) => [level, words]), ...OTHERS];
  byId("legend").replaceChildren(...rows.map(([level, words]) => {
    const count = classes.filter((one) => one === level).length;
    return make("li", { hidden: !count }, make("span", { className: `mention ${level}`, textContent: count }), words);
  }));
}

function showConcepts(kind) {
  // The doubtful first, and last what is decided.
  const rows = new Map();
  state.mentions.forEach((mention, place) => {
    if (!mention.id) return;
    if (!rows.has(mention.id)) rows.set(mention.id, { id: mention.id, name: findName(mention), places: [], share: null });
    const row = rows.get(mention.id);
    row.places.push(place);
    const share = mention.isConfirmed ? null : rate(mention, kind);
    if (share !== null) row.share = Math.min(share, row.share ?? 1);
  });
  const sorted = [...rows.values()].sort((one, other) => (one.share ?? 2) - (other.share ?? 2) || one.name.localeCompare(other.name));
  byId("concepts").hidden = !sorted.length;
  byId("concept-count").textContent = sorted.length === 1 ? "1 concept" : `${sorted.length} concepts, the doubtful first`;
  byId("concept-list").replaceChildren(...sorted.map(({ id, name, places, share }) => {
    const level = state.mentions[places[0]].isConfirmed && share === null ? "corrected" : findLevel(share, kind);
    const count = make("span", { className: `mention ${level}`, textContent: places.length, title: `mentions: ${places.length}` });
    const figure = share === null ? "" : make("small", { textContent: `${kind} ${places.length > 1 ? "from " : ""}${percent(share)}` });
    const lead = () => {
      state.led = places.find((place) => place > state.led && places.includes(state.led)) ?? places[0];
      choose(state.led);
      focusMention();
    };
    return make("li", {}, make("button", { type: "button", onclick: lead }, count, `${name} `, make("small", { textContent: id }), " ", figure));
  }));
}

function findOffset(node, offset) {
  const inText = node.nodeType === Node.TEXT_NODE;
  const holder = (inText ? node.parentElement : node).closest("[data-start]");
  if (!holder) return Number(node.childNodes[offset]?.querySelector?.("[data-start]")?.dataset.start ?? node.lastElementChild?.lastElementChild?.dataset.end ?? NaN);
  if (inText && node.parentElement === holder) return Number(holder.dataset.start) + offset;
  // The concept's name behind a mention, or the mention itself.
  return Number(!inText && offset === 0 && node === holder ? holder.dataset.start : holder.dataset.end);
}

function findSelection() {
  const selection = getSelection();
  const box = byId("text");
  let [start, end] = [0, 0];
  if (!selection.isCollapsed && byId("linked").contains(selection.anchorNode) && byId("linked").contains(selection.focusNode)) {
    const range = selection.getRangeAt(0);
    [start, end] = [findOffset(range.startContainer, range.startOffset), findOffset(range.endContainer, range.endOffset)];
  } else if (box.value === state.text) {
    [start, end] = [box.selectionStart, box.selectionEnd];
  }
  const words = state.text.slice(start, end);
  start += words.length - words.trimStart().length;
  const text = words.trim();
  return text && text.length <= 200 ? { start, end: start + text.length, text, id: null, isDraft: true } : null;
}

function showSelection() {
  const selected = findSelection();
  byId("add").disabled = !selected;
  byId("add").textContent = selected ? `Add “${selected.text}”` : "Add a mention";
}

function add() {
  const selected = findSelection();
  if (!selected) return;
  getSelection().removeAllRanges();
  const { start, end } = selected;
  const isThere = state.mentions.some((mention) => mention.start === start && mention.end === end);
  if (!isThere) {
    state.draft = selected;
    showText();
  }
  choose(state.mentions.findIndex((mention) => mention.start === start && mention.end === end));
  byId("mention").focus();
}

// The panel

function choose(place, isNew = true) {
  if (state.draft && !state.mentions[place]?.isDraft) {
    const wanted = state.mentions[place];
    state.draft = null;
    showText();
    place = wanted ? state.mentions.findIndex((mention) => nameOf(mention) === nameOf(wanted)) : -1;
  }
  for (const element of [state.elements[state.chosen], state.elements[0]]) if (element) element.tabIndex = -1;
  state.elements[state.chosen]?.setAttribute("aria-pressed", "false");
  state.chosen = place;
  const element = state.elements[place] || state.elements[0];
  if (element) element.tabIndex = 0;
  state.elements[place]?.setAttribute("aria-pressed", "true");
  if (!isNew) return; // the panel shows it already
  showPanel();
  state.elements[place]?.scrollIntoView({ block: "nearest" });
}

function close() {
  choose(-1);
}

function focusMention(place = state.chosen) {
  (state.elements[place] || state.elements[0] || byId("text")).focus({ preventScroll: place < 0 });
}

async function showPanel() {
  const mention = state.mentions[state.chosen];
  byId("hint").hidden = Boolean(mention);
  byId("choice").hidden = !mention;
  byId("panel").classList.toggle("open", Boolean(mention));
  if (!mention) return;
  byId("panel").scrollTop = 0;
  byId("mention").textContent = mention.text;
  byId("query").value = "";
  byId("nil").textContent = !mention.id && !mention.isDraft && !mention.isConfirmed ? "Confirm that no concept is right" : "No concept is right";
  byId("nil").setAttribute("aria-pressed", Boolean(mention.isConfirmed && !mention.id && !mention.rejected));
  byId("reject").setAttribute("aria-pressed", Boolean(mention.rejected));
  byId("reject").hidden = Boolean(mention.isDraft);
  byId("context").hidden = Boolean(mention.isDraft || mention.rejected);
  for (const word of CONTEXTS) byId(word).checked = Boolean(mention.context?.includes(word));
  byId("withdraw").hidden = !mention.isConfirmed;
  const facts = [mention.label, ...(mention.context || [])];
  if (mention.isConfirmed) facts.push(mention.rejected ? "not a mention" : mention.id ? "confirmed or corrected" : "no concept is right");
  if (mention.annotator) facts.push(`by ${mention.annotator}`);
  if (mention.isDraft) facts.push("not added until you choose a concept");
  const isListed = Boolean(findCandidate(mention)); // with its probability
  const what = mention.id ? "of this choice" : "that no concept is right";
  if (mention.probability !== undefined && !mention.isConfirmed && !isListed) facts.push(`probability ${what} ${percent(mention.probability)}`);
  byId("about").textContent = facts.filter(Boolean).join(" · ");
  // What was chosen by search is none of the candidates.
  const chosen = mention.isConfirmed && mention.id ? mention.candidate || { id: mention.id, concept_id: mention.id, canonical_name: findName(mention) } : null;
  await showCandidates(mention.text, mention.candidates, "No candidate. Search for a concept below.", chosen);
}

async function showCandidates(words, known, none, chosen = null) {
  const mention = state.mentions[state.chosen];
  const list = byId("candidates");
  try {
    if (!known) list.replaceChildren(make("li", { className: "hint", textContent: "Looking up …" }));
    const found = known || (await lookUp(words));
    const isMissing = chosen && !found.some((candidate) => candidate.id === chosen.id);
    const candidates = isMissing ? [chosen, ...found] : found;
    if (mention !== state.mentions[state.chosen]) return false; // another one was chosen meanwhile
    const rows = candidates.map((candidate) => makeCandidate(candidate, candidate.id === mention.id, words));
    list.replaceChildren(...(rows.length ? rows : [make("li", { className: "hint", textContent: none })]));
    return candidates.length;
  } catch (error) {
    list.replaceChildren();
    say(error.message, true);
    return false;
  }
}

async function search(event) {
  event.preventDefault();
  const words = byId("query").value.trim();
  if (!words) return;
  const count = await showCandidates(words, null, `No concept was found for “${words}”.`);
  if (count === false) return;
  say(`${count} ${count === 1 ? "concept" : "concepts"} for “${words}”.`);
  byId("candidates").querySelector("button")?.focus();
}

function makeCandidate(candidate, isChosen, words) {
  const { score, probability } = candidate;
  const figures = score === undefined ? [] : [`similarity ${percent(score)}`];
  if (probability !== undefined) figures.unshift(`probability ${percent(probability)}`);
  const facts = make("dl");
  const more = make("button", { type: "button", textContent: "Details", onclick: () => showConcept(candidate.concept_id, facts, more) });
  const take = make("button", { type: "button", textContent: isChosen ? "Confirm" : "This one", className: isChosen ? "main" : "", onclick: () => decide(candidate) });
  for (const button of [take, more]) button.setAttribute("aria-label", `${button.textContent}: ${candidate.canonical_name}`);
  const name = [undefined, candidate.canonical_name].includes(candidate.name) ? candidate.id : `${candidate.id} · “${candidate.name}”`;
  return make(
    "li", { className: isChosen ? "candidate chosen" : "candidate" },
    make("strong", { textContent: candidate.canonical_name }),
    make("span", { className: "actions" }, take, more),
    make("small", { textContent: figures.join(" · ") }),
    make("small", { textContent: name + ([undefined, words].includes(candidate.mention) ? "" : ` · looked up as “${candidate.mention}”`) }),
    candidate.reason ? make("p", { className: "hint", textContent: candidate.reason }) : null,
    facts,
  );
}

async function showConcept(id, facts, button) {
  const isShown = facts.childElementCount > 0;
  try {
    facts.replaceChildren(...(isShown ? [] : listFacts(await ask(`concept/${encodeURIComponent(id)}`))));
    button.textContent = isShown ? "Details" : "Less";
    button.setAttribute("aria-expanded", String(!isShown));
  } catch (error) {
    say(error.message, true);
  }
}

function listFacts(concept) {
  const page = /^https?:\/\//i.test(concept.page || "") ? make("a", { href: concept.page, textContent: concept.page, rel: "noreferrer" }) : "";
  const rows = [
    ["names", concept.names.join("; ")],
    ["definition", concept.definition],
    ["types", concept.types.map((type) => (type.name === type.id ? type.id : `${type.name} (${type.id})`)).join("; ")],
    ["parents", concept.parents.map((parent) => `${parent.canonical_name} (${parent.id})`).join("; ")],
    ["codes", concept.codes.join("; ")],
    ["page", page],
  ];
  return rows.filter(([, value]) => value).flatMap(([key, value]) => [make("dt", { textContent: key }), make("dd", {}, value)]);
}

// Keys and clicks

function onTextKey(event) {
  const here = state.elements.indexOf(event.target);
  if (here < 0) return;
  const last = state.elements.length - 1;
  const targets = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: last };
  if (event.key in targets) {
    const name = nameOf(state.mentions[Math.max(0, Math.min(last, targets[event.key]))]);
    choose(state.mentions.findIndex((mention) => nameOf(mention) === name));
    focusMention();
  } else if (event.key === "Enter" || event.key === " ") {
    choose(here);
    (byId("candidates").querySelector(".chosen button, button") || byId("mention")).focus();
  } else return;
  event.preventDefault();
}

function onKey(event) {
  const isWriting = event.target.matches("textarea, input[type=search]");
  if (event.key === "Escape" && state.chosen >= 0) {
    const name = nameOf(state.mentions[state.chosen]);
    close();
    focusMention(state.mentions.findIndex((mention) => nameOf(mention) === name));
  } else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !isWriting) {
    event.preventDefault();
    undo();
  }
}

// Nothing of a text stays in the browser, so ask before the page forgets what no service keeps.
window.onbeforeunload = (event) => {
  if ([...state.gold.keys()].some(hasUnsaved)) event.preventDefault();
};
for (const id of ["k", "threshold"]) {
  byId(id).oninput = () => (byId(`${id}-value`).textContent = id === "k" ? byId(id).value : percent(byId(id).value));
}
for (const id of ["k", "threshold", "types"]) byId(id).onchange = link;
const withoutConcept = { kb_id: "NIL", name: undefined, candidate: undefined };
const clicks = { link, download, undo, add, withdraw, nil: () => correct(withoutConcept), reject: () => correct({ ...withoutConcept, context: undefined, rejected: true }), close: () => onKey({ key: "Escape", target: byId("close") }) };
for (const [id, act] of Object.entries(clicks)) byId(id).onclick = act;
byId("context").append(...CONTEXTS.map((word) => make("label", {}, make("input", { type: "checkbox", id: word, onchange: correctContext }), word)));
byId("format").onchange = showCount;
byId("view").onchange = () => (byId("linked").className = byId("view").value);
if (matchMedia("(max-width: 50rem)").matches) {
  byId("view").value = "compact";
  byId("concepts").open = false;
}
byId("view").onchange();
// The address remembers who corrects, and nothing else does.
byId("annotator").value = new URLSearchParams(location.hash.slice(1)).get("name") || "";
byId("annotator").onchange = () => history.replaceState(null, "", `#${new URLSearchParams({ name: byId("annotator").value.trim() })}`);
window.onfocus = look;
setInterval(look, 1000 * SECONDS);
byId("add").onpointerdown = (event) => event.preventDefault(); // the selection stays
byId("search").onsubmit = search;
byId("text").onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) link(); };
byId("linked").onkeydown = onTextKey;
byId("linked").onclick = (event) => {
  const place = state.elements.indexOf(event.target.closest(".mention"));
  if (place >= 0 && getSelection().isCollapsed) choose(place);
};
document.onkeydown = onKey;
document.onselectionchange = showSelection;
ask("health").then((health) => {
  byId("pipeline").textContent = `${health.pipeline}: ${health.concepts.toLocaleString("en")} concepts, ${health.components.join(" → ")}`;
}).catch((error) => say(error.message, true));
ask("types").then((types) => {
  byId("types").parentElement.hidden = types.length === 0;
  byId("types").append(...types.map((type) => make("option", { value: type.id, textContent: type.name })));
}).catch((error) => say(error.message, true));
link();
