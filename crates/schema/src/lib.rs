//! What an archive says, declared once for the writer, all readers and the pages.
//!
//! * [`attribute`]: the attributes of events, each a type with its name and the type of its values. [`fields!`]
//!   declares a structure with those that a reader asks for.
//! * [`Statements`]: the properties of an archive. The type of each is its grammar, and the rule by which it is
//!   merged.

#![forbid(unsafe_code)]

mod anchor;
pub mod attribute;
mod carriers;
mod counts;
mod grammar;
mod lacks;
mod statements;

pub use anchor::within_anchor;
pub use attribute::{Attribute, AttributeId, Fields, Given, Taken};
pub use carriers::{Carrier, Flag, Fraction, MeasuredBy, Number, Rank, Signed, Small, Type, Value, Word};
pub use counts::{Counts, GpuCounts, KindCounts, Kinds, Others};
pub use grammar::{Grammar, Lines, Listed, Most, Own, Sum, Told};
pub use lacks::Lack;
pub use statements::{Property, Statements, is_written, merge_texts};
