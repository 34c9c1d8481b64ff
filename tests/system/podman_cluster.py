"""A private cluster whose jobs run in containers of Podman, and its image, which is a folder of this host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from live_cluster import Cluster

NAME = "localhost/gsched-test:1"
IMAGE = f"docker://{NAME}"
ALONE = """
# Of control groups of both versions at once crun takes none; and without CAP_SYS_RESOURCE root can raise no limit.
umount -l /sys/fs/cgroup/unified 2>/dev/null
ulimit -u 20000 2>/dev/null
exec "$@"
"""


class PodmanCluster(Cluster):
    """A private cluster whose jobs' containers are kept in its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        storage = folder / "storage.conf"
        storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/runroot"\n')
        self.env.update(CONTAINERS_STORAGE_CONF=str(storage))

    def up(self, *words: str) -> str:
        return self.run(*self.alone(), "gsched", "up", "--dir", str(self.folder), *words).stdout

    def alone(self) -> list[str]:
        """What makes a mount namespace for the daemons of root; for others nothing is changed."""
        return ["unshare", "-m", "bash", "-c", ALONE, "bash"] if os.geteuid() == 0 else []

    def podman(self, *words: str, check: bool = True) -> str:
        done = self.run(*self.alone(), "podman", "--cgroup-manager=cgroupfs", *words, check=check)
        return done.stdout + ("" if check else done.stderr)


def why_no_containers(cluster: PodmanCluster, root: Path) -> str:
    """Import the file system as the image NAME; why Podman can run no container of it, empty when it can."""
    subprocess.run(["tar", "-C", str(root), "-cf", f"{root}.tar", "."], check=True)
    told = cluster.podman("import", "--quiet", f"{root}.tar", NAME, check=False)
    tried = ("run", "--rm", "--cgroups=disabled", "--network=host", "--init", "--ulimit=nofile=512:512")
    told += cluster.podman(*tried, "--ulimit=nproc=512:512", NAME, "/bin/sh", "-c", "echo works", check=False)
    return "" if "works" in told else f"podman cannot run containers here: {told.strip().splitlines()[-1]}"


def remove_containers(cluster: PodmanCluster) -> None:
    """All that Podman has in the cluster's folder."""
    cluster.podman("rm", "--all", "--force", check=False)
    cluster.podman("rmi", "--all", "--force", check=False)
