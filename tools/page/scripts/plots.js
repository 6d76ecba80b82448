// The plots, made by Observable Plot: along the program, and of one op.

const kPlotStyle = {background: "none", color: "currentColor", fontSize: "11px", fontFamily: "inherit"};

// caption: a text, or parts of one.
function figure(caption, plot) {
  return make("figure", {}, make("figcaption", {}, ...(Array.isArray(caption) ? caption : explained(caption))), plot);
}

// The op under the pointer is selected by a click.
function selectable(plot) {
  plot.addEventListener("click", () => {
    if (plot.value && plot.value.index !== undefined) select(plot.value.index, "plot");
  });
  return plot;
}

const panelWidth = () => Math.max(320, byId("panels").clientWidth - 28);
const tipText = node => `${shortText(node.name, 60)}\n${shortText(node.module, 60)}`;
const kKindColors = {accumulated: "var(--limit)", isolated: "var(--clip)", lowering: "var(--soft)", weights: "var(--limit)"};
const kKindSymbols = {accumulated: "circle", isolated: "triangle", lowering: "square", weights: "circle"};

function decibelPlot(kinds) {
  const rows = kinds.flatMap(({kind, value}) => nodes.map(node =>
    ({index: node.index, kind, value: value(node), node})).filter(row => row.value !== null));
  const finite = rows.filter(row => Number.isFinite(row.value));
  const equal = rows.length - finite.length;
  const plot = Plot.plot({
    width: panelWidth(), height: 260, marginLeft: 44, style: kPlotStyle, ariaLabel: "SQNR along the program",
    x: {label: "op, in the order of the program", labelAnchor: "center"},
    y: {label: "SQNR, dB", grid: true, nice: true},
    color: {domain: kinds.map(({kind}) => kind), range: kinds.map(({kind}) => kKindColors[kind])},
    symbol: {domain: kinds.map(({kind}) => kind), range: kinds.map(({kind}) => kKindSymbols[kind])},
    marks: [
      ...(finite.length > 600 ? [] : kinds).map(({kind}) => Plot.line(finite.filter(row => row.kind === kind),
        {x: "index", y: "value", stroke: kKindColors[kind], strokeOpacity: 0.35})),
      Plot.dot(finite, {x: "index", y: "value", symbol: "kind", stroke: "kind", r: finite.length > 600 ? 2 : 3}),
      Plot.tip(finite, Plot.pointer({x: "index", y: "value",
        title: row => `${tipText(row.node)}\n${row.kind}: ${formatDecibels(row.value)} dB`})),
    ],
  });
  const names = kinds.map(({kind}) => `${{circle: "●", triangle: "▲", square: "■"}[kKindSymbols[kind]]} ${kErrorNames[kind] || kind}`);
  const against = kinds[0].kind === "weights" ? "float weights" : "float program";
  const caption = `Signal to noise against the ${against}; higher is better. ${kinds.length > 1 ? names.join("   ") + "." : ""}` +
    (equal ? ` ${equal} equal, not shown.` : "");
  return figure(caption, selectable(plot));
}

function errorPlots(panel) {
  const kinds = Object.keys(kErrorNames).map(kind => ({kind, value: node => errorOf(node, kind, "sqnr_db")}))
    .filter(({value}) => nodes.some(node => value(node) !== null));
  if (kinds.length) panel.append(decibelPlot(kinds));
}

function weightPlots(panel) {
  if (nodes.some(node => weightSqnr(node) !== null))
    panel.append(decibelPlot([{kind: "weights", value: weightSqnr}]),
                 make("p", {}, "The worst channel of each weight; the details of an op show all its channels."));
}

function latencyPlots(panel) {
  const known = nodes.map(node => ({index: node.index, node, value: number(node.latency_us)}))
    .filter(row => row.value !== null).sort((a, b) => b.value - a.value);
  if (!known.length) return;
  const sum = known.reduce((all, row) => all + row.value, 0);
  const shown = known.slice(0, 40);
  const part = shown.reduce((all, row) => all + row.value, 0) / (sum || 1);
  const plot = Plot.plot({
    width: panelWidth(), height: 50 + 18 * shown.length, marginLeft: 180, marginRight: 110, marginTop: 30, style: kPlotStyle, ariaLabel: "Latency of the slowest ops",
    x: {label: "µs", grid: true, axis: "top"}, y: {label: null, domain: shown.map(row => row.index),
      tickFormat: index => shortText(nodes[index].name, 28)},
    marks: [
      Plot.barX(shown, {x: "value", y: "index", fill: row => row.node.status === "float" ? "var(--e3)" : "var(--bar)"}),
      Plot.text(shown, {x: "value", y: "index", dx: 4, textAnchor: "start",
        text: row => `${row.value.toFixed(1)}  ${shortText(row.node.backend || "", 20)}`}),
      Plot.tip(shown, Plot.pointerY({x: "value", y: "index", title: row => `${tipText(row.node)}\n${formatTime(row.value)}`})),
      Plot.ruleX([0]),
    ],
  });
  panel.append(figure(`${formatTime(sum)} in all; the slowest ${shown.length} ops have ${(100 * part).toFixed(0)} %. Float ops are orange.`, selectable(plot)));
}

function paretoPlots(panel) {
  const points = (data.pareto || []).map((point, index) => ({...point, number: index + 1, x: number(point.latency_ms), y: number(point.sqnr_db)}));
  const shown = points.filter(point => Number.isFinite(point.x) && Number.isFinite(point.y)).sort((a, b) => a.x - b.x);
  if (!points.length) return;
  let best = -Infinity;
  const front = shown.filter(point => point.y > best && ((best = point.y), true));
  const plot = Plot.plot({
    width: Math.min(panelWidth(), 760), height: 300, marginLeft: 48, style: kPlotStyle, ariaLabel: "Latency against error",
    x: {label: "latency, ms (lower is better)", nice: true}, y: {label: "SQNR, dB (higher is better)", grid: true, nice: true},
    marks: [
      Plot.line(front, {x: "x", y: "y", curve: "step-after", stroke: "var(--limit)"}),
      Plot.dot(shown, {x: "x", y: "y", r: 4, stroke: "currentColor", fill: point => front.includes(point) ? "var(--limit)" : "var(--back)"}),
      Plot.dot(shown.filter(point => point.chosen), {x: "x", y: "y", r: 9, stroke: "var(--clip)", strokeWidth: 2.5}),
      Plot.text(shown, {x: "x", y: "y", dy: -12, text: point => String(point.number)}),
      Plot.tip(shown, Plot.pointer({x: "x", y: "y", title: point =>
        `${point.number}: ${shortText(point.label || "", 80)}\n${format(point.x)} ms, ${formatDecibels(point.y)} dB`})),
    ],
  });
  const rows = points.map(point => make("tr", {},
    make("td", {}, String(point.number)), make("td", {}, point.chosen ? "chosen" : front.includes(point) ? "front" : ""),
    make("td", {class: "number"}, format(point.x)), make("td", {class: "number"}, formatDecibels(point.y)),
    make("td", {}, point.label || ""),
    make("td", {}, point.config ? make("details", {}, make("summary", {}, "config"), make("pre", {}, JSON.stringify(point.config, null, 1))) : "")));
  panel.append(figure("Settings that were tried. Filled: no other setting is both faster and closer to float. Ring: chosen.", plot),
    make("table", {class: "points"}, make("thead", {}, make("tr", {}, ...["", "", "ms", "dB", "settings", ""].map(name => make("th", {}, name)))),
         make("tbody", {}, ...rows)));
}

// ---- of one op

// The values of calibration beside the same values as integers stand for them: bins of one width
// there, a bar for each integer here, both in parts of all elements per step.
function besidePlots(output) {
  const {min, max, counts} = (output && output.histogram) || {};
  if (!Array.isArray(counts) || !counts.length) return null;
  const width = (max - min) / counts.length, all = counts.reduce((a, b) => a + b, 0) || 1;
  const bins = counts.map((count, i) => ({count, from: min + i * width, to: min + (i + 1) * width}));
  const [low, high] = [rangeOf({output}, 0), rangeOf({output}, 1)], step = outputOf({output}, "scale");
  const ends = [low, high].filter(Number.isFinite);
  if (ends.length < 2 || !(step > 0) || (high - low) / step > 70000)
    return figure("The values that calibration saw", distribution(bins, [min, max], [], "Float values"));
  const isOut = bin => bin.to <= low || bin.from >= high;
  const float = bins.map(bin => ({...bin, isOut: isOut(bin), share: bin.count / all * (width > 0 ? step / width : 1)}));
  const levels = levelsOf(bins, low, high, step), used = levels.filter(count => count >= 0.5).length;
  const integers = levels.map((count, i) => ({from: low + (i - 0.5) * step, to: low + (i + 0.5) * step, count, share: count / all}));
  const x = [Math.min(min, low - step), Math.max(max, high + step)], y = Math.max(...float.map(bin => bin.share), ...integers.map(bin => bin.share));
  const clipped = outputOf({output}, "clipped_share");
  return make("div", {class: "pair"},
    figure(["Float: the values that ", ...explained("calibration"), " saw. Dashed: the ", ...explained("range"), "; orange: ", ...explained("clipped"), "."],
           distribution(float, x, ends, "Float values", y)),
    figure([`${output.dtype || "int8"}: the same values, rounded to ${levels.length} `, ...explained("steps"), ` of ${format(step)}; ${used} occur` +
            (clipped ? `, ${formatShare(clipped)} moved to the ends.` : ".")], distribution(integers, x, ends, "Quantized values", y)));
}

// How many elements each integer gets, if values are spread evenly within a bin.
function levelsOf(bins, low, high, step) {
  const levels = new Array(Math.round((high - low) / step) + 1).fill(0), last = levels.length - 1;
  const levelOf = value => Math.max(0, Math.min(last, Math.round((value - low) / step)));
  for (const {count, from, to} of bins) {
    if (!count) continue;
    for (let level = levelOf(from); level <= levelOf(to); ++level) {
      const begin = level === 0 ? -Infinity : low + (level - 0.5) * step, end = level === last ? Infinity : low + (level + 0.5) * step;
      levels[level] += to > from ? count * Math.max(0, Math.min(to, end) - Math.max(from, begin)) / (to - from) : count;
    }
  }
  return levels;
}

function distribution(bins, domain, ends, label, most) {
  return Plot.plot({
    width: 340, height: 140, marginLeft: 44, marginBottom: 24, style: kPlotStyle, ariaLabel: label,
    x: {label: null, domain},
    y: {type: "sqrt", label: null, ticks: 3, domain: most ? [0, most] : undefined, tickFormat: most ? "~p" : "~s"},
    marks: [
      Plot.rectY(bins.filter(bin => bin.count > 0), {x1: "from", x2: "to", y: most ? "share" : "count", inset: 0, shapeRendering: "crispEdges",
        fill: bin => bin.isOut ? "var(--clip)" : "var(--bar)"}),
      Plot.ruleX(ends, {stroke: "var(--limit)", strokeWidth: 1.5, strokeDasharray: "4 3"}),
      Plot.ruleY([0]),
    ],
  });
}

function weightRangePlots(weight) {
  const lows = (weight.min || []).map(number), highs = (weight.max || []).map(number);
  const channels = lows.map((low, i) => ({channel: i, low, high: highs[i]})).filter(row => row.low !== null && isKnown(row.high));
  const known = Array.isArray(weight.sqnr_db) ? weight.sqnr_db.map(number).map((value, channel) => ({channel, value})).filter(row => Number.isFinite(row.value)) : [];
  const figures = [];
  const count = weight.channels || channels.length;
  const where = weight.axis === null || weight.axis === undefined ? "" : ` along axis ${weight.axis}`;
  const joined = weight.channels ? `, ${channels.length} shown: neighbors are joined` : "";
  const x = {label: "channel", domain: [-0.5, Math.max(lows.length, known.length) - 0.5], ticks: 5};
  if (channels.length)
    figures.push(figure(`Weight, least to largest value of each channel${where} (${count}${joined})`, Plot.plot({
      width: 340, height: 140, marginLeft: 44, marginBottom: 30, style: kPlotStyle, x, y: {label: null, nice: true, ticks: 5}, ariaLabel: "Ranges of the weight's channels",
      marks: [Plot.ruleX(channels, {x: "channel", y1: "low", y2: "high", stroke: "var(--bar)", strokeWidth: Math.max(0.8, Math.min(6, 260 / channels.length))}), Plot.ruleY([0])],
    })));
  if (known.length > 1)
    figures.push(figure("SQNR of each channel, dB", Plot.plot({
      width: 340, height: 110, marginLeft: 44, marginBottom: 30, style: kPlotStyle, x, y: {label: null, nice: true, ticks: 4, grid: true}, ariaLabel: "SQNR of the weight's channels",
      marks: [Plot.dot(known, {x: "channel", y: "value", r: 1.8, fill: "var(--limit)"})],
    })));
  return figures;
}
