// All that is known of the selected op.

const block = (...children) => make("div", {class: "block"}, ...children);
const factRow = (name, value) => isKnown(value) ? make("tr", {}, make("th", {scope: "row"}, ...explained(name)), make("td", {}, value)) : null;

function opLinks(indices) {
  if (!indices.length) return null;
  const links = make("span", {class: "links"}, ...indices.slice(0, 30).map(index =>
    make("button", {type: "button", onclick: () => select(index, "detail"), title: shortText(nodes[index].name, 300)}, shortText(nodes[index].name, 60))));
  if (indices.length > 30) links.append(`and ${indices.length - 30} others`);
  return links;
}

const kShortErrorNames = {accumulated: "all ops", isolated: "alone", lowering: "backend"};

function errorTable(node) {
  const measures = [["share", "error", formatPercent], ["sqnr_db", "SQNR dB", formatDecibels], ["cosine", "cosine", value => format(value, 6)], ["mse", "MSE", format],
                    ["max_abs", "largest", format], ["max_steps", "steps", format]];
  const kinds = Object.keys(kErrorNames).filter(kind => node.errors && node.errors[kind]);
  const valueOf = (kind, key) => key === "share" ? shareOf(errorOf(node, kind, "sqnr_db")) : errorOf(node, kind, key);
  const used = measures.filter(([key]) => kinds.some(kind => valueOf(kind, key) !== null));
  if (!used.length) return null;
  return block(make("h3", {}, "Error"), make("table", {class: "grid"},
    make("thead", {}, make("tr", {}, make("th"), ...used.map(([, name]) => make("th", {scope: "col"}, ...explained(name))))),
    make("tbody", {}, ...kinds.map(kind => make("tr", {}, make("th", {scope: "row"}, ...explained(kShortErrorNames[kind])),
      ...used.map(([key, , text]) => make("td", {}, text(valueOf(kind, key)))))))));
}

function causeBlock(node) {
  if (!isKnown(node.cause) && !isKnown(node.explanation) && !node.suggestion) return null;
  const result = block(make("h3", {}, "Cause"), make("p", {}, make("b", {}, ...explained(node.cause || "")), node.cause && node.explanation ? ": " : "", ...explained(node.explanation || "")));
  if (!node.suggestion) return result;
  const text = JSON.stringify(node.suggestion, null, 1);
  result.append(make("h3", {}, "Suggestion for --config"), make("pre", {}, text), copyButton("Copy", () => text));
  return result;
}

function outputBlock(node) {
  const output = node.output;
  if (!output) return null;
  const range = Array.isArray(output.range) ? `${format(rangeOf(node, 0), 6)} … ${format(rangeOf(node, 1), 6)}` : null;
  const known = key => { const value = outputOf(node, key); return value === null ? null : format(value, 7); };
  const clipped = outputOf(node, "clipped_share");
  const result = block(make("h3", {}, "Output"), make("table", {class: "facts"}, make("tbody", {},
    factRow("dtype", output.dtype), factRow("scale", known("scale")), factRow("zero point", known("zero_point")),
    factRow("range", range), factRow("observed", Array.isArray(output.observed) ? output.observed.map(x => format(number(x), 6)).join(" … ") : null),
    factRow("observer", output.observer), factRow("clipped", clipped === null ? null : formatShare(clipped)))));
  return result;
}

// Elements of the result in both programs: what distributions do not show.
function samplesBlock(node) {
  const {index, float: floats, quantized} = node.samples || {};
  if (![index, floats, quantized].every(Array.isArray) || !index.length) return null;
  const rows = index.map((place, i) => ({place, float: number(floats[i]), quantized: number(quantized[i])}))
    .map(row => ({...row, error: row.float === row.quantized ? 0 : row.float === null || row.quantized === null ? null : row.quantized - row.float}));
  const sizeOf = row => Math.abs(row.error ?? 0) || 0;
  const worst = rows.reduce((a, b) => sizeOf(b) > sizeOf(a) ? b : a);
  const hasWorst = sizeOf(worst) > 0;
  const step = outputOf(node, "scale"), zero = outputOf(node, "zero_point");
  const integer = value => Number.isFinite(value) ? String(Math.round(value / step) + zero) : "–";
  const hasIntegers = step > 0 && zero !== null && /^(torch\.)?([isu]|u?int)\d/.test(node.output.dtype || "");
  const heads = ["element", "float", ...hasIntegers ? [node.output.dtype, "dequantized"] : ["quantized"], "error"];
  return block(make("h3", {}, "Samples of one batch"), make("table", {class: "grid"},
    make("thead", {}, make("tr", {}, ...heads.map(name => make("th", {scope: "col"}, name)))),
    make("tbody", {}, ...rows.map(row => make("tr", {class: hasWorst && row === worst ? "worst" : null},
      make("th", {scope: "row"}, Array.isArray(row.place) ? row.place.join(", ") : ""), make("td", {}, format(row.float)),
      ...hasIntegers ? [make("td", {}, integer(row.quantized))] : [], make("td", {}, format(row.quantized)), make("td", {}, format(row.error)))))),
    make("p", {}, "With all ops quantized." + (hasWorst ? " Bold: the largest error of the batch." : "")));
}

function weightBlock(node) {
  const weight = node.weight;
  if (!weight) return null;
  const scales = (weight.scale || []).map(number).filter(Number.isFinite);
  const worst = weightSqnr(node);
  const ends = scales.length ? [Math.min(...scales), Math.max(...scales)] : null;
  return block(make("h3", {}, "Weight"), make("table", {class: "facts"}, make("tbody", {},
    factRow("tensor", weight.name), factRow("dtype", weight.dtype), factRow("shape", shapeText(weight.shape)),
    factRow("scales", ends && (ends[0] === ends[1] ? format(ends[0], 6) : `${format(ends[0])} … ${format(ends[1])}`)),
    factRow("worst channel", worst === null ? null : `${formatDecibels(worst)} dB`))), ...weightRangePlots(weight));
}

function tensorsBlock(node) {
  if (!Array.isArray(node.tensors) || !node.tensors.length) return null;
  return block(make("h3", {}, "Tensors and their specs"), ...node.tensors.map(([name, spec]) =>
    make("p", {}, make("span", {class: "mono"}, name), `: ${spec}`)));
}

function showDetail() {
  const panel = byId("detail");
  if (state.selected === null) {
    panel.replaceChildren(make("p", {class: "state-text"}, nodes.length ? "Select an op in the graph or in the table." : "No ops."));
    return;
  }
  const node = nodes[state.selected];
  const members = Array.isArray(node.members) && node.members.length > 1 ? node.members.join(", ") : null;
  const head = make("div", {class: "head"}, make("h2", {}, node.name), make("span", {class: "grow"}),
    location.protocol === "about:" ? null : copyButton("Copy link", () => location.href.split("#")[0] + "#op=" + encodeURIComponent(node.name)),
    make("button", {type: "button", class: "fold", "aria-label": "Show or hide the details", onclick: () => openSheet(!panel.classList.contains("open"))}, "▴"));
  const flow = make("div", {class: "flow"}, ...[errorTable(node), causeBlock(node), block(make("h3", {}, "Op"),
    make("table", {class: "facts"}, make("tbody", {},
      factRow("op", node.target), factRow("module", node.module), factRow("type", node.module_type),
      factRow("status", node.status), factRow("rule", node.rule), factRow("result", [node.dtype, shapeText(node.shape)].filter(isKnown).join("  ")),
      factRow("fused", members), factRow("rank", isKnown(node.rank) ? String(node.rank) : null),
      factRow("MACs", isKnown(node.macs) ? formatCount(number(node.macs)) : null),
      factRow("latency", isKnown(node.latency_us) ? formatTime(number(node.latency_us)) : null),
      factRow("backend", node.backend), factRow("reads", opLinks(node.sources)), factRow("read by", opLinks(node.users))))),
    samplesBlock(node), outputBlock(node), weightBlock(node), tensorsBlock(node)].filter(isKnown));
  if (isKnown(node.stack_trace))
    flow.append(block(make("details", {}, make("summary", {}, "Where it comes from"), make("pre", {}, node.stack_trace))));
  panel.replaceChildren(head, ...[isKnown(node.reason) ? make("p", {class: "reason"}, `Stays float: ${node.reason}`) : null,
    besidePlots(node.output)].filter(isKnown), flow);
  panel.scrollTop = 0;
}
