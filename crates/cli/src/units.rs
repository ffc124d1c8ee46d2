//! Numbers for people.

pub(crate) use analysis::units::{bandwidth, bytes, count, plural, time};
