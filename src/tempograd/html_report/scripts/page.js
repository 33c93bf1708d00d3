// Elements of the page.

const at = (id) => document.getElementById(id);
const element = (tag, text, attributes = {}) => {
  const item = document.createElement(tag);
  item.textContent = text; // never innerHTML: names come from data
  for (const [name, content] of Object.entries(attributes)) if (content !== null) item.setAttribute(name, content);
  return item;
};
// Ranges and dates in one piece: a line may break at blanks, not inside "35–46" or "2026-03-01".
const LONG_WORD = 24;
const unbroken = (text) =>
  text.split(/( )/).map((word) => (/\S[-–]\S/.test(word) && word.length <= LONG_WORD ? element("span", word, { class: "nowrap" }) : word));
const fill = (select, entries) =>
  select.replaceChildren(...entries.map(([key, text]) => element("option", text, { value: key })));
const row = (cells, attributes = {}) => {
  const line = element("tr", "", attributes);
  line.append(...cells);
  return line;
};
