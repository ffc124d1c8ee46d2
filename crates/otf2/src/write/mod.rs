//! Writing archives: the writers of archives, parts, definitions and events; what they check first; and the memory and
//! files that libotf2 gets.

mod archive;
mod calls;
mod chunks;
mod definitions;
mod events;
mod handle;
mod sizes;

pub use crate::write::archive::{ArchiveWriter, PartWriter};
pub use crate::write::chunks::write_stub_events;
pub use crate::write::definitions::{GlobalDefinitions, LocalDefWriter};
pub use crate::write::events::{Attributes, EventWriter, NextAttributes};
pub use crate::write::handle::{ChunkBytes, EVENT_CHUNK_BYTES, LEAST_CHUNK_BYTES};
pub use crate::write::sizes::LargestDefinition;
