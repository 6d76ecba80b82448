// Where boxes and wires lie: dagre for each open group by itself, from the inside out, in a worker
// where the browser has one.

// Self-contained: the worker gets its text. Returns {boxes: [{id, x, y, width, height}], wires:
// [{points: [[x, y]], edges}], width, height}.
function layOut(root, dagre) {
  const kHead = 24, kPad = 10;
  const place = item => {  // sizes, and positions within the group
    if (!item.children) return;
    item.children.forEach(place);
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({rankdir: "TB", nodesep: 14, edgesep: 8, ranksep: 26, ranker: item.children.length > 60 ? "longest-path" : "network-simplex"});
    for (const child of item.children) graph.setNode(child.id, {width: child.width, height: child.height});
    for (const wire of item.wires) {
      for (const end of [wire.from, wire.to])
        if (!graph.hasNode(end)) graph.setNode(end, {width: 1, height: 1});
      graph.setEdge(wire.from, wire.to, {weight: Math.min(wire.edges.length, 4)});
    }
    for (const [end, isIn] of [["in", true], ["out", false]])  // at the border, whatever else ends there
      if (graph.hasNode(end))
        for (const child of item.children)
          if (!(isIn ? graph.inEdges(child.id) : graph.outEdges(child.id)).length)
            graph.setEdge(isIn ? end : child.id, isIn ? child.id : end, {weight: 0});
    if (item.children.length) dagre.layout(graph);
    const size = item.children.length ? graph.graph() : {}, isRoot = item === root;
    const dx = kPad, dy = isRoot ? kPad : kHead + (graph.hasNode("in") ? 0 : 4);
    for (const child of item.children) {
      const at = graph.node(child.id);
      child.x = at.x - at.width / 2 + dx;
      child.y = at.y - at.height / 2 + dy;
    }
    for (const wire of item.wires)
      wire.points = graph.edge(wire.from, wire.to).points.map(point => [point.x + dx, point.y + dy]);
    const least = item.width;
    item.width = Math.max((size.width || 0) + 2 * kPad, least);
    const shift = (item.width - (size.width || 0) - 2 * kPad) / 2;
    for (const child of item.children) child.x += shift;
    for (const wire of item.wires) for (const point of wire.points) point[0] += shift;
    const isLast = graph.hasNode("out") && graph.node("out").y > size.height - 2;
    item.height = (size.height || 0) + dy + (isLast ? 0 : kPad);
    for (const wire of item.wires) {  // up to the border itself
      if (wire.from === "in") wire.points.unshift([wire.points[0][0], kHead]);
      if (wire.to === "out") wire.points.push([wire.points[wire.points.length - 1][0], item.height]);
    }
  };
  place(root);
  const boxes = [], wires = [];
  const collect = (item, x, y) => {
    boxes.push({id: item.id, x, y, width: item.width, height: item.height});
    if (!item.children) return;
    for (const wire of item.wires)
      wires.push({points: wire.points.map(point => [point[0] + x, point[1] + y]), edges: wire.edges, to: wire.to});
    for (const child of item.children) collect(child, child.x + x, child.y + y);
  };
  collect(root, 0, 0);
  return {boxes, wires, width: root.width, height: root.height};
}

const layouter = (() => {
  const waiting = new Map();
  let last = 0, worker = null;
  const receive = message => {
    const {id, result, error} = message.data;
    const {resolve, reject} = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(error));
    else resolve(result);
  };
  try {
    const text = `${byId("dagre").textContent}
      ${layOut}
      onmessage = ({data}) => {
        try { postMessage({id: data.id, result: layOut(data.root, dagre)}); }
        catch (error) { postMessage({id: data.id, error: String(error)}); }
      };`;
    worker = new Worker(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
    worker.onmessage = receive;
    worker.onerror = () => {  // not allowed here: the work is done in the page itself
      worker = null;
      for (const {root, resolve} of waiting.values()) resolve(layOut(root, dagre));
      waiting.clear();
    };
  } catch {
    worker = null;
  }
  // Null when another request came in between.
  return root => {
    const id = ++last;
    const done = worker === null ? Promise.resolve().then(() => layOut(root, dagre))
      : new Promise((resolve, reject) => {
          waiting.set(id, {root, resolve, reject});
          worker.postMessage({id, root});
        });
    return done.then(result => id === last ? result : null);
  };
})();
