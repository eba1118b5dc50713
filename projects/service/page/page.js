"use strict";
// Everything that comes from the service or from the text is put in as text, never as HTML.
const byId = (id) => document.getElementById(id);
// Of each text, its confirmed spans by place. `saving` ends when the service has answered to the last correction.
const state = { text: "", entities: [], chosen: -1, gold: new Map(), saving: Promise.resolve() };
const nameOf = (span) => `${span.start}-${span.end}`;
const confirmedOf = (text) => state.gold.get(text) || new Map();

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
    const request = { texts: [text], k: Number(byId("k").value), threshold: Number(byId("threshold").value), utf16: true, gold: true };
    if (type) request.types = [type];
    await state.saving;
    const { results } = await ask("link", request);
    const [{ entities, gold }] = results;
    // What the service keeps counts, and what it could not keep yet. Without `--gold`, the page alone holds it.
    if (gold) {
      const held = [...confirmedOf(text).values()].filter((span) => !span.isKept);
      state.gold.set(text, new Map(gold.map((span) => [nameOf(span), { ...span, isKept: true }])));
      for (const span of held) confirm(text, span);
    }
    Object.assign(state, { text, entities: addConfirmed(text, entities), chosen: -1 });
    say(`${state.entities.length} mentions.`);
    showCount();
    showText();
    if (state.entities.length) choose(0);
    else byId("details").replaceChildren(make("p", { className: "hint", textContent: "No mention was found." }));
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("link").disabled = false;
  }
}

function overlap(one, other) {
  return one.start < other.end && other.start < one.end;
}

function confirm(text, span) {
  // As in the service's file, a new span replaces those that it overlaps.
  const others = [...confirmedOf(text)].filter(([, other]) => !overlap(other, span));
  state.gold.set(text, new Map([...others, [nameOf(span), span]]));
}

function addConfirmed(text, entities) {
  // A confirmed span that the pipeline does not find (any longer) is shown in place of what it finds there.
  const confirmed = confirmedOf(text);
  const found = entities.filter((entity) => confirmed.has(nameOf(entity)) || ![...confirmed.values()].some((span) => overlap(span, entity)));
  const names = new Set(found.map(nameOf));
  const others = [...confirmed.values()].filter((span) => !names.has(nameOf(span)));
  const added = others.map((span) => ({ ...span, text: text.slice(span.start, span.end), id: null, candidates: [] }));
  return [...found, ...added].sort((one, other) => one.start - other.start);
}

function getConfirmed(place) {
  return confirmedOf(state.text).get(nameOf(state.entities[place]));
}

function getId(place) {
  const span = getConfirmed(place);
  return span ? (span.kb_id === "NIL" ? null : span.kb_id) : state.entities[place].id;
}

function showText() {
  const parts = [];
  let end = 0;
  state.entities.forEach((entity, place) => {
    parts.push(state.text.slice(end, entity.start));
    const id = getId(place);
    const button = make("button", { type: "button", onclick: () => choose(place) }, entity.text, make("small", { textContent: [id || "NIL", ...(entity.context || [])].join(" · ") }));
    button.className = getConfirmed(place) ? "corrected" : id ? "" : "unlinked";
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
  const undo = getConfirmed(place) ? make("button", { type: "button", textContent: "Withdraw", onclick: () => withdraw(place) }) : null;
  const parts = [make("h2", { textContent: entity.text }), make("small", { textContent: entity.label }), certain, none, list, make("div", { className: "actions" }, nil, undo)];
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
    if (/^https?:\/\//i.test(concept.page || "")) filled.push(make("dt", { textContent: "page" }), make("dd", {}, make("a", { href: concept.page, textContent: concept.page, rel: "noreferrer" })));
    facts.replaceChildren(...filled);
    button.textContent = "Less";
  } catch (error) {
    say(error.message, true);
  }
}

function correct(place, id) {
  const { start, end, label } = state.entities[place];
  confirm(state.text, { start, end, label: label || "CONCEPT", kb_id: id || "NIL", isKept: false });
  choose(place);
  // Only what was confirmed or corrected; mentions that nobody has looked at are no gold.
  const spans = [...confirmedOf(state.text).values()].filter((span) => !span.isKept);
  const succeed = () => spans.forEach((span) => (span.isKept = true));
  save(state.text, { spans }, succeed, () => "Held by this page only, until you close or reload it: download it.");
}

async function withdraw(place) {
  const text = state.text;
  const span = getConfirmed(place);
  await state.saving;
  confirmedOf(text).delete(nameOf(span));
  if (text === state.text) choose(place);
  const withdrawn = [{ start: span.start, end: span.end }];
  if (span.isKept) save(text, { withdrawn }, () => {}, () => (confirm(text, span), "Still kept by the service."));
  showCount();
}

function save(text, changes, succeed, fail) {
  showCount();
  const body = { text };
  for (const [name, spans] of Object.entries(changes)) body[name] = countPoints(text, spans);
  // One after the other, so that the last one counts.
  state.saving = state.saving.then(() => ask("gold", body)).then(() => {
    succeed();
    say(changes.spans ? "Kept by the service." : "Withdrawn.");
  }).catch((error) => say(`${fail()} ${error.message}`, true)).then(() => {
    showText();
    showCount();
  });
}

function countPoints(text, spans) {
  const points = (unit) => [...text.slice(0, unit)].length;
  return spans.map(({ isKept, ...span }) => ({ ...span, start: points(span.start), end: points(span.end) }));
}

function showCount() {
  const count = [...state.gold.values()].reduce((sum, spans) => sum + spans.size, 0);
  byId("corrections").textContent = count ? `Confirmed or corrected: ${count}` : "No corrections.";
  byId("download").disabled = !count;
}

function download() {
  const texts = [...state.gold].filter(([, spans]) => spans.size);
  const lines = texts.map(([text, spans]) => JSON.stringify({ text, spans: countPoints(text, [...spans.values()]), answer: "accept" }));
  const address = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
  make("a", { href: address, download: "gold.jsonl" }).click();
  URL.revokeObjectURL(address);
}

// Nothing of a text stays in the browser, so ask before the page forgets what no service keeps.
window.onbeforeunload = (event) => {
  if ([...state.gold.values()].some((spans) => [...spans.values()].some((span) => !span.isKept))) event.preventDefault();
};
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
