// Puts the page together: headline, tabs, legend, selection, keys.

const kKindNames = {quantize: "octet quantize", qat: "octet qat", compare: "octet compare", tune: "octet tune"};

// from: "graph", "table", "plot", "detail", "key", "start": who asked, and need not be scrolled.
function select(index, from) {
  state.selected = index;
  showDetail();
  openSheet(index !== null && from !== "start");
  if (from !== "start") writeFragment(index);
  markRows();
  if (index !== null && from !== "table") showRow(index);
  let drawn = null;
  if (index !== null && from !== "graph") {
    if (openAround(index) || from === "start") drawn = relayout({then: () => { if (from === "start") fitGraph(0.9); showBox("n:" + index); }});
    else showBox("n:" + index);
  }
  markGraph();
  return drawn;
}

function makeHead() {
  byId("title").textContent = data.title || "";
  byId("subtitle").textContent = [kKindNames[data.kind] || data.kind, data.subtitle].filter(isKnown).join(" · ");
  for (const [name, text] of data.summary || []) {
    const last = byId("summary").lastElementChild;  // a row without a name continues the one above
    if (!name && last) last.lastElementChild.append(make("br"), String(text));
    else byId("summary").append(make("div", {}, make("dt", {}, ...explained(name)), make("dd", {}, ...explained(text))));
  }
  byId("figures").hidden = !byId("summary").childElementCount;
  byId("words").append(...Object.entries(kWords).map(([word, text]) => make("div", {}, make("dt", {}, word), make("dd", {}, text))));
  byId("licenses").textContent = byId("license-texts").textContent;
  for (const name of ["help", "licenses"])
    byId(`${name}-button`).addEventListener("click", () => {
      byId(name).hidden = !byId(name).hidden;
      byId(`${name}-button`).setAttribute("aria-expanded", String(!byId(name).hidden));
    });
}

function makeMetrics() {
  byId("metric").append(...metrics.map((metric, i) => make("option", {value: i, title: meaningOf(metric.name)}, metric.name)));
  // what was measured of the program says more than what is known of its tensors
  const first = metrics.findIndex(metric => metric.id.startsWith("accumulated.") || metric.id.startsWith("isolated."));
  graphState.metric = metrics[first < 0 ? metrics.length - 1 : first];
  byId("metric").value = metrics.indexOf(graphState.metric);
  byId("metric").addEventListener("change", event => {
    graphState.metric = metrics[event.target.value];
    makeLegend();
    recolorRows();
    relayout({keep: state.selected === null ? null : boxOf(state.selected).id});
  });
  makeLegend();
}

const panelMakers = {
  ops: {name: "Ops", has: () => true, fill: null},
  errors: {name: "Errors", has: () => ["accumulated", "isolated", "lowering"].some(kind => nodes.some(node => errorOf(node, kind, "sqnr_db") !== null)), fill: errorPlots},
  weights: {name: "Weights", has: () => nodes.some(node => weightSqnr(node) !== null), fill: weightPlots},
  latency: {name: "Latency", has: () => nodes.some(node => isKnown(node.latency_us)), fill: latencyPlots},
  pareto: {name: "Pareto front", has: () => Array.isArray(data.pareto) && data.pareto.length > 0, fill: paretoPlots},
  notes: {name: "Notes", has: () => Array.isArray(data.notes) && data.notes.length > 0,
          fill: panel => panel.append(make("ul", {}, ...data.notes.map(note => make("li", {}, ...explained(note)))))},
};
const filled = new Set(["ops"]);

function fillPanel(id) {
  if (filled.has(id)) return;
  filled.add(id);
  panelMakers[id].fill(byId(`panel-${id}`));
}

function showTab(id) {
  for (const tab of byId("tabs").children) {
    const isShown = tab.id === `tab-${id}`;
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
  }
  for (const name of Object.keys(panelMakers)) byId(`panel-${name}`).hidden = name !== id;
  fillPanel(id);
}

function makeTabs() {
  const shown = Object.keys(panelMakers).filter(id => panelMakers[id].has());
  for (const id of shown) {
    byId(`panel-${id}`).dataset.title = panelMakers[id].name;
    byId("tabs").append(make("button", {type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, onclick: () => showTab(id)},
      id === "notes" ? `Notes (${data.notes.length})` : panelMakers[id].name));
  }
  byId("tabs").addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const at = shown.findIndex(id => document.activeElement.id === `tab-${id}`);
    const next = shown[(at + step + shown.length) % shown.length];
    showTab(next);
    byId(`tab-${next}`).focus();
  });
  showTab("ops");
}

function applyFilter(text) {
  byId("filter").value = text;
  graphState.matches = filterOf(text);
  fillTable();
  markGraph();
}

// ---- the address of a selection: #op=NAME

function writeFragment(index) {
  try {
    history.replaceState(null, "", index === null ? location.pathname + location.search : "#op=" + encodeURIComponent(nodes[index].name));
  } catch {}  // a page within a notebook has no address
}

function indexOfFragment() {
  const match = /^#op=(.+)$/.exec(location.hash);
  try { return indexOf.get(decodeURIComponent(match[1])) ?? null; }
  catch { return null; }
}

addEventListener("hashchange", () => {
  const index = indexOfFragment();
  if (index !== null) select(index, "key");
});

// On a narrow screen the details are a sheet at the lower edge.
function openSheet(isOpen) {
  byId("detail").classList.toggle("open", isOpen);
}

// The op whose error comes next after the selected one's.
function byError() {
  const metric = graphState.metric.id === "status" ? kByError[0] : graphState.metric;
  if (!metric) return [];
  const sign = metric.lowIsBad ? 1 : -1;
  return nodes.filter(node => metric.value(node) !== null).sort((a, b) => sign * (metric.value(a) - metric.value(b)) || a.index - b.index);
}

function selectNextWorse() {
  const order = byError();
  if (!order.length) return;
  const at = order.findIndex(node => node.index === state.selected);
  select(order[(at + 1) % order.length].index, "key");
}

const keys = {
  "/": () => byId("filter").focus(),
  g: () => svg.select("g[tabindex='0']").node()?.focus(),
  t: () => { showTab("ops"); tableBody.querySelector("tr[tabindex='0']")?.focus(); },
  w: selectNextWorse,
  "+": () => svg.call(zoom.scaleBy, 1.3),
  "-": () => svg.call(zoom.scaleBy, 1 / 1.3),
  "0": () => fitGraph(),
  Escape: () => {
    byId("filter").blur();
    applyFilter("");
    select(null, "key");
  },
};

document.addEventListener("keydown", event => {
  const isTyping = event.target.matches("input, select") && event.key !== "Escape";
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});

// On paper: everything, one after the other. Afterwards as before.
let beforePrint = null;
addEventListener("beforeprint", () => {
  beforePrint = d3.zoomTransform(svg.node());
  Object.keys(panelMakers).filter(id => panelMakers[id].has()).forEach(fillPanel);
  byId("figures").open = true;
  addAllRows();
  const size = graphState.size;
  if (!size) return;
  world.attr("transform", null).classed("far", false);
  // as wide as the paper, as long as a few sheets
  const width = Math.max(1, size.width), height = Math.max(1, size.height);
  const scale = Math.min(0.8, 980 / width, 2600 / height);
  svg.attr("viewBox", `0 0 ${width} ${height}`).style("width", `${width * scale}px`).style("height", `${height * scale}px`);
});
addEventListener("afterprint", () => {
  svg.attr("viewBox", null).style("width", null).style("height", null);
  if (beforePrint) svg.call(zoom.transform, beforePrint);
});

makeHead();
makeMetrics();
makeVerdict();
makeTabs();
makeTable();
showDetail();
byId("filter").addEventListener("input", event => applyFilter(event.target.value));
byId("unfold-all").addEventListener("click", () => setAllOpen(true));
byId("fold-all").addEventListener("click", () => setAllOpen(false));
byId("fit").addEventListener("click", () => fitGraph());
byId("zoom-in").addEventListener("click", keys["+"]);
byId("zoom-out").addEventListener("click", keys["-"]);
byId("save-csv").addEventListener("click", () => saveFile("ops.csv", "text/csv", csvText()));
const first = indexOfFragment() ?? firstOfVerdict() ?? byError()[0]?.index ?? null;
const drawn = first === null ? relayout({then: () => fitGraph(0.9)}) : select(first, "start");
drawn.catch(error => { byId("graph-state").textContent = String(error); throw error; });
