//! Room `tables`.

pub mod assemble;
pub mod assembly;
pub mod by_kind;
pub mod counts;
pub mod ids;
pub mod named;
pub mod near;
pub mod packed;
pub mod place;
pub mod place_set;
pub mod room;
pub mod seen;
pub mod values;
pub mod words;
