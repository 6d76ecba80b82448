"""The module that octet.prepare_qat() returns, made from the prepared program. It needs only torch:
it can be pickled, trained on another machine, and converted here."""

from typing import Any

import torch
from octet_runtime._error import Error
from torch import nn
from torch.utils import _pytree as pytree

from octet import _fake_quants

# The argument that says whether an op trains, and the one without which it has a single mode
# (core/passes/set_training.cpp).
_MODES = {
    "batch_norm": ("training", "running_mean"),
    "instance_norm": ("use_input_stats", "running_mean"),
    "dropout": ("train", None),
    "feature_dropout": ("train", None),
    "alpha_dropout": ("train", None),
    "feature_alpha_dropout": ("train", None),
    "lstm": ("train", None),
    "gru": ("train", None),
    "rnn_tanh": ("train", None),
    "rnn_relu": ("train", None),
}


class QatModule(nn.Module):
    """A program with fake-quants, which PyTorch trains: with any optimizer, loss and loop, on any
    device. octet.convert() makes a quantized program of it, as often as you like.

    Parameters and buffers have their names in the model. In evaluation mode dropout is off, and
    neither batch norms nor ranges follow the data.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        description: dict[str, Any],
        settings: dict[str, Any],
    ):
        """program: an ExportedProgram with an alias for each observer node. settings: with which
        convert() prepares the program again."""
        super().__init__()
        self._settings = settings
        self._in_spec = pytree.treespec_dumps(program.call_spec.in_spec)
        self._out_spec = pytree.treespec_dumps(program.call_spec.out_spec)
        self._groups = self._add_fake_quants(description)
        self._tensors = _add_tensors(self, program)
        self._inputs, self._written, self._code = _code_of(self, program, description["points"])
        self._batch_norms_train = True
        self._run = None

    def _add_fake_quants(self, description):
        """Adds a module for each observer with a place. Returns their names, by group."""
        seen = {}
        for point in description["points"]:
            seen.setdefault(point["group"], point["value"])
        groups = []
        container = nn.Module()
        for group, args in enumerate(description["observers"]):
            module = _fake_quants.make(args, seen[group]) if group in seen else None
            groups.append(None if module is None else f"fake_quants.{group}")
            if module is not None:
                container.add_module(str(group), module)
        self.add_module("fake_quants", container)
        return groups

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = self.run_flat(self._leaves(args, kwargs))
        return pytree.tree_unflatten(outputs, pytree.treespec_loads(self._out_spec))

    @property
    def input_count(self) -> int:
        """The number of flattened inputs."""
        return len(self._inputs)

    def run_flat(self, leaves: list[Any]) -> list[Any]:
        """forward() with the flattened inputs, which are not checked; returns flattened outputs."""
        if self._run is None:
            names = {}
            exec(compile(self._code, "<octet.QatModule>", "exec"), names)
            self._run = names["forward"]
        outputs = self._run(self, *leaves)
        count = len(outputs) - len(self._written)
        with torch.no_grad():
            for name, value in zip(self._written, outputs[count:]):
                target = self.get_buffer(name)
                if value is not target:
                    target.copy_(value)
        return list(outputs[:count])

    def _leaves(self, args, kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        wanted = pytree.treespec_loads(self._in_spec)
        if spec != wanted:
            args, kwargs = _placed(args, kwargs, wanted, [name for name, *_ in self._inputs])
            leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != wanted or len(leaves) != len(self._inputs):
            names = ", ".join(name for name, *_ in self._inputs)
            raise Error("train", "inputs", f"got {len(leaves)} inputs, want ({names})")
        for leaf, (name, dtype, sizes) in zip(leaves, self._inputs):
            if dtype is not None:
                _check_input(leaf, name, dtype, sizes)
        return leaves

    @property
    def _norms_train(self) -> bool:
        return self.training and self._batch_norms_train

    @property
    def code(self) -> str:
        """What forward() runs, as Python."""
        return self._code

    def freeze_batch_norm(self, frozen: bool = True) -> None:
        """Batch norms use their running statistics, and leave them, in training mode too."""
        self._batch_norms_train = not frozen

    def enable_observers(self, enabled: bool = True) -> None:
        """Whether ranges follow the data in training mode. On: ends range learning."""
        for module in _fake_quants_of(self):
            if enabled and isinstance(module, _fake_quants.LearnableFakeQuantize):
                module.learn_range(False)
            module.observer_enabled = enabled

    def enable_fake_quants(self, enabled: bool = True) -> None:
        """Whether values are rounded."""
        for module in _fake_quants_of(self):
            module.fake_quant_enabled = enabled

    def enable_range_learning(self, enabled: bool = True) -> None:
        """Whether scales are trained, which needs learn_ranges=True. On: turns their observers
        off."""
        for module in _fake_quants_of(self):
            if isinstance(module, _fake_quants.LearnableFakeQuantize):
                module.learn_range(enabled)

    def range_parameters(self) -> list[nn.Parameter]:
        """The scales and zero points that are trained with learn_ranges=True. Give them no weight
        decay."""
        learnable = _fake_quants.LearnableFakeQuantize
        modules = [module for module in _fake_quants_of(self) if isinstance(module, learnable)]
        return [parameter for module in modules for parameter in module.range_parameters()]

    def trained(self) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
        """(tensors by name, what each fake-quant has learned), for convert(). Raises Error if a
        tensor was added, removed or replaced after prepare_qat(), or if a fake-quant saw no data."""
        now = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        known = {name for name in now if name.startswith("fake_quants.")} | set(self._tensors)
        for name in now:
            if name not in known:
                raise Error("convert", name, "is not of the program; train the module unchanged")
        for name, (dtype, shape) in self._tensors.items():
            tensor = _find(self, name)
            if tensor is None:
                raise Error("convert", name, "is missing; train the module unchanged")
            if (tensor.dtype, tensor.shape) != (dtype, shape):
                found, wanted = _text(tensor.dtype, tensor.shape), _text(dtype, shape)
                message = f"got {found}, want {wanted}; train the module unchanged"
                raise Error("convert", name, message)
            if isinstance(tensor, nn.Parameter) and not bool(tensor.isfinite().all()):
                raise Error("convert", name, "holds NaN or infinities; lower the learning rate")
        for module in _fake_quants_of(self):
            _check_ready(module)
        tensors = {name: _find(self, name).detach().cpu() for name in self._tensors}
        modules = [name and self.get_submodule(name) for name in self._groups]
        return tensors, [module.learned() if module else {} for module in modules]

    def __getstate__(self):
        return {**self.__dict__, "_run": None}


def _fake_quants_of(module):
    return module.fake_quants.children()


def _find(module, name):
    path, _, leaf = name.rpartition(".")
    try:
        return getattr(module.get_submodule(path), leaf, None)
    except AttributeError:
        return None


def _text(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"


def _check_ready(module):
    subject = f"%{module.value}"
    if module.needs_data():
        raise Error(
            "convert", subject, "has no range yet; run the module on data in training mode first"
        )
    for name, value in module.learned().items():
        if isinstance(value, torch.Tensor) and not bool(value.isfinite().all()):
            raise Error("convert", subject, f"its {name} holds NaN or infinities; check the data")


def _placed(args, kwargs, wanted, names):
    """(args, kwargs) in the program's form, from inputs that are named or in order."""
    positions = wanted.child(0).num_children
    by_name = list(wanted.child(1).context or [])
    given = dict(zip(names, args)) | kwargs
    if len(names) != positions + len(by_name) or len(given) != len(args) + len(kwargs):
        return args, kwargs
    if set(given) != {*names[:positions], *by_name}:
        return args, kwargs
    return tuple(given[name] for name in names[:positions]), {name: given[name] for name in by_name}


def _check_input(leaf, name, dtype, sizes):
    wanted = f"{dtype}[{', '.join('?' if size is None else str(size) for size in sizes)}]"
    if not isinstance(leaf, torch.Tensor):
        raise Error("train", f"%{name}", f"got a {type(leaf).__name__}, want {wanted}")
    kind = str(leaf.dtype).removeprefix("torch.")
    fits = len(sizes) == leaf.dim() and all(
        want is None or want == got for want, got in zip(sizes, leaf.shape)
    )
    if kind == dtype and fits:
        return
    shape = ", ".join(map(str, leaf.shape))
    advice = "export with dynamic shapes" if kind == dtype else "convert the input to that dtype"
    raise Error("train", f"%{name}", f"got {kind}[{shape}], want {wanted}; {advice}")


def _add_tensors(module, program) -> dict[str, tuple]:
    """Adds parameters, buffers and constants by their names; those that are tied are one tensor.
    Returns the dtype and shape of each."""
    persistent = set(program.state_dict)
    parameters = set(program.graph_signature.parameters)
    seen: dict[tuple, torch.Tensor] = {}
    added = {}
    for name, value in {**program.state_dict, **program.constants}.items():
        if not isinstance(value, torch.Tensor):
            continue
        key = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if value.numel() == 0 or key not in seen:
            plain = value.detach().clone()
            needs = isinstance(value, nn.Parameter) and value.requires_grad
            seen[key] = nn.Parameter(plain, needs) if name in parameters else plain
        tensor = seen[key]
        owner, leaf = _owner_of(module, name)
        if hasattr(owner, leaf):
            raise Error("prepare", name, "is a name that the module to train uses; rename it")
        if isinstance(tensor, nn.Parameter):
            owner.register_parameter(leaf, tensor)
        else:
            owner.register_buffer(leaf, tensor, persistent=name in persistent)
        added[name] = (tensor.dtype, tensor.shape)
    return added


def _owner_of(module, name):
    """(the module that has it, its name there); adds the modules between."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in module._modules:
            if hasattr(module, part):
                raise Error("prepare", name, "is a name that the module to train uses; rename it")
            module.add_module(part, nn.Module())
        module = module._modules[part]
    return module, leaf


def _code_of(module, program, points):
    """(the inputs: name, dtype, sizes; the buffers that the program writes; its code).

    The last outputs of the code are the new values of these buffers.
    """
    graph = torch.fx.Graph()
    signature = program.graph_signature
    stored = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    groups = {point["name"]: point["group"] for point in points}
    made, inputs, written, user = {}, [], [], []

    def attribute(name):
        # not checked against a module, which has properties too
        return graph.create_node("get_attr", name)

    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in stored:
            made[node] = attribute(stored[node.name])
        elif node.op == "placeholder":
            made[node] = graph.placeholder(node.name)
            inputs.append((node.name, *_form_of(node.meta.get("val"))))
        elif node.op == "get_attr":  # a body of control flow
            module.add_module(node.target, getattr(program.graph_module, node.target))
            made[node] = attribute(node.target)
        elif node.op == "output":
            for spec, value in zip(signature.output_specs, node.args[0]):
                if spec.kind.name == "BUFFER_MUTATION":
                    written.append((spec.target, made[value]))
                elif spec.kind.name == "USER_OUTPUT":
                    is_node = isinstance(value, torch.fx.Node)
                    user.append(made[value] if is_node else value)
                else:
                    raise Error(
                        "prepare",
                        str(spec.target),
                        "the program writes to it, which only octet.qat() trains; write to buffers",
                    )
            graph.output(tuple(user + [value for _, value in written]))
        elif node.name in groups:
            made[node] = made[node.args[0]]
            name = module._groups[groups[node.name]]
            if name is not None:
                made[node] = graph.call_module(name, (made[node.args[0]],))
        else:
            made[node] = graph.node_copy(node, made.__getitem__)
            _follow_mode(graph, made[node], attribute)
            if _counts_batches(node, signature):
                with graph.inserting_before(made[node]):
                    made[node].update_arg(1, attribute("_norms_train"))
    return inputs, [name for name, _ in written], _python_of(graph)


def _form_of(value):
    """(dtype, sizes) of an input; sizes that are open are None."""
    if not isinstance(value, torch.Tensor):
        return None, None
    sizes = [int(size) if isinstance(size, int) else None for size in value.shape]
    return str(value.dtype).removeprefix("torch."), sizes


def _follow_mode(graph, node, attribute):
    """Lets an op train when the module does."""
    name = getattr(node.target, "__name__", "").split(".")[0]
    if node.op != "call_function" or name not in _MODES:
        return
    flag, statistics = _MODES[name]
    places = {argument.name: at for at, argument in enumerate(node.target._schema.arguments)}
    if flag not in places:
        return
    if statistics and _argument(node, statistics, places) is None:
        return
    with graph.inserting_before(node):
        mode = attribute("_norms_train" if name == "batch_norm" else "training")
    if places[flag] < len(node.args):
        node.update_arg(places[flag], mode)
    else:
        node.update_kwarg(flag, mode)


def _counts_batches(node, signature):
    """Whether it adds 1 to the num_batches_tracked of a norm."""
    if node.target is not torch.ops.aten.add_.Tensor or node.args[1:] != (1,):
        return False
    name = signature.inputs_to_buffers.get(node.args[0].name, "")
    return name.endswith("num_batches_tracked")


def _argument(node, name, places):
    at = places[name]
    return node.args[at] if at < len(node.args) else node.kwargs.get(name)


def _python_of(graph) -> str:
    made = graph.python_code("self")
    imports = []
    for name, value in made.globals.items():
        if value is type(None):
            imports.append(f"{name} = type(None)")
        elif getattr(value, "__module__", None) and getattr(value, "__qualname__", None):
            imports.append(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif hasattr(value, "__name__"):
            imports.append(f"import {value.__name__} as {name}")
        else:
            imports.append(f"{name} = float({str(value)!r})")  # inf and nan
    return "\n".join(imports) + "\n" + made.src
