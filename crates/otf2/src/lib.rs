#![doc = include_str!("../README.md")]
#![warn(missing_docs, clippy::missing_panics_doc)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::print_stdout, clippy::print_stderr))]

mod definition;
mod error;
mod event;
mod event_chunks;
mod read;
pub mod records;
mod vocabulary;
mod write;

pub use crate::error::{Error, Result};
pub use crate::event::{Collective, Event, EventKind, Message, RmaAccess};
pub use crate::read::{Archive, ClockOffset, FILE_EXTENSIONS, LocalDefinitions, MappingTable, check_event_file};
pub use crate::records::Definitions;
pub use crate::vocabulary::{
    AttributeRef, AttributeType, AttributeValue, CallingContextRef, CallpathRef, CallsiteRef, CartDimensionRef,
    CartTopologyRef, CollectiveOp, CommRef, GroupRef, GroupType, InterruptGeneratorRef, IoFileRef, IoHandleRef,
    IoParadigmRef, LocationGroupRef, LocationGroupType, LocationRef, LocationType, MappingType, MeasurementMode,
    MetricBase, MetricMemberRef, MetricMode, MetricOccurrence, MetricRef, MetricType, MetricValue, Paradigm,
    ParadigmClass, ParadigmProperty, ParameterRef, ParameterType, RecorderKind, RegionRef, RegionRole, RmaWinRef,
    SourceCodeLocationRef, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};
pub use crate::write::{
    ArchiveWriter, Attributes, ChunkBytes, EVENT_CHUNK_BYTES, EventWriter, GlobalDefinitions, LEAST_CHUNK_BYTES,
    LargestDefinition, LocalDefWriter, NextAttributes, PartWriter, write_stub_events,
};

/// Archives without interpretation, to copy one into another without loss: all global definitions in file order with
/// all fields, and the records of an event file. [`Definitions`] and [`Event`] interpret an archive.
pub mod verbatim {
    pub use crate::definition::{Definition, ReferenceKind};
    pub use crate::event_chunks::{EventRecord, RecordKind, rewrite_events};
    pub use crate::records::EventRecords;
}
