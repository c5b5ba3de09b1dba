"""CPUs and memory in containers: recorded trees of cgroups."""

import pytest

from falcon._tools import cpus
from falcon._tools.cpus import cpu_quota, memory_limit

GIB = 2**30
# Name: /proc/self/cgroup, files below /sys/fs/cgroup, CPUs, bytes.
TREES = {
    "no cgroup": ("", {}, None, None),
    "a container sees its own group as the root": (
        "0::/\n",
        {"cpu.max": "150000 100000\n", "memory.max": f"{GIB}\n"},
        2,
        GIB,
    ),
    "nested: the least counts": (
        "0::/user.slice/job.scope/inner\n",
        {
            "user.slice/cpu.max": "300000 100000\n",
            "user.slice/memory.max": f"{4 * GIB}\n",
            "user.slice/job.scope/cpu.max": "200000 100000\n",
            "user.slice/job.scope/memory.max": "max\n",
            "user.slice/job.scope/inner/cpu.max": "max 100000\n",
            "user.slice/job.scope/inner/memory.max": f"{2 * GIB}\n",
        },
        2,
        2 * GIB,
    ),
    "memory.high slows down before memory.max kills": (
        "0::/a\n",
        {"a/memory.high": f"{GIB}\n", "a/memory.max": f"{2 * GIB}\n"},
        None,
        GIB,
    ),
    "without limits": (
        "0::/a\n",
        {"a/cpu.max": "max 100000\n", "a/memory.max": "max\n"},
        None,
        None,
    ),
    "version 1: the least counts": (
        "12:memory:/docker/a\n5:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n0::/\n",
        {
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/docker/memory.limit_in_bytes": f"{GIB}\n",
            "memory/docker/a/memory.limit_in_bytes": f"{2 * GIB}\n",
            "memory/docker/a/memory.stat": f"cache 0\nhierarchical_memory_limit {GIB}\n",
            "cpu/docker/cpu.cfs_quota_us": "250000\n",
            "cpu/docker/cpu.cfs_period_us": "100000\n",
            "cpu/docker/a/cpu.cfs_quota_us": "-1\n",
            "cpu/docker/a/cpu.cfs_period_us": "100000\n",
        },
        3,
        GIB,
    ),
    "version 1: a container sees its own group as the root": (
        "4:memory:/docker/a\n3:cpuacct,cpu:/docker/a\n",
        {
            "memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            "memory/memory.stat": f"rss 5\nhierarchical_memory_limit {GIB}\ntotal_rss 5\n",
            "cpu/cpu.cfs_quota_us": "50000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
        },
        1,
        GIB,
    ),
    "version 1 without limits": (
        "4:memory:/a\n3:cpu:/a\n2:freezer:/b\n",
        {
            "memory/a/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/a/memory.stat": "hierarchical_memory_limit 9223372036854710272\n",
            "memory/b/memory.limit_in_bytes": f"{GIB}\n",
            "cpu/a/cpu.cfs_quota_us": "-1\n",
            "cpu/a/cpu.cfs_period_us": "100000\n",
        },
        None,
        None,
    ),
    "both versions": (
        "7:memory:/a\n0::/b\n",
        {"memory/a/memory.limit_in_bytes": f"{2 * GIB}\n", "b/memory.max": f"{GIB}\n"},
        None,
        GIB,
    ),
    "damaged files": (
        "0::/a\nnonsense\n4:memory\n3:memory:/a\n",
        {
            "a/cpu.max": "many\n",
            "a/memory.max": "\n",
            "cpu.max": "1 0",
            "memory/a/memory.limit_in_bytes": "\n",
            "memory/a/memory.stat": "hierarchical_memory_limit",
        },
        None,
        None,
    ),
}


@pytest.fixture(params=TREES)
def tree(request, tmp_path):
    groups, files, cpu, memory = TREES[request.param]
    recorded = {"proc/self/cgroup": groups}
    recorded |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in recorded.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    return tmp_path, cpu, memory


def test_recorded_trees(tree):
    root, cpu, memory = tree
    assert cpu_quota(root) == cpu
    assert memory_limit(root) == memory


def test_without_proc(tmp_path):
    assert cpu_quota(tmp_path) is None
    assert memory_limit(tmp_path) is None


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process(monkeypatch, name):
    resource = pytest.importorskip("resource")
    before, limited = resource.getrlimit, getattr(resource, name)
    known = cpus.memory_bytes()
    assert known > GIB // 4
    limits = {limited: (GIB // 4, GIB)}
    monkeypatch.setattr(resource, "getrlimit", lambda x: limits.get(x) or before(x))
    assert cpus.memory_bytes() == GIB // 4
    assert cpus.kept_bytes() == GIB // 128


def test_the_workspace_that_is_kept_follows_the_limit(monkeypatch):
    """A container of 1 GiB on a large host keeps 1/32 of its own limit, not of the host's."""
    pool = pytest.importorskip("falcon._cpu.pool")
    monkeypatch.setattr(cpus, "memory_limit", lambda: GIB)
    assert cpus.memory_bytes() <= GIB
    assert pool.kept_bytes() <= GIB // 32
    assert pool.largest_bytes() <= GIB // 4
    monkeypatch.setattr(cpus, "memory_limit", lambda: 2**59)
    assert 0 < cpus.memory_bytes() < 2**59
