"use strict";
// The chosen mention: its candidates, and what is known of their concepts.

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
  bringIntoView(state.elements[place]);
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
