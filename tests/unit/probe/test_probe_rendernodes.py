"""Nodes below /dev/dri, found by PCI id."""

from __future__ import annotations

from gsched.probe.nvidia.render_nodes import nodes_of_vendor, render_nodes


def test_nodes_of_one_device(tmp_path):
    for device, name, numbers in (
        ("0000:04:00.0", "card1", "226:1\n"),
        ("0000:04:00.0", "renderD128", "226:128\n"),
        ("0000:04:00.0", "card7", "rubbish"),
        ("0000:05:00.0", "renderD129", "226:129\n"),
        ("10000:04:00.0", "renderD130", "226:130\n"),
    ):
        folder = tmp_path / device / "drm" / name
        folder.mkdir(parents=True)
        (folder / "dev").write_text(numbers)
    assert render_nodes("00000000:04:00.0", tmp_path) == [(226, 1), (226, 128)]
    assert render_nodes("0000:05:00.0", tmp_path) == [(226, 129)]
    assert render_nodes("00010000:04:00.0", tmp_path) == [(226, 130)]
    assert render_nodes("00000000:06:00.0", tmp_path) == []
    assert render_nodes("", tmp_path) == []


def test_nodes_of_all_devices_of_a_vendor(tmp_path):
    for device, vendor, numbers in (
        ("0000:00:02.0", "0x8086", "226:128\n"),
        ("0000:04:00.0", "0x10de", "226:129\n"),
        ("0000:05:00.0", "0x10de", "226:130\n"),
        ("0000:06:00.0", "", "226:131\n"),
    ):
        folder = tmp_path / device / "drm" / f"renderD{numbers[4:7]}"
        folder.mkdir(parents=True)
        (folder / "dev").write_text(numbers)
        if vendor:
            (tmp_path / device / "vendor").write_text(f"{vendor}\n")
    assert nodes_of_vendor(devices=tmp_path) == [(226, 129), (226, 130)]
    assert nodes_of_vendor(devices=tmp_path / "none") == []
