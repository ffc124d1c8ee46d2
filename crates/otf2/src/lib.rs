//! A safe subset of OTF2, the Open Trace Format 2: writes and reads archives.
//!
//! ```text
//!   in every process                       once                                 anybody
//!   ────────────────                       ────                                 ───────
//!   PartWriter                             ArchiveWriter                        Archive
//!    └ EventWriter ──▶ 0.evt ──rename──▶    ├ event_file(location)               ├ definitions
//!      (own references)                     ├ local_definitions ──▶ 4.def        └ for_each_event
//!                                           │  (own → global references, clock)
//!                                           ├ definitions ──▶ traces.def
//!                                           └ close ──▶ traces.otf2, the anchor
//! ```
//!
//! libotf2 does the work; this crate protects its callers:
//!
//! * References are typed, and definitions are checked: dense, in order, and referring only to defined things.
//! * Calls that libotf2 would answer with `abort()`, a broken archive or an endless loop return an [`Error`] instead.
//!   libotf2's messages do not go to stderr but become part of the [`Error`].
//! * A writer has one chunk of memory, which it writes when it is full; there is one event writer at a time.
//! * No error while writing a file is lost: `close` returns it, and so does the `close` of the archive. A dropped
//!   writer is closed as well, but its error is only part of the archive's.
//! * One thread owns a writer: writers can move between threads but cannot be shared.
//! * The vocabulary is that of OTF2 3.0, which all current readers understand.
//!
//! ```
//! use otf2::records::{ClockProperties, Location, LocationGroup, Region, SystemTreeNode};
//! use otf2::*;
//!
//! # fn main() -> Result<()> {
//! # let scratch = std::env::temp_dir().join(format!("otf2-example-{}", std::process::id()));
//! # let directory = scratch.as_path();
//! let mut archive = ArchiveWriter::create(directory, "traces")?;
//! let (thread, work) = (LocationRef::new(0), RegionRef::new(0));
//! let mut events = archive.event_writer(thread)?;
//! events.enter(100, work, Attributes::NONE)?;
//! events.leave(250, work, Attributes::NONE)?;
//! let number_of_events = events.close()?;
//! archive.local_definitions(thread)?.close()?;
//!
//! let mut definitions = archive.definitions()?;
//! let (timer_resolution, global_offset, trace_length) = (1_000_000_000, 100, 151);
//! let realtime_timestamp = u64::MAX;
//! definitions.clock_properties(&ClockProperties { timer_resolution, global_offset, trace_length, realtime_timestamp })?;
//! for (number, text) in (0..).zip(["host", "machine", "process", "thread", "work"]) {
//!     definitions.string(StringRef::new(number), text)?;
//! }
//! let name = StringRef::new;
//! let (system_tree_parent, group) = (SystemTreeNodeRef::new(0), LocationGroupRef::new(0));
//! let node = SystemTreeNode { name: name(0), class_name: name(1), ..SystemTreeNode::default() };
//! definitions.system_tree_node(system_tree_parent, &node)?;
//! let (group_type, creator, properties) = (LocationGroupType::Process, LocationGroupRef::UNDEFINED, vec![]);
//! let process = LocationGroup { name: name(2), group_type, system_tree_parent, creator, properties };
//! definitions.location_group(group, &process)?;
//! let (location_type, properties) = (LocationType::CpuThread, vec![]);
//! let location = Location { name: name(3), location_type, number_of_events, group, properties };
//! definitions.location(thread, &location)?;
//! definitions.region(work, &Region { name: name(4), ..Region::default() })?;
//! archive.close()?;
//!
//! let archive = Archive::open(&directory.join("traces.otf2"))?;
//! assert_eq!(archive.definitions()?.string(name(4)), Some("work"));
//! # std::fs::remove_dir_all(directory).ok();
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs, clippy::missing_panics_doc)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

mod checksums;
mod definition;
mod error;
mod event;
mod event_records;
mod read;
pub mod records;
mod refs;
mod value;
mod vocabulary;
mod write;

pub use error::{Error, Result};
pub use event::{Collective, Event, EventKind, Message, RmaAccess};
pub use read::{Archive, ClockOffset, LocalDefinitions, MappingTable, check_definition_file, check_event_file};
pub use records::Definitions;
pub use refs::{
    AttributeRef, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef, CartTopologyRef, CommRef, GroupRef,
    InterruptGeneratorRef, IoFileRef, IoHandleRef, IoParadigmRef, LocationGroupRef, LocationRef, MetricMemberRef,
    MetricRef, ParameterRef, RegionRef, RmaWinRef, SourceCodeLocationRef, StringRef, SystemTreeNodeRef,
};
pub use value::{AttributeValue, MetricValue};
pub use vocabulary::{
    AttributeType, CollectiveOp, GroupType, LocationGroupType, LocationType, MappingType, MeasurementMode, MetricBase,
    MetricMode, MetricOccurrence, MetricType, Paradigm, ParadigmClass, ParadigmProperty, ParameterType, RecorderKind,
    RegionRole, SystemTreeDomain,
};
pub use write::{
    ArchiveWriter, Attributes, DEFINITIONS_CHUNK_BYTES, EVENT_CHUNK_BYTES, EventWriter, GlobalDefinitions,
    LocalDefWriter, NextAttributes, PartWriter, write_stub_events,
};

/// Archives without interpretation, to copy one into another without loss: all global definitions in file order with
/// all fields, and the records of an event file. [`Definitions`] and [`Event`] interpret an archive.
pub mod verbatim {
    pub use crate::definition::{Definition, ReferenceKind};
    pub use crate::event_records::{EventRecord, EventRecords, RecordKind};
}
