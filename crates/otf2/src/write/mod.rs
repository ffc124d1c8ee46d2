//! Writing archives.

mod archive;
mod attributes;
mod chunks;
mod collective_callbacks;
mod defined;
mod definitions;
mod events;
mod handle;
mod last_chunk;
mod local;
mod part;

pub use archive::ArchiveWriter;
pub use attributes::{Attributes, NextAttributes};
pub use definitions::GlobalDefinitions;
pub use events::EventWriter;
pub use handle::{DEFINITIONS_CHUNK_BYTES, EVENT_CHUNK_BYTES};
pub use last_chunk::write_stub_events;
pub use local::LocalDefWriter;
pub use part::PartWriter;
