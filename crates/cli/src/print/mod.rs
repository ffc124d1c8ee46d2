//! Journals as `print` and `export` read them: processes, their records in the order of time, and the records' values
//! as text or JSON.

pub(crate) mod process;
pub(crate) mod stream;
pub(crate) mod values;
