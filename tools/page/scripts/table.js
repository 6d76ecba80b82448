// The table of the ops: sorted by a click on a heading, filtered by the field above it.

const fixedColumns = [
  {id: "index", name: "#", isNumber: true, value: node => node.index, text: node => String(node.index)},
  {id: "name", name: "name", isMono: true, value: node => node.name},
  {id: "op", name: "op", isMono: true, value: node => opText(node.target)},
  {id: "module", name: "module", isMono: true, value: node => node.module},
  {id: "status", name: "status", value: node => node.status},
];
const numberColumn = (id, name, value, text = format) =>
  ({id, name, isNumber: true, value, text: node => text(value(node))});
const textColumn = (id, name, value) => ({id, name, value});
const columns = [
  ...fixedColumns,
  textColumn("reason", "reason for float", node => node.reason || ""),
  numberColumn("rank", "rank", node => number(node.rank)),
  ...Object.entries({accumulated: "SQNR dB", isolated: "alone dB", lowering: "backend dB"}).map(([kind, name]) =>
    numberColumn(kind, name, node => errorOf(node, kind, "sqnr_db"), formatDecibels)),
  numberColumn("max_steps", "steps", node => errorOf(node, "accumulated", "max_steps")),
  numberColumn("cosine", "cosine", node => errorOf(node, "accumulated", "cosine"), value => value === null ? "–" : value.toFixed(5)),
  textColumn("cause", "cause", node => node.cause || ""),
  numberColumn("clipped", "clipped", node => outputOf(node, "clipped_share"), formatShare),
  textColumn("dtype", "dtype", node => (node.output && node.output.dtype) || node.dtype || ""),
  textColumn("shape", "shape", node => shapeText(node.shape)),
  numberColumn("scale", "scale", node => outputOf(node, "scale")),
  numberColumn("zero_point", "zero point", node => outputOf(node, "zero_point")),
  numberColumn("low", "from", node => rangeOf(node, 0)),
  numberColumn("high", "to", node => rangeOf(node, 1)),
  numberColumn("weight", "weight dB", weightSqnr, formatDecibels),
  numberColumn("macs", "MACs", node => number(node.macs), formatCount),
  numberColumn("latency", "µs", node => number(node.latency_us), value => value === null ? "–" : value.toFixed(1)),
  textColumn("backend", "backend", node => node.backend || ""),
].filter(column => fixedColumns.includes(column) || nodes.some(node => isKnown(column.value(node))));

const kFree = new Set(["name", "module", "reason", "cause"]);  // may have lines on paper
const table = {sort: {id: "index", sign: 1}, rows: new Map(), shown: [], pending: 0};
const tableBody = byId("ops").tBodies[0];
const kFirstRows = 100, kRowsAtOnce = 250;

function rowOf(index) {
  if (table.rows.has(index)) return table.rows.get(index);
  const node = nodes[index];
  const row = make("tr", {"data-index": index, tabindex: -1, "aria-selected": index === state.selected});
  for (const column of columns) {
    const text = column.text ? column.text(node) : column.value(node);
    const cell = make("td", {class: (column.isNumber ? "number" : "text") + (column.isMono ? " mono" : "") + (kFree.has(column.id) ? " free" : "")});
    if (column.id === "name") cell.append(make("i", {class: `swatch ${colorOf(node, graphState.metric)}`}));
    cell.append(text.length > 200 ? shortText(text, 200) : text);
    if (!column.isNumber && text.length > 24) cell.title = shortText(text, 1000);
    row.append(cell);
  }
  table.rows.set(index, row);
  return row;
}

function sortedIndices() {
  const {id, sign} = table.sort;
  const column = columns.find(candidate => candidate.id === id);
  const keys = nodes.map(column.value);
  const order = column.isNumber ? (a, b) => sign * (keys[a] - keys[b] || 0)
    : (a, b) => sign * kCollator.compare(keys[a], keys[b]);
  const isGap = index => !isKnown(keys[index]);  // last, whichever way it is sorted
  return nodes.map(node => node.index).sort((a, b) => isGap(a) - isGap(b) || (isGap(a) ? 0 : order(a, b)) || a - b);
}
const kCollator = new Intl.Collator("en", {numeric: true});

// The first rows at once, the others when there is time.
function fillTable() {
  cancelIdle(table.pending);
  table.shown = sortedIndices().filter(index => graphState.matches(nodes[index]));
  tableBody.replaceChildren(...table.shown.slice(0, kFirstRows).map(rowOf));
  byId("count").textContent = table.shown.length === nodes.length ? `${nodes.length} ops`
    : `${table.shown.length} of ${nodes.length} ops`;
  byId("panel-ops").scrollTop = 0;
  markRows();
  table.pending = whenIdle(addRows);
}

function addRows() {
  const from = tableBody.rows.length;
  tableBody.append(...table.shown.slice(from, from + kRowsAtOnce).map(rowOf));
  if (tableBody.rows.length < table.shown.length) table.pending = whenIdle(addRows);
}

function addAllRows() {
  cancelIdle(table.pending);
  tableBody.append(...table.shown.slice(tableBody.rows.length).map(rowOf));
}

function markRows() {
  for (const row of tableBody.querySelectorAll("tr[aria-selected=true]")) row.setAttribute("aria-selected", "false");
  for (const row of tableBody.querySelectorAll("tr[tabindex='0']")) row.tabIndex = -1;
  const row = state.selected === null ? null : table.rows.get(state.selected);
  if (row && row.isConnected) row.setAttribute("aria-selected", "true");
  const first = row && row.isConnected ? row : tableBody.rows[0];
  if (first) first.tabIndex = 0;
}

function showRow(index) {
  const at = table.shown.indexOf(index);
  if (at < 0) return;
  while (tableBody.rows.length <= at) addRows();
  const row = rowOf(index), panel = byId("panel-ops");
  const top = row.offsetTop - byId("ops").tHead.offsetHeight, bottom = row.offsetTop + row.offsetHeight;
  if (top < panel.scrollTop) panel.scrollTop = top;
  else if (bottom > panel.scrollTop + panel.clientHeight) panel.scrollTop = bottom - panel.clientHeight;
}

function recolorRows() {
  for (const [index, row] of table.rows)
    row.querySelector("i.swatch").className = `swatch ${colorOf(nodes[index], graphState.metric)}`;
}

function sortBy(id) {
  const isSame = table.sort.id === id;
  table.sort = {id, sign: isSame ? -table.sort.sign : 1};
  markHeads();
  fillTable();
}

function markHeads() {
  for (const head of byId("ops").tHead.rows[0].cells)
    head.setAttribute("aria-sort", head.dataset.id !== table.sort.id ? "none"
      : table.sort.sign > 0 ? "ascending" : "descending");
}

// The columns in the order in which they get room; the button shows all.
const kByWorth = ["name", "accumulated", "status", "weight", "clipped", "cause", "isolated", "rank", "lowering", "latency", "reason", "op", "index", "backend", "macs",
                  "shape", "dtype", "module", "max_steps", "scale", "zero_point", "low", "high", "cosine"];
const columnStyle = make("style");

function fitColumns() {
  const panel = byId("panel-ops"), heads = [...byId("ops").tHead.rows[0].cells];
  if (!panel.clientWidth) return;
  columnStyle.textContent = "";
  if (byId("all-columns").getAttribute("aria-pressed") === "true") return;
  let room = panel.clientWidth;
  const widths = new Map(heads.map(head => [head.dataset.id, head.offsetWidth]));
  const shown = new Set();
  for (const id of kByWorth) {
    if (!widths.has(id) || (shown.size && widths.get(id) > room)) continue;
    shown.add(id);
    room -= widths.get(id);
  }
  const hidden = heads.map((head, i) => shown.has(head.dataset.id) ? null : `:nth-child(${i + 1})`).filter(isKnown);
  if (hidden.length) columnStyle.textContent = `@media screen { #ops :is(th, td):is(${hidden.join(", ")}) { display: none; } }`;
}

function makeTable() {
  byId("ops").setAttribute("role", "grid");
  byId("ops").setAttribute("aria-label", "Ops");
  byId("ops").tHead.append(make("tr", {}, ...columns.map(column =>
    make("th", {scope: "col", class: column.isNumber ? "number" : "text", "data-id": column.id, "data-name": column.name},
         make("button", {type: "button", title: meaningOf(column.name), onclick: () => sortBy(column.id)}, column.name)))));
  document.head.append(columnStyle);
  new ResizeObserver(fitColumns).observe(byId("panel-ops"));
  byId("all-columns").addEventListener("click", event => {
    const isOn = event.target.getAttribute("aria-pressed") === "true";
    event.target.setAttribute("aria-pressed", String(!isOn));
    fitColumns();
  });
  if (nodes.some(node => isKnown(node.rank))) table.sort = {id: "rank", sign: 1};
  markHeads();
  fillTable();
  tableBody.addEventListener("click", event => {
    const row = event.target.closest("tr");
    if (row) select(Number(row.dataset.index), "table");
  });
  tableBody.addEventListener("keydown", event => {
    const row = event.target.closest("tr");
    if (!row) return;
    const at = table.shown.indexOf(Number(row.dataset.index));
    const next = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: table.shown.length - 1, PageDown: at + 10,
                  PageUp: at - 10, Enter: at, " ": at}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const index = table.shown[Math.max(0, Math.min(table.shown.length - 1, next))];
    select(index, "table");
    rowOf(index).focus({preventScroll: true});
  });
}

function csvText() {
  const quote = value => `"${String(value ?? "").replaceAll('"', '""')}"`;
  // a sheet takes what begins so for a formula
  const cell = value => typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? quote("'" + value) : quote(value);
  return [columns.map(column => quote(column.name)).join(","),
    ...table.shown.map(index => columns.map(column => cell(column.value(nodes[index]))).join(","))].join("\r\n") + "\r\n";
}
