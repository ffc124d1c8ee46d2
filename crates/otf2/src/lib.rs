//! A safe subset of OTF2.

mod archive_writer;
mod attributes;
mod callbacks;
mod chunks;
mod defined;
mod error;
mod event_writer;
mod global_definitions;
mod handle;
mod local_definitions;
mod part;
pub mod records;
mod refs;
mod stub;
mod value;
mod vocabulary;

pub use archive_writer::ArchiveWriter;
pub use attributes::Attributes;
pub use error::{Error, Result};
pub use event_writer::{Collective, EventWriter, Message, RmaAccess};
pub use global_definitions::GlobalDefinitions;
pub use local_definitions::LocalDefWriter;
pub use part::PartWriter;
pub use refs::{
    AttributeRef, CommRef, GroupRef, LocationGroupRef, LocationRef, MetricMemberRef, MetricRef,
    ParameterRef, RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};
pub use stub::{stub_events, write_stub_events};
pub use value::{AttributeValue, MetricValue};
pub use vocabulary::{
    AttributeType, CollectiveOp, GroupType, LocationGroupType, LocationType, MappingType,
    MeasurementMode, MetricBase, MetricMode, MetricOccurrence, MetricType, Paradigm, ParadigmClass,
    ParadigmProperty, ParameterType, RecorderKind, RegionRole, SystemTreeDomain,
};

/// The size of an event chunk, in bytes: of every writer, because the anchor says it for all event files of
/// the archive. It is Score-P's, so that an archive can have event files of both.
pub const EVENT_CHUNK_BYTES: u64 = 1024 * 1024;

/// The size of a definitions chunk, in bytes: no single definition can be larger.
pub const DEFINITIONS_CHUNK_BYTES: u64 = 4 * 1024 * 1024;
