"use strict";
// The same words elsewhere: in this text, in all documents, and always, as a rule.

// What is offered: the correction, its words, its other places in this text, and how many there are in documents.
let offer = null;
const SAME_KEYS = { t: "same-text", o: "same-documents", f: "same-always" };

function hideSame() {
  offer = null;
  // The focus stays in the text.
  if (byId("same").contains(document.activeElement)) focusMention();
  byId("same").hidden = true;
}

async function offerSame(span) {
  hideSame();
  const { text } = state;
  const words = text.slice(span.start, span.end);
  if (words.length > LONGEST_MENTION) return;
  const offered = { text, span, words, count: 0 };
  offer = offered;
  try {
    const answer = await ask("same/find", { text, words, utf16: true });
    if (offer !== offered) return; // another correction came meanwhile
    Object.assign(offered, answer);
    showSame();
    await showRules();
    if (offer === offered) showSame();
  } catch (error) {
    if (offer === offered) say(error.message, true);
  }
}

function listHere() {
  // Not where somebody has decided, nor inside of a longer mention.
  const decided = [...goldOf(state.text).spans.values()];
  const isInside = (place) => state.found.some((other) => overlap(other, place) && other.end - other.start > place.end - place.start);
  return offer.here.filter((place) => !decided.some((span) => overlap(span, place)) && !isInside(place));
}

function showSame() {
  const here = listHere().length;
  const all = here + offer.count;
  const mayRule = !byId("rules").hidden;
  byId("same-words").textContent = `“${offer.words}” also:`;
  byId("same-text").textContent = `${here} more in this text`;
  byId("same-text").hidden = !here;
  byId("same-documents").textContent = `${all} in all documents`;
  byId("same-documents").hidden = !offer.count;
  byId("same-always").hidden = !mayRule;
  byId("same").hidden = !(here || offer.count || mayRule);
}

function makeSame() {
  // The correction at the other places of this text. Each keeps its context.
  const contexts = new Map(state.found.map((entity) => [nameOf(entity), entity.context]));
  return listHere().map((place) => ({ ...offer.span, ...place, context: offer.span.rejected ? undefined : contexts.get(nameOf(place)) }));
}

function changeSame(text, spans, message) {
  // The panel stays with the mention that it shows, and another text that was opened meanwhile stays as it is.
  if (text === state.text) change({ spans, withdrawn: [] }, state.mentions[state.chosen] || null);
  else for (const span of spans) put(goldOf(text).spans, { ...span, isKept: false });
  save(text, message);
}

function countSame(count) {
  return count === 1 ? "1 more" : `${count} more`;
}

function correctText() {
  const { text } = offer;
  const spans = makeSame();
  hideSame();
  if (!spans.length) return;
  state.undo.push({ spans: [], withdrawn: spans });
  changeSame(text, spans, `Saved: ${countSame(spans.length)} in this text.`);
}

async function correctDocuments() {
  const { span, words, text } = offer;
  const spans = makeSame();
  hideSame();
  const { kb_id, label, rejected, annotator } = span;
  const correction = { kb_id, label, rejected, annotator };
  try {
    const { changed, count, documents } = await queue("ruling", () => ask("same", { words, correction, scope: "documents", text }));
    const same = { undo: "same/undo", body: { correction, places: changed } };
    // Not where somebody has decided meanwhile.
    const decided = [...goldOf(text).spans.values()];
    const free = spans.filter((place) => !decided.some((one) => overlap(one, place)));
    const told = `Saved: ${countSame(count + free.length)}, in ${tellCount(documents + (free.length ? 1 : 0), "document")}.`;
    if (text === state.text) state.undo.push({ spans: [], withdrawn: free, same });
    if (free.length) changeSame(text, free, told);
    showCount();
    say(told);
  } catch (error) {
    say(error.message, true);
  }
}

async function correctAlways() {
  const { span, words, text } = offer;
  hideSame();
  const meaning = span.rejected ? { skip: true } : { kb_id: span.kb_id };
  try {
    const { rules, replaced } = await queue("ruling", () => ask("rules", { name: words, ...meaning, annotator: span.annotator }));
    listRules(rules);
    const [before] = replaced;
    const same = before ? { undo: "rules", body: describeRule(before) } : { undo: "rules/remove", body: { names: [words] } };
    if (text !== state.text) return;
    state.undo.push({ spans: [], withdrawn: [], same });
    await link();
    const kb_id = span.rejected ? null : span.kb_id;
    const rule = rules.find((rule) => rule.kb_id === kb_id);
    say(`From now on, “${words}” is ${tellMeaning({ kb_id, concept: span.name || rule?.concept })}.`);
  } catch (error) {
    say(error.message, true);
  }
}

async function undoSame({ undo, body }) {
  // Take back what a step has changed beside this text.
  try {
    const { count, rules } = await queue("ruling", () => ask(undo, body));
    if (!rules) return say(`Undone, in all documents: ${count}.`);
    listRules(rules);
    await link();
    say("Undone.");
  } catch (error) {
    say(error.message, true);
  }
}

// Rules

function describeRule({ name, kb_id, author }) {
  return { name, ...(kb_id === null ? { skip: true } : { kb_id }), ...(author ? { annotator: author } : {}) };
}

async function showRules() {
  // Those who may not change rules see none.
  const { rules, keeps } = await queue("ruling", () => ask("rules")).catch(() => ({ rules: [], keeps: false }));
  byId("rules").hidden = !keeps;
  listRules(rules);
}

function listRules(rules) {
  byId("rule-count").textContent = rules.length === 1 ? "1 rule" : `${rules.length} rules`;
  byId("rule-list").replaceChildren(...rules.map(makeRule));
}

function tellMeaning({ kb_id, concept }) {
  if (kb_id === null) return "not a mention";
  return kb_id === "NIL" ? "no concept" : [concept, kb_id].filter(Boolean).join(" · ");
}

function makeRule(rule) {
  const { name, author, made, applies } = rule;
  const facts = [tellMeaning(rule), author && `by ${author}`, made.slice(0, 10), !applies && "does not apply: the terminology lacks this id"];
  const remove = make("button", { type: "button", textContent: "Remove", onclick: () => removeRule(name, remove) });
  remove.setAttribute("aria-label", `Remove the rule: ${name}`);
  return make("li", {}, make("span", {}, make("strong", { textContent: name }), make("small", { textContent: facts.filter(Boolean).join(" · ") })), remove);
}

async function removeRule(name, button) {
  button.disabled = true;
  try {
    const { rules, replaced } = await queue("ruling", () => ask("rules/remove", { names: [name] }));
    listRules(rules);
    state.undo.push({ spans: [], withdrawn: [], same: { undo: "rules", body: describeRule(replaced[0]) } });
    await link();
    takeFocus(byId("rule-list").querySelector("button") || byId("rule-count"));
    say(`The rule for “${name}” is removed.`);
  } catch (error) {
    button.disabled = false;
    say(error.message, true);
  }
}

function takeOffer(key) {
  const button = byId(SAME_KEYS[key]);
  if (byId("same").hidden || button.hidden) say("Nothing is offered: correct a mention first.");
  else button.click();
}

byId("same-text").onclick = correctText;
byId("same-documents").onclick = correctDocuments;
byId("same-always").onclick = correctAlways;
for (const [key, id] of Object.entries(SAME_KEYS)) {
  byId(id).title = `Key: ${key}`;
  byId(id).setAttribute("aria-keyshortcuts", key);
}
