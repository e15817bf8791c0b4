"""What became of the time of a schedule, and why it gains or does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.outcome import Outcome, Span

ALIKE = 0.05
"""A gain below this is none: two runs of one schedule differ by as much."""

_NOTHING, _STARVED = 0.02, 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """The time of a schedule, taken apart; the parts of the GPU that is slowest add up to the total.

    Attributes:
        total_us: All of it.
        product_us: Time in which a product runs.
        exposed_us: Time in which none does.
        moving_us: Of that, time in which a transfer or collective runs.
        idle_us: Of that, the rest: launches, barriers, signals, waits.
        stretch_us: What products take longer than the whole product alone: parts, shared compute units, waits inside.
        waited_us: Mean time that a product's workgroups held a compute unit and waited for a chunk.
        hidden: Share of the collective's time that is hidden, 0 to 1.
        lanes: Most copies from other GPUs that were under way at once.
        units: Most compute units that one of them held.
        fetchers: Workgroups of a product that fetch before they multiply.
        starved: What waited longest, of all but products, for compute units or a copy engine after its turn had come;
            empty: nothing did.
        starved_us: How long.
        reason: One or two sentences.
    """

    total_us: float
    product_us: float
    exposed_us: float
    moving_us: float
    idle_us: float
    stretch_us: float
    waited_us: float
    hidden: float
    lanes: int
    units: int
    fetchers: int
    starved: str
    starved_us: float
    reason: str


def judge(outcome: Outcome, node: Node, *, whole_us: float, collective_us: float) -> Verdict:
    """Take a run apart.

    Args:
        outcome: A run that ended.
        node: Where.
        whole_us: Time of the whole product alone, by the vendor's library.
        collective_us: Time of the collectives that the schedule replaces, one after the other.
    """
    last = max(outcome.spans, key=lambda span: span.end_us)
    mine = [span for span in outcome.spans if span.rank == last.rank]
    products = _joined([span for span in mine if span.role == "product"])
    moving = _joined([span for span in mine if span.kind == "copy" or span.role == "collective"])
    product_us = _length(products)
    exposed_us = outcome.total_us - product_us
    moving_us = _length(_joined_pairs([*products, *moving])) - product_us
    stretch_us = product_us - whole_us
    waited_us = sum(span.waited_us for span in mine if span.role == "product")
    hidden = min(1.0, max(0.0, 1 - (outcome.total_us - whole_us) / collective_us))
    remote = [span for span in mine if span.role == "transfer"]
    units = max((span.units for span in remote), default=0)
    lanes = max((sum(other.start_us <= span.start_us < other.end_us for other in remote) for span in remote), default=0)
    others = [span for span in mine if span.role != "product"] or mine
    longest = max(others, key=lambda span: span.start_us - span.ready_us)
    starved_us = longest.start_us - longest.ready_us
    verdict = Verdict(
        outcome.total_us, product_us, exposed_us, moving_us, exposed_us - moving_us, stretch_us, waited_us, hidden,
        lanes, units, max(span.late for span in mine), longest.name if starved_us > 0 else "", starved_us, "",
    )  # fmt: skip
    return _with_reason(verdict, node, collective_us, whole_us)


def _with_reason(verdict: Verdict, node: Node, collective_us: float, whole_us: float) -> Verdict:
    if verdict.hidden < _NOTHING and not verdict.lanes:  # nothing is copied: the library's calls and a product
        head = f"the {collective_us:,.0f} µs collective and the {whole_us:,.0f} µs product, one after the other"
        return replace(verdict, reason=head)
    gain = (whole_us + collective_us) / verdict.total_us
    costs = {
        "launches, barriers and signals between which nothing runs": verdict.idle_us,
        "transfers beside which no product runs": verdict.moving_us,
        "waits of tiles for their chunk": min(verdict.waited_us, max(0.0, verdict.stretch_us)),
        "products that take longer than the whole one alone, in parts or on fewer compute units": max(
            0.0, verdict.stretch_us - verdict.waited_us
        ),
    }
    parts = [f"{us:,.0f} µs {name}" for name, us in sorted(costs.items(), key=lambda item: -item[1]) if us >= 0.5]
    named = "; ".join(parts[:2]) or "nothing else costs time"
    if gain > 1 + ALIKE:
        head = f"hides {100 * verdict.hidden:.0f} % of the {collective_us:,.0f} µs collective"
    elif gain > 1 - ALIKE:
        head = f"about 1.0×: the {collective_us:,.0f} µs that could be hidden are lost again"
    else:
        head = f"loses: overlapping costs more than the {collective_us:,.0f} µs collective"
    links = (node.ranks - 1) * node.link.links_per_peer
    if node.link.full_mesh and 0 < verdict.lanes < links:
        named += f"; copies use {verdict.lanes} of {links} links at a time"
    held = f"; transfers hold up to {verdict.units} compute units" if verdict.units else ""
    if verdict.fetchers:
        held += f"; {verdict.fetchers} workgroups fetch before they multiply"
    if verdict.starved_us > _STARVED * verdict.total_us:
        held += f"; {verdict.starved} waits {verdict.starved_us:,.0f} µs for its turn on compute units or an engine"
    return replace(verdict, reason=f"{head}; beside the product {named}{held}")


Pair = tuple[float, float]


def _joined(spans: list[Span]) -> list[Pair]:
    return _joined_pairs([(span.start_us, span.end_us) for span in spans])


def _joined_pairs(pairs: list[Pair]) -> list[Pair]:
    joined: list[Pair] = []
    for start, end in sorted(pairs):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _length(pairs: list[Pair]) -> float:
    return sum(end - start for start, end in pairs)
