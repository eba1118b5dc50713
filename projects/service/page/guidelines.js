"use strict";
// The guidelines beside the text: opened and closed by a button, or by the key g.
const GUIDELINE_TAGS = new Set("p h3 h4 h5 h6 ul ol li blockquote em strong code pre a br hr table thead tbody tr th td".split(" "));

function makeGuideline(node) {
  if (typeof node === "string") return node;
  if (!GUIDELINE_TAGS.has(node.tag)) return null;
  const element = make(node.tag, {}, ...node.children.map(makeGuideline));
  if (node.tag === "ol") element.start = node.start;
  if (node.tag === "a" && /^https?:\/\//i.test(node.href)) Object.assign(element, { href: node.href, target: "_blank", rel: "noreferrer" });
  return element;
}

async function loadGuidelines() {
  // Again each time, as the file may have changed.
  try {
    const { exists, nodes } = await ask("guidelines");
    byId("guide").hidden = !exists;
    byId("guideline-text").replaceChildren(...nodes.map(makeGuideline).filter(Boolean));
    if (!exists) showGuidelines(false);
  } catch (error) {
    say(error.message, true);
  }
}

function showGuidelines(isOpen) {
  const hadFocus = byId("guidelines").contains(document.activeElement);
  byId("guidelines").hidden = !isOpen;
  byId("guide").setAttribute("aria-expanded", String(isOpen));
  document.body.classList.toggle("guided", isOpen);
  if (isOpen) byId("guidelines-title").focus({ preventScroll: true });
  else if (hadFocus) byId("guide").focus();
}

async function toggleGuidelines() {
  if (!byId("guidelines").hidden) return showGuidelines(false);
  await loadGuidelines();
  if (!byId("guide").hidden) showGuidelines(true);
}

byId("guide").onclick = toggleGuidelines;
byId("guidelines-close").onclick = () => showGuidelines(false);
// Escape closes what the focus is in.
byId("guidelines").onkeydown = (event) => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  showGuidelines(false);
};
