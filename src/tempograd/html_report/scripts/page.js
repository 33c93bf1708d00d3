// Elements of the page.

const at = (id) => document.getElementById(id);
const element = (tag, text, attributes = {}) => {
  const item = document.createElement(tag);
  item.textContent = text; // never innerHTML: names come from data
  for (const [name, content] of Object.entries(attributes)) if (content !== null) item.setAttribute(name, content);
  return item;
};
const fill = (select, entries) =>
  select.replaceChildren(...entries.map(([key, text]) => element("option", text, { value: key })));
const row = (cells, attributes = {}) => {
  const line = element("tr", "", attributes);
  line.append(...cells);
  return line;
};
