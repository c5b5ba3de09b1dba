"""A new process."""

from falcon.decision import machine, rates


def forget(monkeypatch):
    """As a new process."""
    monkeypatch.setattr(machine, "_profiles", {})
    monkeypatch.setattr(rates, "_rates", {})
    machine.replaced()
