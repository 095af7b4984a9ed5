"""The house rules: each is a function from files to what breaks it.

``tests/test_tidy.py`` holds the checkout to them and shows that each can fail. That everything
public has a docstring, and the style within a line, are ruff's to say.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

# From the ground up: a module imports only what stands before it, or what shares its place.
LAYOUT = [
    "__init__", "errors", "shipped", "windows", "specs", "groups", "accounting", "config", "noise",
    "mechanisms", "sources", "bounding", "statistics", "ledger", "pipeline", "planning",
    "agreement", "site", "project", "scheduler", "audit", "cli", "__main__",
]  # fmt: skip

# What `site` does not touch, so that a template cannot leak.
BEHIND_THE_LEDGER = {"sources", "bounding", "mechanisms", "pipeline", "planning", "agreement"}

# (where, what may be imported or named there and in no other place)
FENCES = (
    ("ledger", "sqlalchemy alembic"),
    ("sources bounding", "ibis duckdb pandas pyarrow pyspark"),
    ("site", "jinja2"),
    ("accounting", "dp_accounting"),
    ("noise", "os.urandom os.getrandom"),
    # The ledger draws the key that samples groups, once, when an account is opened.
    ("noise ledger", "secrets"),
    ("", "random numpy.random scipy.stats"),
    ("cli scheduler", "datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today"),
    ("cli scheduler", "datetime.date.today time.time time.time_ns time.localtime time.gmtime"),
    ("cli scheduler", "time.perf_counter time.perf_counter_ns"),
    # How long to wait for a lock is no date: the ledger's wait is bounded.
    ("cli scheduler ledger", "time.monotonic time.monotonic_ns"),
)
CLOCK_CALLS = {"now", "utcnow", "today"}

SLOW = {
    "ibis", "duckdb", "pandas", "pyarrow", "sqlalchemy", "alembic", "psycopg", "jinja2", "scipy",
    "flint", "numpy", "rich",
}  # fmt: skip

ENGINE_CALLS = {
    "round": "truncate(), since ties differ",
    "pow": "a product, since last bits differ",
    "ln": "a public constant computed in Python",
    "log": "a public constant computed in Python",
    "exp": "a public constant computed in Python",
    "isinf": "x - x == 0, which no file statistics can answer",
    "isnan": "x - x == 0, which no file statistics can answer",
    "hash": "the md5 builtin UDF",
    "hexdigest": "the md5 builtin UDF",
    "hashbytes": "the md5 builtin UDF",
    "try_cast": "ifelse(re_search(PATTERN), text, null).cast('float64')",
    "epoch_seconds": "comparing times with times",
    "order_by": "sorting in Python, since collations differ",
}
ENGINE_OPERATORS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "`//`: use truncate(a / b), or divmod on Python integers",
    ast.Pow: "`**`: use a product, or a shift for a power of two",
}
INTEGER_TYPE = re.compile(r"!?u?int(8|16|32|64)?")

SPELLINGS = {
    r"privacy-units?": "privacy unit",
    r"neighbor\w*": "neighbouring",
    r"adjacen(t datasets|cy relation)": "neighbouring",
    r"(?-i:ZCDP|Zcdp|ZCdp|zCdp|z-CDP)": "zCDP",
    r"renyi": "Rényi",
    r"leader[- ]board\w*": "leaderboard",
    r"data[- ]sets?(?! aside)": "dataset",
    r"contribution (limit|cap)s?": "contribution bounds",
    r"privacy[- ]loss budget": "budget",
}

MODULE_LINES = 400
FUNCTION_LINES = 40
MUTABLE_MAKERS = {"dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict"}
MUTATORS = {
    "append", "add", "update", "setdefault", "pop", "popitem", "clear", "extend", "insert",
    "remove", "discard", "sort", "reverse", "appendleft", "popleft",
}  # fmt: skip

Files = Iterable[tuple[str, str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


Rule = Callable[[Files], Iterator[Violation]]

# ---------------------------------------------------------------------------- reading source


@dataclass(frozen=True)
class Import:
    """One imported name: in full, where, and whether it is taken as the module is loaded."""

    name: str
    alias: str
    line: int
    at_load: bool
    for_types: bool


def place(path: str) -> str:
    """``release/ledger/append.py`` has its place at ``ledger``."""
    return path.split("/")[1].removesuffix(".py")


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(path: str, source: str) -> Iterator[Import]:
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package.pop()

    def visit(node: ast.AST, *, at_load: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for a in node.names:
                yield Import(a.name, a.asname or "", node.lineno, at_load, for_types)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            for a in node.names:
                name = ".".join([*base, *filter(None, [node.module]), a.name])
                yield Import(name, a.asname or a.name, node.lineno, at_load, for_types)
        at_load &= not isinstance(node, Function | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            now = at_load and not typing_only
            yield from visit(child, at_load=now, for_types=for_types or typing_only)

    yield from visit(ast.parse(source), at_load=True, for_types=False)


def named(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Every name from outside that the source imports or reaches through an import."""
    known = {}
    for found in imports(path, source):
        yield found.line, found.name
        name = found.name if found.alias else found.name.split(".")[0]
        known[found.alias or name] = name
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            if head in known:
                yield node.lineno, f"{known[head]}.{rest}"


def within(name: str, fence: str) -> bool:
    return name == fence or name.startswith(fence + ".")


def owner(name: str, modules: set[str]) -> str:
    """The module of ours that holds an imported name, or nothing."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def python(files: Files) -> list[tuple[str, str]]:
    return [(path, source) for path, source in files if re.match(r"release/.*\.py$", path)]


def calls(source: str) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id


def code_lines(source: str) -> set[int]:
    """The lines that hold code: no blank line, no comment, no docstring."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return lines


def prose(path: str, source: str) -> Iterator[tuple[int, str]]:
    """The lines of a text; of Python, those of its strings and comments only."""
    if not path.endswith(".py"):
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if "STRING" in tokenize.tok_name[token.type] or token.type == tokenize.COMMENT:
            yield from enumerate(token.string.splitlines(), token.start[0])


# ---------------------------------------------------------------------------- the rules


def our_place(name: str) -> str:
    """The place that an imported name of ours belongs to, or nothing."""
    head, _, rest = name.partition(".")
    there = rest.split(".")[0]
    return there if head == "release" and there in LAYOUT else ""


def direction_of_imports(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        here = place(path)
        if here not in LAYOUT:
            yield Violation(path, 1, f"`{here}` has no place in the layout: give it one")
            continue
        for found in imports(path, source):
            there = our_place(found.name)
            if there and LAYOUT.index(there) > LAYOUT.index(here):
                yield Violation(path, found.line, f"`{here}` may not import `{there}`")


def import_cycles(files: Files) -> Iterator[Violation]:
    sources = {module_name(path): (path, source) for path, source in python(files)}
    edges: dict[str, dict[str, int]] = {name: {} for name in sources}
    for name, (path, source) in sources.items():
        for found in imports(path, source):
            target = owner(found.name, set(sources))
            if target and target != name and not found.for_types:
                edges[name].setdefault(target, found.line)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        cycle = error.args[1]  # each is imported by the next
        line = edges[cycle[1]][cycle[0]]
        yield Violation(sources[cycle[1]][0], line, "a cycle of imports: " + " < ".join(cycle))


def site_reads_the_ledger_only(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        for found in imports(path, source) if place(path) == "site" else ():
            there = our_place(found.name)
            if there in BEHIND_THE_LEDGER:
                yield Violation(path, found.line, f"`{there}`: a page could leak through it")


def fences(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        for line, name in named(path, source):
            for places, fenced in FENCES:
                hit = [fence for fence in fenced.split() if within(name, fence)]
                if hit and place(path) not in places.split():
                    where = places.replace(" ", ", ") or "nowhere"
                    yield Violation(path, line, f"`{hit[0]}` is allowed in: {where}")


def clock_reads(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        for call, name in calls(source):
            if name in CLOCK_CALLS and place(path) not in {"cli", "scheduler"}:
                yield Violation(path, call.lineno, f"`{name}()` reads the clock: take it as `now`")


def fast_start(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        for found in imports(path, source) if place(path) == "cli" else ():
            if found.at_load and found.name.split(".")[0] in SLOW:
                yield Violation(path, found.line, f"import `{found.name}` where it is used")


def constant(node: ast.AST) -> bool:
    """Made of literals and names in capitals alone, so no column is in it."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute | ast.Call)]
    return all(isinstance(name, ast.Name) and name.id.isupper() for name in names)


def engine_constructs(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        if place(path) not in {"sources", "bounding"}:
            continue
        for call, name in calls(source):
            if name in ENGINE_CALLS:
                yield Violation(path, call.lineno, f"`{name}`: use {ENGINE_CALLS[name]}")
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.BinOp | ast.AugAssign) or constant(node):
                continue
            if what := ENGINE_OPERATORS.get(type(node.op)):
                yield Violation(path, node.lineno, what)
        for line, name in named(path, source):
            if name == "ibis.random":
                yield Violation(path, line, "`ibis.random`: use the keyed md5 of the unit")


def integer_casts(files: Files) -> Iterator[Violation]:
    """DuckDB and PostgreSQL round, Spark truncates: one helper does it alike on all."""
    helpers = []
    for path, source in python(files):
        if place(path) not in {"sources", "bounding"}:
            continue
        inside: set[int] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, Function) and node.name == "truncate":
                helpers.append(Violation(path, node.lineno, "a second `truncate`: keep one"))
                inside.update(range(node.lineno, (node.end_lineno or 0) + 1))
        for call, name in calls(source):
            texts = [ast.unparse(a) for a in (*call.args, *(k.value for k in call.keywords))]
            kinds = [text.strip("'\"").rpartition(".")[2] for text in texts]
            method = name == "cast" and isinstance(call.func, ast.Attribute)
            integer = method and any(INTEGER_TYPE.fullmatch(kind) for kind in kinds)
            if integer and call.lineno not in inside:
                yield Violation(path, call.lineno, "a cast to an integer: use truncate()")
    yield from helpers[1:]


def one_spelling(files: Files) -> Iterator[Violation]:
    for path, source in files:
        for line, text in prose(path, source):
            said = re.sub(r"https?://\S+", "", text)
            for wrong, right in SPELLINGS.items():
                if found := re.search(rf"\b{wrong}\b", said, re.IGNORECASE):
                    yield Violation(path, line, f"`{found[0]}`: the word here is “{right}”")


def sizes(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        lines = code_lines(source)
        if len(lines) > MODULE_LINES:
            yield Violation(path, 1, f"{len(lines)} lines of code, over {MODULE_LINES}")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, Function):
                own = sum(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
                if own > FUNCTION_LINES:
                    what = f"`{node.name}` has {own} lines of code, over {FUNCTION_LINES}"
                    yield Violation(path, node.lineno, what)


def module_state(tree: ast.Module) -> set[str]:
    """The names that a module binds to something that can be changed in place."""
    names = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if not targets or not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        value = node.value
        if isinstance(value, ast.Call):
            mutable = ast.unparse(value.func).rpartition(".")[2] in MUTABLE_MAKERS
        else:
            displays = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
            mutable = isinstance(value, displays)
        names |= {target.id for target in targets if mutable and isinstance(target, ast.Name)}
    return names


def changed(node: ast.AST) -> ast.expr | None:
    """What a statement or a call changes in place."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.AugAssign):
        return node.target
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in MUTATORS else None
    return None


def outermost_functions(node: ast.AST) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from outermost_functions(child)


def global_state(files: Files) -> Iterator[Violation]:
    for path, source in python(files):
        tree = ast.parse(source)
        state = module_state(tree)
        for function in outermost_functions(tree):
            nodes = list(ast.walk(function))
            stored = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            bound = {n.id for n in stored} | {n.arg for n in nodes if isinstance(n, ast.arg)}
            for node in nodes:
                target = changed(node)
                if isinstance(node, ast.Global):
                    yield Violation(path, node.lineno, "`global`: hand the value down instead")
                elif isinstance(target, ast.Name) and target.id in state - bound:
                    what = f"`{target.id}` is global state: hand it down instead"
                    yield Violation(path, target.lineno, what)


RULES: tuple[Rule, ...] = (
    direction_of_imports,
    import_cycles,
    site_reads_the_ledger_only,
    fences,
    clock_reads,
    fast_start,
    engine_constructs,
    integer_casts,
    one_spelling,
    sizes,
    global_state,
)
