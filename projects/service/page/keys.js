"use strict";
// The keys of the page, in one table, from which the dialog is made.
const DIGITS = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
const CONTEXT_KEYS = { "Shift+n": "negated", "Shift+u": "uncertain", "Shift+f": "family", "Shift+h": "historical", "Shift+y": "hypothetical" };
const withoutConcept = { kb_id: "NIL", name: undefined, candidate: undefined };
const rejection = { ...withoutConcept, context: undefined, rejected: true };

// `keys` as `nameKey` names them; `show` is how the dialog names them, if not by `keys`.
const KEYS = [
  { keys: DIGITS, show: ["1 – 9"], does: "choose this candidate, and go on", act: (key) => takeCandidate(Number(key)) },
  { keys: ["c"], does: "confirm what is shown, and go on", act: () => confirmShown() },
  { keys: ["n", "0"], does: "no concept is right; go on", act: () => decideHere(withoutConcept, "no concept is right") },
  { keys: ["x"], does: "not a mention; go on", act: () => decideHere(rejection, "not a mention") },
  { keys: ["a"], does: "confirm all mentions of this concept", act: () => confirmHere() },
  { keys: ["Shift+a"], does: "confirm all mentions that are as certain as the bar says", act: () => confirmCertain() },
  ...Object.entries(CONTEXT_KEYS).map(([key, word]) => ({ keys: [key], does: `context: ${word}, or not`, act: () => toggleContext(word) })),
  { keys: ["s"], does: "start one word to the left", act: () => stepBound("start", -1, "word") },
  { keys: ["d"], does: "start one word to the right", act: () => stepBound("start", 1, "word") },
  { keys: ["e"], does: "end one word to the left", act: () => stepBound("end", -1, "word") },
  { keys: ["r"], does: "end one word to the right", act: () => stepBound("end", 1, "word") },
  { keys: ["Shift+s"], does: "start one character to the left", act: () => stepBound("start", -1, "character") },
  { keys: ["Shift+d"], does: "start one character to the right", act: () => stepBound("start", 1, "character") },
  { keys: ["Shift+e"], does: "end one character to the left", act: () => stepBound("end", -1, "character") },
  { keys: ["Shift+r"], does: "end one character to the right", act: () => stepBound("end", 1, "character") },
  { keys: ["t"], does: "what was corrected last: the same words in this text", act: takeOffer },
  { keys: ["o"], does: "the same words in all documents", act: takeOffer },
  { keys: ["f"], does: "the same words from now on, as a rule", act: takeOffer },
  { keys: ["j"], show: ["j", "→", "↓"], does: "next mention", act: () => stepMention(1) },
  { keys: ["k"], show: ["k", "←", "↑"], does: "mention before", act: () => stepMention(-1) },
  { keys: ["u"], does: "next mention to check, the least certain first", act: () => goToDoubtful() },
  { keys: [], show: ["Enter", "Space"], does: "open the mention that has the focus" },
  { keys: [], show: ["Escape"], does: "close the mention" },
  { keys: [], show: ["Ctrl+Z"], does: "undo" },
  { keys: [], show: ["Alt+→", "Alt+←"], does: "next document, document before" },
  { keys: [], show: ["Alt+Enter"], does: "the document is done; open the next" },
  { keys: ["g"], does: "open or close the guidelines", act: toggleGuidelines },
  { keys: ["?"], does: "show these keys", act: () => byId("keys").showModal() },
];
const ACTS = new Map(KEYS.flatMap(({ keys, act }) => keys.map((key) => [key, act])));

function nameKey({ key, code, shiftKey }) {
  if (DIGITS.includes(key) || key === "0") return key;
  // French keyboards have digits behind the shift key.
  const digit = /^Digit(\d)$/.exec(code || "");
  if (digit && !shiftKey && !/^[a-z?]$/i.test(key)) return digit[1];
  // What the shift key has to do with signs depends on the keyboard.
  return shiftKey && /^\p{L}$/u.test(key) ? `Shift+${key.toLowerCase()}` : key.toLowerCase();
}

const isWriting = (target) => target.matches("textarea, select, input:not([type=checkbox], [type=radio]), [contenteditable]");

function takeFocus(element) {
  // Not from somebody who writes, whose next letters would be keys.
  if (!isWriting(document.activeElement)) element.focus({ preventScroll: true });
}

function onKey(event) {
  if (byId("keys").open) return; // the dialog has keys of its own
  const isUndo = event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey;
  if (event.key === "Escape" && state.chosen >= 0) {
    const name = nameOf(state.mentions[state.chosen]);
    close();
    focusMention(findPlace(name));
  } else if (isUndo && !event.target.matches("textarea, input[type=search]")) {
    event.preventDefault();
    undo();
  } else if (!event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing && !isWriting(event.target)) {
    const key = nameKey(event);
    const act = ACTS.get(key);
    if (!act || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    act(key);
  }
}

function onTextKey(event) {
  const here = state.elements.indexOf(event.target);
  if (here < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
  const last = state.elements.length - 1;
  const targets = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: last };
  if (event.key in targets) {
    goToMention(Math.max(0, Math.min(last, targets[event.key])));
  } else if (event.key === "Enter" || event.key === " ") {
    choose(here);
    (byId("candidates").querySelector(".chosen button, button") || byId("mention")).focus();
  } else return;
  event.preventDefault();
}

// Moving

const findPlace = (name) => state.mentions.findIndex((mention) => nameOf(mention) === name);

function goToMention(place) {
  choose(place);
  focusMention();
}

function tellMention(mention) {
  const share = findCertainty(mention);
  const figure = share === null ? "" : `, ${findMeasure()} ${percent(share)}`;
  const what = mention.rejected ? "not a mention" : mention.id ? findName(mention) : "no concept";
  return `“${mention.text}”: ${[what, ...(mention.context || [])].join(", ")}${figure}${mention.isConfirmed ? ", confirmed" : ""}`;
}

function findFocus() {
  const focused = state.elements.indexOf(document.activeElement);
  return focused >= 0 ? focused : state.chosen;
}

function stepMention(by) {
  if (!state.mentions.length) return say("The text has no mention.");
  const here = findFocus();
  const last = state.mentions.length - 1;
  const place = here < 0 && by < 0 ? last : here + by;
  if (place < 0 || place > last) return say(by > 0 ? "This is the last mention." : "This is the first mention.");
  goToMention(place);
  say(`${tellMention(state.mentions[state.chosen])}.`);
}

function findNextOpen() {
  const places = state.mentions.flatMap((mention, place) => (isUndecided(mention) ? [place] : []));
  return places.find((place) => place > state.chosen) ?? places[0] ?? -1;
}

function goOn() {
  const place = findNextOpen();
  if (place < 0) {
    focusMention();
    return "Nobody has to look at another mention of this text.";
  }
  goToMention(place);
  return `Next: ${tellMention(state.mentions[state.chosen])}.`;
}

function goToDoubtful() {
  const kind = findMeasure();
  const shares = state.mentions.map((mention) => findCertainty(mention, kind));
  const places = shares.flatMap((share, place) => (share === null ? [] : [place]));
  places.sort((one, other) => shares[one] - shares[other] || one - other);
  if (!places.length) return say("No mention with a concept is left to check.");
  goToMention(places[(places.indexOf(state.chosen) + 1) % places.length]);
  say(`${tellMention(state.mentions[state.chosen])}.`);
}

// Deciding

function findMeant() {
  // Whoever presses a key means the mention that has the focus, or else the chosen one.
  const place = findFocus();
  if (place >= 0 && place !== state.chosen) goToMention(place);
  if (place < 0) say("Choose a mention first: j goes to the next one.");
  return state.mentions[state.chosen];
}

function decideHere(changes, what) {
  const mention = findMeant();
  if (!mention) return;
  if (mention.isDraft && changes.rejected) return say("This is no mention yet: Escape takes the selection back.");
  const span = makeSpan(mention, changes);
  takeStep([span], mention);
  save(state.text, `“${mention.text}”: ${what}. ${goOn()}`);
  offerSame(span);
}

function takeCandidate(number) {
  if (!findMeant()) return;
  const candidate = listed[number - 1];
  if (!candidate) return say(`There is no candidate ${number}.`);
  decideHere({ kb_id: candidate.id, name: candidate.canonical_name, candidate }, candidate.canonical_name);
}

function confirmShown() {
  const mention = findMeant();
  if (!mention) return;
  if (mention.isDraft) return say("Choose a concept for it first.");
  if (mention.isConfirmed) return say(goOn());
  decideHere({}, mention.id ? findName(mention) : "no concept is right");
}

function confirmHere() {
  const mention = findMeant();
  if (!mention) return;
  if (!mention.id) return say("This mention has no concept.");
  confirmConcept(mention.id);
}

function toggleContext(word) {
  const mention = findMeant();
  if (!mention) return;
  if (mention.isDraft || mention.rejected) return say("Only a mention with a decision about its concept has a context.");
  const has = Boolean(mention.context?.includes(word));
  const context = CONTEXTS.filter((one) => (one === word ? !has : mention.context?.includes(one)));
  takeStep([makeSpan(mention, { context })], mention);
  focusMention();
  save(state.text, `“${mention.text}”: ${has ? "not " : ""}${word}.`);
}

byId("key-list").append(...KEYS.flatMap(({ keys, show, does }) => {
  const names = show || keys.map((key) => key.replace(/^Shift\+(.)/, (_, letter) => `Shift+${letter.toUpperCase()}`));
  const shown = names.flatMap((name, place) => [place ? " " : "", make("kbd", { textContent: name })]);
  return [make("dt", {}, ...shown), make("dd", { textContent: does })];
}));
byId("show-keys").onclick = () => byId("keys").showModal();
byId("linked").onkeydown = onTextKey;
document.onkeydown = onKey;
