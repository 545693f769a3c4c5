const parsed = (id) => JSON.parse(document.getElementById(id).textContent);
const charts = parsed("charts"), explorable = parsed("explorable");
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const ON_DARK = new Map([
  ["#000000", "#ffffff"], ["#555555", "#c4c4c4"], ["#666666", "#b0b0b0"],
  ["#888888", "#9a9a9a"], ["#e4e4e4", "#3a3a3a"], ["#bbbbbb", "#555555"],
]);

// a copy of a chart in which `change` replaces every value that it does not return as it is
function mapped(value, change) {
  const changed = change(value);
  if (changed === null || typeof changed !== "object") return changed;
  if (Array.isArray(changed)) return changed.map((part) => mapped(part, change));
  const parts = Object.entries(changed).map(([key, part]) => [key, mapped(part, change)]);
  return Object.fromEntries(parts);
}

function themed(spec) {
  const own = mapped(spec, (value) => (dark.matches && ON_DARK.get(value)) || value);
  const ink = dark.matches ? "#dddddd" : "#222222";
  const { config } = own;
  for (const part of ["axis", "legend"]) Object.assign(config[part], { labelColor: ink, titleColor: ink });
  if (narrow.matches) Object.assign(config.legend, { orient: "bottom", columns: 2, labelLimit: 130 });
  config.title = { ...config.title, color: ink, subtitleColor: ink };
  Object.assign(config.header, { labelColor: ink });
  return { ...own, background: "transparent" };
}

function without(spec, hidden) {
  const shown = (row) => !hidden.has(row.encoding);
  return mapped(spec, (part) =>
    Array.isArray(part?.values) && part.values[0]?.encoding !== undefined
      ? { ...part, values: part.values.filter(shown) }
      : part,
  );
}

// the drawing library labels the element with the description, in place of its own label
function draw(element, spec) {
  const description = (element.dataset.description ??= element.ariaLabel);
  return vegaEmbed(element, { ...themed(spec), description }, { actions: false, renderer: "svg" });
}

const form = document.getElementById("controls");
function explore() {
  const chart = explorable[`${form.elements.metric.value} ${form.elements.scale.value}`];
  const boxes = [...form.querySelectorAll("[name=encoding]")];
  const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
  draw(document.getElementById("explorable-chart"), without(chart, hidden));
}
function drawAll() {
  explore();
  for (const name in charts) draw(document.getElementById(name), charts[name]);
}
form.addEventListener("change", explore);
form.addEventListener("submit", (event) => event.preventDefault());
dark.addEventListener("change", drawAll);
drawAll();

function sort(heading) {
  const headings = [...heading.parentElement.children], body = heading.closest("table").tBodies[0];
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of headings) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  const value = (row) => row.children[headings.indexOf(heading)].dataset.value;
  const compare = (a, b) => {
    if (a === "" || b === "") return a === "" ? 1 : -1; // no value comes last
    return direction * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  };
  body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
}
for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sort(button.closest("th")));
