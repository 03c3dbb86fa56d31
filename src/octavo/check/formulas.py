"""The limits that PostgreSQL's source derives from the data block, in bytes, for 64-bit builds.

Each function names the macro that it follows; sizes of headers are those of the on-disk format
(storage/bufpage.h, access/htup_details.h), which is the same in 15 to 18.
"""

_PAGE_HEADER = 24  # SizeOfPageHeaderData
_LINE_POINTER = 4  # sizeof(ItemIdData)
_TUPLE_HEADER = 23  # SizeofHeapTupleHeader
_BTREE_SPECIAL = 16  # sizeof(BTPageOpaqueData), also of GiST
_SMALL_SPECIAL = 8  # sizeof of BrinSpecialSpace, GinPageOpaqueData and SpGistPageOpaqueData
_TUPLE_POINTER = 6  # sizeof(ItemPointerData)
_INDEX_TUPLE_HEADER = 8  # sizeof(IndexTupleData)
_INDEX_SIZE_MASK = 0x1FFF  # INDEX_SIZE_MASK, access/itup.h: thirteen bits hold an index tuple's size


def _up(size: int) -> int:
    """MAXALIGN."""
    return (size + 7) // 8 * 8


def _down(size: int) -> int:
    """MAXALIGN_DOWN."""
    return size // 8 * 8


def heap_tuple(block: int) -> int:
    """The largest heap tuple with its header: MaxHeapTupleSize.

    >>> heap_tuple(8192), heap_tuple(1024)
    (8160, 992)
    """
    return block - _up(_PAGE_HEADER + _LINE_POINTER)


def bytes_per_tuple(block: int, tuples: int) -> int:
    """The largest tuple of which so many fit on a page: MaximumBytesPerTuple, access/heaptoast.h."""
    return _down((block - _up(_PAGE_HEADER + tuples * _LINE_POINTER)) // tuples)


def toast_tuple_target(block: int) -> int:
    """Tuples larger than this are compressed or moved out of line: TOAST_TUPLE_THRESHOLD.

    >>> toast_tuple_target(8192)
    2032
    """
    return bytes_per_tuple(block, 4)


def toast_tuple_target_most(block: int) -> int:
    """The largest value of the storage parameter toast_tuple_target: TOAST_TUPLE_TARGET_MAIN."""
    return bytes_per_tuple(block, 1)


def toast_chunk(block: int) -> int:
    """The data in one row of a TOAST table: TOAST_MAX_CHUNK_SIZE.

    >>> toast_chunk(8192), toast_chunk(1024)
    (1996, 204)
    """
    return bytes_per_tuple(block, 4) - _up(_TUPLE_HEADER) - 4 - 4 - 4


def btree_tuple(block: int) -> int:
    """The largest B-tree index tuple with its header: BTMaxItemSize, access/nbtree.h.

    >>> btree_tuple(8192), btree_tuple(4096)
    (2704, 1336)
    """
    space = block - _up(_PAGE_HEADER + 3 * _LINE_POINTER) - _up(_BTREE_SPECIAL)
    return _down(space // 3) - _up(_TUPLE_POINTER)


def brin_tuple(block: int) -> int:
    """The largest BRIN index tuple: BrinMaxItemSize, brin_pageops.c."""
    return _down(block - _up(_PAGE_HEADER + _LINE_POINTER) - _up(_SMALL_SPECIAL))


def gin_tuple(block: int) -> int:
    """The largest GIN entry: GinMaxItemSize, access/ginblock.h."""
    space = block - _up(_PAGE_HEADER + 3 * _LINE_POINTER) - _up(_SMALL_SPECIAL)
    return min(_INDEX_SIZE_MASK, _down(space // 3))


def gist_tuple(block: int) -> int:
    """The largest GiST index tuple: GISTMaxIndexTupleSize, access/gist.h."""
    return _down((block - _PAGE_HEADER - _BTREE_SPECIAL) // 4 - _LINE_POINTER)


def gist_key(block: int) -> int:
    """The largest GiST key, and so the largest `siglen`: GISTMaxIndexKeySize.

    >>> gist_key(8192), gist_key(4096)
    (2024, 1000)
    """
    return gist_tuple(block) - _up(_INDEX_TUPLE_HEADER)


def hash_tuple(block: int) -> int:
    """The largest hash index tuple: HashMaxItemSize, access/hash.h."""
    return _down(block - _PAGE_HEADER - _LINE_POINTER - _up(_BTREE_SPECIAL))


def spgist_page(block: int) -> int:
    """The space on an SP-GiST page: SPGIST_PAGE_CAPACITY, access/spgist_private.h."""
    return _down(block - _PAGE_HEADER - _up(_SMALL_SPECIAL))


def btree_row(block: int) -> int:
    """The largest B-tree index row that can be inserted: BTMaxItemSize, or what INDEX_SIZE_MASK can hold.

    >>> btree_row(16384), btree_row(32768)
    (5432, 8184)
    """
    return min(btree_tuple(block), _down(_INDEX_SIZE_MASK))


def bigint_columns(block: int) -> int:
    """How many bigint columns without nulls a row can have: what a page holds, up to MaxHeapAttributeNumber.

    >>> bigint_columns(1024), bigint_columns(32768)
    (121, 1600)
    """
    return min(1600, (heap_tuple(block) - _up(_TUPLE_HEADER)) // 8)


def wal_buffers(shared_buffers: int, block: int, wal_block: int, wal_segment: int) -> int:
    """wal_buffers in bytes if it is -1: as many WAL blocks as there are data blocks in a 32nd of shared_buffers.

    XLOGChooseNumBuffers: no more than a segment, no fewer than 8 WAL blocks. Only where both blocks are of one size
    is it a 32nd of the bytes.

    >>> MB = 1024**2
    >>> [wal_buffers(128 * MB, block * 1024, 8192, 16 * MB) // MB for block in (1, 8, 32)]
    [16, 4, 1]
    """
    return max(8, min(shared_buffers // block // 32, wal_segment // wal_block)) * wal_block
