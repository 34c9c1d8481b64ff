"""--container and --container-mount of gsub and gmod, and on #BSUB lines."""

from __future__ import annotations

import errno
from contextlib import nullcontext

import pytest
from test_dialect_bsub import AROUND, refusal, submit

from gsched.base.errors import BadRequest
from gsched.dialect.bmod import read_modification
from gsched.dialect.bsub import read_submission


def test_paths_count_from_where_the_job_is_submitted() -> None:
    spec = submit("--container", "a.sif", "--container-mount", "d:/d:ro", "--container-mount", "/x", "run").spec
    assert (spec.container, spec.container_mounts) == (f"{AROUND.cwd}/a.sif", (f"{AROUND.cwd}/d:/d:ro", "/x:/x"))


def test_in_a_script_the_command_line_counts_more() -> None:
    script = b"#BSUB --container docker://a/b\nrun\n"
    assert submit(stdin=script).spec.container == "docker://a/b"
    assert submit("--container", "docker://c/d", stdin=script).spec.container == "docker://c/d"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--container", "http://x"), "--container: 'http://x' is none of docker://NAME"),
        (("--container", "docker://x@sha256:zz"), "--container: 'docker://x@sha256:zz' is not of the form docker://"),
        (("--container", "docker://a\nb"), r"--container: 'docker://a\nb' is no image: it has a line break"),
        (("--container", "a.sif\n"), r"--container: 'a.sif\n' is no image: it has a line break"),
        (("--container", "a b.sif"), "--container: 'a b.sif' is no image: it has a blank"),
        (("--container", ""), "--container: '' is no image: docker://NAME, a .sif file, oci-archive:, docker-archive:"),
        (("--container-mount", "/a:b"), "--container-mount: '/a:b': b is no absolute path in the container"),
    ],
)
def test_what_is_wrong_names_the_option(words: tuple[str, ...], told: str) -> None:
    assert refusal(*words, "run").startswith(told)


def test_a_file_of_another_kind_is_no_image() -> None:
    files = {"/etc/passwd": b"root", f"{AROUND.cwd}/a.tar": b"", "/a.sif": b""}
    told = "is a file, and an image is docker://NAME, a .sif file, oci-archive:, docker-archive: or a folder"
    assert refusal("--container", "/etc/passwd", "run", files=files) == f"--container: /etc/passwd {told}"
    assert refusal(stdin=b"#\n#BSUB --container a.tar\nrun\n", files=files) == (
        f"line 2 of the script: --container: {AROUND.cwd}/a.tar {told}"
    )
    for word in ("/a.sif", "docker-archive:a.tar", "/not/here"):
        assert submit("--container", word, "run", files=files).spec.container.endswith(word.partition(":")[2] or word)


def test_gmod_looks_at_the_file_as_well() -> None:
    def read_file(path: str) -> bytes:
        if path != f"{AROUND.cwd}/a.tar":
            raise FileNotFoundError(errno.ENOENT, "", path)
        return b""

    with pytest.raises(BadRequest, match=r"^--container: .*/a.tar is a file, and an image is .* Job not modified.$"):
        read_modification(["--container", "a.tar", "7"], AROUND, read_file)
    for image in ("folder", "docker-archive:a.tar", "docker://a"):
        assert (
            read_modification(["--container", image, "7"], AROUND, read_file).values["container"].endswith(image[-5:])
        )


@pytest.mark.parametrize(("problem", "is_file"), [(errno.EFBIG, True), (errno.EISDIR, False), (errno.EACCES, False)])
def test_a_file_too_long_to_be_read_is_a_file_all_the_same(problem: int, is_file: bool) -> None:
    def read_file(path: str) -> bytes:
        raise OSError(problem, "", path)

    words = ["--container", "/i", "run"]
    with pytest.raises(BadRequest, match="--container: /i is a file") if is_file else nullcontext():
        asked = read_submission(words, read_stdin=bytes, read_file=read_file, env={}, around=AROUND)
        assert asked.spec.container == "/i"


def test_gmod_changes_it_and_takes_it_back() -> None:
    changed = read_modification(["--container", "docker://a/b", "7"], AROUND)
    assert changed.values == {"container": "docker://a/b"}
    back = read_modification(["--containern", "7"], AROUND)
    assert back.values == {"container": "", "container_mounts": ()}
