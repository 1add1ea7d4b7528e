"""Pages are read as InnoDB reads them."""

from __future__ import annotations

from pathlib import Path

from tests.kit.innodb_pages import PAGE_BYTES, Page, crc32c, overwrite, pages


def page_of_mysql(space: int, number: int, lsn: int) -> bytes:
    """Return a page with MySQL's crc32 checksum."""
    page = bytearray(bytes(range(256)) * (PAGE_BYTES // 256))
    page[4:8] = number.to_bytes(4, "big")
    page[16:24] = lsn.to_bytes(8, "big")
    page[34:38] = space.to_bytes(4, "big")
    page[-4:] = page[20:24]
    checksum = (crc32c(bytes(page[4:26])) ^ crc32c(bytes(page[38:-8]))).to_bytes(
        4, "big"
    )
    page[:4] = page[-8:-4] = checksum
    return bytes(page)


def test_the_checksum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4's polynomial


def test_a_page_says_what_it_is_until_it_is_torn(tmp_path: Path) -> None:
    file = tmp_path / "table.ibd"
    file.write_bytes(page_of_mysql(7, 0, 1 << 33) + page_of_mysql(7, 1, 99))
    first, second = pages(file)
    assert (second.space, second.number, second.lsn, second.slot) == (7, 1, 99, 1)
    assert first.lsn == 1 << 33
    assert first.whole()
    assert second.whole()
    overwrite(file, 1, bytes(512), PAGE_BYTES - 512)
    assert [page.whole() for page in pages(file)] == [True, False]


def test_a_page_of_mariadb_ends_with_its_checksum() -> None:
    content = page_of_mysql(5, 3, 12)[:-4]
    whole = content + crc32c(content).to_bytes(4, "big")
    assert Page(Path("t"), 3, whole).whole()
    assert not Page(Path("t"), 3, whole[:-1] + b"!").whole()


def test_an_empty_page_is_no_copy() -> None:
    assert not Page(Path("t"), 0, bytes(PAGE_BYTES)).whole()
