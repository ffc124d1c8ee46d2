//! The bytes around the records of OTF2's files.

/// Chunk header: `03`, byte order, numbers of the first and last event.
pub(crate) const HEADER_BYTES: usize = 18;
pub(crate) const HEADER_MARK: u8 = 3;
pub(crate) const LITTLE_ENDIAN: u8 = 0x42;
pub(crate) const BIG_ENDIAN: u8 = 0x23;
/// The byte order of files that are written here.
pub(crate) const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { LITTLE_ENDIAN } else { BIG_ENDIAN };
/// The end of a chunk that others follow.
pub(crate) const END_OF_CHUNK: u8 = 0;
/// The end of the last chunk: end of file, end of buffer.
pub(crate) const END: [u8; 2] = [2, 1];
