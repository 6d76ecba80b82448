// The modules as a tree of groups with the ops as leaves: which groups are open, and which edges of
// ops are visible between boxes.

const kManyChildren = 150, kSlice = 100;  // more children than that become slices
const kFirstBoxes = 40;                   // boxes that are open at first, about

let groupCount = 0;
function newGroup(label, parent) {
  return {id: `m:${groupCount++}`, label, parent, type: "", children: [], ops: [], isOpen: false};
}

function buildTree() {
  const root = newGroup("", null);
  const groups = new Map([["", root]]);
  const groupOf = path => {
    if (groups.has(path)) return groups.get(path);
    const dot = path.lastIndexOf(".");
    const parent = groupOf(dot < 0 ? "" : path.slice(0, dot));
    const group = newGroup(path.slice(dot + 1), parent);
    groups.set(path, group);
    parent.children.push(group);
    return group;
  };
  for (const node of nodes) {
    const group = groupOf(node.module);
    if (node.module_type && node.module && !group.type) group.type = node.module_type.split(".").pop();
    group.children.push({id: "n:" + node.index, node, parent: group});
  }
  root.isOpen = true;
  return root;
}

// A group with one child is that child: its box would say nothing.
function withoutSingles(item, isRoot) {
  if (item.node) return item;
  item.children = item.children.map(child => withoutSingles(child, false));
  for (const child of item.children) child.parent = item;
  if (isRoot || item.children.length !== 1) return item;
  const [child] = item.children;
  if (!child.node) {
    child.label = `${item.label}.${child.label}`;
    child.type ||= item.type;
  }
  return child;
}

function withSlices(item) {
  if (item.node) return;
  while (item.children.length > kManyChildren) {
    const slices = [];
    for (let at = 0; at < item.children.length; at += kSlice) {
      const slice = newGroup(`part ${slices.length + 1}`, item);
      slice.children = item.children.slice(at, at + kSlice);
      for (const child of slice.children) child.parent = slice;
      slices.push(slice);
    }
    item.children = slices;
  }
  item.children.forEach(withSlices);
}

function collectOps(item) {
  if (item.node) return [item.node];
  item.ops = item.children.flatMap(collectOps);
  return item.ops;
}

const tree = withoutSingles(buildTree(), true);
withSlices(tree);
collectOps(tree);
const itemOf = new Map();  // by id: groups and leaves
const leafOf = [];         // by index of the op
(function index(item) {
  itemOf.set(item.id, item);
  if (item.node) leafOf[item.node.index] = item;
  else item.children.forEach(index);
})(tree);
const allGroups = [...itemOf.values()].filter(item => !item.node && item !== tree);

(function openSome() {
  let boxes = tree.children.length;
  const waiting = tree.children.filter(item => !item.node);
  while (waiting.length) {
    const group = waiting.shift();
    if (boxes + group.children.length > kFirstBoxes) continue;
    boxes += group.children.length;
    group.isOpen = true;
    waiting.push(...group.children.filter(item => !item.node));
  }
})();

function chainOf(item) {  // from the root down to the item
  const chain = [];
  for (; item; item = item.parent) chain.unshift(item);
  return chain;
}

// What stands for the op on the canvas: itself, or the outermost closed group around it.
function boxOf(index) {
  return chainOf(leafOf[index]).find(item => item.node || !item.isOpen);
}

function openAround(index) {
  let changed = false;
  for (const item of chainOf(leafOf[index]))
    if (!item.node && !item.isOpen) item.isOpen = changed = true;
  return changed;
}

// {id, width, height} of closed boxes; open groups have children and wires too. A wire runs between
// children; where an edge crosses the border of the group, between a child and "in" or "out".
function visibleTree(sizeOf) {
  const wiresOf = new Map();  // open group -> "from>to" -> wire
  const addWire = (group, from, to, edge) => {
    if (!wiresOf.has(group)) wiresOf.set(group, new Map());
    const wires = wiresOf.get(group), key = `${from}>${to}`;
    if (!wires.has(key)) wires.set(key, {from, to, edges: []});
    wires.get(key).edges.push(edge);
  };
  const chains = leafOf.map(leaf => chainOf(leaf));
  for (const node of nodes)
    for (const source of node.sources) {
      const a = chains[source], b = chains[node.index], edge = [source, node.index];
      let split = 0;
      while (a[split + 1] === b[split + 1] && a[split].isOpen && split + 1 < Math.min(a.length, b.length)) ++split;
      if (!a[split].isOpen || a[split + 1] === b[split + 1]) continue;  // both within a closed box
      addWire(a[split], a[split + 1].id, b[split + 1].id, edge);
      for (let i = split + 1; i + 1 < a.length && a[i].isOpen; ++i) addWire(a[i], a[i + 1].id, "out", edge);
      for (let i = split + 1; i + 1 < b.length && b[i].isOpen; ++i) addWire(b[i], "in", b[i + 1].id, edge);
    }
  return (function view(item) {
    if (item.node || !item.isOpen) return {id: item.id, ...sizeOf(item)};
    return {id: item.id, ...sizeOf(item), children: item.children.map(view),
            wires: [...(wiresOf.get(item) || new Map()).values()]};
  })(tree);
}
