"use strict";
// The linked text: its mentions, their colours, the list of concepts, and selections in it.
// The least share of each colour, and what the legend says.
const LEVELS = {
  probability: [[0.9, "high", "likely right (90% or more)"], [0.5, "medium", "check (50 to 90%)"], [0, "low", "doubtful (below 50%)"]],
  similarity: [[0.95, "high", "same wording, or nearly"], [0.8, "medium", "similar wording"], [0, "low", "less similar: check"]],
};
const OTHERS = [["unlinked", "no concept"], ["corrected", "confirmed or corrected"], ["rejected", "not a mention"], ["no-finding", "negated, or not of this patient now"]];
// Why the pipeline gives a mention no concept.
const REASONS = { threshold: "below the threshold", filtered: "filtered out", nil: "no concept is right", unlinked: "not linked" };
// A longer line is drawn in parts, since the browser lays out only what is near the window.
const LONGEST_PIECE = 2000;
const BY_LETTERS = new Intl.Collator();
// What is in the document now, so that only what changes is made anew.
const drawn = { text: null, ends: [], lines: new Map(), concepts: new Map() };

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
  // The probability of a mention without a concept says that none is right, and so nothing of a choice.
  if (!mention.id) return null;
  return (kind === "probability" ? mention.probability : findCandidate(mention)?.score) ?? null;
}

function findLevel(share, kind) {
  return share === null ? "" : LEVELS[kind].find(([least]) => Math.max(0, share) >= least)[1];
}

function classify(mention, kind) {
  if (mention.isDraft) return "draft unlinked";
  if (mention.rejected) return "rejected";
  if (mention.isConfirmed || mention.rule) return "corrected";
  if (mention.context?.length) return "no-finding";
  return mention.id ? findLevel(rate(mention, kind), kind) : "unlinked";
}

function tellWhy(mention) {
  if (mention.isDraft) return "new";
  if (mention.rejected) return "not a mention";
  if (mention.isConfirmed) return "no concept";
  return REASONS[mention.why?.reason] || "no concept";
}

function describeMention(mention, kind) {
  const context = mention.context || [];
  const name = mention.id ? findName(mention) : tellWhy(mention);
  const looks = ["mention", classify(mention, kind), ...(context.length ? ["no-finding"] : [])];
  return { className: [...new Set(looks)].join(" "), words: [name, ...context].filter(Boolean).join(" · ") };
}

function makeMention(mention, { className, words }) {
  const chip = make("small", {}, `${mention.isConfirmed ? "✓ " : ""}${words}`, mention.id ? make("i", { textContent: mention.id }) : null);
  // The compact view has no room for the chip.
  const element = make("span", { className, tabIndex: -1, title: [words, mention.id].filter(Boolean).join(" · ") }, mention.text, chip);
  element.setAttribute("role", "button");
  element.setAttribute("aria-pressed", "false");
  element.dataset.start = mention.start;
  element.dataset.end = mention.end;
  return element;
}

function showText() {
  const mentions = listMentions();
  const kind = mentions.some((mention) => mention.probability !== undefined) ? "probability" : "similarity";
  for (const element of [state.elements[state.chosen], state.elements[0]]) {
    element?.setAttribute("aria-pressed", "false");
    if (element) element.tabIndex = -1;
  }
  if (drawn.text !== state.text) Object.assign(drawn, { text: state.text, ends: cutLines(state.text), lines: new Map() });
  const lines = listLines(mentions).map((line) => drawLine(line, kind));
  drawn.lines = new Map(lines.map((line) => [line.name, line]));
  setChildren(byId("linked"), lines.map((line) => line.element));
  const elements = lines.flatMap((line) => line.parts.map((part) => part.element));
  Object.assign(state, { mentions, elements, chosen: -1 });
  if (elements.length) elements[0].tabIndex = 0;
  showLegend(kind, mentions.map((mention) => classify(mention, kind)));
  showConcepts(kind);
  showConfirm();
  showCount();
}

function setChildren(parent, children) {
  // Those that stay are not moved.
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
}

function cutLines(text) {
  const ends = [];
  for (let start = 0; start < text.length; start = ends.at(-1)) {
    const newline = text.indexOf("\n", start) + 1 || text.length;
    ends.push(newline - start > LONGEST_PIECE ? findBreak(text, start) : newline);
  }
  return ends;
}

function findBreak(text, start) {
  // Behind a sentence, or else a word, or else between two characters, which may have two units.
  const piece = text.slice(start, start + LONGEST_PIECE);
  const cut = ["\n", ". ", "。", " "].map((mark) => piece.lastIndexOf(mark) + mark.length).find((end) => end > LONGEST_PIECE / 2);
  if (cut) return start + cut;
  return start + LONGEST_PIECE + (/[\udc00-\udfff]/.test(text[start + LONGEST_PIECE]) ? 1 : 0);
}

function listLines(mentions) {
  const lines = [];
  let [start, first, last] = [0, 0, 0];
  for (const end of drawn.ends) {
    while (last < mentions.length && mentions[last].start < end) last++;
    // A mention may go on in the next line.
    if (last && mentions[last - 1].end > end) continue;
    const own = mentions.slice(first, last);
    lines.push({ start, end, mentions: own, name: [`${start}-${end}`, ...own.map(nameOf)].join() });
    [start, first] = [end, last];
  }
  return lines;
}

function drawLine(line, kind) {
  const before = drawn.lines.get(line.name);
  const parts = line.mentions.map((mention, place) => {
    const description = describeMention(mention, kind);
    const look = [description.className, description.words, mention.id, mention.isConfirmed].join();
    const old = before?.parts[place];
    if (old?.look === look) return old;
    const element = makeMention(mention, description);
    old?.element.replaceWith(element);
    return { look, element };
  });
  return { ...line, parts, element: before ? before.element : makeLine(line, parts) };
}

function makeLine({ start, end, mentions }, parts) {
  const line = make("div");
  const addText = (from, to) => {
    if (from === to) return;
    const element = make("span", { textContent: state.text.slice(from, to) });
    element.dataset.start = from;
    element.dataset.end = to;
    line.append(element);
  };
  let from = start;
  mentions.forEach((mention, place) => {
    addText(from, mention.start);
    line.append(parts[place].element);
    from = mention.end;
  });
  addText(from, end);
  line.classList.toggle("row", /\S(?: {2,}|\t)\S/.test(state.text.slice(start, end)));
  // How high it is, more or less, before it comes near the window.
  line.style.setProperty("--rows", Math.ceil((end - start) / 100));
  return line;
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
  const sorted = [...rows.values()].sort((one, other) => (one.share ?? 2) - (other.share ?? 2) || BY_LETTERS.compare(one.name, other.name));
  byId("concepts").hidden = !sorted.length;
  byId("concept-count").textContent = sorted.length === 1 ? "1 concept" : `${sorted.length} concepts, the doubtful first`;
  drawn.concepts = new Map(sorted.map((row) => [row.id, drawConcept(row, kind)]));
  setChildren(byId("concept-list"), [...drawn.concepts.values()].map((row) => row.element));
}

function drawConcept({ id, name, places, share }, kind) {
  const level = state.mentions[places[0]].isConfirmed && share === null ? "corrected" : findLevel(share, kind);
  const figure = share === null ? "" : `${kind} ${places.length > 1 ? "from " : ""}${percent(share)}`;
  const look = [level, name, places.length, figure, listUndecided(id).length].join();
  const old = drawn.concepts.get(id);
  if (old?.look === look) return { ...old, places };
  const count = make("span", { className: `mention ${level}`, textContent: places.length, title: `mentions: ${places.length}` });
  const lead = make("button", { type: "button", onclick: () => leadToConcept(id) }, count, `${name} `, make("small", { textContent: id }), " ");
  if (figure) lead.append(make("small", { textContent: figure }));
  return { look, places, element: make("li", {}, lead, makeConfirmAll(id, name)) };
}

function leadToConcept(id) {
  const { places } = drawn.concepts.get(id);
  state.led = places.find((place) => place > state.led && places.includes(state.led)) ?? places[0];
  choose(state.led);
  focusMention();
}

function bringIntoView(element, frames = 4) {
  // Lines get their true heights a frame after they come near the window, and then move what was in view.
  if (!element?.isConnected || element !== state.elements[state.chosen]) return;
  element.scrollIntoView({ block: "nearest" });
  if (frames) requestAnimationFrame(() => bringIntoView(element, frames - 1));
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
  return text && text.length <= LONGEST_MENTION ? { start, end: start + text.length, text, id: null, isDraft: true } : null;
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
