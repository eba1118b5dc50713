"use strict";
// Everything that comes from the service or from the text is put in as text, never as HTML.
const byId = (id) => document.getElementById(id);
const state = { text: "", entities: [], chosen: -1, corrected: new Map(), gold: new Map() };

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

async function ask(path, body) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `${response.status} ${response.statusText}`);
  return answer;
}

function say(text, isError = false) {
  byId("message").textContent = text;
  byId("message").className = isError ? "error" : "";
}

async function link() {
  const text = byId("text").value;
  const type = byId("types").value;
  say("Linking …");
  byId("link").disabled = true;
  try {
    const request = { texts: [text], k: Number(byId("k").value), threshold: Number(byId("threshold").value), utf16: true };
    if (type) request.types = [type];
    const { results } = await ask("link", request);
    Object.assign(state, { text, entities: results[0].entities, chosen: -1, corrected: new Map() });
    say(`${state.entities.length} mentions.`);
    showText();
    if (state.entities.length) choose(0);
    else byId("details").replaceChildren(make("p", { className: "hint", textContent: "No mention was found." }));
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("link").disabled = false;
  }
}

function getId(place) {
  return state.corrected.has(place) ? state.corrected.get(place) : state.entities[place].id;
}

function showText() {
  const parts = [];
  let end = 0;
  state.entities.forEach((entity, place) => {
    parts.push(state.text.slice(end, entity.start));
    const id = getId(place);
    const button = make("button", { type: "button", onclick: () => choose(place) }, entity.text, make("small", { textContent: [id || "NIL", ...(entity.context || [])].join(" · ") }));
    button.className = state.corrected.has(place) ? "corrected" : id ? "" : "unlinked";
    if (entity.context) button.classList.add("no-finding");
    button.setAttribute("aria-pressed", String(place === state.chosen));
    parts.push(button);
    end = entity.end;
  });
  parts.push(state.text.slice(end));
  byId("linked").replaceChildren(...parts);
}

function choose(place) {
  state.chosen = place;
  showText();
  const entity = state.entities[place];
  const id = getId(place);
  const list = make("ol", {}, ...entity.candidates.map((candidate) => showCandidate(candidate, candidate.id === id, place)));
  const nil = make("button", { type: "button", textContent: "No concept is right (NIL)", onclick: () => correct(place, null) });
  const certain = entity.probability === undefined ? null : make("p", { className: "hint", textContent: `Probability of the choice: ${entity.probability.toFixed(2)}` });
  const none = entity.candidates.length ? null : make("p", { className: "hint", textContent: "No candidate." });
  const parts = [make("h2", { textContent: entity.text }), make("small", { textContent: entity.label }), certain, none, list, nil];
  byId("details").replaceChildren(...parts.filter((part) => part !== null));
}

function showCandidate(candidate, isChosen, place) {
  const share = candidate.probability === undefined ? candidate.score : candidate.probability;
  const bar = make("i");
  bar.style.width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  const figures = [`cosine ${candidate.score.toFixed(2)}`];
  if (candidate.probability !== undefined) figures.push(`probability ${candidate.probability.toFixed(2)}`);
  const facts = make("dl");
  const more = make("button", { type: "button", textContent: "Details", onclick: () => showConcept(candidate.concept_id, facts, more) });
  const take = make("button", { type: "button", textContent: isChosen ? "Confirm" : "This one", onclick: () => correct(place, candidate.id) });
  const name = candidate.name === candidate.canonical_name ? candidate.id : `${candidate.id} · “${candidate.name}”`;
  return make(
    "li", { className: isChosen ? "candidate chosen" : "candidate" },
    make("div", {}, make("strong", { textContent: candidate.canonical_name }), make("small", { textContent: figures.join(" · ") })),
    make("div", { className: "bar" }, bar),
    make("small", { textContent: name + (candidate.mention === state.entities[place].text ? "" : ` · looked up as “${candidate.mention}”`) }),
    candidate.reason ? make("p", { className: "hint", textContent: candidate.reason }) : null,
    make("div", { className: "actions" }, take, more),
    facts,
  );
}

async function showConcept(id, facts, button) {
  if (facts.childElementCount) {
    facts.replaceChildren();
    button.textContent = "Details";
    return;
  }
  try {
    const concept = await ask(`concept/${encodeURIComponent(id)}`);
    const rows = [
      ["names", concept.names.join("; ")],
      ["definition", concept.definition],
      ["types", concept.types.map((type) => (type.name === type.id ? type.id : `${type.name} (${type.id})`)).join("; ")],
      ["parents", concept.parents.map((parent) => `${parent.canonical_name} (${parent.id})`).join("; ")],
      ["codes", concept.codes.join("; ")],
    ];
    const filled = rows.filter(([, value]) => value).flatMap(([key, value]) => [make("dt", { textContent: key }), make("dd", { textContent: value })]);
    if (concept.page) filled.push(make("dt", { textContent: "page" }), make("dd", {}, make("a", { href: concept.page, textContent: concept.page, rel: "noreferrer" })));
    facts.replaceChildren(...filled);
    button.textContent = "Less";
  } catch (error) {
    say(error.message, true);
  }
}

async function correct(place, id) {
  state.corrected.set(place, id);
  choose(place);
  const points = (unit) => [...state.text.slice(0, unit)].length;
  // All mentions that were confirmed or corrected in this text; those that nobody has looked at are no gold.
  const spans = [...state.corrected].sort((one, other) => one[0] - other[0]).map(([each, kbId]) => {
    const { start, end, label } = state.entities[each];
    return { start: points(start), end: points(end), label: label || "CONCEPT", kb_id: kbId || "NIL" };
  });
  state.gold.set(state.text, { text: state.text, spans });
  const count = [...state.gold.values()].reduce((sum, row) => sum + row.spans.length, 0);
  byId("corrections").textContent = `Confirmed or corrected: ${count}`;
  byId("download").disabled = false;
  try {
    await ask("gold", state.gold.get(state.text));
    say("Kept by the service.");
  } catch (error) {
    say("Kept in this page: download it before you close it.");
  }
}

function download() {
  const lines = [...state.gold.values()].map((row) => JSON.stringify({ ...row, answer: "accept" }));
  const address = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
  make("a", { href: address, download: "gold.jsonl" }).click();
  URL.revokeObjectURL(address);
}

for (const id of ["k", "threshold"]) {
  byId(id).oninput = () => (byId(`${id}-value`).textContent = id === "k" ? byId(id).value : Number(byId(id).value).toFixed(2));
  byId(id).onchange = link;
}
byId("types").onchange = link;
byId("link").onclick = link;
byId("download").onclick = download;
byId("text").onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) link(); };
ask("health").then((health) => {
  byId("pipeline").textContent = `${health.pipeline}: ${health.concepts.toLocaleString("en")} concepts, ${health.components.join(" → ")}`;
}).catch((error) => say(error.message, true));
ask("types").then((types) => {
  byId("types").parentElement.hidden = types.length === 0;
  byId("types").append(...types.map((type) => make("option", { value: type.id, textContent: type.name })));
}).catch((error) => say(error.message, true));
link();
