"""Templates: the project's own before the shipped ones, file by file.

A project's template may extend the one that it replaces under the name ``shipped/<file>``.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from release import shipped
from release.errors import ConfigError, Fault
from release.site.contexts import AnyPage

ALLOWED = "a template is UTF-8 Jinja2 and names only what its page's context holds"
STYLE = "style.css"
CONTROLS = dict.fromkeys({*range(32), *range(0x7F, 0xA0)} - {*b"\t\n\r"}, "\ufffd")
"""What no page may hold, whatever stands in a name: shown as the sign for what cannot be shown."""


def _printable(value: Any) -> Any:
    """Any text but markup, which is made of texts that came through here."""
    return value.translate(CONTROLS) if type(value) is str else value


class Compiled(jinja2.BytecodeCache):
    """Compiled templates in memory: Jinja holds each to the text that it was compiled from."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Gives the template's code, if it was compiled before."""
        if bucket.key in self._known:
            bucket.bytecode_from_string(self._known[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the code of a template that was just compiled."""
        self._known[bucket.key] = bucket.bytecode_to_string()


@cache
def compiled() -> Compiled:
    """What this process has compiled; to compile the shipped pages is half the work of a site."""
    return Compiled()


class Templates:
    """Renders contexts. Every fault is a ``ConfigError`` that names the file and the line."""

    def __init__(self, own: Path | None) -> None:
        base = jinja2.FileSystemLoader(shipped.folder() / "templates")
        loaders: list[jinja2.BaseLoader] = [base, jinja2.PrefixLoader({"shipped": base})]
        if own is not None:
            loaders.insert(0, jinja2.FileSystemLoader(own))
        self._loader = jinja2.ChoiceLoader(loaders)
        self._environment = jinja2.Environment(
            loader=self._loader,
            bytecode_cache=compiled(),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=_printable,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )

    def style(self) -> tuple[str, str]:
        """The style sheet, and the content security policy that admits it alone."""
        try:
            text, _, _ = self._loader.get_source(self._environment, STYLE)
        except (jinja2.TemplateError, ValueError, OSError) as error:
            raise _fault(error, STYLE) from None
        # Browsers normalise line ends before they hash; an end tag would leave the sheet.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if "</" in text:
            raise ConfigError([Fault(STYLE, "", "holds '</'", "a style sheet holds no markup")])
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return text, f"default-src 'none'; style-src 'sha256-{digest}'"

    def render(self, name: str, page: AnyPage) -> bytes:
        """The page's bytes."""
        try:
            return self._environment.get_template(name).render(page=page).encode()
        except Exception as error:  # whatever a template raises is that template's fault
            raise _fault(error, name) from None


def _fault(error: Exception, name: str) -> ConfigError:
    file, line = _place(error, name)
    found = error.message if isinstance(error, jinja2.TemplateError) else str(error)
    if isinstance(error, jinja2.TemplateNotFound):
        found = f"no such template: {error.name}"
    key = f"line {line}" if line else ""
    return ConfigError([Fault(file, key, found or type(error).__name__, ALLOWED)])


def _place(error: Exception, name: str) -> tuple[str, int]:
    """The template and line that failed: the innermost frame that Jinja rewrote to a template."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.filename or error.name or name, error.lineno
    place = (name, 0)
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place
