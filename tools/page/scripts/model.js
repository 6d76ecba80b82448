// The data of the page, and the figures by which ops are colored, sorted and filtered.

const data = printable(JSON.parse(byId("data").textContent));
const nodes = (data.nodes || []).map((node, index) => ({
  ...node, index,
  target: node.target || "",
  module: node.module || "",
  status: node.status || "other",
  inputs: node.inputs || [],
  users: [],
}));
const indexOf = new Map();
for (const node of nodes) if (!indexOf.has(node.name)) indexOf.set(node.name, node.index);
for (const node of nodes) {
  node.sources = [...new Set(node.inputs.map(name => indexOf.get(name)).filter(isKnown))];
  for (const source of node.sources) nodes[source].users.push(node.index);
}

const errorOf = (node, kind, measure) => {
  const error = node.errors && node.errors[kind];
  return error ? number(error[measure]) : null;
};
const outputOf = (node, key) => node.output ? number(node.output[key]) : null;
const rangeOf = (node, end) =>
  node.output && Array.isArray(node.output.range) ? number(node.output.range[end]) : null;

// The lowest SQNR of the channels of a weight.
function weightSqnr(node) {
  const all = node.weight && node.weight.sqnr_db;
  if (!Array.isArray(all)) return number(all);
  const known = all.map(number).filter(isKnown);
  return known.length ? known.reduce((a, b) => Math.min(a, b)) : null;
}

// Steps of the colors c0 .. c5, from harmless to bad.
const descending = limits => value => {
  const step = limits.findIndex(limit => value >= limit);
  return step < 0 ? limits.length : step;
};
const ascending = limits => value => {
  const step = limits.findIndex(limit => value < limit);
  return step < 0 ? limits.length : step;
};
const rangesText = (limits, unit, isDescending) => {
  const texts = limits.map((limit, i) => {
    if (i === 0) return (isDescending ? "≥ " : "< ") + limit + unit;
    return isDescending ? `${limit}–${limits[i - 1]}` : `${limits[i - 1]}–${limit}`;
  });
  texts.push((isDescending ? "< " : "≥ ") + limits[limits.length - 1] + unit);
  return texts;
};

// Where values of this kind lie differs from model to model: the steps are sixths of the sorted
// values.
function quantileMetric(metric) {
  const values = nodes.map(metric.value).filter(Number.isFinite).sort((a, b) => a - b);
  const limits = [...new Set([1, 2, 3, 4, 5].map(i => values[Math.floor(i * values.length / 6)]))];
  return {...metric, step: ascending(limits), texts: rangesText(limits.map(x => format(x, 2)), "", false)};
}

// The filter that leaves the ops of one step: `key` is the metric's name in the filter.
function stepFilter(metric, step) {
  if (!metric.key) return null;
  const {limits, key} = metric, [low, high] = metric.lowIsBad ? [step, step - 1] : [step - 1, step];
  return [low in limits ? `${key}>=${limits[low]}` : null, high in limits ? `${key}<${limits[high]}` : null]
    .filter(isKnown).join(" ");
}

function shareMetric(metric) {
  const sum = nodes.reduce((all, node) => all + (metric.value(node) || 0), 0) || 1;
  const limits = [0.1, 0.5, 1, 5, 10];
  const step = ascending(limits);
  return {...metric, step: value => step(100 * value / sum), texts: rangesText(limits, " % of all", false),
          adds: true};
}

const kErrorNames = {accumulated: "all ops quantized", isolated: "this op alone", lowering: "backend against q/dq"};

function allMetrics() {
  const limits = [50, 40, 30, 20, 10];
  const decibels = {limits, step: descending(limits), texts: rangesText(limits, " dB", true), text: formatDecibels, unit: "dB", lowIsBad: true};
  const metrics = [];
  for (const kind of Object.keys(kErrorNames))
    metrics.push({...decibels, id: `${kind}.sqnr_db`, key: kind, name: `SQNR, ${kErrorNames[kind]}`,
                  value: node => errorOf(node, kind, "sqnr_db")});
  metrics.push({...decibels, id: "weight.sqnr_db", key: "weight", name: "SQNR of weights, worst channel", value: weightSqnr});
  metrics.push({id: "clipped", key: "clipped", limits: [0.001, 0.01, 0.1, 1, 10], name: "Clipped share", value: node => outputOf(node, "clipped_share"),
                text: formatShare, step: ascending([1e-5, 1e-4, 1e-3, 1e-2, 1e-1]), unit: "",
                texts: rangesText([0.001, 0.01, 0.1, 1, 10], " %", false)});
  for (const [measure, name] of [["mse", "MSE"], ["max_abs", "Largest error"], ["max_steps", "Largest error in steps"]])
    metrics.push(quantileMetric({id: `accumulated.${measure}`, name: `${name}, all ops quantized`, unit: "",
                                 value: node => errorOf(node, "accumulated", measure), text: format}));
  metrics.push(shareMetric({id: "latency_us", name: "Latency", value: node => number(node.latency_us), text: formatTime, unit: "µs"}));
  metrics.push(shareMetric({id: "macs", name: "Multiply-accumulates", value: node => number(node.macs), text: formatCount, unit: ""}));
  const known = metrics.filter(metric => nodes.some(node => metric.value(node) !== null));
  known.push({id: "status", name: "Quantized or float", value: () => null, text: () => ""});
  return known;
}
const metrics = allMetrics();
const kByError = metrics.filter(metric => metric.id.endsWith(".sqnr_db"));

// The class of a node's color.
function colorOf(node, metric) {
  if (metric.id === "status")
    return node.status === "quantized" ? "c-good" : node.status === "float" ? "c3" : "c-none";
  const value = metric.value(node);
  return value === null ? "c-none" : "c" + Math.min(5, metric.step(value));
}

// ---- filter: words, -words, and column<number, column>number, column=text

const columnKeys = {
  sqnr: node => errorOf(node, "accumulated", "sqnr_db") ?? errorOf(node, "isolated", "sqnr_db") ?? weightSqnr(node),
  accumulated: node => errorOf(node, "accumulated", "sqnr_db"),
  isolated: node => errorOf(node, "isolated", "sqnr_db"),
  lowering: node => errorOf(node, "lowering", "sqnr_db"),
  weight: weightSqnr,
  macs: node => number(node.macs),
  latency: node => number(node.latency_us),
  clipped: node => { const share = outputOf(node, "clipped_share"); return share === null ? null : 100 * share; },
  scale: node => outputOf(node, "scale"),
  rank: node => number(node.rank),
  status: node => node.status,
  op: node => opText(node.target),
  dtype: node => (node.output && node.output.dtype) || node.dtype || "",
  module: node => node.module,
  cause: node => node.cause || "",
  backend: node => node.backend || "",
};

const searchText = node => node.search ||= [node.name, node.target, node.module, node.module_type,
  node.status, node.reason, node.cause, node.backend, node.rule].filter(isKnown).join("\n").toLowerCase();

function testOf(term) {
  const match = /^([a-z]+)(<=|>=|<|>|=)(.*)$/.exec(term);
  const key = match && columnKeys[match[1]];
  if (!key) return node => searchText(node).includes(term);
  const [, , sign, text] = match, limit = parseFloat(text);
  return node => {
    const value = key(node);
    if (value === null || value === undefined) return false;
    if (typeof value === "string") return sign === "=" && value.toLowerCase() === text;
    if (sign === "<") return value < limit;
    if (sign === ">") return value > limit;
    if (sign === "<=") return value <= limit;
    if (sign === ">=") return value >= limit;
    return value === limit;
  };
}

function filterOf(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(isKnown).map(term =>
    term.length > 1 && term.startsWith("-") ? (test => node => !test(node))(testOf(term.slice(1))) : testOf(term));
  return node => tests.every(test => test(node));
}

// What the user has chosen; select() in main.js changes it.
const state = {selected: null};
