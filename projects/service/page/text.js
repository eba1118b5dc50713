"use strict";
// The linked text: its mentions, their colours, the list of concepts, and selections in it.
// The least share of each colour, and what the legend says.
const LEVELS = {
  probability: [[0.9, "high", "likely right (90% or more)"], [0.5, "medium", "check (50 to 90%)"], [0, "low", "doubtful (below 50%)"]],
  similarity: [[0.95, "high", "same wording, or nearly"], [0.8, "medium", "similar wording"], [0, "low", "less similar: check"]],
};
const OTHERS = [["unlinked", "no concept"], ["corrected", "confirmed or corrected"], ["rejected", "not a mention"], ["no-finding", "negated, or not of this patient now"]];

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
  if (mention.isConfirmed || mention.rule) return "corrected";
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
  showConfirm();
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
    const row = make("button", { type: "button", onclick: lead }, count, `${name} `, make("small", { textContent: id }), " ", figure);
    return make("li", {}, row, makeConfirmAll(id, name));
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
