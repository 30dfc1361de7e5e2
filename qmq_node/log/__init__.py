"""The storage engine: bytes in, durable bytes out. No protocol, no asyncio, no thread of its own.

**Files.** A log is a folder of segments, each named by the log offset of its first byte (20 digits) and preallocated.
Offsets never restart: segment n + 1 begins where the file of segment n ends, even if part of it is unused. A segment is as
large as everything before it, at least `FIRST_SEGMENT_BYTES` and at most `segment_bytes`.

**Commit.** The unit on disk: a 64-byte header and its records, written with one call and synced before it is acknowledged.
    u32 magic · u16 format · u16 flags · i64 segment_base · i64 epoch · i64 offset · u32 body_bytes · u32 record_count ·
    u32 previous_crc · i64 synced_to · u64 reserved (0) · u32 crc of the header before it and the body
A later format keeps the place of these fields and the check, so that another format can be distinguished from damage.
`previous_crc` chains commits; `synced_to` is the end of the last commit known to be synced when this one was written. A commit
is written only after the sync before it returned, so a valid commit proves that every earlier one was synced. A commit without
records is a *seal*: it proves just that, when nothing else follows.

**Record.** u32 size · u8 kind · 3 bytes 0 · payload. The package that uses the log defines the kinds, except 255: with it a
promoted master begins its epoch (i64 epoch · promotion ID).

**Recovery** (`recovery.py`): a bad commit with nothing valid behind it, at or above everything known synced, is a torn tail
and is cleared. Any other bad place is damage of acknowledged data: it is never cut, exactly it is withheld.

**Epochs.** The epoch names the writer: each promotion begins a higher one. From one commit to the next it never falls.

**Life.** Open to read (the walk visits every commit from a position on), then append: `append` ... `take` -> `write` (in any
one thread) -> `complete`. A failed write or sync fails the log permanently: after a failed fsync the page cache lies.
"""
