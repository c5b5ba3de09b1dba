"""A new process, and made-up rates."""

from falcon.decision import learned, machine, rates


def forget(monkeypatch):
    """As a new process."""
    monkeypatch.setattr(machine, "_profiles", {})
    monkeypatch.setattr(rates, "_rates", {})
    monkeypatch.setattr(rates, "_slower", {})
    monkeypatch.setattr(learned, "_known", None)
