"use strict";
// What somebody decides about mentions: kept on the page and by the service, taken back, sent, merged and downloaded.

const tellReplaced = (who) => say(`${who} has corrected the same words. The page shows their decision: choose yours again if it is right.`, true);
const isSame = (one, other) => Boolean(one && other) && ["kb_id", "label", "rejected", "context"].every((key) => String(one[key]) === String(other[key]));

function goldOf(text) {
  if (!state.gold.has(text)) state.gold.set(text, { spans: new Map(), withdrawn: new Map(), seen: new Map(), answers: 0 });
  return state.gold.get(text);
}

function hasUnsaved(text) {
  const { spans, withdrawn } = goldOf(text);
  return withdrawn.size > 0 || [...spans.values()].some((span) => !span.isKept);
}

function put(spans, span) {
  // As in the service's file, a new span replaces those that it overlaps.
  for (const other of [...spans.values()]) if (overlap(other, span)) spans.delete(nameOf(other));
  spans.set(nameOf(span), span);
}

function takeKept(text, kept) {
  // What the service keeps counts, and what it could not keep or forget yet, except where somebody else has been.
  const { spans, withdrawn, seen } = goldOf(text);
  const now = new Map(kept.map((span) => [nameOf(span), span]));
  const changed = [...new Map([...seen, ...now]).values()].filter((span) => !isSame(now.get(nameOf(span)), seen.get(nameOf(span))));
  const isOurs = (place) => !changed.some((span) => overlap(span, place));
  const unsaved = [...spans.values()].filter((span) => !span.isKept);
  const held = unsaved.filter((span) => isOurs(span) || isSame(now.get(nameOf(span)), span));
  let isReplaced = held.length < unsaved.length;
  for (const place of [...withdrawn.values()].filter((place) => !isOurs(place))) {
    withdrawn.delete(nameOf(place));
    isReplaced ||= kept.some((span) => overlap(span, place));
  }
  goldOf(text).answers++;
  seen.clear();
  for (const [name, span] of now) seen.set(name, span);
  const news = changed.filter((span) => !isSame(now.get(nameOf(span)), spans.get(nameOf(span))));
  spans.clear();
  for (const span of kept) if (!withdrawn.has(nameOf(span))) spans.set(nameOf(span), { ...span, isKept: true });
  for (const span of held) put(spans, span);
  // What somebody else has changed since is not taken back.
  if (text === state.text) state.undo = state.undo.filter(({ spans, withdrawn }) => [...spans, ...withdrawn].every(isOurs));
  return { isReplaced, news };
}

async function refresh(text) {
  // Show what others have decided meanwhile, and return who has replaced a decision of ours.
  const { results } = await ask("gold/find", { texts: [text], utf16: true });
  const { isReplaced, news } = takeKept(text, results[0].gold);
  if (!news.length) return null;
  const isKept = results[0].gold.includes(news[0]);
  const who = (isKept && news[0].annotator) || "Somebody else";
  if (text === state.text) {
    const chosen = state.mentions[state.chosen];
    const focused = state.mentions[state.elements.indexOf(document.activeElement)];
    const find = (wanted) => state.mentions.findIndex((mention) => wanted && nameOf(mention) === nameOf(wanted));
    showText();
    if (chosen) choose(find(chosen), news.some((span) => overlap(span, chosen)));
    if (focused) focusMention(find(focused));
    const words = `“${text.slice(news[0].start, news[0].end)}”${news.length > 1 ? ` and ${news.length - 1} more` : ""}`;
    if (isReplaced) tellReplaced(who);
    else say(`${who} has ${isKept ? "corrected" : "withdrawn"} ${words}.`);
  }
  return isReplaced ? who : null;
}

function look() {
  if (!state.keeps || !state.text || state.isLooking || document.hidden) return;
  state.isLooking = true;
  // If the service does not answer, the next correction says so.
  queue("saving", () => refresh(state.text)).catch(() => null).then(() => (state.isLooking = false));
}

function change({ spans, withdrawn }, here = spans[0] || withdrawn[0]) {
  const gold = goldOf(state.text);
  for (const { start, end } of withdrawn) {
    gold.spans.delete(nameOf({ start, end }));
    if (state.keeps) gold.withdrawn.set(nameOf({ start, end }), { start, end });
  }
  for (const span of spans) put(gold.spans, { ...span, isKept: false });
  const inPanel = byId("panel").contains(document.activeElement);
  const inText = state.elements.includes(document.activeElement);
  state.draft = null;
  showText();
  const place = here ? state.mentions.findIndex((mention) => nameOf(mention) === nameOf(here)) : -1;
  choose(place < 0 && here ? state.mentions.findIndex((mention) => overlap(mention, here)) : place);
  const isLeft = inPanel ? document.activeElement.type !== "checkbox" : inText && state.chosen >= 0;
  if (isLeft) focusMention();
}

function makeSpan({ start, end, label, id, name, context, candidate }, changes = {}) {
  const annotator = byId("annotator").value.trim().slice(0, 100) || undefined;
  const before = { kb_id: id || "NIL", name, context, candidate };
  return { start, end, label: label || state.found[0]?.label || "CONCEPT", ...before, ...changes, annotator };
}

function takeStep(spans, here) {
  // All that undoing takes back at once.
  hideSame();
  const replaced = [...goldOf(state.text).spans.values()].filter((other) => spans.some((span) => overlap(other, span)));
  state.undo.push({ spans: replaced, withdrawn: spans });
  change({ spans, withdrawn: [] }, here);
}

function correct(changes) {
  const span = makeSpan(state.mentions[state.chosen], changes);
  takeStep([span]);
  save(state.text, "Saved.");
  // What a text says of one mention, it need not say of others.
  if (!changes.context) offerSame(span);
}

function decide(candidate) {
  correct({ kb_id: candidate.id, name: candidate.canonical_name, candidate });
}

function correctContext() {
  correct({ context: CONTEXTS.filter((word) => byId(word).checked) });
}

function withdraw() {
  const span = goldOf(state.text).spans.get(nameOf(state.mentions[state.chosen]));
  state.undo.push({ spans: [span], withdrawn: [] });
  change({ spans: [], withdrawn: [span] });
  save(state.text, "Withdrawn.");
}

function undo() {
  if (!state.undo.length) return;
  hideSame();
  const step = state.undo.pop();
  if (step.spans.length || step.withdrawn.length) {
    change(step);
    save(state.text, "Undone.");
  }
  if (step.same) state.saving.then(() => undoSame(step.same));
  showCount();
}

function save(text, message) {
  showCount();
  noteChange(text);
  if (!state.keeps) {
    say(`${message === "Saved." ? "Noted" : message.slice(0, -1)}, on this page only: download your corrections before you close it.`);
    return;
  }
  state.told = [message];
  // Each sends what has come together until its turn.
  return queue("saving", async () => {
    const gold = goldOf(text);
    const spans = [...gold.spans.values()].filter((span) => !span.isKept);
    // A mention that has moved twice may no longer overlap what the service keeps of it.
    for (const [name, { start, end }] of gold.seen) {
      if (!gold.spans.has(name) && !spans.some((span) => overlap(span, { start, end }))) gold.withdrawn.set(name, { start, end });
    }
    const withdrawn = [...gold.withdrawn.values()];
    const places = [...spans, ...withdrawn];
    if (!places.length) return;
    const seen = [...gold.seen.values()].filter((span) => places.some((place) => overlap(span, place)));
    try {
      await ask("gold", { text, spans: countPoints(text, spans), withdrawn: countPoints(text, withdrawn), seen: countPoints(text, seen) });
      gold.answers++;
      for (const place of withdrawn) {
        gold.seen.delete(nameOf(place));
        if (gold.withdrawn.get(nameOf(place)) === place) gold.withdrawn.delete(nameOf(place));
      }
      for (const span of spans) {
        put(gold.seen, span);
        span.isKept = true;
      }
      say(...state.told);
    } catch (error) {
      try {
        // The service keeps other corrections of these words than we have seen.
        if (error.status === 412) return await refresh(text);
      } catch {} // the first error says enough
      say(`Not saved yet. Your next correction tries again. ${error.message}`, true);
    }
  });
}

function countPoints(text, spans) {
  // The service and Prodigy count code points, and the browser UTF-16 units.
  const points = (unit) => unit - (text.slice(0, unit).match(/[\ud800-\udbff][\udc00-\udfff]/g) || []).length;
  return spans.map(({ isKept, name, candidate, ...span }) => ({ ...span, start: points(span.start), end: points(span.end) }));
}

function showCount() {
  const isGold = byId("format").value === "gold";
  const count = isGold ? [...state.gold.values()].reduce((sum, { spans }) => sum + spans.size, 0) : listShown().length;
  byId("download").disabled = !count;
  byId("download").textContent = count ? `Download (${count})` : "Download";
  byId("undo").disabled = !state.undo.length;
}

function listShown() {
  return state.mentions.filter((mention) => !mention.isDraft && !mention.rejected);
}

async function download() {
  const format = byId("format").value;
  try {
    if (format === "gold") store("gold.jsonl", dumpGold());
    else {
      const spans = listShown().map(({ start, end, label, id, context }) => ({ start, end, label, kb_id: id || "NIL", context }));
      const { content, left_out, odd } = await ask("export", { text: state.text, format, ...(state.document ? { document: state.document.name } : {}), spans: countPoints(state.text, spans) });
      // Spreadsheets take it for UTF-8 with a mark at its start.
      store(...(format === "csv" ? ["mentions.csv", `\ufeff${content}`] : ["mentions.fhir.jsonl", content]));
      const notes = Object.entries({ ...left_out, ...odd }).map(([kind, count]) => `${kind} (${count})`);
      say(["Downloaded.", notes.length ? `Note: ${notes.join("; ")}.` : ""].join(" ").trim());
    }
  } catch (error) {
    say(error.message, true);
  }
}

function dumpGold() {
  // The lines that the service keeps.
  const lines = [...state.gold].flatMap(([text, { spans }]) => {
    const all = countPoints(text, [...spans.values()]);
    const rejected = all.filter((span) => span.rejected).map(({ rejected, kb_id, ...span }) => span);
    const rows = [[all.filter((span) => !span.rejected), "accept"], [rejected, "reject"]];
    return rows.filter(([spans]) => spans.length).map(([spans, answer]) => JSON.stringify({ text, spans, answer }) + "\n");
  });
  return lines.join("");
}

function store(name, content) {
  const address = URL.createObjectURL(new Blob([content]));
  make("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}
