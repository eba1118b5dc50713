"use strict";
// The chosen mention: its candidates, and what is known of their concepts.

let listed = []; // the candidates that the panel shows
let panelTurn = 0; // counts what the panel is to show, so that a late answer is not shown
const walks = new WeakMap(); // what was asked for last, of each element with facts

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
  showHandles();
  if (!isNew) return; // the panel shows it already
  showPanel();
  bringIntoView(state.elements[place]);
  keepPlace();
}

function close() {
  choose(-1);
}

function focusMention(place = state.chosen) {
  (state.elements[place] || state.elements[0] || byId("text")).focus({ preventScroll: place < 0 });
}

async function showPanel() {
  panelTurn++;
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
  for (const word of CONTEXTS) {
    byId(word).checked = Boolean(mention.context?.includes(word));
    byId(word).nextElementSibling.hidden = mention.isConfirmed || !byId(word).checked;
  }
  byId("withdraw").hidden = !mention.isConfirmed;
  const { length } = mention.id ? listUndecided(mention.id) : [];
  byId("confirm-concept").hidden = length < 2;
  byId("confirm-concept").textContent = `Confirm all of this concept (${length})`;
  byId("why").textContent = mention.isConfirmed ? "" : explain(mention);
  const facts = [mention.label, ...(mention.context || [])];
  if (mention.isConfirmed) facts.push(mention.rejected ? "not a mention" : mention.id ? "confirmed or corrected" : "no concept is right");
  if (mention.annotator) facts.push(`by ${mention.annotator}`);
  if (mention.rule && !mention.isConfirmed) facts.push("by a rule");
  if (mention.isDraft) facts.push("not added until you choose a concept");
  const isListed = Boolean(findCandidate(mention)); // with its probability
  const what = mention.id ? "probability of this choice" : "chance that no concept is right";
  if (mention.probability !== undefined && !mention.isConfirmed && !isListed) facts.push(`${what} ${percent(mention.probability)}`);
  byId("about").textContent = facts.filter(Boolean).join(" · ");
  // What was chosen by search is none of the candidates.
  const chosen = mention.isConfirmed && mention.id ? mention.candidate || { id: mention.id, concept_id: mention.id, canonical_name: findName(mention) } : null;
  await showCandidates(mention.text, mention.candidates, "No candidate. Search for a concept below.", chosen);
}

function explain({ why }) {
  if (!why) return "";
  const { reason, best, measure, least, label } = why;
  const tellShare = (share) => (share > 0 && share < 0.1 ? `${(100 * share).toFixed(1)}%` : percent(share));
  const [figure, value] = best?.probability === undefined ? ["similarity", best?.score] : ["probability", best.probability];
  const name = best ? ` The best candidate, ${best.canonical_name}, has ${figure} ${tellShare(value)}.` : "";
  if (reason === "unlinked") return `The pipeline does not link mentions with the label ${label}.`;
  if (reason === "filtered") return `The candidates are left out: they are not of the semantic types, or of the sources, that are asked for.${name}`;
  if (reason === "nil") return `The pipeline says that no concept is right: the words are no name of one, or about something else.${name}`;
  const [kind, share] = measure === "score" ? ["similarity", best.score] : ["probability", best.probability ?? 0];
  return `Below the threshold: the best candidate, ${best.canonical_name}, has ${kind} ${tellShare(share)}, and needs ${tellShare(least)}.`;
}

async function showCandidates(words, known, none, chosen = null) {
  const turn = ++panelTurn;
  const mention = state.mentions[state.chosen];
  const list = byId("candidates");
  listed = [];
  try {
    if (!known) list.replaceChildren(make("li", { className: "hint", textContent: "Looking up …" }));
    const found = known || (await lookUp(words));
    const isMissing = chosen && !found.some((candidate) => candidate.id === chosen.id);
    const candidates = isMissing ? [chosen, ...found] : found;
    if (turn !== panelTurn) return false;
    listed = candidates;
    const rows = candidates.map((candidate, place) => makeCandidate(candidate, candidate.id === mention.id, words, place + 1));
    list.replaceChildren(...(rows.length ? rows : [make("li", { className: "hint", textContent: none })]));
    return candidates.length;
  } catch (error) {
    if (turn !== panelTurn) return false;
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
  const first = byId("candidates").querySelector("button");
  if (!first) return;
  if (byId("query").value.trim() === words) byId("query").blur();
  takeFocus(first);
}

function makeCandidate(candidate, isChosen, words, number) {
  const { score, probability } = candidate;
  const figures = score === undefined ? [] : [`similarity ${percent(score)}`];
  if (probability !== undefined) figures.unshift(`probability ${percent(probability)}`);
  const facts = make("div");
  const more = make("button", { type: "button", textContent: "Details", onclick: () => showConcept(candidate.concept_id, facts, more) });
  const take = make("button", { type: "button", textContent: isChosen ? "Confirm" : "This one", className: isChosen ? "main" : "", onclick: () => decide(candidate) });
  for (const button of [take, more]) button.setAttribute("aria-label", `${button.textContent}: ${candidate.canonical_name}`);
  if (number < 10) take.setAttribute("aria-keyshortcuts", number);
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
  walks.delete(facts);
  if (isShown) facts.replaceChildren();
  else await walkTo(id, facts);
  button.textContent = facts.childElementCount ? "Less" : "Details";
  button.setAttribute("aria-expanded", String(facts.childElementCount > 0));
}

async function walkTo(id, facts, trail = []) {
  // Up and down the hierarchy; the trail leads back.
  const walk = {};
  walks.set(facts, walk);
  try {
    const concept = await ask(`concept/${encodeURIComponent(id)}`);
    if (walks.get(facts) !== walk) return;
    const follow = (next) => walkTo(next, facts, [...trail, id]);
    const step = trail.length ? [makeStep(concept, facts, trail)] : [];
    facts.replaceChildren(...step, make("dl", {}, ...listFacts(concept, follow)));
    step[0]?.querySelector("button:enabled").focus();
  } catch (error) {
    say(error.message, true);
  }
}

function makeStep(concept, facts, trail) {
  const candidate = { id: concept.kb_id, concept_id: concept.id, canonical_name: concept.canonical_name };
  const take = make("button", { type: "button", textContent: "This one", disabled: !concept.kb_id, onclick: () => decide(candidate) });
  if (!concept.kb_id) take.title = "It has no code in the source of the pipeline's ids.";
  const back = make("button", { type: "button", textContent: "Back", onclick: () => walkTo(trail.at(-1), facts, trail.slice(0, -1)) });
  take.setAttribute("aria-label", `This one: ${concept.canonical_name}`);
  const name = make("strong", { textContent: concept.canonical_name });
  return make("div", { className: "step" }, name, " ", make("small", { textContent: concept.id }), make("span", { className: "actions" }, take, back));
}

function listFacts(concept, follow) {
  const page = /^https?:\/\//i.test(concept.page || "") ? make("a", { href: concept.page, textContent: concept.page, rel: "noreferrer" }) : "";
  const name = ({ id, canonical_name }) => make("button", { type: "button", title: id, textContent: canonical_name, onclick: () => follow(id) });
  const more = concept.n_children - concept.children.length;
  const rows = [
    ["names", [concept.names.join("; ")]],
    ["definition", [concept.definition]],
    ["types", [concept.types.map((type) => (type.name === type.id ? type.id : `${type.name} (${type.id})`)).join("; ")]],
    ["parents", concept.parents.map(name)],
    ["children", [...concept.children.map(name), ...(more ? [` and ${more} more`] : [])]],
    ["codes", [concept.codes.join("; ")]],
    ["page", [page]],
  ];
  return rows.filter(([, values]) => values.some(Boolean)).flatMap(([key, values]) => [make("dt", { textContent: key }), make("dd", {}, ...values)]);
}
