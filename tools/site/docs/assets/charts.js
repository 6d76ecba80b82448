// Draws the charts of a page with Observable Plot: for each group (a model, say) a bar for each
// framework, labeled with its value. Colors are the site's, which change with dark and light.
"use strict";

function drawChart(place) {
  const {title, own, relative, bars} = JSON.parse(place.dataset.chart);
  const names = [...new Set(bars.map(d => d.bar))], groups = [...new Set(bars.map(d => d.group))];
  const baseOf = new Map();
  for (const {group, bar, value} of bars) if (bar === relative) baseOf.set(group, value);
  const lengthOf = d => relative ? d.value / baseOf.get(d.group) : d.value;
  const isOwn = d => own.includes(d.bar);
  const draw = () => {
    const width = place.clientWidth, isNarrow = width < 500;
    const labelOf = d => isNarrow ? d.text : `${d.text} ${d.bar}`;
    const chart = Plot.plot({
      width,
      marginLeft: isNarrow ? 96 : 150,
      marginRight: 12 + 6.6 * Math.max(...bars.map(d => labelOf(d).length)),
      marginTop: 8,
      height: 44 + 19 * bars.length + 10 * groups.length,
      style: {background: "none", color: "inherit", fontSize: "12px", overflow: "visible"},
      x: {axis: null, domain: [0, Math.max(...bars.map(lengthOf))]},
      y: {axis: null, domain: names},
      fy: {label: null, domain: groups, padding: 0.12},
      marks: [
        Plot.axisFy({anchor: "left", label: null, lineWidth: isNarrow ? 8 : 12}),
        Plot.barX(bars, {x: lengthOf, y: "bar", fy: "group", insetTop: 1, insetBottom: 1,
                         fill: d => isOwn(d) ? "var(--octet-own)" : "var(--octet-other)",
                         title: d => `${d.group}, ${d.bar}: ${d.text}`}),
        Plot.text(bars, {x: lengthOf, y: "bar", fy: "group", textAnchor: "start", dx: 4,
                         fontWeight: d => isOwn(d) ? "bold" : "normal", fill: "currentColor",
                         text: labelOf}),
      ],
    });
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", title);
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    const figure = document.createElement("figure");
    figure.append(caption, chart);
    if (isNarrow) {  // the bars have their numbers alone
      const legend = document.createElement("small");
      legend.textContent = `From above: ${names.join("; ")}.`;
      figure.append(legend);
    }
    place.replaceChildren(figure);
  };
  let drawn = 0;
  new ResizeObserver(() => {
    if (place.clientWidth === drawn) return;
    drawn = place.clientWidth;
    draw();
  }).observe(place);
}

for (const place of document.querySelectorAll(".octet-chart")) drawChart(place);
