"""CONTAINER of queues and profiles, the site's tables of mounts and images; what cannot be is refused at its line."""

from __future__ import annotations

import pytest
from config_texts import BASE

from gsched.base.errors import BadRequest
from gsched.config.configuration import check_texts
from gsched.model.config import Params
from gsched.model.queues.container import (
    ContainerMount,
    check_image,
    check_mounts,
    read_image,
    read_mount,
    read_site_container,
    runtimes_of,
)


def params(lines: str = "") -> Params:
    return check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + lines}).required().params


def test_the_sites_tables() -> None:
    assert (params().container_mounts, params().container_images) == ((), None)
    found = params('GSCHED_CONTAINER_MOUNTS="/data/:ro /scratch"\nGSCHED_CONTAINER_IMAGES="docker://site/* /i/*.sif"\n')
    assert found.container_mounts == ("/data:ro", "/scratch")
    assert found.container_images == ("docker://site/*", "/i/*.sif")


@pytest.mark.parametrize("word", ["data", "/a:/b", "/a:rw"])
def test_a_table_that_cannot_be_read_is_refused(word: str) -> None:
    loaded = check_texts("/conf", {**BASE, "lsf.conf": BASE["lsf.conf"] + f"GSCHED_CONTAINER_MOUNTS={word}\n"})
    (told,) = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    assert f"'{word}' is not of the form /FOLDER[:ro]" in told


@pytest.mark.parametrize(
    ("text", "image", "mounts"),
    [
        ("docker[image(a/b:1)]", "docker://a/b:1", ()),
        ("docker[image(docker://a/b) options(--rm -v /x:/y:ro --volume=/z)]", "docker://a/b", ("/x:/y:ro", "/z:/z")),
        ("singularity[image(/i/a.sif) options(-B /x)]", "/i/a.sif", ("/x:/x",)),
        ("podman[image(/i/tree)]", "/i/tree", ()),
    ],
)
def test_a_container_of_the_site(text: str, image: str, mounts: tuple[str, ...]) -> None:
    found = read_site_container(text)
    assert (found[0], tuple(map(str, found[1]))) == (image, mounts)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("docker[a/b]", "is not of the form docker|podman|apptainer|singularity[image(NAME)"),
        ("docker[image(a/b) starter(root)]", "is not of the form"),
        ("docker[image(a/b) options(--privileged)]", "options(--privileged ...) is not supported"),
        ("docker[image(a/b) options(-v)]", "'' is not of the form SOURCE"),
        ("docker[image($LSB_CONTAINER_IMAGE)]", "is not of the form docker://"),
    ],
)
def test_what_a_site_cannot_say(text: str, told: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_site_container(text)
    assert told in caught.value.text


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("docker://nvcr.io/nvidia/pytorch:24.01-py3", "docker://nvcr.io/nvidia/pytorch:24.01-py3"),
        ("a.sif", "/home/ann/a.sif"),
        ("../i/tree", "/home/i/tree"),
        (f"docker://a/b@sha256:{'0a' * 32}", f"docker://a/b@sha256:{'0a' * 32}"),
        (f"docker://r:5000/b:1.2@sha256:{'0a' * 32}", f"docker://r:5000/b:1.2@sha256:{'0a' * 32}"),
        ("oci-archive:a.tar", "oci-archive:/home/ann/a.tar"),
    ],
)
def test_images(text: str, image: str) -> None:
    assert read_image(text, "/home/ann") == image
    assert runtimes_of(image) == (("apptainer",) if text.endswith(".sif") else ("apptainer", "podman"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "docker://",
        "docker://-x",
        "docker://a b",
        "docker://a@sha256:zz",
        "docker://a@b@c",
        "http://x",
        "x:y",
        "oci-archive:",
    ],
)
def test_what_is_no_image(text: str) -> None:
    with pytest.raises(BadRequest):
        read_image(text, "/home/ann")


def test_mounts() -> None:
    assert read_mount("data:/d:ro", "/home/ann") == ContainerMount("/home/ann/data", "/d", True)
    assert read_mount("/a/../b:rw") == ContainerMount("/b", "/b", False)
    for text in ("", "a:b", ":/x", "/a:/b:/c", "/a,b", "/a:/proc/1", "/usr", "/a:/"):
        with pytest.raises(BadRequest):
            read_mount(text, "/home/ann")


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        ("/data/set:/d:ro", ""),
        ("/data/set:/d", "/data/set may be mounted with :ro alone"),
        ("/data/out/x", ""),
        ("/database", "/database may not be mounted: the site allows /data:ro /data/out"),
    ],
)
def test_the_closest_entry_of_the_table_counts(mount: str, told: str) -> None:
    allowed = [read_mount(each) for each in ("/data:ro", "/data/out")]
    if not told:
        check_mounts([read_mount(mount)], allowed)
        return
    with pytest.raises(BadRequest) as caught:
        check_mounts([read_mount(mount)], allowed)
    assert caught.value.text.startswith(told)


def test_patterns_of_images() -> None:
    check_image("docker://x", None)
    check_image("docker://site/a:1", ("docker://site/*",))
    with pytest.raises(BadRequest):
        check_image("docker://other/a", ("docker://site/*",))
