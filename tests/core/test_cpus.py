"""CPUs and memory in containers: recorded trees of cgroups v1 and v2, and a real group."""

from pathlib import Path

import pytest

import falcon
from falcon._core import cpus
from falcon._core.cpus import cpu_quota, memory_limit

ROOT = Path(falcon.__file__).parents[1]
V2 = "30 23 0:26 {top} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "32 31 0:29 {top} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 {top} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)
GIB = 2**30
# Name: mountinfo, /proc/self/cgroup, files below /sys/fs/cgroup, CPUs, bytes.
TREES = {
    "no cgroup": ("", "", {}, None, None),
    "v2, a container sees its own group as the root": (
        V2.format(top="/"),
        "0::/\n",
        {"cpu.max": "150000 100000\n", "memory.max": f"{GIB}\n"},
        2,
        GIB,
    ),
    "v2, nested: the least counts": (
        V2.format(top="/"),
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
    "v2, memory.high slows down before memory.max kills": (
        V2.format(top="/"),
        "0::/a\n",
        {"a/memory.high": f"{GIB}\n", "a/memory.max": f"{2 * GIB}\n"},
        None,
        GIB,
    ),
    "v2 without limits": (
        V2.format(top="/"),
        "0::/a\n",
        {"a/cpu.max": "max 100000\n", "a/memory.max": "max\n"},
        None,
        None,
    ),
    "v1, a container whose own group is mounted": (
        V1.format(top="/docker/0123abcd"),
        "4:memory:/docker/0123abcd\n3:cpu,cpuacct:/docker/0123abcd\n0::/\n",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": f"{GIB}\n",
        },
        1,
        GIB,
    ),
    "v1, nested, on the host": (
        V1.format(top="/"),
        "4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/jobs/7\n",
        {
            "cpu,cpuacct/jobs/cpu.cfs_quota_us": "300000\n",
            "cpu,cpuacct/jobs/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/jobs/7/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/jobs/7/cpu.cfs_period_us": "100000\n",
            "memory/jobs/memory.limit_in_bytes": f"{3 * GIB}\n",
            "memory/jobs/7/memory.limit_in_bytes": f"{2**63 - 4096}\n",
        },
        3,
        3 * GIB,
    ),
    "damaged files": (
        V2.format(top="/") + "nonsense\n1 2 - cgroup2\n",
        "0::/a\nnonsense\n",
        {"a/cpu.max": "many\n", "a/memory.max": "\n"},
        None,
        None,
    ),
}


@pytest.fixture(params=TREES)
def tree(request, tmp_path):
    mounts, groups, files, cpu, memory = TREES[request.param]
    recorded = {"proc/self/mountinfo": mounts, "proc/self/cgroup": groups}
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


def test_the_workspace_that_is_kept_follows_the_limit(monkeypatch):
    """A container of 1 GiB on a large host keeps 1/32 of its own limit, not of the host's."""
    pool = pytest.importorskip("falcon._cpu.pool")
    monkeypatch.setattr(cpus, "_memory_limit", lambda: GIB)
    assert cpus.memory_bytes() <= GIB
    assert pool.kept_bytes() <= GIB // 32
    assert pool.largest_bytes() <= GIB // 4
    monkeypatch.setattr(cpus, "_memory_limit", lambda: 2**59)
    assert 0 < cpus.memory_bytes() < 2**59
