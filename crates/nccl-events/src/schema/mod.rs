//! The vocabulary of archives, declared once for the writer, all readers and the documentation.
//!
//! * [`attribute`]: the attributes of events. Each is a type that determines its name and the type of its values.
//!   [`crate::fields!`] declares a structure of the attributes that a reader needs.
//! * [`definition`]: the properties of processes and locations, each also a type.
//! * [`Statements`]: the properties of an archive. The type of each is its grammar, and defines how values are merged.
//! * [`Counts`]: what was seen, and what became of it. [`carriers`]: how values are represented in OTF2.

#![warn(missing_docs, clippy::missing_panics_doc)]

pub mod attribute;
pub mod carriers;
mod counts;
pub mod definition;
mod statements;

pub use crate::schema::attribute::{Anchor, Attribute, AttributeId, Fields, Parsed, Written};
pub use crate::schema::carriers::{
    Anchors, Carrier, Flag, Fraction, KindOfLocation, Long, MeasuredBy, Number, Rank, Signed, Small, Type, Value, Word,
};
pub use crate::schema::counts::{Counts, GpuCounts, KindCounts, Kinds, Others};
pub use crate::schema::definition::{DefinitionProperty, property, within_anchor};
pub use crate::schema::statements::{
    COMMUNICATION_COMPLETE, Grammar, KnownSum, Lack, Lines, Listed, Most, NotMerged, Property, Statements, Sum,
    is_written,
};
