"""Accounts that replace others: each contains what the one before it has spent.

So of two budgets on one page the reader is told which contains which, and a promise that was
broken is not forgotten because another account carries on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from release.ledger.records import Account
from release.site import figures, views
from release.site.addresses import account_folder, link
from release.site.contexts import AccountView, BrokenView, LinkView, OverdraftView, Succession


@dataclass(frozen=True)
class Successions:
    """All accounts, and what each says of the others."""

    accounts: tuple[Account, ...]

    def account(self, of: Account, root: str) -> AccountView:
        """The account as it stands, among the others."""
        return replace(
            views.account(of, root),
            succession=self._succession(of, root),
            overdrawn=self.overdraft(of, root),
        )

    def overdraft(self, of: Account, root: str) -> OverdraftView | None:
        """As ``views.overdraft``, with the account that carries on."""
        found = views.overdraft(of, root)
        return found and replace(found, heir=self._link(self._heir(of), root))

    def _succession(self, of: Account, root: str) -> Succession:
        return Succession(
            replaces=self._link(of.terms.replaces, root),
            replaced_by=self._link(self._heir(of), root),
            broken=tuple(
                BrokenView(
                    account=LinkView(before.terms.account, _href(before.terms.account, root)),
                    epsilon=figures.plain(before.terms.epsilon),
                    delta=figures.plain(before.terms.delta),
                    overdrawn=overdrawn,
                )
                for before in self._before(of)
                if (overdrawn := views.overdraft(before, root)) is not None
            ),
        )

    def _heir(self, of: Account) -> str | None:
        name = of.terms.account
        return next((e.terms.account for e in self.accounts if e.terms.replaces == name), None)

    def _before(self, of: Account) -> Iterator[Account]:
        """The accounts whose spend this one contains, the nearest first."""
        by_name = {account.terms.account: account for account in self.accounts}
        seen = {of.terms.account}
        name = of.terms.replaces
        while name in by_name and name not in seen:
            seen.add(name)
            yield by_name[name]
            name = by_name[name].terms.replaces

    def _link(self, name: str | None, root: str) -> LinkView | None:
        if name is None:
            return None
        known = any(account.terms.account == name for account in self.accounts)
        return LinkView(name, _href(name, root) if known else None)


def _href(name: str, root: str) -> str:
    return root + link(account_folder(name))
