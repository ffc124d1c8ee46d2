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
