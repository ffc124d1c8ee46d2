//! Reading archives: the anchor and the checks of files, the definitions, the events.

mod archive;
mod definitions;
mod events;

pub use crate::read::archive::{Archive, FILE_EXTENSIONS, check_event_file};
pub use crate::read::definitions::{ClockOffset, LocalDefinitions, MappingTable};
