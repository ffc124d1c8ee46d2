#![doc = include_str!("../README.md")]
#![warn(missing_docs, clippy::missing_panics_doc)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

mod checksums;
mod definition;
mod error;
mod event;
mod event_chunks;
mod event_records;
mod layout;
mod read;
pub mod records;
mod refs;
mod value;
mod vocabulary;
mod write;

pub use error::{Error, Result};
pub use event::{Collective, Event, EventKind, Message, RmaAccess};
pub use read::{Archive, ClockOffset, FILE_EXTENSIONS, LocalDefinitions, MappingTable, check_event_file};
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
    ArchiveWriter, Attributes, ChunkBytes, EVENT_CHUNK_BYTES, EventWriter, GlobalDefinitions, LEAST_CHUNK_BYTES,
    LargestDefinition, LocalDefWriter, NextAttributes, PartWriter, write_stub_events,
};

/// Archives without interpretation, to copy one into another without loss: all global definitions in file order with
/// all fields, and the records of an event file. [`Definitions`] and [`Event`] interpret an archive.
pub mod verbatim {
    pub use crate::definition::{Definition, ReferenceKind};
    pub use crate::event_chunks::{EventRecord, RecordKind, rewrite_events};
    pub use crate::event_records::EventRecords;
}
