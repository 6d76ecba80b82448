"""Uses torchao's Quantizers unchanged: copies their annotations of the GraphModule."""

import math
import operator
import sys

import torch
from octet_runtime._error import Error
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.fx import Node
from torch.utils import _pytree

from octet._quantizer import Quantizer, SharedQuantizationSpec
from octet._torchao_specs import from_observer, from_spec

_KEY = "quantization_annotation"
_MODULES = ("nn_module_stack", "source_fn_stack", "torch_fn", "stack_trace")
# The fields in which torchao compares specs before edges share an observer.
_SHARED = "dtype is_dynamic quant_min quant_max qscheme ch_axis scale zero_point".split()


def is_torchao(quantizer) -> bool:
    """Whether it is one of torchao's. Imports nothing."""
    module = sys.modules.get("torchao.quantization.pt2e.quantizer.quantizer")
    return module is not None and isinstance(quantizer, module.Quantizer)


def _overrides(quantizer, method) -> bool:
    base = sys.modules["torchao.quantization.pt2e.quantizer.quantizer"].Quantizer
    return getattr(type(quantizer), method) is not getattr(base, method)


class FromTorchao(Quantizer):
    """Gives octet's graph the annotations that a torchao Quantizer gives the program's module.

    `program` is the one to quantize: transform_for_annotation() may have rewritten it.
    """

    def __init__(self, quantizer, program, folds_bn, is_qat):
        self.quantizer, self.program = quantizer, program
        self.folds_bn, self.is_qat = folds_bn, is_qat
        self.scalars_to_constants = self.is_rewritten = False
        if not _overrides(quantizer, "transform_for_annotation"):
            return
        module = self._folded()
        calls, constants = _calls(module), _constants(module)
        module = quantizer.transform_for_annotation(module)
        self.is_rewritten = calls != _calls(module)
        if self.is_rewritten:
            self.program = _exported_again(program, module, type(quantizer).__name__)
        else:
            self.scalars_to_constants = _constants(module) > constants

    def _folded(self):
        module = self.program.module(check_guards=False)
        if self.folds_bn:
            from torchao.quantization.pt2e.utils import _fuse_conv_bn_, _fuse_linear_bn_

            _fuse_conv_bn_(module)
            _fuse_linear_bn_(module)
        return module

    def _annotated(self, graph, annotations):
        """The module of the program, or of a body in it, with annotations. Ops that settings or an
        earlier quantizer took are claimed, so that its patterns leave them out."""
        from torchao.quantization.pt2e.quantizer import QuantizationAnnotation

        names = {node.name for node in graph.nodes}
        modules = [m for m in self._folded().modules() if isinstance(m, torch.fx.GraphModule)]
        module = max(modules, key=lambda m: len(names & {fx.name for fx in m.graph.nodes}))
        if _overrides(self.quantizer, "transform_for_annotation") and not self.is_rewritten:
            module = self.quantizer.transform_for_annotation(module)
        claims = {}
        for fx in module.graph.nodes:
            node = graph.find_node(fx.name) if fx.op == "call_function" else None
            if node is not None and annotations.is_annotated(node):
                claims[fx] = fx.meta[_KEY] = QuantizationAnnotation(_annotated=True)
        self.quantizer.annotate(module)
        for fx, claim in claims.items():
            if fx.meta.get(_KEY) is claim:
                del fx.meta[_KEY]
        self.quantizer.validate(module)
        return module

    def annotate(self, graph, annotations, report):
        module = self._annotated(graph, annotations)
        copied = _Copied(graph, module, type(self.quantizer).__name__)
        if _overrides(self.quantizer, "prepare_obs_or_fq_callback"):
            copied.take_observers(self._observers(module))
        else:
            copied.take_specs()
        copied.write(annotations)

    def _observers(self, module):
        """torchao's observers by edge or node, after the quantizer's callback has changed them."""
        from torchao.quantization.pt2e import prepare

        specs = prepare._get_edge_or_node_to_qspec(module)
        groups = prepare._get_edge_or_node_to_group_id(specs)
        observers = prepare._get_obs_or_fq_map(groups, specs, self.is_qat)
        self.quantizer.prepare_obs_or_fq_callback(module, observers)
        return observers


# ---- what transform_for_annotation changed


def _calls(module):
    """The calls of the module, without its constants and the numbers that become constants."""
    attribute = "constant"

    def plain(argument):
        if isinstance(argument, Node):
            return attribute if argument.op == "get_attr" else argument.name
        return attribute if isinstance(argument, (int, float)) else str(argument)

    return [
        (node.op, node.target, torch.fx.node.map_aggregate((node.args, node.kwargs), plain))
        for node in module.graph.nodes
        if node.op != "get_attr"
    ]


def _constants(module):
    return sum(node.op == "get_attr" for node in module.graph.nodes)


def _exported_again(program, module, name):
    """The program of a rewritten module, with the open sizes of the old one."""
    if program.example_inputs is None:
        raise Error(
            "quantizer", name, "rewrites the program, which has no example inputs to export it with"
        )
    args, kwargs = program.example_inputs
    flat, _ = _pytree.tree_flatten((args, kwargs))
    names = set(program.graph_signature.user_inputs)
    nodes = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]
    shapes = ShapesCollection()
    for tensor, node in zip(flat, nodes):
        sizes = getattr(node.meta.get("val"), "shape", ())
        open_sizes = {i: _dim(size, program) for i, size in enumerate(sizes) if _is_open(size)}
        if open_sizes:
            shapes[tensor] = open_sizes
    module.recompile()
    with torch.no_grad():
        again = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    calls = [[n for n in g.graph.nodes if n.op == "call_function"] for g in (module, again)]
    if [n.target for n in calls[0]] == [n.target for n in calls[1]]:
        for old, new in zip(*calls):  # export replaces the module of each op by the program
            new.meta.update({key: old.meta[key] for key in _MODULES if key in old.meta})
    return again


def _is_open(size) -> bool:
    return isinstance(size, torch.SymInt)


def _dim(size, program: ExportedProgram):
    allowed = program.range_constraints.get(size.node.expr)
    if allowed is None:
        return Dim.AUTO
    most = None if not math.isfinite(allowed.upper) else int(allowed.upper)
    return Dim.AUTO(min=int(allowed.lower), max=most)


# ---- annotations


def _is_shared(spec) -> bool:
    return type(spec).__name__ == "SharedQuantizationSpec"


def _spec_at(key):
    source, user = key if isinstance(key, tuple) else (key, None)
    found = (source if user is None else user).meta.get(_KEY)
    if found is None:
        return None
    return found.output_qspec if user is None else found.input_qspec_map.get(source)


class _Copied:
    """The annotations of a module's nodes, for the nodes and values of octet's graph.

    torchao has a node for an op with several results and one for each result that is read
    (getitem); octet has one node with several values.
    """

    def __init__(self, graph, module, name):
        self.module, self.name = module, name
        self.values, self.nodes, self.specs = {}, {}, {}
        self.owners = {}  # of the observer of a node with several results: the place that has it
        self.readers = {}  # annotated input of the program -> the edge that has its observer
        for fx in module.graph.nodes:
            if fx.op == "placeholder" or fx.target is operator.getitem:
                self.values[fx] = graph.find_value(fx.name)
            node = graph.find_node(fx.name)
            if fx.op != "call_function" or fx.target is operator.getitem or node is None:
                continue
            self.nodes[fx] = node
            self.values[fx] = node.output
            self._find_constants(fx, node)

    def _find_constants(self, fx, node):
        """Octet has other names for constants: they are found by the arguments of their users."""
        theirs, ours = fx.all_input_nodes, node.inputs
        if len(theirs) == len(ours) and all(
            self.values.get(source) is None or self.values[source] == value
            for source, value in zip(theirs, ours)
        ):
            self.values.update(zip(theirs, ours))
            return
        schema = getattr(fx.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        for name, argument in [*zip(names, fx.args), *fx.kwargs.items()]:
            if isinstance(argument, Node) and self.values.get(argument) is None:
                self.values[argument] = node.input(name)

    def take_specs(self):
        for fx in self.module.graph.nodes:
            found = fx.meta.get(_KEY)
            if found is None:
                continue
            for source, spec in found.input_qspec_map.items():
                if spec is None:
                    continue
                if self._is_list(source) and not _is_shared(spec):
                    raise self._refusal(fx, f"has a spec for %{source.name}, a list of results")
                if (source, fx) in self.specs:
                    self._check_again(spec, (source, fx))
                elif not self._is_virtual((source, fx)):
                    self.specs[source, fx] = self._converted(spec, (source, fx))
            if fx.op == "placeholder" and found.output_qspec is not None:
                self._annotate_readers(fx, found.output_qspec)
            elif found.output_qspec is not None and not self._is_virtual(fx):
                self.specs[fx] = self._converted(found.output_qspec, fx)

    def _annotate_readers(self, fx, spec):
        """torchao observes an input of the program once, octet where it is read."""
        for user in fx.users:
            if user.op == "output":
                raise self._refusal(fx, "has an output spec and is returned by the program")
            first = self.readers.setdefault(fx, (fx, user))
            self.specs[fx, user] = (
                self._converted(spec, first) if first == (fx, user) else self._shared(first)
            )

    def _check_again(self, spec, key):
        """Raises Error when torchao would quantize an input of the program twice."""
        own = key[0].meta[_KEY].output_qspec
        if _is_shared(spec):
            is_same = spec.edge_or_node in (key[0], self.readers[key[0]])
        else:
            is_same = key[1].meta[_KEY].allow_implicit_sharing and all(
                getattr(spec, name, None) == getattr(own, name, None) for name in _SHARED
            )
        if not is_same:
            raise self._refusal(key, f"has another spec for %{key[0].name} than that one's output")

    def take_observers(self, observers):
        firsts = {}  # id of an observer -> the first place that has it
        wanted = {key: seen for key, seen in observers.items() if seen is not None}
        for fx in [key for key in wanted if isinstance(key, Node) and key.op == "placeholder"]:
            for user in fx.users:
                if wanted.setdefault((fx, user), wanted[fx]) is not wanted[fx]:
                    raise self._refusal((fx, user), f"has another observer for %{fx.name}")
            del wanted[fx]
        for key, seen in wanted.items():
            if not self._is_virtual(key):
                firsts.setdefault(id(seen), key)
        for key, seen in wanted.items():
            first = firsts.get(id(seen))
            if first is None or self._is_virtual(key):
                continue
            self.specs[key] = (
                from_observer(seen, lambda source: self._place(firsts[id(source)]))
                if first == key
                else SharedQuantizationSpec(self._place(first))
            )

    def write(self, annotations):
        inputs, outputs = {}, {}
        for key, spec in self.specs.items():
            place = self._place(key)
            if isinstance(place, tuple):
                inputs.setdefault(place[1], {})[place[0]] = spec
            elif place.producer is None:
                raise self._refusal(key, f"annotates %{key.name}, which no op defines")
            else:
                outputs.setdefault(place.producer, {})[place] = spec
        for fx, node in self.nodes.items():
            found = fx.meta.get(_KEY)
            if node in inputs or node in outputs or getattr(found, "_annotated", False):
                annotations.annotate(
                    node,
                    inputs=inputs.get(node),
                    output=outputs.get(node),
                    rule=self.name,
                    allow_implicit_sharing=getattr(found, "allow_implicit_sharing", True),
                )

    def _converted(self, spec, key):
        if not _is_shared(spec):
            return from_spec(spec, self._place)
        end = spec.edge_or_node
        while self._is_virtual(end):
            own = _spec_at(end)
            if own is None or (isinstance(end, tuple) and not _is_shared(own)):
                at = " -> ".join(f"%{fx.name}" for fx in (end if isinstance(end, tuple) else [end]))
                raise self._refusal(key, f"shares the observer of {at}, which has none")
            if not _is_shared(own):
                end = self.owners.setdefault(end, key)
                return from_spec(own, self._place) if end == key else self._shared(end)
            end = own.edge_or_node
        return self._shared(end)

    def _shared(self, key):
        return SharedQuantizationSpec(self._place(key))

    def _is_list(self, key) -> bool:
        """Whether the node stands for all results of an op with several."""
        return isinstance(key, Node) and any(u.target is operator.getitem for u in key.users)

    def _is_virtual(self, key) -> bool:
        """Whether torchao has no tensor there, but may share through its spec."""
        if isinstance(key, Node):
            return self._is_list(key)
        return self._is_list(key[0]) or key[0] not in key[1].all_input_nodes

    def _place(self, key):
        source, user = key if isinstance(key, tuple) else (key, None)
        if user is None and source in self.readers:
            source, user = self.readers[source]
        value = self.values.get(source)
        if value is None:
            raise self._refusal(key, f"octet's graph has nothing for %{source.name}")
        if user is None:
            return value
        if user not in self.nodes:
            raise self._refusal(key, f"octet's graph has nothing for %{user.name}")
        return value, self.nodes[user]

    def _refusal(self, key, reason):
        node = key[1] if isinstance(key, tuple) else key
        return Error("annotate", f"%{node.name}", f"{reason} ({self.name})")
