"use strict";
// Where a mention starts and ends: moved by keys, and with handles at both ends.
const WORD = /[\p{L}\p{M}\p{N}]+|\S/gu;
// Signs that no mention starts with, and those that none ends with, unless it is moved by characters.
const CLOSING = /^[\p{Pe},;:.!?]/u;
const OPENING = /\p{Ps}$/u;
const bounds = { text: null, word: null, character: null }; // of the text that was last asked for

function listBounds(unit) {
  // An accent or the parts of a picture of several signs stay with what they belong to.
  if (bounds.text !== state.text) {
    const characters = [...new Intl.Segmenter("en").segment(state.text)].filter(({ segment }) => segment.trim());
    const starts = new Set(characters.map(({ index }) => index));
    const ends = new Set(characters.map(({ index, segment }) => index + segment.length));
    const words = [...state.text.matchAll(WORD)];
    const openers = words.filter(({ 0: word }) => !CLOSING.test(word));
    const closers = words.filter(({ 0: word }) => !OPENING.test(word));
    const wordStarts = openers.map(({ index }) => index).filter((place) => starts.has(place));
    const wordEnds = closers.map(({ index, 0: word }) => index + word.length).filter((place) => ends.has(place));
    Object.assign(bounds, {
      text: state.text,
      word: { start: wordStarts, end: wordEnds },
      character: { start: [...starts], end: [...ends] },
    });
  }
  return bounds[unit];
}

function stepBound(side, by, unit) {
  const mention = findMeant();
  if (!mention) return;
  const here = mention[side];
  const places = listBounds(unit)[side];
  const place = by > 0 ? places.find((one) => one > here) : places.findLast((one) => one < here);
  const moved = { start: mention.start, end: mention.end, [side]: place };
  if (place === undefined || moved.start >= moved.end) return say(`The ${side} can't move further.`);
  moveMention(mention, moved);
}

function moveMention(mention, place) {
  const text = state.text.slice(place.start, place.end);
  const name = nameOf(mention);
  const other = [...goldOf(state.text).spans.values()].find((span) => overlap(span, place) && nameOf(span) !== name);
  if (mention.rejected) return say("These words are no mention. Withdraw that first.");
  if (other) return say(`“${state.text.slice(other.start, other.end)}” is confirmed or corrected, and mentions don't overlap.`, true);
  if (text.length > LONGEST_MENTION) return say(`A mention has at most ${LONGEST_MENTION} characters.`);
  if (mention.id || mention.isConfirmed) {
    const concept = mention.id ? { name: findName(mention), candidate: mention.candidate || findCandidate(mention) } : {};
    takeStep([makeSpan(mention, { ...place, ...concept }), ...listLeft(mention, place)], place);
    save(state.text, `Now “${text}”.`);
  } else {
    // Nobody has said that no concept is right.
    state.draft = { ...place, text, label: mention.label, context: mention.context, id: null, isDraft: true };
    showText();
    choose(findPlace(nameOf(place)));
    say(`Now “${text}”: choose its concept.`);
  }
  focusMention();
}

function listLeft(mention, place) {
  // A proposal whose words the mention has left, step by step, does not come back.
  if (state.found.some((entity) => overlap(entity, place))) return [];
  const left = state.found.filter((entity) => overlap(entity, mention));
  const gold = [...goldOf(state.text).spans.values()].filter((span) => nameOf(span) !== nameOf(mention));
  return left.filter((entity) => !gold.some((span) => overlap(span, entity))).map((entity) => makeSpan(entity, rejection));
}

// Handles

const handles = Object.fromEntries(["start", "end"].map((side) => [side, make("span", { className: `handle ${side}`, hidden: true })]));
let drag = null; // the side that moves, where the pointer is from its text, and the place that it leads to

function listTextNodes(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("small")) nodes.push(walker.currentNode);
  return nodes;
}

function findEdges(place) {
  // What the browser draws at the start and the end of a place in the text.
  const [start, end] = [findPoint(place.start), findPoint(place.end, true)];
  if (!start || !end) return null;
  const range = document.createRange();
  range.setStart(...start);
  range.setEnd(...end);
  const boxes = [...range.getClientRects()].filter(({ width }) => width);
  return boxes.length ? { range, start: boxes[0], end: boxes.at(-1) } : null;
}

function findPoint(offset, isEnd = false) {
  for (const element of byId("linked").querySelectorAll("[data-start]")) {
    const [start, end] = [Number(element.dataset.start), Number(element.dataset.end)];
    if (isEnd ? offset <= start || offset > end : offset < start || offset >= end) continue;
    let left = offset - start;
    for (const node of listTextNodes(element)) {
      if (left < node.length || (isEnd && left === node.length)) return [node, left];
      left -= node.length;
    }
  }
  return null;
}

function showHandles(place = state.mentions[state.chosen]) {
  const edges = place && !place.rejected ? findEdges(place) : null;
  const frame = byId("frame").getBoundingClientRect();
  for (const [side, handle] of Object.entries(handles)) {
    const box = edges?.[side];
    // A text of fixed width may have been scrolled.
    const x = box && (side === "start" ? box.left : box.right) - frame.left;
    handle.hidden = !box || x < 0 || x > frame.width;
    if (!handle.hidden) Object.assign(handle.style, { left: `${x}px`, top: `${(side === "start" ? box.top : box.bottom) - frame.top}px` });
  }
}

function findOffsetAt(x, y) {
  const position = document.caretPositionFromPoint?.(x, y);
  const range = position ? null : document.caretRangeFromPoint?.(x, y);
  const node = position?.offsetNode || range?.startContainer;
  return byId("linked").contains(node) ? findOffset(node, position?.offset ?? range.startOffset) : NaN;
}

function startDrag(event, side) {
  const mention = state.mentions[state.chosen];
  const box = findEdges(mention)?.[side];
  if (!box || event.button) return;
  event.preventDefault();
  event.target.setPointerCapture(event.pointerId);
  byId("frame").classList.add("dragging");
  const x = side === "start" ? box.left : box.right;
  drag = { side, mention, x: x - event.clientX, y: (box.top + box.bottom) / 2 - event.clientY, place: null };
}

function moveDrag(event) {
  if (!drag) return;
  const { side, mention } = drag;
  const offset = findOffsetAt(event.clientX + drag.x, event.clientY + drag.y);
  if (Number.isNaN(offset)) return;
  const isInside = (one) => (side === "start" ? one < mention.end : one > mention.start);
  const places = listBounds(event.shiftKey ? "character" : "word")[side].filter(isInside);
  const nearest = places.reduce((best, one) => (Math.abs(one - offset) < Math.abs(best - offset) ? one : best), mention[side]);
  drag.place = { start: mention.start, end: mention.end, [side]: nearest };
  showHandles(drag.place);
  const edges = findEdges(drag.place);
  // The selection shows what the mention will be.
  if (edges) getSelection().setBaseAndExtent(edges.range.startContainer, edges.range.startOffset, edges.range.endContainer, edges.range.endOffset);
}

function endDrag(isDone) {
  if (!drag) return;
  const { mention, place } = drag;
  drag = null;
  byId("frame").classList.remove("dragging");
  getSelection().removeAllRanges();
  const isMoved = isDone && place && nameOf(place) !== nameOf(mention);
  // The corrections of others may have come meanwhile.
  const here = findPlace(nameOf(mention));
  if (isMoved && here >= 0) moveMention(state.mentions[here], place);
  showHandles();
}

for (const [side, handle] of Object.entries(handles)) {
  handle.setAttribute("aria-hidden", "true"); // for those who see it: the keys do the same
  handle.title = `Drag the ${side} of the mention; with Shift by characters`;
  handle.onpointerdown = (event) => startDrag(event, side);
  handle.onpointermove = moveDrag;
  handle.onpointerup = () => endDrag(true);
  handle.onpointercancel = () => endDrag(false);
}
byId("frame").append(...Object.values(handles));
byId("linked").addEventListener("scroll", () => showHandles());
new ResizeObserver(() => showHandles()).observe(byId("linked"));
