// The canvas: boxes and wires as SVG, zoom, and the keyboard.

const svg = d3.select("#canvas");
const world = svg.append("g");
const layers = {groups: world.append("g"), wires: world.append("g"), boxes: world.append("g")};
const graphState = {metric: metrics[0], matches: () => true, size: null, boxes: new Map(), focused: null};

const textWidth = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, size) => {
    context.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
    return context.measureText(text).width;
  };
})();

const zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", event => {
  world.attr("transform", event.transform);
  world.classed("far", event.transform.k < 0.42);
});
svg.call(zoom).on("dblclick.zoom", null);

function worstOf(group, metric) {
  const known = group.ops.filter(node => metric.value(node) !== null);
  if (!known.length) return null;
  if (metric.adds) return known.reduce((sum, node) => sum + metric.value(node), 0);
  const pick = metric.lowIsBad ? Math.min : Math.max;
  return known.map(metric.value).reduce((a, b) => pick(a, b));
}

const withUnit = (metric, value) => metric.lowIsBad ? `${metric.text(value)} dB` : metric.text(value);

function linesOf(item) {
  const metric = graphState.metric;
  if (item.node) {
    const node = item.node, value = metric.value(node);
    const dtype = (node.status === "quantized" && node.output && node.output.dtype) || node.dtype || "";
    const second = [dtype, value === null ? shapeText(node.shape) : withUnit(metric, value)].filter(isKnown).join("  ");
    const isEnd = node.status === "input" || node.status === "output";
    return [shortText(isEnd ? node.name : opText(node.target) || node.name, 30), shortText(second, 34)];
  }
  const floats = item.ops.filter(node => node.status === "float").length;
  const first = shortText(item.type ? `${item.label}  ${item.type}` : item.label, 44);
  const value = worstOf(item, metric);
  const second = [`${item.ops.length} ops`, floats ? `${floats} float` : null,
                  value === null ? null : withUnit(metric, value)].filter(isKnown).join(", ");
  return [first, second];
}

function sizeOf(item) {
  const [first, second] = linesOf(item);
  if (!item.node && item.isOpen) return {width: textWidth(first, 12) + 50, height: 0};
  const width = Math.max(textWidth(first, 12), textWidth(second, 11)) + (item.node ? 16 : 34);
  return {width: Math.ceil(Math.max(width, 54)), height: 36};
}

function classOf(item) {
  const metric = graphState.metric;
  if (item.node) return `op ${item.node.status === "float" ? "float " : ""}${colorOf(item.node, metric)}`;
  if (item.isOpen) return "module open c-none";
  if (metric.id === "status") {
    const compute = item.ops.filter(node => node.status === "quantized" || node.status === "float");
    const isFloat = node => node.status === "float";
    return `module ${!compute.length ? "c-none" : compute.every(isFloat) ? "c3" : compute.some(isFloat) ? "c1" : "c-good"}`;
  }
  const value = worstOf(item, metric);
  if (value === null) return "module c-none";
  return `module c${Math.min(5, metric.step(value))}`;
}

function labelOf(item) {
  if (!item.node) return `module ${item.label}${item.type ? ", " + item.type : ""}, ${linesOf(item)[1]}`;
  const node = item.node, value = graphState.metric.value(node);
  return [node.name, opText(node.target), node.status, value === null ? null : graphState.metric.text(value)]
    .filter(isKnown).join(", ");
}

function drawBox(box) {
  const item = itemOf.get(box.id), group = d3.select(this);
  const isOpen = !item.node && item.isOpen;
  group.attr("class", classOf(item)).attr("data-id", box.id).attr("tabindex", -1)
    .attr("transform", `translate(${box.x},${box.y})`).attr("role", "button")
    .attr("aria-expanded", item.node ? null : isOpen).attr("aria-label", shortText(labelOf(item), 300));
  group.selectAll("*").remove();
  group.append("rect").attr("class", "box").attr("width", box.width).attr("height", box.height)
    .attr("rx", item.node ? (item.node.status === "input" || item.node.status === "output" ? 18 : 3) : 5);
  const [first, second] = linesOf(item);
  const text = (x, y, string, name) => group.append("text").attr("class", name).attr("x", x).attr("y", y).text(string);
  if (!item.node) text(8, 15, isOpen ? "▾" : "▸", "sign");
  text(item.node ? 8 : 22, 15, first, "first");
  if (!isOpen) text(item.node ? 8 : 22, 29, second, "second");
  group.append("title").text(shortText(item.node ? [item.node.name, item.node.target, item.node.module, item.node.reason]
    .filter(isKnown).join("\n") : `${chainOf(item).map(x => x.label).filter(isKnown).join(".")}\n${second}`, 1000));
}

const wirePath = d3.line().curve(d3.curveBasis);

function drawAll(result) {
  graphState.size = result;
  graphState.boxes = new Map(result.boxes.map(box => [box.id, box]));
  const shown = result.boxes.filter(box => itemOf.get(box.id) !== tree);
  const isOpen = box => !itemOf.get(box.id).node && itemOf.get(box.id).isOpen;
  for (const [layer, boxes] of [[layers.groups, shown.filter(isOpen)], [layers.boxes, shown.filter(box => !isOpen(box))]])
    layer.selectAll("g[data-id]").data(boxes, box => box.id).join("g").order().each(drawBox);
  layers.wires.selectAll("path.wire").data(result.wires).join("path").attr("class", "wire")
    .attr("d", wire => wirePath(wire.points));
  layers.wires.selectAll("path.tip").data(result.wires.filter(wire => wire.to !== "out")).join("path").attr("class", "tip")
    .attr("d", ({points}) => {
      const [x, y] = points[points.length - 1];
      return `M${x - 3},${y - 5}L${x + 3},${y - 5}L${x},${y}Z`;
    });
  markGraph();
  const focused = graphState.focused && elementOf(graphState.focused);
  (focused || svg.select("g[data-id]").node())?.setAttribute("tabindex", 0);
}

function elementOf(id) {
  return [layers.boxes, layers.groups].map(layer =>
    layer.selectAll("g[data-id]").filter(box => box.id === id).node()).find(isKnown) || null;
}

// Selection and filter.
function markGraph() {
  const selected = state.selected === null ? null : boxOf(state.selected);
  world.selectAll("g[data-id]")
    .classed("selected", box => selected !== null && box.id === selected.id)
    .attr("aria-pressed", box => selected !== null && box.id === selected.id ? "true" : null)
    .classed("faded", box => {
      const item = itemOf.get(box.id);
      if (!item.node && item.isOpen) return false;
      return item.node ? !graphState.matches(item.node) : !item.ops.some(graphState.matches);
    });
  layers.wires.selectAll("path.wire").classed("near", wire =>
    state.selected !== null && wire.edges.some(edge => edge.includes(state.selected)));
}

async function relayout({keep = null, then = null} = {}) {
  const before = keep && graphState.boxes.get(keep);
  byId("graph-state").textContent = "laying out …";
  const result = await layouter(visibleTree(sizeOf));
  if (result === null) return;
  byId("graph-state").textContent = "";
  drawAll(result);
  const after = keep && graphState.boxes.get(keep);
  if (before && after) {  // what was clicked stays where it was
    const at = d3.zoomTransform(svg.node());
    svg.call(zoom.transform, at.translate(before.x - after.x, before.y - after.y));
  }
  if (then) then();
  document.body.dataset.layouts = Number(document.body.dataset.layouts || 0) + 1;
}

function fitGraph(least = 0) {
  const {width, height} = svg.node().getBoundingClientRect(), size = graphState.size;
  if (!size || !size.height || !width || !height) return;
  const scale = Math.min(1.2, Math.max(least, Math.min((width - 16) / size.width, (height - 16) / size.height)));
  const y = size.height * scale < height ? (height - size.height * scale) / 2 : 8;
  svg.call(zoom.transform, d3.zoomIdentity.translate((width - size.width * scale) / 2, y).scale(scale));
}

function showBox(id) {
  const box = graphState.boxes.get(id), at = d3.zoomTransform(svg.node());
  if (!box) return;
  const {width, height} = svg.node().getBoundingClientRect();
  const scale = Math.max(at.k, 0.6);
  const x = at.applyX(box.x + box.width / 2), y = at.applyY(box.y + Math.min(box.height, 34) / 2);
  if (scale === at.k && x > 60 && x < width - 60 && y > 30 && y < height - 30) return;
  svg.call(zoom.transform, d3.zoomIdentity
    .translate(width / 2 - (box.x + box.width / 2) * scale, height / 2 - (box.y + 17) * scale).scale(scale));
}

function toggleGroup(item) {
  item.isOpen = !item.isOpen;
  graphState.focused = item.id;
  const hadFocus = byId("canvas").contains(document.activeElement);
  return relayout({keep: item.id, then: () => { if (hadFocus) focusBox(item.id); }});
}

function setAllOpen(isOpen) {
  for (const group of allGroups) group.isOpen = isOpen;
  return relayout({then: () => fitGraph(isOpen ? 0.45 : 0.75)});
}

function focusBox(id) {
  const element = elementOf(id);
  if (!element) return;
  world.selectAll("g[tabindex='0']").attr("tabindex", -1);
  element.setAttribute("tabindex", 0);
  graphState.focused = id;
  showBox(id);
  element.focus({preventScroll: true});
}

function activateBox(id) {
  const item = itemOf.get(id);
  if (item.node) select(item.node.index, "graph");
  else toggleGroup(item);
}

// The nearest box in the direction of an arrow key; open groups count with their headline.
function neighborOf(id, key) {
  const center = box => [box.x + box.width / 2, box.y + Math.min(17, box.height / 2)];
  const [x, y] = center(graphState.boxes.get(id));
  const isVertical = key === "ArrowUp" || key === "ArrowDown", sign = key === "ArrowUp" || key === "ArrowLeft" ? -1 : 1;
  let best = null, least = Infinity;
  for (const box of graphState.boxes.values()) {
    if (box.id === id || itemOf.get(box.id) === tree) continue;
    const [bx, by] = center(box);
    const along = sign * (isVertical ? by - y : bx - x), across = Math.abs(isVertical ? bx - x : by - y);
    if (along <= 2) continue;
    const distance = along + (isVertical ? 0.6 : 3) * across;
    if (distance < least) [best, least] = [box.id, distance];
  }
  return best;
}

byId("canvas").addEventListener("click", event => {
  const box = event.target.closest("g[data-id]");
  if (box) { graphState.focused = box.dataset.id; activateBox(box.dataset.id); }
});
byId("canvas").addEventListener("keydown", event => {
  const box = event.target.closest("g[data-id]");
  if (!box || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") activateBox(box.dataset.id);
  else if (event.key.startsWith("Arrow")) {
    const next = neighborOf(box.dataset.id, event.key);
    if (next) focusBox(next);
  } else return;
  event.preventDefault();
});
