"""The public pages: a pure function of the ledger, the templates and the software's version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from release.ledger.records import Account
from release.site import downloads, publishing
from release.site.addresses import account_folder, published
from release.site.pages import Site
from release.site.publishing import heads
from release.site.spending import Spending
from release.site.templating import Templates

__all__ = ["build", "heads", "render"]


def render(accounts: Sequence[Account], *, templates: Path | None) -> dict[str, bytes]:
    """Every file of the site, by its path from the site's root.

    ``templates`` is the project's own folder, which overrides the shipped pages file by file.
    Raises ``ConfigError`` with file and line for a fault in a template.
    """
    environment = Templates(templates)
    style, policy = environment.style()
    ordered = tuple(sorted(accounts, key=lambda account: account.terms.account))
    spendings = {account.terms.account: Spending(account) for account in ordered}
    site = Site(ordered, published(ordered), spendings, style, policy)
    files = {page.path: environment.render(page.template, page.context) for page in site.pages()}
    for each in site.releases:
        files[f"{each.folder}/data.csv"] = downloads.data_csv(each, site.pasts[each.folder])
        files[f"{each.folder}/release.json"] = downloads.release_json(
            each, site.pasts[each.folder]
        )
    for account in ordered:
        folder = account_folder(account.terms.account)
        spending = spendings[account.terms.account]
        files[f"{folder}/ledger.json"] = downloads.ledger_json(spending)
        files[f"{folder}/curve.json"] = downloads.curve_json(spending)
    return files


def build(accounts: Sequence[Account], site: Path, *, templates: Path | None) -> list[Path]:
    """Renders the whole site, then writes what changed; returns the files written.

    A fault in a template publishes nothing (``ConfigError``). A folder that cannot be written
    raises ``StorageError``; files already replaced stay, each of them whole.
    """
    return publishing.write(render(accounts, templates=templates), site)
