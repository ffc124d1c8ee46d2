//! What an archive says, declared once for the writer, all readers and the pages.
//!
//! * [`attribute`]: the attributes of events, each a type with its name and the type of its values. [`fields!`]
//!   declares a structure with those that a reader asks for.

#![forbid(unsafe_code)]

pub mod attribute;
mod carriers;

pub use attribute::{Attribute, AttributeId, Fields, Given, Taken};
pub use carriers::{Carrier, Flag, Fraction, MeasuredBy, Number, Rank, Signed, Small, Type, Value, Word};
