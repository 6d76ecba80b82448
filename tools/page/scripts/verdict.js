// What the page opens with: whether the result is good, what to look at, and how the errors are
// spread over the ops, which is the legend of the colors too.

const kLevels = {good: "Good", fair: "Fair", poor: "Poor", unknown: "Not measured"};
const verdict = data.verdict || {};

function firstOfVerdict() {
  const index = verdict.ops && verdict.ops.length ? indexOf.get(verdict.ops[0].name) : undefined;
  return index ?? null;
}

function makeVerdict() {
  if (!verdict.level) return;
  const says = byId("says");
  says.append(make("p", {}, make("b", {class: `level ${verdict.level}`}, kLevels[verdict.level]), " ", ...explained(verdict.text)));
  if (verdict.ops.length)
    says.append(make("ol", {class: "links"}, ...verdict.ops.map(op => make("li", {},
      make("button", {type: "button", onclick: () => select(indexOf.get(op.name), "verdict")}, shortText(op.name, 60)), " ", ...explained(op.text)))));
  if (verdict.next) says.append(make("p", {class: "next"}, ...explained(verdict.next)));
}

function entriesOf(metric) {
  const count = name => nodes.filter(node => colorOf(node, metric) === name).length;
  if (metric.id === "status")
    return [["c-good", "quantized", "status=quantized"], ["c3", "float", "status=float"], ["c-none", "neither", "-status=quantized -status=float"]]
      .map(([name, text, filter]) => ({name, text, filter, count: count(name)}));
  return [...metric.texts.map((text, i) => ({name: `c${i}`, text, filter: stepFilter(metric, i), count: count(`c${i}`)})),
          {name: "c-none", text: "none", filter: null, count: count("c-none")}];
}

// A bar for each color: how many ops have it. A click filters them.
function makeLegend() {
  const metric = graphState.metric, entries = entriesOf(metric);
  const most = Math.max(1, ...entries.map(entry => entry.count));
  byId("spread").firstElementChild.replaceChildren("Number of ops: ", ...explained(metric.name),
    metric.lowIsBad ? "; right is worse. " : ". ", "Dashed boxes: float.");
  byId("legend").replaceChildren(...entries.map(({name, text, filter, count}) => {
    const bar = make("i", {class: `swatch ${name}`});
    bar.style.height = `${count ? Math.max(2, 34 * count / most) : 0}px`;
    return make("button", {type: "button", "aria-label": `${count} ops: ${text}`, title: filter ? `Show these ${count} ops` : null,
                           onclick: filter ? () => { showTab("ops"); applyFilter(byId("filter").value === filter ? "" : filter); } : null},
      make("span", {}, String(count)), bar, make("span", {}, text));
  }));
}
