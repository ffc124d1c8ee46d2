//! Reading archives.

mod anchor_file;
mod archive;
mod definition_file;
mod definitions;
mod event_callbacks;
mod event_file;
mod event_loop;
mod local;
mod reader;
mod records;

pub use archive::{Archive, FILE_EXTENSIONS};
pub use event_file::check_event_file;
pub use local::{ClockOffset, LocalDefinitions, MappingTable};

/// Chunk header: `03`, byte order, numbers of the first and last event.
const HEADER_BYTES: usize = 18;
const HEADER_MARK: u8 = 3;
const LITTLE_ENDIAN: u8 = 0x42;
const BIG_ENDIAN: u8 = 0x23;
/// The end of the last chunk: end of file, end of buffer.
const END: [u8; 2] = [2, 1];
