//! Writing archives.

mod archive;
mod attributes;
mod calls;
mod chunks;
mod collective_callbacks;
mod defined;
mod definitions;
mod events;
mod handle;
mod last_chunk;
mod local;
mod sizes;

pub use archive::{ArchiveWriter, PartWriter};
pub use attributes::{Attributes, NextAttributes};
pub use definitions::GlobalDefinitions;
pub use events::EventWriter;
pub use handle::{ChunkBytes, EVENT_CHUNK_BYTES, LEAST_CHUNK_BYTES};
pub use last_chunk::write_stub_events;
pub use local::LocalDefWriter;
pub use sizes::LargestDefinition;
