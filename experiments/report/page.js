const data = (id) => JSON.parse(document.getElementById(id).textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const onDark = { "#000000": "#ffffff", "#555555": "#c4c4c4", "#777777": "#b0b0b0", "#888888": "#9a9a9a", "#e4e4e4": "#3a3a3a", "#bbbbbb": "#555555" };

function themed(spec) {
  let text = JSON.stringify(spec);
  if (dark.matches) for (const colour in onDark) text = text.replaceAll(colour, onDark[colour].replace("#", "~"));
  const own = JSON.parse(text.replaceAll('"~', '"#'));
  const ink = dark.matches ? "#dddddd" : "#222222";
  for (const part of ["axis", "legend"]) own.config[part] = { ...own.config[part], labelColor: ink, titleColor: ink };
  if (matchMedia("(max-width: 700px)").matches) own.config.legend = { ...own.config.legend, orient: "bottom", columns: 2, labelLimit: 130 };
  own.config.title = { ...own.config.title, color: ink, subtitleColor: ink };
  own.config.header = { ...own.config.header, labelColor: ink };
  return { ...own, background: "transparent" };
}

function without(spec, hidden) {
  if (Array.isArray(spec)) return spec.map((part) => without(part, hidden));
  if (spec === null || typeof spec !== "object") return spec;
  const kept = Object.fromEntries(Object.entries(spec).map(([key, part]) => [key, without(part, hidden)]));
  if (kept.data && Array.isArray(kept.data.values)) kept.data = { ...kept.data, values: kept.data.values.filter((row) => !hidden.has(row.encoding)) };
  return kept;
}

// the drawing library names the element after the chart's description, in place of the label that it had
function draw(element, spec) {
  const description = (element.dataset.description ??= element.ariaLabel);
  return vegaEmbed(element, { ...themed(spec), description }, { actions: false, renderer: "svg" });
}

const charts = data("charts"), explored = data("explored"), form = document.getElementById("controls");
function explore() {
  const metric = form.elements.metric.value, scale = form.elements.scale.value;
  const hidden = new Set([...form.querySelectorAll("[name=encoding]")].filter((box) => !box.checked).map((box) => box.value));
  draw(document.getElementById("explored-chart"), without(explored[metric + " " + scale], hidden));
}
function drawAll() {
  explore();
  for (const name in charts) draw(document.getElementById(name), charts[name]);
}
form.addEventListener("change", explore);
form.addEventListener("submit", (event) => event.preventDefault());
dark.addEventListener("change", drawAll);
drawAll();

for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => {
    const heading = button.closest("th"), table = heading.closest("table"), body = table.tBodies[0];
    const column = [...heading.parentElement.children].indexOf(heading);
    const down = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down === 1 ? "ascending" : "descending");
    const value = (row) => row.children[column].dataset.value;
    const compare = (a, b) => (a === "" ? 1 : b === "" ? -1 : isNaN(a) || isNaN(b) ? down * a.localeCompare(b) : down * (a - b));
    body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
  });
