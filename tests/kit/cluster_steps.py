"""Steps of a simulated cluster's life, by name: hypothesis draws pairs of a step and its argument."""

from __future__ import annotations

from tests.kit.simulated_cluster import SimulatedCluster


def cluster_takes(cluster: SimulatedCluster, step: str, what: object) -> bool:
    """Makes the step. False for a step of other names, which is the caller's."""
    match step, what:
        case "put", str(name):
            cluster.put(name)
        case "delete", str(name):
            cluster.delete(name)
        case "reborn", str(name):
            cluster.delete(name)
            cluster.put(name)
        case "end" | "cut", end:
            cluster.end_watches(end, in_the_middle=step == "cut")  # type: ignore[arg-type]
        case "failure", failure:
            cluster.next_answers.append(failure)  # type: ignore[arg-type]
        case "spoil", str(how):
            cluster.spoil_next_event(how)
        case "hide", str(name):
            cluster.unreadable_keys.add(f"shop/{name}")
        case "show", _:
            cluster.unreadable_keys.clear()
        case "repeats", bool(does):
            cluster.repeats = does
        case "behind", int(versions):
            cluster.behind = versions
        case "latency", float(seconds):
            cluster.latency = seconds
        case "compact", _:
            cluster.compact()
        case "restart", _:
            cluster.restart()
        case "bookmark", _:
            cluster.send_bookmark()
        case _:
            return False
    return True
