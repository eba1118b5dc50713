"use strict";
// Linking a text, and clicks.

function readOptions() {
  const type = byId("types").value;
  return { k: Number(byId("k").value), ...(type ? { types: [type] } : {}) };
}

function leaveText(text) {
  // No mention of one text stands under the name of another document.
  if (text === state.text) return;
  Object.assign(state, { text: "", found: [], draft: null, undo: [] });
  close();
  hideSame();
  showText();
}

async function link() {
  // A document may have carriage returns, which the box would lose.
  const text = state.document ? state.document.text : byId("text").value;
  const turn = ++state.turn;
  say("Finding concepts …");
  byId("link").disabled = true;
  try {
    const who = await (hasUnsaved(text) ? save(text, "Saved.") : state.saving.then(() => null));
    const threshold = Number(byId("threshold").value);
    const limits = { ...readOptions(), ...(threshold ? { threshold } : {}) };
    const { answers } = goldOf(text);
    const { results } = await ask("link", { texts: [text], ...limits, utf16: true, gold: true });
    if (turn !== state.turn) return; // a later request is on its way
    const [{ entities, gold, has_context }] = results;
    // Whoever confirms such a mention confirms that it has no context.
    if (has_context) for (const entity of entities) entity.context ??= [];
    state.keeps = Boolean(gold);
    // What the service has said of its corrections meanwhile is newer.
    const isReplaced = gold && answers === goldOf(text).answers ? takeKept(text, gold).isReplaced : false;
    if (text !== state.text) state.undo = [];
    Object.assign(state, { text, found: entities, draft: null, lookUps: new Map() });
    close();
    hideSame();
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
  const { lookUps } = state; // with other options there are others
  if (!lookUps.has(words)) {
    const { results } = await ask("link", { mentions: [words], ...readOptions() });
    lookUps.set(words, results[0].candidates);
  }
  return lookUps.get(words);
}

// Clicks

// Nothing of a text stays in the browser, so ask before the page forgets what no service keeps.
window.onbeforeunload = (event) => {
  if ([...state.gold.keys()].some(hasUnsaved)) event.preventDefault();
};
for (const id of ["k", "threshold"]) {
  byId(id).oninput = () => (byId(`${id}-value`).textContent = id === "k" ? byId(id).value : percent(byId(id).value));
}
for (const id of ["k", "threshold", "types"]) byId(id).onchange = link;
const clicks = { link, download, undo, add, withdraw, nil: () => correct(withoutConcept), reject: () => correct(rejection), close: () => onKey({ key: "Escape", target: byId("close") }) };
for (const [id, act] of Object.entries(clicks)) byId(id).onclick = act;
byId("context").append(...CONTEXTS.map((word) => make("label", {}, make("input", { type: "checkbox", id: word, onchange: correctContext }), word, make("small", { textContent: " suggested", hidden: true }))));
byId("format").onchange = showCount;
byId("view").onchange = () => (byId("linked").className = byId("view").value);
if (matchMedia("(max-width: 50rem)").matches) {
  byId("view").value = "compact";
  byId("concepts").open = false;
}
byId("view").onchange();
// The address remembers who corrects which document, and nothing else does.
byId("annotator").value = readAddress().get("name") || "";
byId("annotator").onchange = () => writeAddress({ name: byId("annotator").value.trim() });
window.onfocus = look;
setInterval(look, 1000 * SECONDS);
byId("add").onpointerdown = (event) => event.preventDefault(); // the selection stays
byId("search").onsubmit = search;
byId("text").onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) link(); };
byId("linked").onclick = (event) => {
  const place = state.elements.indexOf(event.target.closest(".mention"));
  if (place >= 0 && getSelection().isCollapsed) choose(place);
};
document.onselectionchange = showSelection;
startTeam().then(() => ask("health")).then((health) => {
  byId("pipeline").textContent = `${health.pipeline}: ${health.concepts.toLocaleString("en")} concepts, ${health.components.join(" → ")}`;
}).catch((error) => say(error.message, true));
ask("types").then((types) => {
  byId("types").parentElement.hidden = types.length === 0;
  byId("types").append(...types.map((type) => make("option", { value: type.id, textContent: type.name })));
}).catch((error) => say(error.message, true));
loadGuidelines();
showRules();
showLearning();
startDocuments();
