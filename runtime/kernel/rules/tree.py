"""The tree of an expression that the library has read: the library shows none, and cost needs one.

Stricter than CEL: what it cannot follow is no tree, and the linter refuses it.
"""

from dataclasses import dataclass

from runtime.kernel.rules.cel_tokens import MACROS, CelToken, TokenKind

# These bound our own recursion; nobody writes deeper by hand.
MAX_DEPTH = 40
MAX_STEPS = 40
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)


class UnreadableError(Exception):
    """The tokens are not an expression that this parser follows."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, true, false or null as it is written."""

    text: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is looked up."""

    text: str


@dataclass(frozen=True, slots=True)
class Select:
    """`of.name`."""

    of: "Node"
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """`of[at]`."""

    of: "Node"
    at: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """Values with operators of one rank between them, from left to right."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """`!` or `-` before a value, any number of times."""

    of: "Node"


@dataclass(frozen=True, slots=True)
class TernaryNode:
    """`condition ? yes : no`."""

    condition: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function, or a method with what it is called on as its first argument."""

    name: str
    parts: tuple["Node", ...]
    is_method: bool = False


@dataclass(frozen=True, slots=True)
class Macro:
    """`over.name(variable, ...)`."""

    name: str
    over: "Node"
    variable: str
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A written-out list, or the keys and values of a written-out map in turn."""

    parts: tuple["Node", ...]
    is_map: bool = False


Node = Literal | Name | Select | Index | Chain | Sign | TernaryNode | CallNode | Macro | Items


def parse(tokens: tuple[CelToken, ...]) -> Node:
    """The tree of a whole expression.

    Raises:
        UnreadableError: for whatever this parser does not follow.
    """
    reader = _TreeReader(tokens)
    node = reader.choice()
    if reader.at != len(tokens):
        raise UnreadableError
    return node


class _TreeReader:
    """Recursive descent; `at` is the next token."""

    def __init__(self, tokens: tuple[CelToken, ...]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    @property
    def kind(self) -> TokenKind:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else TokenKind.OTHER

    def take(self, wanted: str = "") -> str:
        text = self.next
        if not text or (wanted and (text != wanted or self.kind is TokenKind.STRING)):
            raise UnreadableError
        self.at += 1
        return text

    def takes(self, wanted: str) -> bool:
        if self.next != wanted:
            return False
        self.at += 1
        return True

    def choice(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError
        node = self.level(0)
        if self.takes("?"):
            yes = self.level(0)
            self.take(":")
            node = TernaryNode(node, yes, self.choice())
        self.depth -= 1
        return node

    def level(self, number: int) -> Node:
        if number == len(_LEVELS):
            return self.unary()
        first, rest = self.level(number + 1), list[tuple[str, Node]]()
        while self.next in _LEVELS[number]:
            rest.append((self.take(), self.level(number + 1)))
        return Chain(first, tuple(rest)) if rest else first

    def unary(self) -> Node:
        began = self.at
        while self.takes("!") or self.takes("-"):
            continue
        node = self.member()
        return node if self.tokens[began].text not in ("!", "-") else Sign(node)

    def member(self) -> Node:
        node, steps = self.primary(), 0
        while self.next in (".", "["):
            steps += 1
            if steps > MAX_STEPS:
                raise UnreadableError
            if self.takes("["):
                node = Index(node, self.choice())
                self.take("]")
                continue
            self.take(".")
            name = self.name()
            if not self.takes("("):
                node = Select(node, name)
            elif name in MACROS:
                node = self.macro(name, node)
            else:
                node = CallNode(name, (node, *self.until(")")), is_method=True)
        return node

    def macro(self, name: str, over: Node) -> Node:
        variable = self.name()
        self.take(",")
        return Macro(name, over, variable, self.until(")"))

    def name(self) -> str:
        if self.kind is not TokenKind.NAME:
            raise UnreadableError
        return self.take()

    def primary(self) -> Node:
        if self.kind is TokenKind.STRING:
            return Literal(self.take(), is_text=True)
        if self.kind is TokenKind.NUMBER or self.next in ("true", "false", "null"):
            return Literal(self.take())
        if self.kind is TokenKind.NAME:
            name = self.take()
            return CallNode(name, self.until(")")) if self.takes("(") else Name(name)
        if self.takes("["):
            return Items(self.until("]"))
        if self.takes("{"):
            return Items(self.entries(), is_map=True)
        self.take("(")
        node = self.choice()
        self.take(")")
        return node

    def until(self, closing: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.takes(closing):
            found.append(self.choice())
            if self.next != closing:
                self.take(",")
        return tuple(found)

    def entries(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.takes("}"):
            found.append(self.choice())
            self.take(":")
            found.append(self.choice())
            if self.next != "}":
                self.take(",")
        return tuple(found)
