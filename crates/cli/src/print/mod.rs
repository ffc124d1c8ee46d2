//! `print` of a journal: its records, in time, as text or JSON.

pub(crate) mod process;
pub(crate) mod stream;
pub(crate) mod values;
