"""H7: regular files only, up to a size; nothing that is opened blocks or never ends."""

import gzip
import os
import socket

import pytest

from extender.utilities.regular_file import descriptor_path, gunzip, open_regular_file, read_regular_file, size_text

MIB = 1 << 20


def refusal(path, max_bytes=MIB):
    try:
        read_regular_file(path, max_bytes)
    except OSError as error:
        return error.strerror
    return None


def test_H7_a_file_is_read_as_it_is_also_through_links(tmp_path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_bytes(b"secret" * 1000)
    (tmp_path / "key").symlink_to("..data/key")
    assert read_regular_file(tmp_path / "key", 6000) == b"secret" * 1000
    (tmp_path / "empty").write_bytes(b"")
    assert read_regular_file(tmp_path / "empty", 0) == b""


def test_H7_a_file_of_more_than_the_limit_is_refused_without_being_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(tmp_path / "large") == "is larger than 1 MiB"
    (tmp_path / "small").write_bytes(b"x" * 2048)
    assert refusal(tmp_path / "small", 2047) == "is larger than 1 KiB"
    assert len(read_regular_file(tmp_path / "small", 2048)) == 2048


def test_H7_a_file_that_has_no_size_but_contents_is_read_up_to_the_limit():
    status = "/proc/self/status"
    if not os.path.exists(status):
        pytest.skip("a file without a size needs /proc")
    assert b"Name:" in read_regular_file(status, MIB)
    assert refusal(status, 10) == "is larger than 0 KiB"


def test_H7_a_fifo_a_directory_a_socket_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        assert refusal(tmp_path / "socket") == "is a socket, not a regular file"
    assert refusal(tmp_path / "fifo") == refusal(tmp_path / "link") == "is a FIFO, not a regular file"
    assert refusal(tmp_path) == "is a directory"
    assert refusal("/dev/zero") == "is a character device, not a regular file"
    assert refusal(tmp_path / "none") == "No such file or directory"
    assert refusal("a\0b") == "is not a valid path"


def test_H7_a_file_that_is_swapped_for_a_fifo_between_check_and_open_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"text")
    checked = os.stat

    def swap(given, **options):
        found = checked(given, **options)
        path.unlink()
        os.mkfifo(path)
        return found

    monkeypatch.setattr(os, "stat", swap)
    with pytest.raises(OSError, match="is a FIFO, not a regular file"):
        open_regular_file(path)


def test_H7_the_path_of_an_open_file_is_that_very_file_whatever_its_name_says_now(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"checked")
    with open_regular_file(path) as file:
        found = descriptor_path(file)
        if found is None:
            pytest.skip("needs /proc")
        path.unlink()
        os.mkfifo(path)
        with open(found, "rb") as again:
            assert again.read() == b"checked"


def test_H7_gzip_is_decompressed_up_to_the_limit():
    assert gunzip(gzip.compress(b"x" * MIB), MIB) == b"x" * MIB
    assert gunzip(gzip.compress(b"a") + gzip.compress(b"b"), 2) == b"ab"
    with pytest.raises(ValueError, match=r"^is larger than 1 MiB once decompressed$"):
        gunzip(gzip.compress(b"x" * (MIB + 1)), MIB)


def test_H7_gzip_that_is_cut_off_or_damaged_is_refused():
    packed = gzip.compress(bytes(range(256)) * 10)
    for cut in range(2, len(packed)):
        with pytest.raises(ValueError, match=r"truncated|damaged"):
            gunzip(packed[:cut], MIB)
    with pytest.raises(ValueError, match="damaged"):
        gunzip(packed[:-8] + b"12345678", MIB)
    with pytest.raises(ValueError, match="damaged"):
        gunzip(packed[:12] + b"\xff\xff" + packed[14:], MIB)


@pytest.mark.parametrize(("size", "text"), [(64 << 20, "64 MiB"), (64 << 10, "64 KiB")])
def test_a_limit_is_written_as_an_operator_would(size, text):
    assert size_text(size) == text
