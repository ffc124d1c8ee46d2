//! The vocabulary of archives, declared once for the writer, all readers and the documentation.
//!
//! * [`attribute`]: the attributes of events. Each is a type that determines its name and the type of its values.
//!   [`fields!`] declares a structure of the attributes that a reader needs.
//! * [`definition`]: the properties of processes and locations, each also a type.
//! * [`Statements`]: the properties of an archive. The type of each is its grammar, and defines how values are merged.
#![warn(missing_docs, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

mod anchor;
mod anchors;
pub mod attribute;
mod carriers;
mod counts;
pub mod definition;
mod grammar;
mod lacks;
mod statements;

pub use anchor::within_anchor;
pub use anchors::Anchor;
pub use attribute::{Attribute, AttributeId, Fields, Parsed, Written};
pub use carriers::{
    Anchors, Carrier, Flag, Fraction, KindOfLocation, Long, MeasuredBy, Number, Place, Rank, Signed, Small, Type,
    Value, Word,
};
pub use counts::{Counts, GpuCounts, KindCounts, Kinds, Others};
pub use definition::{DefinitionProperty, property};
pub use grammar::{Grammar, KnownSum, Lines, Listed, Most, Own, Sum};
pub use lacks::Lack;
pub use statements::{Property, Statements, is_written};
