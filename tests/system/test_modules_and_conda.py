"""`module` and `conda activate` in batch scripts of both dialects: functions, login shells and init files of bash.

Modules come as an exported function (BASH_FUNC_module%%), conda as functions of an init file. Both are shell code that
works only if the environment of the submission and the shell of the script are what they are without a scheduler.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

from tests.support.reports import printed_in

pytestmark = pytest.mark.system

TOOLS = Path(__file__).parents[2] / ".tools"
TCLSH = shutil.which("tclsh8.6") or shutil.which("tclsh8.6", path=str(TOOLS / "usr/bin"))
MODULECMD = next(
    (str(path) for top in (TOOLS, Path("/")) for path in top.glob("usr/lib/*/modulecmd.tcl")),
    next((str(path) for top in (TOOLS, Path("/")) for path in top.glob("usr/libexec/modulecmd.tcl")), ""),
)

MODULEFILE = """\
#%Module
prepend-path PATH {folder}/bin
setenv CUDA_HOME {folder}
"""
CONDA = r"""
# What `conda init` and conda's own hook put into a shell: functions, which call a program and evaluate what it prints.
export CONDA_EXE='{root}/bin/conda'
export CONDA_SHLVL=0
__conda_exe() ( "$CONDA_EXE" "$@" )
__conda_activate() {{
    local ask_conda
    ask_conda="$(PS1="${{PS1:-}}" __conda_exe shell.posix "$@")" || return
    eval "$ask_conda"
    hash -r
}}
conda() {{
    case "${{1-__missing__}}" in
        activate|deactivate) __conda_activate "$@" ;;
        *) __conda_exe "$@" ;;
    esac
}}
"""
CONDA_EXE = r"""#!/bin/sh
# As conda answers `shell.posix activate NAME`: lines for the shell.
[ "$1 $2" = "shell.posix activate" ] || exit 2
[ -d '{root}/envs/'"$3" ] || {{ echo "EnvironmentNameNotFound: $3" >&2; exit 1; }}
echo "PATH='{root}/envs/$3/bin':\"\$PATH\""
echo "export CONDA_PREFIX='{root}/envs/$3'"
echo "export CONDA_DEFAULT_ENV='$3'"
echo "export CONDA_SHLVL='1'"
"""
NUMBER = re.compile(r"(?:Submitted batch job |Job <)(\d+)")


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster()
    made.run("gsched", "names", "slurm", str(made.folder / "names"))
    made.run("gsched", "names", "lsf", str(made.folder / "names"))
    return made


class Account:
    """A user's home with programs, init files and scripts, and the commands of both dialects."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.environment = {"PATH": f"{cluster.folder}/names:/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}

    def write(self, name: str, text: str, mode: int = 0o755) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """A line typed in bash, in the home folder."""
        return subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", line],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def batch(self, submission: str, *, before: str = "") -> str:
        """What the job of this submission prints to the file `out`; it must end well. `before`: typed first."""
        (self.home / "out").unlink(missing_ok=True)
        done = self.shell(f"{before}\n{submission}")
        found = NUMBER.search(done.stdout)
        assert done.returncode == 0 and found is not None, done.stdout + done.stderr
        said = (self.home / "out").read_text()
        state = self.cluster.run("gjobs", "-a", "-noheader", "-o", "stat", found[1]).stdout.strip()
        assert state == "DONE", said
        return said


@pytest.fixture
def account(cluster: Cluster, tmp_path: Path) -> Account:
    return Account(cluster, tmp_path)


DIALECTS = ["sbatch --wait -o out job.sh", "bsub -K -q normal -oo out ./job.sh", "bsub -K -oo out < job.sh"]


def of_user(text: str) -> str:
    """What the job printed, without LSF's report."""
    return (printed_in(text) if "Sender: LSF" in text else text).strip()


@pytest.mark.skipif(not (TCLSH and MODULECMD), reason="needs modulecmd.tcl and tclsh8.6 (Debian: environment-modules)")
@pytest.mark.parametrize("submission", DIALECTS)
@pytest.mark.parametrize("first", ["#!/bin/bash", "#!/usr/bin/env bash", "#!/bin/bash -l"])
def test_module_load_works_in_a_batch_script(account: Account, submission: str, first: str) -> None:
    account.write("sw/bin/nvcc", "#!/bin/sh\necho nvcc of the module\n")
    account.write("modulefiles/cuda/12.4", MODULEFILE.format(folder=account.home / "sw"), 0o644)
    account.write("job.sh", f'{first}\nmodule load cuda/12.4 || exit 3\nnvcc\necho "$CUDA_HOME $LOADEDMODULES"\n')
    define = f"""
    export MODULEPATH={account.home}/modulefiles
    module() {{ eval "$('{TCLSH}' '{MODULECMD}' bash "$@")"; }}
    export -f module
    """
    said = of_user(account.batch(submission, before=define)).splitlines()
    assert said == ["nvcc of the module", f"{account.home}/sw cuda/12.4"]


@pytest.mark.parametrize("submission", DIALECTS)
@pytest.mark.parametrize("last", ["; ", "\n"], ids=["one line", "with a line end"])
def test_exported_functions_reach_a_script_and_what_it_starts(account: Account, submission: str, last: str) -> None:
    account.write("job.sh", "#!/bin/bash\nmodule load cuda\nbash -c 'ml avail'\n")
    define = f"""
    module() {{ echo "module $* {{}} \\"%s\\" ' ;"{last}}}
    ml() {{ module "$@"
    }}
    export -f module ml
    """
    said = of_user(account.batch(submission, before=define))
    assert said == 'module load cuda {} "%s" \' ;\nmodule avail {} "%s" \' ;'


@pytest.mark.parametrize(
    "line", ["module load cuda", "true && bash -c 'module load cuda'", "exec bash -c 'module load cuda'"]
)
@pytest.mark.parametrize("submission", ["sbatch --wait -o out --wrap", "bsub -K -oo out"])
def test_a_command_line_may_call_a_function_that_was_exported(account: Account, submission: str, line: str) -> None:
    """Where /bin/sh is dash, too, which takes such functions from what it starts."""
    said = account.batch(f'{submission} "{line}"', before='module() { echo "module $*"; }; export -f module')
    assert of_user(said) == "module load cuda"


@pytest.mark.parametrize(
    "submission",
    [
        "sbatch --wait --export=NONE -o out job.sh",
        "bsub -K -env none -oo out ./job.sh",
        "bsub -K -env none -oo out < job.sh",
    ],
)
def test_a_login_shell_reads_the_profile_and_nothing_is_exported(account: Account, submission: str) -> None:
    account.write(".bash_profile", 'module() { echo "module of the profile: $*"; }\nexport OF_PROFILE=yes\n', 0o644)
    text = (
        '#!/bin/bash -l\nshopt -q login_shell && echo login\nmodule load cuda\necho "$OF_PROFILE [$EXPORTED] $HOME"\n'
    )
    account.write("job.sh", text)
    define = 'module() { echo "of the submission"; }; export -f module; export EXPORTED=1'
    said = of_user(account.batch(submission, before=define)).splitlines()
    assert said == ["login", "module of the profile: load cuda", f"yes [] {account.home}"]


@pytest.mark.parametrize("submission", DIALECTS)
@pytest.mark.parametrize("init", ["source ~/.bashrc", ". conda/etc/profile.d/conda.sh", 'eval "$(cat ~/.bashrc)"'])
def test_conda_activate_works_in_a_batch_script(account: Account, submission: str, init: str) -> None:
    root = account.home / "conda"
    account.write("conda/envs/torch/bin/python3", '#!/bin/sh\necho "python of $CONDA_DEFAULT_ENV"\n')
    account.write("conda/bin/conda", CONDA_EXE.format(root=root))
    account.write("conda/etc/profile.d/conda.sh", CONDA.format(root=root), 0o644)
    account.write(".bashrc", "export OF_RC=1\n" + CONDA.format(root=root), 0o644)
    account.write("job.sh", f"#!/bin/bash\n{init}\nconda activate torch || exit 3\npython3\necho $CONDA_PREFIX\n")
    said = of_user(account.batch(submission)).splitlines()
    assert said == ["python of torch", f"{root}/envs/torch"]


def test_a_job_of_an_activated_environment_has_it(account: Account) -> None:
    """Who activates first and submits then: PATH and CONDA_* come along, as they do with Slurm and LSF."""
    root = account.home / "conda"
    account.write("conda/envs/torch/bin/python3", '#!/bin/sh\necho "python of $CONDA_DEFAULT_ENV"\n')
    account.write("conda/bin/conda", CONDA_EXE.format(root=root))
    account.write("job.sh", "#!/bin/bash\npython3\n")
    for submission in DIALECTS:
        said = account.batch(submission, before=f"{CONDA.format(root=root)}\nconda activate torch")
        assert of_user(said) == "python of torch"


def test_lsf_s_login_shell_reads_the_profile(account: Account) -> None:
    """bsub -L: the environment of a login, whatever runs the script."""
    account.write(".bash_profile", "export OF_PROFILE=yes\n", 0o644)
    account.write("job.sh", '#!/bin/bash\necho "$OF_PROFILE"\n')
    assert of_user(account.batch("bsub -K -L /bin/bash -oo out ./job.sh")) == "yes"
